"""Folders of transformers are served like runs; whether they learnt from pairs is unknown."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_folders import write_folder

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from tests.serving.inside import client_of, service_of_loaded

import heedful
from heedful.serving.loading import load
from heedful.settings import ServeSettings

TEXT, OTHER, THIRD = "the red cat sleeps", "a cat, red", "it is not here"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a classifier, a ranker and a reader."""
    out = tmp_path_factory.mktemp("folders")
    labels = {
        "nli": dict(enumerate(["entailment", "neutral", "contradiction"])),
        "ranker": {0: "LABEL_0"},
    }
    for name, names in labels.items():
        write_folder(
            "bert", out / name, head="sequence", id2label=names, max_position_embeddings=128
        )
    write_folder("bert", out / "reader", head="span", max_position_embeddings=128)
    return {name: out / name for name in (*labels, "reader")}


def replies(folder: Path, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """Send requests to a server of a folder, and return its replies."""

    async def run() -> list[Any]:
        loaded = load(str(folder), ServeSettings(precision="fp32"))
        async with service_of_loaded(loaded) as service, client_of(service) as client:
            answers = [await client.post(path, json=body) for path, body in requests]
            assert {reply.status_code for reply in answers} == {200}, [a.text for a in answers]
            return [reply.json() for reply in answers]

    return asyncio.run(run())


def test_a_classifier_is_asked_for_texts_and_for_pairs(folders: dict[str, Path]) -> None:
    ours = heedful.load(folders["nli"], precision="fp32")
    right = [ours(TEXT), ours((TEXT, OTHER))]
    one, pair, native, ones, pairs = replies(
        folders["nli"],
        ("/predict", {"inputs": TEXT}),
        ("/predict", {"inputs": [[TEXT, OTHER]]}),
        ("/api/runs/nli/predict", {"texts": [TEXT, TEXT]}),
        ("/pipeline/text-classification", {"inputs": TEXT}),
        ("/pipeline/text-classification", {"inputs": {"text": TEXT, "text_pair": OTHER}}),
    )
    for answer, reply in zip(right, (one, pair[0]), strict=True):
        scores = {row["label"]: row["score"] for row in reply}
        assert scores == pytest.approx(answer.scores, abs=1e-5)
    assert [answer["label"] for answer in native["answers"]] == [right[0].label] * 2
    assert [row[0][0]["label"] for row in (ones, pairs)] == [answer.label for answer in right]


def test_a_ranker_ranks(folders: dict[str, Path]) -> None:
    ours = heedful.load(folders["ranker"], precision="fp32")
    values = [answer.value for answer in ours([(TEXT, OTHER), (TEXT, THIRD)])]
    (ranks,) = replies(folders["ranker"], ("/rerank", {"query": TEXT, "texts": [OTHER, THIRD]}))
    scores = {rank["index"]: rank["score"] for rank in ranks}
    assert scores == pytest.approx(dict(enumerate(values)), abs=1e-5)


def test_what_follows_from_a_text_sorts_it_into_new_labels(folders: dict[str, Path]) -> None:
    body = {"inputs": TEXT, "parameters": {"candidate_labels": ["pets", "food"]}}
    (reply,) = replies(folders["nli"], ("/pipeline/zero-shot-classification", body))
    assert set(reply["labels"]) == {"pets", "food"}


def test_a_question_may_have_no_answer_where_the_client_says_so(folders: dict[str, Path]) -> None:
    asked = {"question": "who?", "context": TEXT}
    answers = replies(
        folders["reader"],
        *(
            ("/pipeline/question-answering", {"inputs": asked, "parameters": parameters})
            for parameters in ({}, {"handle_impossible_answer": True})
        ),
    )
    ours = heedful.load(folders["reader"], precision="fp32")
    right = [ours(("who?", TEXT)), ours(("who?", TEXT), no_answer_threshold=0.0)]
    assert [reply["answer"] for reply in answers] == [answer.answer or "" for answer in right]
