"""Faithfulness and the importance of heads, against values computed by hand."""

import copy
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from heedful.errors import UserError
from heedful.evaluation import score_records
from heedful.explanations import faithfulness as measuring
from heedful.explanations.explanation import Attribution
from heedful.explanations.faithfulness import Faithfulness, faithfulness
from heedful.explanations.heads import head_importance
from heedful.explanations.tables import faithfulness_table
from heedful.metrics.resampling import Interval
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings, PredictSettings

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
FINE = PredictSettings(precision="fp32")


def test_falls_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three words, the last, the first and the second by a method's scores."""
    predictor = Predictor.load(GOLDEN / "classify", FINE)
    scores = (0.0, 2.0, 1.0, 3.0, 0.0)  # with both special tokens
    method = Attribution(method="fixed", target="", scores=(scores,))
    monkeypatch.setattr(measuring, "METHODS", {"fixed": lambda subject, token: method})
    texts = ["the dog sleeps", "the cat sleeps"]
    measured = faithfulness(predictor, predictor.task.from_texts(texts)).methods["fixed"]

    def fall(text: str, part: str) -> float:
        label = predictor(text).label
        return predictor(text).scores[label] - predictor(part).scores[label]

    without, alone = [], []
    for text in texts:
        first, second, third = text.split()
        # Four shares come to one word, and half of three words to two.
        without.append((4 * fall(text, f"{first} {second}") + fall(text, second)) / 5)
        alone.append((4 * fall(text, third) + fall(text, f"{first} {third}")) / 5)
    np.testing.assert_allclose(measured["comprehensiveness"].score, np.mean(without), atol=1e-5)
    np.testing.assert_allclose(measured["sufficiency"].score, np.mean(alone), atol=1e-5)
    np.testing.assert_allclose(
        measured["difference"].score, np.mean(without) - np.mean(alone), atol=1e-5
    )
    for one in measured.values():
        assert one.low <= one.score <= one.high


def test_one_text_says_nothing() -> None:
    predictor = Predictor.load(GOLDEN / "classify", FINE)
    with pytest.raises(UserError, match="1 texts can be explained; at least 2"):
        faithfulness(predictor, predictor.task.from_texts(["the cat sleeps"]))


@pytest.mark.parametrize(
    ("best", "advice"),
    [
        ("flow", "2 texts; the most faithful here: --method flow"),
        ("random", "2 texts; no method is more faithful here than a random order"),
    ],
)
def test_a_random_order_is_no_method_to_choose(best: str, advice: str) -> None:
    none = dict.fromkeys(
        ("comprehensiveness", "sufficiency", "difference"), Interval(score=0, low=0, high=0)
    )
    measured = Faithfulness(
        model="run", task="classify", texts=2, methods={best: none, "rollout": none}, notes=()
    )
    console = Console(record=True, width=100)
    console.print(faithfulness_table(measured))
    assert console.export_text().splitlines()[-1] == advice


def test_a_masked_head_is_one_that_is_pruned() -> None:
    predictor = Predictor.load(GOLDEN / "regress", FINE)
    records = [
        *predictor.task.read([GOLDEN / "data" / "regress.csv"], ColumnSettings(), labelled=True)
    ][:16]
    importance = head_importance(predictor, records)
    assert importance.metric == "pearson"
    assert importance.score == pytest.approx(score_records(predictor, records)["pearson"])
    whole = predictor.model
    for head in importance.heads:
        predictor.model = copy.deepcopy(whole)
        predictor.model.prune_heads({head.layer: [head.head]})
        pearson = score_records(predictor, records)["pearson"]
        assert head.score == pytest.approx(pearson, abs=1e-5)
    assert len({round(head.score, 4) for head in importance.heads}) > 1  # they are not all one


def test_a_writer_is_scored_by_what_is_known() -> None:
    predictor = Predictor.load(GOLDEN / "writer", FINE)
    path = GOLDEN / "data" / "generate.txt"
    records = [*predictor.task.read([path], ColumnSettings(), labelled=True)][:6]
    importance = head_importance(predictor, records)
    expected = score_records(predictor, records)["log_likelihood"]
    assert importance.score == pytest.approx(expected, abs=1e-5)
    assert importance.prune == max(
        (one.share for one in importance.shares if one.score >= importance.score * 1.01), default=0
    )
