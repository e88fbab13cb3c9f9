"""Requests that are too large are refused before they cost anything, and others are answered."""

import asyncio
import gzip
import json
import threading
from typing import Any

import pytest
from tests.serving.inside import client_of, loaded, service_of

from heedful.reading.images import ImageRecord
from heedful.serving import lane, limits, pipelines, tagging, tensors, translation
from heedful.serving.problem import Problem
from heedful.serving.protocols import explain, openai, runs, tei_shapes
from heedful.serving.service import Service
from heedful.settings import ServeSettings
from heedful.tasks.texts import text_records

pytestmark = pytest.mark.anyio
BYTES = {"name": "text", "datatype": "BYTES", "shape": [5], "data": [""] * 5}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def refused(service: Service, path: str, body: Any) -> str:
    """Return what is said to who asks for too much."""
    async with client_of(service) as client:
        reply = await client.post(path, json=body)
    assert reply.status_code == 413, reply.text
    told = reply.json()["error"]
    return str(told["message"] if isinstance(told, dict) else told)


async def asked(service: Service, name: str, texts: list[Any], **options: Any) -> list[Any]:
    """Ask a run for texts."""
    served = service.runs[name]
    records = served.task.from_texts(texts)
    return await service.answer(served, records, served.settings(**options))


@pytest.fixture
def tokenized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide the slices of long texts whose tokens were counted."""
    slices: list[str] = []
    count = limits._count_tokens

    def counted(text: str, tokenizer: Any) -> int:
        slices.append(text)
        return count(text, tokenizer)

    monkeypatch.setattr(limits, "_count_tokens", counted)
    return slices


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Provide the number of records of each encoding call."""
    sizes: list[int] = []
    encode = lane._encode_records

    def counted(*given: Any) -> Any:
        done = encode(*given)
        sizes.append(len(done[0]))
        return done

    monkeypatch.setattr(lane, "_encode_records", counted)
    return sizes


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/runs/embed/predict", {"texts": [""] * 5}),
        ("/embed", {"inputs": [""] * 5}),
        ("/embed", {"inputs": [[9]] * 5}),
        ("/embed_all", {"inputs": [[9]] * 5}),
        ("/v1/embeddings", {"input": [""] * 5}),
        ("/", {"inputs": [""] * 5}),
        ("/v2/models/embed/infer", {"inputs": [BYTES]}),
        ("/tokenize", {"inputs": [""] * 5}),
        ("/decode", {"ids": [[9]] * 5}),
        # Before each is looked at.
        ("/api/runs/embed/predict", {"texts": ["a", *[[None]] * 4]}),
        ("/embed", {"inputs": [[None]] * 5}),
        ("/v1/embeddings", {"input": [[]] * 5}),
        ("/", {"inputs": [{}] * 5}),
        ("/pipeline/text-classification", {"inputs": [{}] * 5}),
    ],
)
async def test_too_many_texts_are_refused_before_a_record_is_made_of_each(
    monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    async with service_of("embed", max_items=4) as service:
        task, tokenizer = service.runs["embed"].task, service.runs["embed"].predictor.tokenizer
        with monkeypatch.context() as patch:
            patch.setattr(type(task), "from_texts", None)
            patch.setattr(type(tokenizer), "pieces", None)
            patch.setattr(type(tokenizer), "batch_decode", None)
            assert await refused(service, path, body) == "5 texts; a request may have 4"
        assert len(await asked(service, "embed", [""] * 4)) == 4


@pytest.mark.parametrize(
    ("path", "body", "what"),
    [
        ("/api/runs/embed/predict", {"texts": [[[]] * 4200]}, "4,203 lists and objects"),
        ("/embed", {"inputs": [{"a": ""}] * 4200}, "4,202 lists and objects"),
        ("/v1/embeddings", {"input": [1] * 70_000}, "69,999 commas between values"),
        (
            "/v2/models/embed/infer",
            {"inputs": [BYTES | {"data": ['",\\"'] * 70_000}]},
            "70,002 commas between values",
        ),
    ],
)
async def test_a_body_of_too_many_values_is_not_read(
    monkeypatch: pytest.MonkeyPatch, path: str, body: Any, what: str
) -> None:
    monkeypatch.setattr("heedful.serving.wire.unique_keys", None)
    async with service_of("embed", max_items=4, max_tokens=8) as service:
        assert (await refused(service, path, body)).startswith(f"{what}; a request may have ")


def test_marks_of_a_text_are_no_values() -> None:
    settings = ServeSettings(max_items=4, max_tokens=8)
    text = json.dumps({"texts": ['[{,\\"' * 80_000, "\\", ","]})
    limits.check_values(text.encode(), settings)


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (runs.Question, {"texts": [1] * 99}),
        (runs.Question, {"texts": [[1] * 99, "a"]}),
        (tei_shapes.EmbedBody, {"inputs": ["a", *[None] * 99]}),
        (tei_shapes.EmbedBody, {"inputs": [[9], *["a"] * 99]}),
        (tei_shapes.PredictBody, {"inputs": [[1] * 99] * 9}),
        (tei_shapes.RerankBody, {"query": "a", "texts": [1] * 99}),
        (tei_shapes.TokenizeBody, {"inputs": [1] * 99}),
        (tei_shapes.DecodeBody, {"ids": ["a"] * 99}),
        (openai.EmbeddingsBody, {"input": [None] * 99, "model": "a"}),
        (pipelines.TextClassification, {"inputs": [1] * 99}),
        (pipelines.FeatureExtraction, {"inputs": [1] * 99}),
        (translation.Translation, {"inputs": [1] * 99}),
        (tensors.InferBody, {"inputs": [{}] * 99}),
        (explain.Subject, {"text": [1] * 99}),
        (runs.Question, {"texts": ["a"], "options": {"targets": [1] * 99}}),
        (tagging.TokenClassification, {"inputs": "a", "parameters": {"ignore_labels": [1] * 99}}),
        (runs.Question, {"texts": ["a"], **{f"key{number}": 1 for number in range(99)}}),
        (explain.Subject, {"text": "a", **{f"key{number}": 1 for number in range(99)}}),
    ],
)
def test_of_wrong_elements_few_are_told(body: Any, given: Any) -> None:
    with pytest.raises(ValueError, match=r"validation errors? for") as caught:
        body.model_validate(given)
    error: Any = caught.value
    assert error.error_count() < 9


async def test_choices_are_texts(encoded: list[int]) -> None:
    async with service_of("choose", max_items=4) as service:
        encoded.clear()
        texts = [("what sleeps?", "a", "b", "c"), ("what?", "d", "e")]
        with pytest.raises(Problem, match="5 texts; a request may have 4"):
            await asked(service, "choose", texts)
        assert encoded == []
        assert len(await asked(service, "choose", [texts[0]])) == 1


async def test_a_text_of_too_many_characters_is_not_tokenized(
    encoded: list[int], tokenized: list[str]
) -> None:
    most = 2**16  # where 8 times the tokens are fewer
    async with service_of("tag", "choose", "classify", max_tokens=50) as service:
        encoded.clear()
        for name, text in (
            ("tag", " " * (most + 1)),
            ("classify", "a" * (most + 1)),
            ("choose", (" " * (most // 2), "a", "b")),
        ):
            with pytest.raises(
                Problem, match=r"a text of 65,53[78] characters; it may have 65,536"
            ):
                await asked(service, name, [text])
        said = await refused(service, "/tokenize", {"inputs": " " * (most + 1)})
        assert said == "a text of 65,537 characters; it may have 65,536"
        path = "/api/runs/classify/explain"
        assert await refused(service, path, {"text": "a" * (most + 1)}) == said
        assert (encoded, tokenized) == ([], [])
        assert len(await asked(service, "classify", ["a" * most])) == 1


@pytest.mark.parametrize(
    ("name", "text"), [("classify", "a "), ("tag", "a "), ("masked", "a "), ("translate", "a")]
)
async def test_of_a_long_text_no_more_is_tokenized_than_it_takes_to_refuse_it(
    encoded: list[int], tokenized: list[str], name: str, text: str
) -> None:
    rule = {} if name == "translate" else {"long_text": "head"}
    async with service_of(name, max_tokens=20_000) as service:
        encoded.clear()
        with pytest.raises(Problem, match="the texts have over 20,000 tokens"):
            await asked(service, name, [text * (150_000 // len(text))], **rule)
        assert 2 <= len(tokenized) <= 4
        assert encoded == []


async def test_a_text_of_as_many_tokens_as_are_allowed_is_answered(tokenized: list[str]) -> None:
    async with service_of("classify", max_tokens=20_000) as service:
        (answer,) = await asked(service, "classify", ["a " * 20_000], long_text="head")
        assert answer.tokens_total == 20_000
        assert len(tokenized) == 3
        tokenized.clear()
        await asked(service, "classify", ["a " * 5_000])
        assert tokenized == []


async def test_no_record_is_encoded_after_there_are_too_many_tokens(encoded: list[int]) -> None:
    async with service_of("classify", max_tokens=50) as service:
        encoded.clear()
        with pytest.raises(Problem, match="the texts have over 50 tokens"):
            await asked(service, "classify", ["a " * 28] * 9)
        assert encoded == [2]


async def test_no_record_is_encoded_for_who_has_left() -> None:
    predictor = loaded("classify").predictor
    left = threading.Event()
    left.set()
    records = text_records(["a"] * 9)
    assert len(lane._encode_records(predictor, records, predictor.settings, 1e9, left)[0]) == 1


async def test_who_leaves_while_texts_are_encoded_lets_the_encoder_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on, events = threading.Event(), []

    def waiting(*given: Any) -> Any:
        events.append(given[-1])
        goes_on.wait()
        return [], []

    async with service_of("classify") as service:
        with monkeypatch.context() as patch:
            patch.setattr(lane, "_encode_records", waiting)
            asking = asyncio.create_task(asked(service, "classify", ["a"]))
            while not events:
                await asyncio.sleep(0.001)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert events[0].is_set()
            goes_on.set()
        assert len(await asked(service, "classify", ["a"])) == 1


def test_a_turn_has_few_records_of_few_characters() -> None:
    short, long = text_records(["a"] * 70), text_records(["a" * 40_000] * 3)
    assert [len(part) for part in limits.split_into_turns(short)] == [32, 32, 6]
    assert [len(part) for part in limits.split_into_turns([*long, *short[:5]])] == [1, 1, 6]
    assert [len(part) for part in limits.split_into_turns(text_records(["a" * 99_999] * 2))] == [
        1,
        1,
    ]
    pictures = [ImageRecord(content=b"", source="picture 1")] * 3
    assert [len(part) for part in limits.split_into_turns(pictures)] == [1, 1, 1]
    assert list(limits.split_into_turns([])) == []
    parts = [record for part in limits.split_into_turns([*short, *long]) for record in part]
    assert parts == [*short, *long]


async def test_a_query_counts_with_each_of_its_texts(encoded: list[int]) -> None:
    async with service_of("pair", max_body=1000) as service:
        encoded.clear()
        with pytest.raises(Problem, match=r"9,009 characters, counted once for .* may have 8,000"):
            await asked(service, "pair", [("a" * 1000, "b")] * 9)
        assert encoded == []


@pytest.mark.parametrize(
    ("labels", "template", "said"),
    [
        (["x" * 700], "{}" * 200, "140,401 characters, counted once for each pair"),
        (["x"] * 200, "{}" + " " * 700, "140,800 characters, counted once for each pair"),
        (["x"] * 201, "{}", "201 texts; a request may have 200"),
    ],
)
async def test_what_is_said_of_labels_is_bounded_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch, labels: list[str], template: str, said: str
) -> None:
    body = {"inputs": "a", "parameters": {"candidate_labels": labels}}
    body["parameters"] |= {"hypothesis_template": template}
    monkeypatch.setattr("heedful.serving.pipelines.entailment", lambda served: ("agrees", "denies"))
    monkeypatch.setattr("heedful.serving.pipelines.ask", None)
    async with service_of("pair", max_body=4000, max_items=200) as service:
        path = "/pipeline/zero-shot-classification"
        assert (await refused(service, path, body)).startswith(said)


async def test_tokens_and_ids_are_those_of_a_request(tokenized: list[str]) -> None:
    async with service_of("embed", max_tokens=50) as service:
        for path, body in (
            ("/tokenize", {"inputs": "a " * 9_000}),
            ("/tokenize", {"inputs": ["a " * 20] * 3}),
            ("/decode", {"ids": [9] * 51}),
            ("/decode", {"ids": [[9] * 26] * 2}),
            ("/embed", {"inputs": [9] * 51}),
            ("/embed_all", {"inputs": [[9] * 26] * 2}),
        ):
            said = await refused(service, path, body)
            assert said == "the texts have over 50 tokens; send them in several requests", path
        assert len(tokenized) == 1
        async with client_of(service) as client:
            rows = (await client.post("/tokenize", json={"inputs": ["a"] * 16})).json()
            assert len(rows) == 16
            ids = [[token["id"] for token in row] for row in rows]
            assert (await client.post("/decode", json={"ids": ids})).json() == ["a"] * 16


async def test_texts_are_tokenized_and_decoded_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with service_of("embed") as service, client_of(service) as client:
        turns, encoding = [], service.run_in_encoder

        async def counted(function: Any) -> Any:
            turns.append(function)
            return await encoding(function)

        monkeypatch.setattr(service, "run_in_encoder", counted)
        texts = [f"a {'red ' * number}cat" for number in range(70)]
        rows = (await client.post("/tokenize", json={"inputs": texts})).json()
        assert len(turns) == 3
        ids = [[token["id"] for token in row] for row in rows]
        assert (await client.post("/decode", json={"ids": ids})).json() == texts
        assert len(turns) == 6


async def test_candidates_for_many_masks_are_refused_unless_few_are_wanted(
    encoded: list[int],
) -> None:
    text = "[MASK] " * 60
    async with service_of("masked", max_filled=200_000) as service:
        encoded.clear()
        for texts, options, said in (
            ([text], {"top": 8}, "201,600 characters of texts with masks filled in"),
            ([text], {"top": 1000}, "characters of texts with masks filled in; an answer may"),
            ([text] * 8, {"top": 1}, "201,600 characters"),
        ):
            with pytest.raises(Problem, match=said) as caught:
                await asked(service, "masked", texts, **options)
            assert caught.value.status == 413
        assert encoded == []
        (answer,) = await asked(service, "masked", [text], top=7)
        assert [len(blank.candidates) for blank in answer.blanks] == [7] * 60


async def test_vectors_of_many_tokens_are_refused_before_they_are_computed() -> None:
    texts = ["the red cat"] * 3  # of 5 tokens, with vectors of 16 values
    async with service_of("embed", max_values=239) as service:
        served = service.runs["embed"]
        computed = service.metrics.tokens.labels("embed")._value.get()
        for path, body in (
            ("/embed_all", {"inputs": texts}),
            ("/api/runs/embed/predict", {"texts": texts, "options": {"token_vectors": True}}),
        ):
            assert await refused(service, path, body) == (
                "15 tokens with vectors of 16 values; an answer may have 14 such tokens: "
                "send the texts in several requests"
            )
        assert served.lane.queue.tokens == 0
        assert service.metrics.tokens.labels("embed")._value.get() == computed
        assert len(await asked(service, "embed", texts)) == 3
        assert len(await asked(service, "embed", texts[:2], token_vectors=True)) == 2


async def test_texts_of_a_tensor_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode = tensors._texts
    monkeypatch.setattr(tensors, "_texts", None)
    size = {"parameters": {"binary_data_size": 0}}
    for shape in ([5], [2, 3], [2**62, 2**62]):
        tensor = {"name": "text", "datatype": "BYTES", "shape": shape} | size
        async with service_of("embed", max_items=4) as service:
            said = await refused(service, "/v2/models/embed/infer", {"inputs": [tensor]})
            assert said.endswith("texts; a request may have 4")
    monkeypatch.setattr(tensors, "_texts", decode)
    tensor = tensors.InputTensor(name="text", datatype="BYTES", shape=[2])
    with pytest.raises(Problem, match=r"text: more texts than in the shape \[2\]"):
        decode(tensor, b"\0" * 12 + b"?", 2)


async def test_of_many_gzip_members_none_is_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_gunzip", None)
    async with service_of("embed") as service, client_of(service) as client:
        reply = await client.post(
            "/v2/models/embed/infer",
            content=gzip.compress(b"") * 1001,
            headers={"content-encoding": "gzip"},
        )
    said = {"error": "1,001 gzip members; a body may have 1,000"}
    assert (reply.status_code, reply.json()) == (413, said)
    monkeypatch.undo()
    body = json.dumps({"inputs": [BYTES]}).encode()
    parts = gzip.compress(body) + gzip.compress(b"") * 999
    assert tensors.decompressed(parts, "gzip", len(body)) == body


def test_no_text_of_a_request_as_large_as_may_be_has_fewer_tokens_than_characters_allow() -> None:
    settings = ServeSettings()
    limits.check_size(["a" * 8 * settings.max_tokens], settings)
    limits.check_size(["a" * 1_950] * settings.max_items, settings)
    with pytest.raises(Problem, match="a text of 1,048,577 characters; it may have 1,048,576"):
        limits.check_size(["a" * (8 * settings.max_tokens + 1)], settings)
