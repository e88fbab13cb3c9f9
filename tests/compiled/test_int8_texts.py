"""Generation in int8: the scores of the next token are close to those in float32."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.compiled.test_causal_lm import FAMILY_SIZES, _prompts
from tests.compiled.test_causal_lm import _model as _writer
from tests.compiled.test_decoder import MODELS
from tests.compiled.test_decoder import _batch as _texts
from tests.compiled.test_decoder import _model as _translator
from tests.compiled.test_int8 import RUNS, needs_int8
from torch import Tensor

from heedful import evaluate, load
from heedful.compiled.int8 import DynamicInt8Linear, StaticInt8Linear
from heedful.compiled.int8_layers import calibration_rows
from heedful.compiled.model import Compiled, compile_model
from heedful.decoding.search import Search
from heedful.models.model import Model

pytestmark = needs_int8
STEPS = 12


def _compiled(model: Model) -> tuple[Any, Any]:
    """Return the compiled form in float32 and the one in int8."""
    config: Any = model.config
    rows = calibration_rows([], [3], vocab_size=config.vocab_size, positions=model.max_positions)
    wide, narrow = compile_model(model), compile_model(model, lambda: rows)
    assert [form.kernel for form in (wide, narrow)] == ["packed", "int8"]
    return wide.model, narrow.model


def _scores(steps: Any, state: Any, tokens: Tensor) -> Tensor:
    """Return the logits after each of some tokens. Shape (B, steps, V)."""
    scores = []
    for column in tokens.T:
        step, state = steps.step(column, state)
        scores.append(step)
    return torch.stack(scores, 1)


def _assert_near(narrow: Tensor, wide: Tensor) -> None:
    """Check scores. Both of shape (B, steps, V)."""
    assert (narrow - wide).abs().max() > 0
    alike = F.cosine_similarity(narrow - narrow.mean(-1, True), wide - wide.mean(-1, True), dim=-1)
    assert alike.min() > 0.97
    assert alike.mean() > 0.99


@torch.inference_mode()
@pytest.mark.parametrize("variant", MODELS)
def test_a_translator(variant: str) -> None:
    model = _translator(**MODELS[variant])
    twins = _compiled(model)
    ids, mask = _texts(model)
    torch.manual_seed(2)
    tokens = torch.randint(60, (len(ids), STEPS))
    sides = []
    for twin in twins:
        encoded = twin._encode(ids, mask).hidden
        real = None if mask is None else mask.bool()[:, None, None]
        state = twin.compiled_steps.start(encoded, real, cover=False)
        sides.append(_scores(twin.compiled_steps, state, tokens))
    _assert_near(sides[1], sides[0])


@torch.inference_mode()
@pytest.mark.parametrize("family", FAMILY_SIZES)
def test_a_writer(family: str) -> None:
    twins = _compiled(_writer(family))
    ids, mask = _prompts()
    torch.manual_seed(2)
    tokens = torch.randint(50, (len(ids), STEPS))
    sides = [
        _scores(twin.compiled_steps, twin.compiled_steps.start(ids, mask.sum(1)), tokens)
        for twin in twins
    ]
    _assert_near(sides[1], sides[0])


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}, {"do_sample": True, "top_k": 5}])
def test_a_text_is_the_one_without_neighbours(search: dict[str, Any]) -> None:
    """No product depends on other rows, so only the rounding of attention could change a text."""
    _, model = _compiled(_writer("gpt2"))
    ids, mask = _prompts()
    options = Search(eos_token_id=3, max_new_tokens=STEPS, seed=3, **search)
    together = model.generate(ids, mask, search=options)
    for row, texts in enumerate(together):
        length = int(mask[row].sum())
        (alone,) = model.generate(ids[row : row + 1, :length], search=options, item_seeds=[row])
        margin = min(text.margin for text in texts)
        assert margin < 0.05 or [text.tokens for text in texts] == [text.tokens for text in alone]


def test_all_products_of_a_translator_are_in_steps_of_its_tokens() -> None:
    _, model = _compiled(_translator())
    decoder, encoder = model.compiled_steps, model.encoder
    for block in [*encoder.blocks, *(block.inner for block in decoder.blocks)]:
        linears = (block.project, block.widen, block.mix.dense, block.narrow.dense)
        assert {type(linear) for linear in linears} == {DynamicInt8Linear}
    linears = (decoder.memory, decoder.score, *(block.query for block in decoder.blocks))
    assert {type(linear) for linear in linears} == {DynamicInt8Linear}


def test_what_follows_a_norm_in_a_writer_has_fixed_steps() -> None:
    _, model = _compiled(_writer("gpt2"))
    for block in model.compiled_steps.blocks:
        assert {type(block.project), type(block.widen)} == {StaticInt8Linear}
        assert {type(block.mix.dense), type(block.narrow.dense)} == {DynamicInt8Linear}


@pytest.mark.parametrize("run", ["translate", "writer"])
def test_runs(run: str) -> None:
    narrow, wide = (load(RUNS / run, precision=precision) for precision in ("int8", "fp32"))
    assert isinstance(narrow.compiled, Compiled)
    assert (narrow.kernel, wide.kernel) == ("int8", "packed")
    texts = ["the bird is white", "a soup"]
    for mine, its in zip(narrow(texts), wide(texts), strict=True):
        assert mine.n_best[0].score == pytest.approx(its.n_best[0].score, abs=0.1)


def test_evaluate_says_what_it_costs(tmp_path: Path) -> None:
    run = Path(copytree(RUNS / "translate", tmp_path / "run"))
    sides = [tmp_path / "data.de", tmp_path / "data.en"]
    for side in sides:
        side.write_text("the bird is white\na soup\n")
    scores = evaluate(run, sides, precision="int8", say=lambda line: None)
    assert {"bleu", "chrf", "perplexity"} <= scores["wider"]["scores"].keys()
    assert "tokens_per_second" not in scores  # the time was that of both precisions
