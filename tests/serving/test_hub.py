"""Requests of Hugging Face's own client, task by task, and LangChain's embeddings through it."""

from dataclasses import asdict
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from tests.golden.cases import CONTEXT, LONG, TWEET
from tests.serving.conftest import Live

from heedful.serving.tagging import _groups
from heedful.tasks.answers.entities import TaggedPiece

hub = pytest.importorskip("huggingface_hub", reason="needs Hugging Face's client")
pytestmark = pytest.mark.usefixtures("online")

TEXTS = ["the red cat sleeps", "a soup, green"]


@pytest.fixture(scope="module")
def client(live: Live) -> "hub.InferenceClient":
    return hub.InferenceClient(live.url)


def of(live: Live, run: str) -> "hub.InferenceClient":
    return hub.InferenceClient(f"{live.url}/models/{run}")


def rows(elements: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in asdict(e).items() if value is not None} for e in elements]


def close(one: Any, other: Any) -> bool:
    return np.allclose(np.asarray(one), np.asarray(other), atol=1e-5)


def test_text_classification(client: "hub.InferenceClient", live: Live) -> None:
    answer = live.load("classify")(TEXTS[0])
    labels = client.text_classification(TEXTS[0])
    assert labels[0].label == answer.label
    assert {one.label: one.score for one in labels} == pytest.approx(answer.scores, abs=1e-5)
    assert len(client.text_classification(TEXTS[0], top_k=2)) == 2
    logits = list(live.load("classify")(TEXTS[0], raw=True).scores.values())
    for function, expected in (
        ("none", logits),
        ("sigmoid", torch.tensor(logits).sigmoid().tolist()),
        ("softmax", list(answer.scores.values())),
    ):
        labels = client.text_classification(TEXTS[0], function_to_apply=function)
        assert close([one.score for one in labels], sorted(expected, reverse=True))


def test_a_long_text_is_read_whole(live: Live) -> None:
    (labels,) = httpx.post(live.url, json={"inputs": LONG}).json()
    answer = live.load("classify")(LONG)
    assert answer.windows > 1
    assert close([labels[0]["score"]], [answer.score])


def test_text_classification_of_pairs_and_of_several_texts(live: Live) -> None:
    pair = {"text": "the cat is red", "text_pair": "no, it is not"}
    path = f"{live.url}/pipeline/text-classification"
    reply = httpx.post(path, json={"inputs": [pair, pair]}).json()
    answer = live.load("pair")((pair["text"], pair["text_pair"]))
    assert [row[0]["label"] for row in reply] == [answer.label] * 2
    reply = httpx.post(f"{live.url}/models/many/", json={"inputs": TEXTS}).json()
    assert close(
        [row[0]["score"] for row in reply],
        [max(answer.scores.values()) for answer in live.load("many")(TEXTS)],
    )


@pytest.mark.parametrize("strategy", [None, "first", "average", "max"])
@pytest.mark.parametrize("text", ["Dan Miller lives near New Lima", TWEET])
def test_entities(live: Live, strategy: Any, text: str) -> None:
    options = {"aggregation": strategy} if strategy in ("average", "max") else {}
    answer = live.load("tag")(text, **options)
    found = of(live, "tag").token_classification(text, aggregation_strategy=strategy)
    expected = [
        {
            "entity_group": one.label,
            "score": pytest.approx(one.score, abs=1e-5),
            "word": one.text,
            "start": one.start,
            "end": one.end,
        }
        for one in answer.entities
    ]
    assert rows(found) == expected
    assert expected


def test_the_strategy_says_that_tagging_is_meant(client: "hub.InferenceClient") -> None:
    found = client.token_classification(
        "Ann is in Paris", aggregation_strategy="simple", ignore_labels=["PER"]
    )
    assert [one.entity_group for one in found] == ["O", "LOC"]
    assert ["".join(one.word.split()) for one in found][1] == "Paris"


@pytest.mark.parametrize(("prefix", "groups"), [("B", 2), ("S", 2), ("U", 2), ("I", 1), ("L", 1)])
def test_what_is_an_entity_alone_is_a_group_alone(prefix: str, groups: int) -> None:
    piece = TaggedPiece(number=0, token="a", start=0, end=1, tag=f"{prefix}-PER", score=1.0)
    assert len(list(_groups([piece, piece]))) == groups


def test_pieces_each_by_itself(live: Live) -> None:
    answer = live.load("tag")(TWEET, piece_tags=True)
    body = {"inputs": TWEET, "parameters": {"aggregation_strategy": "none", "ignore_labels": []}}
    found = httpx.post(f"{live.url}/models/tag", json=body).json()
    assert [(row["entity"], row["word"], row["start"], row["end"]) for row in found] == [
        (piece.tag, piece.token, piece.start, piece.end) for piece in answer.pieces
    ]
    assert [row["index"] for row in found] == list(range(1, len(found) + 1))
    assert close([row["score"] for row in found], [piece.score for piece in answer.pieces])
    names = of(live, "tag").token_classification(TWEET, aggregation_strategy="none")
    assert [one.entity for one in names] == [row["entity"] for row in found if row["entity"] != "O"]


def test_what_is_no_entity_is_there_on_request(live: Live) -> None:
    text = "Dan Miller lives near New Lima"
    found = of(live, "tag").token_classification(
        text, aggregation_strategy="first", ignore_labels=[""]
    )
    assert [(one.entity_group, one.word) for one in found] == [
        ("PER", "Dan Miller"),
        ("O", "lives near"),
        ("LOC", "New Lima"),
    ]
    assert all(0 < one.score <= 1 for one in found)


def test_question_answering(client: "hub.InferenceClient", live: Live) -> None:
    for question in ("who eats?", "where is it?", "when is it?"):
        answer = live.load("answer")((question, CONTEXT))
        told = client.question_answering(question, CONTEXT)
        assert (told.answer, told.start, told.end) == (
            answer.answer or "",
            answer.start or 0,
            answer.end or 0,
        )
        assert told.score == pytest.approx(answer.score, abs=1e-5)
    best = client.question_answering("when is it?", CONTEXT, handle_impossible_answer=False)
    assert best.answer == live.load("answer")(("when is it?", CONTEXT)).best
    several = client.question_answering("who eats?", CONTEXT, top_k=3, max_seq_len=24)
    n_best = live.load("answer")(("who eats?", CONTEXT), top=3, max_length=24).n_best
    assert [one.answer for one in several] == [one.answer or "" for one in n_best]


def test_fill_mask(client: "hub.InferenceClient", live: Live) -> None:
    text = "the [MASK] is red."
    (blank,) = live.load("pretrain")(text).blanks
    filled = of(live, "pretrain").fill_mask(text)
    assert [one.token_str for one in filled] == [one.token for one in blank.candidates]
    assert [one.sequence for one in filled] == [one.text for one in blank.candidates]
    assert close([one.score for one in filled], [one.score for one in blank.candidates])
    ids = live.load("pretrain").tokenizer.vocabulary.ids
    assert [one.token for one in filled] == [ids[one.token_str] for one in filled]
    filled = client.fill_mask(text, targets=["cat", "tower"], top_k=1)  # only fill-mask knows both
    assert [one.token_str in ("cat", "tower") for one in filled] == [True]
    several = httpx.post(f"{live.url}/models/masked", json={"inputs": "a [MASK] [MASK]."}).json()
    assert [len(mask) for mask in several] == [5, 5]


def test_translation(live: Live) -> None:
    text = "Das hund ist rot!"
    client = of(live, "translate")
    assert client.translation(text).translation_text == live.load("translate")(text).text
    options = {"num_beams": 5, "num_return_sequences": 3, "max_new_tokens": 4}
    body = {"inputs": text, "parameters": {"generate_parameters": options}}
    found = httpx.post(f"{live.url}/pipeline/translation", json=body).json()
    n_best = live.load("translate")(text, beam=5, top=3, max_new_tokens=4).n_best
    assert [one["translation_text"] for one in found] == [one.text for one in n_best[:3]]


def test_vectors(live: Live) -> None:
    client = of(live, "embed")
    vectors = np.stack([a.vector.numpy() for a in live.load("embed")(TEXTS)])
    assert close(client.feature_extraction(TEXTS), vectors)
    assert close(client.feature_extraction(TEXTS[0], normalize=True), vectors[:1])
    raw = live.load("embed")(TEXTS[0], raw=True).vector.numpy()
    assert close(client.feature_extraction(TEXTS[0], normalize=False)[0], raw)
    whole, head = (live.load("embed")(LONG, long_text=x).vector for x in ("window", "head"))
    assert close(client.feature_extraction(LONG)[0], whole)
    assert close(client.feature_extraction(LONG, truncate=True)[0], head)
    with pytest.raises(hub.errors.HfHubHTTPError, match="only 30 fit; see truncate"):
        client.feature_extraction(LONG, truncate=False)


def test_sentence_similarity(client: "hub.InferenceClient", live: Live) -> None:
    expected = [live.load("embed")(("the red cat", text)).similarity for text in TEXTS]
    assert close(client.sentence_similarity("the red cat", TEXTS), expected)


@pytest.mark.parametrize("multi_label", [False, True])
def test_zero_shot(client: "hub.InferenceClient", live: Live, multi_label: bool) -> None:
    labels = ["red", "a horse", "{0.__class__}"]
    template = "it is {}, {}."
    found = client.zero_shot_classification(
        "the cat is red.", labels, multi_label=multi_label, hypothesis_template=template
    )
    pairs = [("the cat is red.", f"it is {label}, {label}.") for label in labels]
    scores = [answer.scores for answer in live.load("nli")(pairs, raw=True)]
    logits = torch.tensor([[one["contradiction"], one["entailment"]] for one in scores])
    expected = logits.softmax(1)[:, 1] if multi_label else logits[:, 1].softmax(0)
    assert {one.label: pytest.approx(one.score, abs=1e-5) for one in found} == dict(
        zip(labels, expected.tolist(), strict=True)
    )
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_langchain(live: Live) -> None:
    langchain = pytest.importorskip("langchain_huggingface", reason="needs LangChain")
    embeddings = langchain.HuggingFaceEndpointEmbeddings(model="embed", provider="hf-inference")
    embeddings.client = of(live, "embed")  # the class takes names of the hub alone
    vectors = [a.vector.tolist() for a in live.load("embed")(TEXTS)]
    assert close(embeddings.embed_documents(TEXTS), vectors)
    assert close(embeddings.embed_query(TEXTS[1]), vectors[1])


@pytest.mark.parametrize("run", ["classify", "embed"])
def test_health(live: Live, run: str) -> None:
    for url in (live.url, f"{live.url}/models/{run}"):
        assert hub.InferenceClient(url, provider="hf-inference").health_check()


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/", {"input": "a"}, 422, "unknown key 'input' (did you mean 'inputs'?)"),
        ("/models/tag", {"inputs": 3}, 422, "inputs: "),
        (
            "/models/tag",
            {"inputs": "a", "parameters": {"aggregation": "max"}},
            422,
            "unknown key 'aggregation' (did you mean 'aggregation_strategy'?)",
        ),
        ("/models/tag", {"inputs": "a", "parameters": {"stride": 3}}, 422, "unknown key 'stride'"),
        ("/models/classify", {"inputs": "a", "parameters": {"topk": 3}}, 422, "mean 'top_k'"),
        (
            "/models/masked",
            {"inputs": "[MASK]", "parameters": {"top_k": 1001}},
            413,
            "top_k is 1,001; at most 1,000",
        ),
        (
            "/invocations",
            {"inputs": "[MASK]", "parameters": {"targets": ["a"] * 1001}},
            422,
            "targets: 1,001 words; at most 1,000",
        ),
        ("/models/none", {"inputs": "a"}, 404, "no run of that name"),
        ("/models/pretrain", {"inputs": "a"}, 422, "no [MASK] in the text"),
        ("/models/regress", {"inputs": "a"}, 422, "none of these can answer this: regress"),
        ("/pipeline/summarization", {"inputs": "a"}, 404, "there is no such path"),
        ("/models/tag/pipeline/fill-mask", {"inputs": "a"}, 422, "tag is a tag run; this needs a"),
        (
            "/pipeline/zero-shot-classification",
            {"inputs": "a", "parameters": {"candidate_labels": ["b"], "hypothesis_template": "no"}},
            422,
            "write {} in place",
        ),
        (
            "/models/masked",
            {"inputs": "[MASK]", "parameters": {"targets": ["xyzzy"]}},
            422,
            "targets 'xyzzy': not a token of the vocabulary",
        ),
    ],
)
def test_errors(live: Live, path: str, body: Any, status: int, message: str) -> None:
    reply = httpx.post(live.url + path, json=body)
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"error"}
    assert message in reply.json()["error"]


GENERATE = ("translate", "Das hund ist rot!")
ASKED = ("answer", {"question": "who eats?", "context": CONTEXT})
LONG_QUESTION = ("answer", {"question": "who " * 9, "context": CONTEXT})


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [
        (GENERATE, {"temperature": 0.5}, "temperature needs do_sample"),
        (
            GENERATE,
            {"num_beams": 2, "do_sample": True},
            "num_beams is for a search, not for do_sample",
        ),
        (
            GENERATE,
            {"num_return_sequences": 5},  # as many as a call gives unless told otherwise
            "num_return_sequences 5: a search with num_beams 4 finds only 4 texts; give a larger"
            " num_beams",
        ),
        (
            GENERATE,
            {"num_beams": 2, "num_return_sequences": 3},
            "num_return_sequences 3: a search with num_beams 2 finds only 2 texts; give a larger"
            " num_beams",
        ),
        (GENERATE, {"no_repeat_ngram_size": -1}, "no_repeat_ngram_size -1: must be 0 or"),
        (ASKED, {"top_k": 1001}, "top_k is 1,001; at most 1,000"),
        (LONG_QUESTION, {"max_seq_len": 12}, "9 tokens; with max_seq_len 12 it may have"),
        (("masked", "[MASK]"), {"targets": ["top"]}, "targets 'top': not a token"),
    ],
)
def test_options_are_called_what_clients_call_them(
    live: Live, asked: tuple[str, Any], options: dict[str, Any], message: str
) -> None:
    run, inputs = asked
    parameters = {"generate_parameters": options} if asked is GENERATE else options
    body = {"inputs": inputs, "parameters": parameters}
    reply = httpx.post(f"{live.url}/models/{run}", json=body)
    assert reply.status_code in (413, 422)
    assert message in reply.json()["error"]


def test_as_many_answers_as_there_may_be(live: Live) -> None:
    inputs = {"question": "who eats?", "context": CONTEXT}
    body = {"inputs": inputs, "parameters": {"top_k": 1000}}
    reply = httpx.post(f"{live.url}/models/answer", json=body)
    assert reply.status_code == 200, reply.text
    assert len(reply.json()) > 20


def test_heedfuls_own_options_name_the_nearest_and_take_lists(live: Live) -> None:
    path = f"{live.url}/api/runs/pretrain/predict"
    body = {"texts": ["the [MASK] is red."], "options": {"targets": ["cat", "tower"]}}
    (answer,) = httpx.post(path, json=body).json()["answers"]
    assert {one["token"] for one in answer["masks"][0]["candidates"]} == {"cat", "tower"}
    reply = httpx.post(path, json={"texts": ["a"], "options": {"target": ["cat"]}})
    assert "did you mean 'targets'?" in reply.json()["error"]["message"]
