"""Every kind of run is explained by each method that applies, and refuses the others."""

from pathlib import Path

import numpy as np
import pytest

from heedful.errors import UserError
from heedful.explanations.explaining import explain_record
from heedful.explanations.explanation import Explanation
from heedful.explanations.methods import METHODS
from heedful.predictor import Predictor
from heedful.settings import ExplainSettings, PredictSettings

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
CONTEXT = "Carla eats cheese in Oslo. the sky is blue."

ENCODERS: dict[str, list[object]] = {
    "classify": ["the blue horse sleeps"],
    "many": ["the red cat and the blue soup"],
    "pair": [("the cat is red", "no, it is not here")],
    "pruned": ["the blue horse sleeps"],
    "regress": ["the bird is very very red"],
    "tag": ["Dan Miller lives near New Lima"],
    "spans": ["Dan Miller lives near New Lima"],
    "answer": [("who eats?", CONTEXT)],
    "choose": ["what sleeps?", "the soup", "the bird", "the tower"],
    "embed": [("the red cat sleeps", "a cat, red")],
    "sentences": ["the red cat sleeps"],
    "pretrain": ["the [MASK] is red. it is very [MASK]."],
    "masked": ["the [MASK] is red. it is very [MASK]."],
}
WRITERS: dict[str, list[object]] = {
    "writer": ["the dog likes"],
    "replies": ["cat, red"],
    "translate": ["Das hund ist rot!"],
    "separate": ["Das katze sieht das pferd!"],
    "gru": ["Das hund ist rot!"],
    "lstm": ["Das hund ist rot!"],
    "marian": ["Das hund ist rot!"],
}
BOTH = ("encoder", "rollout", "decoder", "cross")
ATTENTION = {
    **dict.fromkeys(ENCODERS, ("encoder", "rollout")),
    "embed": ("encoder", "encoder", "rollout", "rollout"),
    "writer": ("decoder",),
    **dict.fromkeys(("replies", "translate", "separate", "marian"), BOTH),
    "gru": ("alignment",),
    "lstm": ("alignment",),
}
GRADIENTS = ("integrated-gradients", "gradient-x-input", "leave-one-out")
SETTINGS = PredictSettings(precision="fp32", max_new_tokens=None)


def explained(run: str, texts: list[object], **settings: object) -> Explanation:
    predictor = Predictor.load(GOLDEN / run, SETTINGS)
    (record,) = predictor.task.from_texts(texts)  # type: ignore[arg-type]
    return explain_record(predictor, record, ExplainSettings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [*ENCODERS, *WRITERS])
def test_every_method_explains_every_run(run: str) -> None:
    texts = (ENCODERS | WRITERS)[run]
    methods = tuple(METHODS) if run in ENCODERS else GRADIENTS
    explanation = explained(run, texts, method=methods)
    assert [one.method for one in explanation.attributions] == list(methods)
    assert explanation.attributions[0].completeness is not None
    assert explanation.attributions[0].completeness.held
    for attribution in explanation.attributions:
        assert len(attribution.scores) == len(explanation.sides)
        for scores, side in zip(attribution.scores, explanation.sides, strict=True):
            assert scores is None or len(scores) == len(side.tokens)
            assert scores is None or np.isfinite(scores).all()
        assert any(any(scores) for scores in attribution.scores if scores)
    assert sorted(one.kind for one in explanation.attention) == sorted(ATTENTION[run])
    for one in explanation.attention:
        rows, columns = (explanation.sides[at].tokens for at in (one.rows, one.columns))
        assert one.weights.shape[2:] == (len(rows), len(columns))
        sums = one.weights.sum(-1)
        for head in one.gone:
            sums[head] += 1
        np.testing.assert_allclose(sums, 1, atol=1e-5)
    for side in explanation.sides:
        for token in side.tokens:
            if token.text is not None:
                assert 0 <= token.start <= token.end <= len(side.texts[token.text])  # type: ignore[operator]


@pytest.mark.parametrize("run", WRITERS)
@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_rollout_and_flow_are_for_encoders(run: str, method: str) -> None:
    with pytest.raises(UserError, match="this model generates with a decoder"):
        explained(run, WRITERS[run], method=(method,))
