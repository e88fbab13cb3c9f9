"""Requests of text-embeddings-inference's clients, over a socket."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import torch
import torch.nn.functional as F
from tests.golden.cases import LONG
from tests.serving.conftest import Live

TEXTS = ["the red cat sleeps", "a soup, green"]


@pytest.fixture(scope="module")
def client(live: Live) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=live.url) as client:
        yield client


def close(one: Any, other: Any) -> bool:
    one, other = torch.as_tensor(one), torch.as_tensor(other)
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-5)


def post(client: httpx.Client, path: str, body: Any) -> Any:
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def refused(client: httpx.Client, path: str, body: Any) -> tuple[int, str]:
    reply = client.post(path, json=body)
    assert set(reply.json()) == {"error", "error_type"}
    return reply.status_code, reply.json()["error_type"] + ": " + reply.json()["error"]


@pytest.mark.parametrize("path", ["/embed", "/models/embed/embed"])
def test_embed(client: httpx.Client, live: Live, path: str) -> None:
    vectors = torch.stack([a.vector for a in live.load("embed")(TEXTS)])
    assert close(post(client, path, {"inputs": TEXTS}), vectors)
    assert close(post(client, path, {"inputs": TEXTS[0]}), vectors[:1])
    short = post(client, path, {"inputs": TEXTS, "dimensions": 4})
    assert close(short, F.normalize(vectors[:, :4], dim=-1))
    raw = live.load("embed")(TEXTS[0], raw=True).vector
    assert close(post(client, path, {"inputs": TEXTS[0], "normalize": False})[0], raw)


def test_embed_ids(client: httpx.Client) -> None:
    rows = post(client, "/models/embed/tokenize", {"inputs": TEXTS})
    ids = [[token["id"] for token in row] for row in rows]
    vectors = post(client, "/embed", {"inputs": TEXTS})
    assert close(post(client, "/embed", {"inputs": ids}), vectors)
    assert close(post(client, "/embed", {"inputs": ids[0]}), vectors[:1])


def test_embed_ids_of_unknown_words_and_masks(client: httpx.Client) -> None:
    texts = ["the Ω cat", "it is [MASK] white", "don't"]
    vectors = post(client, "/embed", {"inputs": texts})
    for special in (True, False):
        asked = {"inputs": texts, "add_special_tokens": special}
        rows = post(client, "/models/embed/tokenize", asked)
        ids = [[token["id"] for token in row] for row in rows]
        assert close(post(client, "/embed", {"inputs": ids}), vectors)
        padded = [[*row, 0, 0] for row in ids]  # of [PAD]
        assert close(post(client, "/embed", {"inputs": padded}), vectors)


def test_a_long_text_is_refused_unless_it_may_be_cut(client: httpx.Client, live: Live) -> None:
    for path, body in (
        ("/embed", {"inputs": LONG}),
        ("/embed_all", {"inputs": LONG}),
        ("/predict", {"inputs": LONG}),
        ("/rerank", {"query": "red", "texts": [LONG]}),
    ):
        status, message = refused(client, path, body)
        assert status == 422
        assert message.endswith("tokens, but only 30 fit; see truncate") or path == "/rerank"
        post(client, path, body | {"truncate": True})
    status, _ = refused(
        client, "/similarity", {"inputs": {"source_sentence": "a", "sentences": [LONG]}}
    )
    assert status == 422
    head = live.load("embed")(LONG, long_text="head").vector
    assert close(post(client, "/embed", {"inputs": LONG, "truncate": True})[0], head)


def test_embed_all(client: httpx.Client, live: Live) -> None:
    expected = [a.token_vectors[0] for a in live.load("embed")(TEXTS, token_vectors=True)]
    rows = post(client, "/embed_all", {"inputs": TEXTS})
    assert all(close(row, tokens) for row, tokens in zip(rows, expected, strict=True))


def test_predict(client: httpx.Client, live: Live) -> None:
    one, two = live.load("classify")(TEXTS)
    row = post(client, "/predict", {"inputs": TEXTS[0]})
    assert [label["label"] for label in row] == sorted(one.scores, key=lambda x: -one.scores[x])
    assert close([label["score"] for label in row], sorted(one.scores.values(), reverse=True))
    rows = post(client, "/predict", {"inputs": [[text] for text in TEXTS]})
    assert [row[0]["label"] for row in rows] == [one.label, two.label]
    raw = post(client, "/models/classify/predict", {"inputs": TEXTS[0], "raw_scores": True})
    scores = live.load("classify")(TEXTS[0], raw=True).scores
    assert close([label["score"] for label in raw], sorted(scores.values(), reverse=True))


def test_a_list_of_two_texts_is_one_pair(client: httpx.Client, live: Live) -> None:
    answer = live.load("pair")(("the cat is red", "no, it is not"))
    (best, *_) = post(client, "/predict", {"inputs": ["the cat is red", "no, it is not"]})
    assert (best["label"], round(best["score"], 4)) == (answer.label, round(answer.score, 4))
    rows = post(client, "/predict", {"inputs": [["the cat is red", "no, it is not"]] * 2})
    assert [row[0] for row in rows] == [pytest.approx(best, abs=1e-5)] * 2


def test_rerank(client: httpx.Client, live: Live) -> None:
    texts = ["it is white", "the very very red soup", "red"]
    values = [a.value for a in live.load("ranker")([("red", text) for text in texts])]
    ranks = post(client, "/rerank", {"query": "red", "texts": texts, "return_text": True})
    assert [rank["index"] for rank in ranks] == sorted(range(3), key=lambda at: -values[at])
    assert close([rank["score"] for rank in ranks], sorted(values, reverse=True))
    assert [rank["text"] for rank in ranks] == [texts[rank["index"]] for rank in ranks]


def test_similarity(client: httpx.Client, live: Live) -> None:
    expected = [live.load("embed")(("the red cat", text)).similarity for text in TEXTS]
    inputs = {"source_sentence": "the red cat", "sentences": TEXTS}
    assert close(post(client, "/similarity", {"inputs": inputs}), expected)


def test_tokens_and_back(client: httpx.Client) -> None:
    text = "The horse, it is red."
    (row,) = post(client, "/tokenize", {"inputs": text})
    assert [token["text"] for token in row if token["special"]] == ["[CLS]", "[SEP]"]
    assert [row[0]["start"], row[-1]["stop"]] == [None, None]
    for token in row[1:-1]:
        assert text[token["start"] : token["stop"]] == token["text"]
    (bare,) = post(client, "/tokenize", {"inputs": text, "add_special_tokens": False})
    assert bare == row[1:-1]
    ids = [token["id"] for token in row]
    assert post(client, "/decode", {"ids": ids}) == ["the horse, it is red."]
    whole = post(client, "/decode", {"ids": [ids, ids[1:2]], "skip_special_tokens": False})
    assert whole == ["[CLS] the horse, it is red. [SEP]", "the"]


def test_info(client: httpx.Client) -> None:
    about = client.get("/info").json()
    assert about["model_id"] == "classify"
    assert about["model_type"]["classifier"]["label2id"] == {"animal": 0, "food": 1, "place": 2}
    about = client.get("/models/embed/info").json()
    assert (about["model_type"], about["max_input_length"]) == (
        {"embedding": {"pooling": "mean"}},
        32,
    )
    assert "reranker" in client.get("/models/ranker/info").json()["model_type"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/embed", {"inputs": []}, 400, "Empty: inputs is empty"),
        ("/embed", {"input": "a"}, 422, "did you mean 'inputs'?"),
        ("/embed", {"inputs": "a", "dimensions": 9999}, 422, "dimensions is 9999: give 1 to 16"),
        ("/embed", {"inputs": "a", "prompt_name": "query"}, 422, "runs have no prompts"),
        ("/embed", {"inputs": [9999]}, 422, "9999 is not a token id"),
        ("/decode", {"ids": [[-1]]}, 422, "-1 is not a token id of this run; ids are 0 to 133"),
        ("/predict", {"inputs": ["a", "b", "c"]}, 422, "a list of 3 texts"),
        ("/predict", {"inputs": [["a", "b"], ["c"]]}, 422, "single texts or pairs"),
        ("/models/tag/embed", {"inputs": "a"}, 424, "Backend: tag is a tag run; this needs a"),
        ("/models/none/embed", {"inputs": "a"}, 404, "Validation: no run of that name"),
        ("/models/translate/tokenize", {"inputs": "a"}, 424, "the tokenizer of an encoder"),
        ("/embed", {"inputs": ["a"] * 2000}, 413, "Validation: 2,000 texts"),
        (
            "/embed",
            {"inputs": "a " * 100, "truncate": True, "truncation_direction": "Left"},
            422,
            "texts can only be truncated at the end",
        ),
    ],
)
def test_errors(client: httpx.Client, path: str, body: Any, status: int, message: str) -> None:
    code, text = refused(client, path, body)
    assert (code, message in text) == (status, True), text
