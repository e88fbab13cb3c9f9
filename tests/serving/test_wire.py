"""HTTP bodies: JSON of any text, and bodies that are read once."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from heedful.serving.body import Body, ServerLoad
from heedful.serving.wire import Json, reply

pytestmark = pytest.mark.anyio
CONTENTS: list[Any] = [
    {"answers": [{"text": 'é\ud800\n"\\', "score": 0.25}, {"text": "", "none": None}]},
    [[{"a": [1.5, 2]}, {"a": []}], []],
    [["a", 1], [["b"]]],
    {"é": {}, "b": [True, [1]]},
    "text",
    [],
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("items", [1, 1000])
async def test_any_content_is_json(content: Any, items: int) -> None:
    body = (await reply(lambda: content, items)).body
    assert body == Json(content).body
    assert json.loads(bytes(body)) == content


async def test_what_is_no_number_is_no_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Json([{"score": float("nan")}])


async def test_routes_get_the_body_in_one_piece_and_then_that_the_client_left() -> None:
    parts = [{"body": b"a", "more_body": True}, {"body": b"b", "more_body": True}, {"body": b"c"}]
    messages: list[dict[str, Any]] = [{"type": "http.request", **part} for part in parts]
    messages.append({"type": "http.disconnect"})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    load = ServerLoad()
    body = Body(receive, load)
    assert [size async for size in body.read()] == [1, 2, 3]
    assert not body.expected
    assert load.body_bytes == 3
    assert await body.replay() == {"type": "http.request", "body": b"abc", "more_body": False}
    later = asyncio.create_task(body.replay())
    await asyncio.sleep(0)
    assert not later.done()
    await body.wait_until_left()
    assert await later == {"type": "http.disconnect"}
    body.release()
    body.release()
    assert load.body_bytes == 0
