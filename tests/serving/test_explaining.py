"""Explanations over HTTP equal the library's, are bounded, and do not delay answers."""

import asyncio
import threading
from typing import Any

import httpx
import pytest
import torch

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from tests.serving.inside import client_of, loaded, service_of

from heedful.explanations.explaining import explain_record
from heedful.explanations.explanation import Attribution
from heedful.explanations.methods import METHODS
from heedful.explanations.subject import Subject, with_vectors
from heedful.serving.body import ClientLeftError
from heedful.serving.protocols import explain as route
from heedful.settings import ExplainSettings

pytestmark = pytest.mark.anyio

SECONDS = 60
TEXT = "the blue horse sleeps"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def explain(client: httpx.AsyncClient, run: str = "classify", **body: Any) -> httpx.Response:
    return await client.post(f"/api/runs/{run}/explain", json={"text": TEXT, **body})


def message(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["message"]


async def test_an_explanation_is_the_librarys() -> None:
    predictor = loaded("classify").predictor
    (record,) = predictor.task.from_texts([TEXT])
    settings = ExplainSettings(target="food", method=("leave-one-out",))
    expected = explain_record(predictor, record, settings).to_dict()
    async with service_of("classify") as service, client_of(service) as client:
        reply = await explain(client, target="food", method=["leave-one-out"], attention=True)
    body = reply.json()
    assert reply.status_code == 200
    for side, scores in enumerate(expected["attributions"][0]["scores"]):
        assert body["attributions"][0]["scores"][side] == pytest.approx(scores, abs=1e-4)
    assert body["sides"] == expected["sides"]
    assert [one["kind"] for one in body["attention"]] == ["encoder", "rollout"]


async def test_html_is_one_file() -> None:
    async with service_of("pair") as service, client_of(service) as client:
        reply = await client.post(
            "/api/runs/pair/explain",
            json={"text": ["the cat is red", "</script>no"], "attention": True},
            headers={"accept": "text/html"},
        )
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert "connect-src" in reply.text
    assert "</script>no" not in reply.text


async def test_what_cannot_be_explained_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_of("classify", explain_tokens=8) as service, client_of(service) as client:
        too_long = message(await explain(client, text="word " * 9))
        assert too_long[0] == 413
        assert "at most 8 can be explained" in too_long[1]
        unknown = message(await explain(client, target="foot"))
        assert unknown[0] == 422
        assert "did you mean 'food'" in unknown[1]
        assert "--" not in unknown[1]  # clients have no command line
        assert (await explain(client, text="")).status_code == 422
        assert (await explain(client, text=["a", "b"])).status_code == 422
        assert (await explain(client, method=["magic"])).status_code == 422
        no_effect = message(await explain(client, token=1))
        assert no_effect == (422, "token is for method rollout and flow: give one of them, too")
        assert (await explain(client, method=["none"] * 9)).status_code == 422
        assert (await explain(client, token=-1)).status_code == 422
        assert (await explain(client, "nothing")).status_code == 404
        monkeypatch.setattr(route, "MOST_WEIGHTS", 10)
        assert (await explain(client, attention=True)).status_code == 413
        service.runs["classify"].warm = False
        assert (await explain(client)).status_code == 503


async def test_only_some_may_wait() -> None:
    async with service_of("classify", explain_queue=2) as service, client_of(service) as client:
        replies = await asyncio.gather(*(explain(client) for _ in range(5)))
        assert sorted(reply.status_code for reply in replies) == [200, 200, 429, 429, 429]
        assert {reply.headers.get("retry-after") is None for reply in replies[:2]} == {True}
        assert int(replies[-1].headers["retry-after"]) >= 1
        assert (await explain(client)).status_code == 200  # both have left


async def test_who_leaves_is_not_explained_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, left, stopped = threading.Event(), threading.Event(), threading.Event()

    def endless(subject: Subject, token: int | None) -> Attribution:
        begun.set()
        assert left.wait(SECONDS)
        try:
            for _ in range(1000):
                subject.outputs([subject.whole])
        except ClientLeftError:
            stopped.set()
            raise
        return Attribution(method="endless", target="", scores=(None,))

    monkeypatch.setitem(METHODS, "leave-one-out", endless)
    async with service_of("classify", explain_queue=1) as service, client_of(service) as client:
        explained = asyncio.create_task(explain(client, method=["leave-one-out"]))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        explained.cancel()
        await asyncio.wait([explained])
        left.set()
        assert await asyncio.to_thread(stopped.wait, SECONDS)
        async with asyncio.timeout(SECONDS):
            while (await explain(client)).status_code == 429:  # its place is free again
                await asyncio.sleep(0.01)


async def test_answers_are_the_same_while_others_are_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooked, may_end = threading.Event(), threading.Event()

    def slow(subject: Subject, token: int | None) -> Attribution:
        width = subject.model.get_input_embeddings().weight.shape[1]
        ids = subject.target.examples[0].ids
        with with_vectors(subject.model, torch.zeros(1, len(ids), width)):
            hooked.set()
            assert may_end.wait(SECONDS)
            subject.outputs([subject.whole])
        return Attribution(method="slow", target="", scores=(None,))

    monkeypatch.setitem(METHODS, "leave-one-out", slow)
    async with service_of("classify") as service, client_of(service) as client:

        async def answer() -> Any:
            body = {"texts": [TEXT], "all_scores": True}
            return (await client.post("/api/runs/classify/predict", json=body)).json()

        alone = await answer()
        explained = asyncio.create_task(explain(client, method=["leave-one-out"]))
        try:
            assert await asyncio.to_thread(hooked.wait, SECONDS)
            assert await answer() == alone
        finally:
            may_end.set()
        assert (await explained).status_code == 200
