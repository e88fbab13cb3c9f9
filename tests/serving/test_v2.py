"""The Open Inference Protocol with Triton's client, which sends bytes by default, and in JSON."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from tests.golden.cases import CONTEXT
from tests.serving.conftest import Live

from heedful.serving.tensors import Tensor

triton = pytest.importorskip("tritonclient.http", reason="needs Triton's client")

TEXTS = ["the red cat sleeps", "a soup, green"]


@pytest.fixture(scope="module")
def client(live: Live) -> Iterator[Any]:
    client = triton.InferenceServerClient(live.url.removeprefix("http://"))
    yield client
    client.close()


def inputs(binary: bool = True, **texts: Any) -> list[Any]:
    tensors = []
    for name, rows in texts.items():
        array = np.array(rows, dtype=np.object_)
        tensor = triton.InferInput(name, list(array.shape), "BYTES")
        tensor.set_data_from_numpy(array, binary_data=binary)
        tensors.append(tensor)
    return tensors


def texts(array: Any) -> list[str]:
    return [text.decode() if isinstance(text, bytes) else text for text in array.tolist()]


def close(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.shape == other.shape and np.allclose(one, other, atol=1e-5)


def test_the_server_and_its_models(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("classify")
    assert client.is_model_ready("classify", "1")
    assert not client.is_model_ready("classify", "2")
    assert not client.is_model_ready("none")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    metadata = client.get_model_metadata("answer")
    assert [row["name"] for row in metadata["inputs"]] == ["question", "context"]
    assert metadata["versions"] == ["1"]


@pytest.mark.parametrize("binary", [True, False])
def test_labels(client: Any, live: Live, binary: bool) -> None:
    result = client.infer("classify", inputs(binary, text=TEXTS), request_id="42")
    answers = live.load("classify")(TEXTS)
    assert texts(result.as_numpy("label")) == [answer.label for answer in answers]
    assert texts(result.as_numpy("labels")) == [*live.load("classify").task.labels]
    assert close(result.as_numpy("scores"), [list(answer.scores.values()) for answer in answers])
    assert result.as_numpy("tokens_used").tolist() == [answer.tokens_used for answer in answers]
    assert result.get_response()["id"] == "42"
    assert result.get_response()["model_name"] == "classify"


def test_wanted_outputs_and_options(client: Any, live: Live) -> None:
    outputs = [
        triton.InferRequestedOutput("scores", binary_data=False),
        triton.InferRequestedOutput("label"),
    ]
    result = client.infer("classify", inputs(text=TEXTS), outputs=outputs, parameters={"raw": True})
    assert [row["name"] for row in result.get_response()["outputs"]] == ["scores", "label"]
    answers = live.load("classify")(TEXTS, raw=True)
    assert close(result.as_numpy("scores"), [list(answer.scores.values()) for answer in answers])
    assert texts(result.as_numpy("label")) == [answer.label for answer in answers]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_requests(client: Any, live: Live, algorithm: str) -> None:
    result = client.infer(
        "regress", inputs(text=[[text] for text in TEXTS]), request_compression_algorithm=algorithm
    )
    assert close(result.as_numpy("value"), [a.value for a in live.load("regress")(TEXTS)])


def ask(client: Any, run: str, **tensors: Any) -> dict[str, Any]:
    result = client.infer(run, inputs(**tensors))
    return {row["name"]: result.as_numpy(row["name"]) for row in result.get_response()["outputs"]}


def test_a_request_of_several_members(live: Live) -> None:
    body = json.dumps({"inputs": [text()]}).encode()
    parts = gzip.compress(body[:9]) + gzip.compress(b"") + gzip.compress(body[9:])
    reply = post(live, "classify", parts, **{"Content-Encoding": "gzip"})
    assert reply.status_code == 200, reply.text


def test_half_a_character_is_marked_as_none() -> None:
    tensor = Tensor(name="text", datatype="BYTES", data=["a\ud800?", "\U0001f600"])
    assert tensor.bytes() == b"\x05\0\0\0a\xef\xbf\xbd?" + b"\x04\0\0\0\xf0\x9f\x98\x80"


def test_every_task(client: Any, live: Live) -> None:
    found = ask(client, "many", text=TEXTS)
    answers: Sequence[Any] = live.load("many")(TEXTS)
    labels = texts(found["labels"])
    assert [
        [label for label, yes in zip(labels, row, strict=True) if yes]
        for row in found["chosen"].tolist()
    ] == [answer.label for answer in answers]

    found = ask(client, "pair", text=["the cat is red"], text_pair=["no, it is not"])
    assert texts(found["label"]) == [live.load("pair")(("the cat is red", "no, it is not")).label]

    sentences = ["Dan Miller lives near New Lima", "it is red", "Ann is in Paris"]
    found = ask(client, "tag", text=sentences)
    entities = [
        (row, one.label, one.start, one.end, one.text)
        for row, answer in enumerate(live.load("tag")(sentences))
        for one in answer.entities
    ]
    names = ("row", "label", "start", "end", "text")
    columns = [texts(found[name]) for name in names]
    assert [*zip(*columns, strict=True)] == entities

    found = ask(client, "answer", question=["who eats?", "when is it?"], context=[CONTEXT] * 2)
    answers = live.load("answer")([("who eats?", CONTEXT), ("when is it?", CONTEXT)])
    assert texts(found["answer"]) == [answer.answer or "" for answer in answers]
    assert found["answered"].tolist() == [answer.answer is not None for answer in answers]
    assert found["start"].tolist() == [answer.start or 0 for answer in answers]

    choices = ["the soup", "the bird", "the tower"]
    found = ask(client, "choose", question=["what sleeps?"], choices=[choices])
    answer = live.load("choose")(("what sleeps?", *choices))
    assert texts(found["text"]) == [answer.text]
    assert close(found["scores"], [answer.scores])

    found = ask(client, "embed", text=TEXTS, text_pair=TEXTS[::-1])
    assert close(found["embedding"], [a.vector.tolist() for a in live.load("embed")(TEXTS)])
    assert close(found["similarity"], [live.load("embed")((TEXTS[0], TEXTS[1])).similarity] * 2)

    found = ask(client, "pretrain", text=["the [MASK] is red.", "a [MASK] [MASK]."])
    (answer,) = live.load("pretrain")(["a [MASK] [MASK]."])
    assert texts(found["text"])[1] == answer.text
    assert found["row"].tolist() == [0] * 5 + [1] * 10
    assert texts(found["token"])[5:] == [o.token for b in answer.blanks for o in b.candidates]
    found = ask(client, "pretrain", text=["the cat is red."], text_pair=["it is very red."])
    expected = live.load("pretrain")(("the cat is red.", "it is very red.")).next_sentence
    assert close(found["next_sentence"], [expected])

    found = ask(client, "translate", text=["Das hund ist rot!"], prefix=["The dog"])
    assert texts(found["text"]) == [live.load("translate")(("Das hund ist rot!", "The dog")).text]
    found = ask(client, "replies", text=["cat, red"])
    assert texts(found["text"]) == [live.load("replies")("cat, red").text]


def post(live: Live, run: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{live.url}/v2/models/{run}/infer", content=content, headers=headers)


def text(data: Any = None, **more: Any) -> dict[str, Any]:
    data = ["a"] if data is None else data
    return {"name": "text", "shape": [len(data)], "datatype": "BYTES", "data": data} | more


def test_nested_and_flat_lists_are_the_same(live: Live) -> None:
    question = {"name": "question", "shape": [2], "datatype": "BYTES", "data": ["what?", "who?"]}
    rows = [["a cat", "red"], ["the soup", "it"]]
    replies = [
        post(
            live,
            "choose",
            {
                "inputs": [
                    question,
                    {"name": "choices", "shape": [2, 2], "datatype": "BYTES", "data": data},
                ]
            },
        ).json()
        for data in (rows, [*rows[0], *rows[1]])
    ]
    assert [one["shape"] for one in replies[0]["outputs"]] == [[2], [2], [2, 2], [2], [2]]
    for one, other in zip(replies[0]["outputs"], replies[1]["outputs"], strict=True):
        assert one["data"] == (
            other["data"] if one["datatype"] == "BYTES" else pytest.approx(other["data"], abs=1e-5)
        )


def test_a_run_under_its_own_path(live: Live) -> None:
    path = f"{live.url}/models/embed/v2/models/embed"
    assert httpx.get(path).json()["outputs"][0]["name"] == "embedding"
    reply = httpx.post(f"{path}/infer", json={"inputs": [text()]})
    assert reply.json()["model_name"] == "embed"


TOO_LONG = b"\xff\xff\xff\x00a"


@pytest.mark.parametrize(
    ("run", "body", "headers", "status", "message"),
    [
        ("none", {"inputs": [text()]}, {}, 404, "no run of that name"),
        ("classify", {"inputs": [text(shape=[2])]}, {}, 400, "1 texts do not have the shape [2]"),
        (
            "choose",
            {
                "inputs": [
                    text(name="question", shape=[2], data=["who?", "what?"]),
                    text(name="choices", shape=[2, 3], data=[["a", "b"], ["c", "d", "e", "f"]]),
                ]
            },
            {},
            400,
            "choices: row 1 of 2 texts in the shape [2, 3]",
        ),
        ("classify", {"inputs": [text(shape=[-1])]}, {}, 400, "do not have the shape [-1]"),
        ("classify", {"inputs": [text(shape=[0, 2**63 - 1], data=[])]}, {}, 400, "do not have th"),
        ("classify", {"inputs": [text(shape=[2**63])]}, {}, 400, "inputs.0.shape.0: Input should"),
        ("classify", {"inputs": [text(name="x" * 9999)]}, {}, 400, "should have at most 100 char"),
        (
            "classify",
            {"inputs": [text(parameters={"binary_data_sise": 1})]},
            {},
            400,
            "text: unknown parameter 'binary_data_sise' (did you mean 'binary_data_size'?)",
        ),
        ("classify", {"inputs": [text(datatype="FP32")]}, {}, 400, "texts are BYTES"),
        ("classify", {"inputs": [text([1])]}, {}, 400, "text: expected texts"),
        ("classify", {"inputs": [text([])]}, {}, 400, "at least one"),
        ("classify", {"inputs": [text(), text()]}, {}, 400, "two inputs 'text'"),
        ("classify", {"inputs": [text(name="txt")]}, {}, 400, "did you mean 'text'?"),
        ("classify", {"inputs": []}, {}, 400, "inputs: "),
        ("pair", {"inputs": [text()]}, {}, 400, "no input 'text_pair'"),
        (
            "classify",
            {"inputs": [text()], "outputs": [{"name": "score5"}]},
            {},
            400,
            "unknown output 'score5' (did you mean 'score",
        ),
        ("classify", {"inputs": [text()], "parameters": {"beem": 2}}, {}, 400, "mean 'beam'"),
        ("classify", {"inputs": [text()], "parameters": {"beam": 2}}, {}, 400, "no effect on a"),
        ("classify", b"{", {}, 400, "is not JSON"),
        ("classify", {"inputs": [text(shape=[1] * 9)]}, {}, 400, "inputs.0.shape: "),
        ("classify", b"[" * 9000, {}, 400, "nested too deeply"),
        ("classify", b"{}", {"Inference-Header-Content-Length": "9"}, 400, "the body has 2 bytes"),
        ("classify", b"{}", {"Inference-Header-Content-Length": "x"}, 400, "a number of bytes"),
        ("classify", b"x", {"Content-Encoding": "gzip"}, 400, "the body is not gzip"),
        (
            "classify",
            gzip.compress(b"{}", mtime=0)[:-1],
            {"Content-Encoding": "gzip"},
            400,
            "the body is not gzip",
        ),
        (
            "classify",
            zlib.compress(b"{}") + b"x",
            {"Content-Encoding": "deflate"},
            400,
            "the body is not deflate",
        ),
        ("classify", b"x", {"Content-Encoding": "br"}, 415, "give gzip, deflate, or none"),
        (
            "classify",
            gzip.compress(b" " * 3_000_000),
            {"Content-Encoding": "gzip"},
            413,
            "a body may have at most 2,000,000 bytes",
        ),
    ],
)
def test_errors(
    live: Live, run: str, body: Any, headers: dict[str, str], status: int, message: str
) -> None:
    reply = post(live, run, body, **headers)
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"error"}
    assert message in reply.json()["error"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TOO_LONG, "a text is longer than its bytes"),
        (b"\x01\x00", "a text is longer than its bytes"),
        (b"\x01\x00\x00\x00\xff", "text 1 is not UTF-8"),
        (b"", "0 texts do not have the shape [1]"),
        (bytes(8), "more texts than in the shape [1]"),
    ],
)
def test_damaged_bytes(live: Live, content: bytes, message: str) -> None:
    tensor = {"name": "text", "shape": [1], "datatype": "BYTES"}
    tensor["parameters"] = {"binary_data_size": len(content)}
    head = json.dumps({"inputs": [tensor]}).encode()
    size = {"Inference-Header-Content-Length": str(len(head))}
    reply = post(live, "classify", head + content, **size)
    assert (reply.status_code, message in reply.json()["error"]) == (400, True), reply.text
    reply = post(live, "classify", head + content + b"?", **size)
    assert reply.status_code == 400
    tensor["parameters"] = {"binary_data_size": 10**9}
    head = json.dumps({"inputs": [tensor]}).encode()
    reply = post(live, "classify", head, **{"Inference-Header-Content-Length": str(len(head))})
    assert "is not that of its bytes" in reply.json()["error"]
