"""Optional scores beside the usual answers, from the runs of ``tests/golden``."""

import json
from collections.abc import Callable
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.cases import LONG, TWEET

import heedful
from heedful import UserError, cli
from heedful.batches.windows import nearest_windows, window_starts
from heedful.predictor import Predictor

RUNS = Path(__file__).parents[1] / "golden" / "0.1.0"
SHORT = "the red cat sleeps"

load: Callable[[str], Predictor] = cache(lambda name: heedful.load(RUNS / name, precision="fp32"))


def close(one: Any, other: Any) -> bool:
    return torch.allclose(torch.as_tensor(one), torch.as_tensor(other), atol=1e-5)


@pytest.mark.parametrize(("run", "squash"), [("classify", F.softmax), ("many", None)])
def test_logits_give_the_probabilities(run: str, squash: Callable[..., torch.Tensor]) -> None:
    raw, usual = load(run)(SHORT, raw=True), load(run)(SHORT)
    logits = torch.tensor(list(raw.scores.values()))
    assert raw.label == usual.label
    probabilities = squash(logits, dim=0) if squash else logits.sigmoid()
    assert close(probabilities, list(usual.scores.values()))
    assert not close(logits, list(usual.scores.values()))


def test_a_raw_vector_has_the_direction_of_the_usual_one() -> None:
    raw, usual = load("embed")(SHORT, raw=True).vector, load("embed")(SHORT).vector
    assert abs(float(raw.norm()) - 1) > 0.01
    assert close(F.normalize(raw, dim=0), usual)


@pytest.mark.parametrize("text", [SHORT, LONG, ""])
@pytest.mark.parametrize("run", ["embed", "sentences"])
def test_vectors_of_tokens(run: str, text: str) -> None:
    predictor = load(run)
    usual, answer = predictor(text), predictor(text, token_vectors=True)
    (rows,) = answer.token_vectors
    assert usual.token_vectors is None
    assert close(answer.vector, usual.vector)
    assert rows.shape == (answer.tokens_total + 2, len(usual.vector))
    if answer.windows == 1:
        assert close(F.normalize(rows.mean(0), dim=0), usual.vector)


def test_vectors_of_tokens_do_not_depend_on_neighbours() -> None:
    together = load("embed")([SHORT, LONG, "red"], token_vectors=True)
    for text, answer in zip([SHORT, LONG, "red"], together, strict=True):
        assert close(
            answer.token_vectors[0], load("embed")(text, token_vectors=True).token_vectors[0]
        )


def test_vectors_of_tokens_of_a_pair() -> None:
    answer = load("embed")((SHORT, LONG), token_vectors=True)
    for text, rows in zip((SHORT, LONG), answer.token_vectors, strict=True):
        assert close(rows, load("embed")(text, token_vectors=True).token_vectors[0])
    row = json.loads(json.dumps(answer.to_dict()))
    assert [len(text) for text in row["token_vectors"]] == [len(x) for x in answer.token_vectors]


@given(st.integers(1, 60), st.integers(4, 20), st.integers(4, 9))
def test_each_token_is_taken_once(total: int, limit: int, share: int) -> None:
    starts = window_starts(total, min(limit, total), min(limit, total) // share)
    parts = nearest_windows(starts, min(limit, total))
    taken = [
        list(range(total))[start : start + limit][part]
        for start, part in zip(starts, parts, strict=True)
    ]
    assert list(chain.from_iterable(taken)) == list(range(total))
    for (start, one), (after, two) in pairwise(zip(starts, taken, strict=True)):
        if one and two:
            right_of_last, left_of_first = start + limit - 1 - one[-1], two[0] - after
            assert abs(right_of_last - left_of_first) <= 1


@pytest.mark.parametrize("run", ["tag", "spans"])
@pytest.mark.parametrize(
    "text", ["Dan Miller lives near New Lima", TWEET, " ".join([TWEET] * 4), ""]
)
def test_tags_of_pieces(run: str, text: str) -> None:
    predictor = load(run)
    usual, answer = predictor(text), predictor(text, piece_tags=True)
    assert usual.pieces is None
    assert answer.entities == usual.entities
    pieces = predictor.tokenizer.pieces(text)
    assert [(p.number, (p.start, p.end)) for p in answer.pieces] == [*enumerate(pieces.offsets)]
    by_start = {piece.start: piece for piece in answer.pieces}
    for word in answer.words if answer.windows == 1 else ():  # else they may be of others
        assert max(word.scores.values()) == pytest.approx(by_start[word.start].score, abs=1e-5)


def test_tags_of_pieces_that_were_read() -> None:
    text = " ".join([TWEET] * 4)
    answer = load("tag")(text, piece_tags=True, long_text="head-tail")
    numbers = [piece.number for piece in answer.pieces]
    assert len(numbers) == answer.tokens_used < answer.tokens_total
    assert numbers[0] == 0
    assert numbers[-1] == answer.tokens_total - 1
    assert [row["token"] for row in answer.to_dict()["pieces"]] == [p.token for p in answer.pieces]


def test_words_behind_masks_are_among_the_targets() -> None:
    text = "the [MASK] is red. it is very [MASK]."
    usual = load("pretrain")(text, top=400)
    scores = [{one.token: one.score for one in blank.candidates} for blank in usual.blanks]
    answer = load("pretrain")(text, targets=("tower", "Cat"))
    for blank, known in zip(answer.blanks, scores, strict=True):
        assert {one.token for one in blank.candidates} == {"tower", "cat"}
        for one in blank.candidates:
            assert one.score == pytest.approx(known[one.token], abs=1e-6)


@pytest.mark.parametrize(
    ("run", "option"),
    [("tag", "raw"), ("classify", "token_vectors"), ("embed", "piece_tags"), ("regress", "raw")],
)
def test_other_tasks_do_not_take_them(run: str, option: str) -> None:
    with pytest.raises(UserError, match="has no effect on a"):
        load(run)(SHORT, **{option: True})


@pytest.mark.parametrize(
    ("run", "option"),
    [("embed", "--token-vectors"), ("tag", "--piece-tags"), ("classify", "--raw")],
)
def test_the_command_line_gives_them_but_does_not_score_them(
    run: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["predict", str(RUNS / run), SHORT, option, "--all-scores"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert {"token_vectors", "pieces"} & set(row) or min(row["scores"].values()) < 0
    assert cli.run(["evaluate", str(RUNS / run), "--data", "x.csv", option]) == 2
    assert f"{option} has no effect on scores" in capsys.readouterr().err


@pytest.mark.parametrize("run", ["classify", "embed", "pretrain", "translate", "regress", "answer"])
def test_three_texts_are_no_pair(run: str) -> None:
    with pytest.raises(UserError, match="3 texts; give"):
        load(run)([("a", "b", "c")])
