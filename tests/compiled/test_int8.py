"""Answers in int8 are close to those in float32, or int8 is refused."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.compiled.test_encoder import HEADS, LENGTHS, _inputs, _model, _numbers, _options

from heedful import evaluate, load
from heedful.cli.options import print_table
from heedful.commands.score import score_texts
from heedful.compiled import int8, kernels
from heedful.compiled.int8 import CHUNK_ROWS, DynamicInt8Linear, StaticInt8Linear
from heedful.compiled.int8_layers import Int8Linears, absolute_maxima, calibration_rows
from heedful.compiled.model import compile_model
from heedful.doctor import examine
from heedful.errors import UserError
from heedful.layers.feedforward import ACTIVATIONS
from heedful.metrics import precision_table
from heedful.models.model import Model

CPU = torch.device("cpu")
RUNS = Path(__file__).parent.parent / "golden" / "0.1.0"
needs_int8 = pytest.mark.skipif(not int8.is_supported(CPU)[0], reason=int8.is_supported(CPU)[1])


def _rows(model: Model) -> Any:
    return lambda: calibration_rows([2], [3], vocab_size=50, positions=model.max_positions)


def _near(rounded: torch.Tensor, plain: torch.Tensor, *, least: float = 0.99) -> None:
    assert F.cosine_similarity(rounded.flatten(), plain.flatten(), dim=0) > least


@pytest.fixture
def weights() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(24, 40), torch.randn(24)


@needs_int8
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_fixed_steps(weights: tuple[torch.Tensor, torch.Tensor], activation: str | None) -> None:
    hidden = torch.randn(7, 40)
    hidden[:, 3] *= 50  # has a step of its own, so the others keep theirs
    weight, bias = weights
    steps = hidden.abs().amax(0) / 127
    plain = F.linear(hidden, weight, bias)
    plain = plain if activation is None else ACTIVATIONS[activation](plain)
    for dtype in (torch.float32, torch.bfloat16):
        product = StaticInt8Linear(weight, bias, steps, activation, dtype)(hidden)
        assert product.dtype is dtype
        _near(product.float(), plain, least=0.995)


@needs_int8
def test_out_of_range_is_cut(weights: tuple[torch.Tensor, torch.Tensor]) -> None:
    linear = StaticInt8Linear(*weights, torch.full((40,), 1 / 127))
    far = torch.randn(7, 40).sign()
    torch.testing.assert_close(linear(100 * far), linear(far))


@needs_int8
def test_many_rows_are_worked_on_in_parts(weights: tuple[torch.Tensor, torch.Tensor]) -> None:
    hidden, residual = torch.randn(2 * CHUNK_ROWS + 5, 40), torch.randn(2 * CHUNK_ROWS + 5, 24)
    linear = StaticInt8Linear(*weights, hidden.abs().amax(0) / 127)
    _near(linear(hidden, residual), F.linear(hidden, *weights) + residual, least=0.999)


@needs_int8
def test_steps_of_rows(weights: tuple[torch.Tensor, torch.Tensor]) -> None:
    hidden, residual = torch.randn(7, 40), torch.randn(7, 24)
    hidden[2] *= 1000
    hidden[3] = 0
    linear = DynamicInt8Linear(*weights)
    product = linear(hidden, residual)
    plain = F.linear(hidden, *weights) + residual
    _near(linear(hidden), F.linear(hidden, *weights), least=0.999)
    for row in range(7):
        _near(product[row], plain[row], least=0.999)
    for row in range(7):
        alone = linear(hidden[row : row + 1], residual[row : row + 1])
        torch.testing.assert_close(alone, product[row : row + 1])


@needs_int8
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_steps_of_rows_before_an_activation(
    weights: tuple[torch.Tensor, torch.Tensor], activation: str
) -> None:
    hidden = torch.randn(7, 40)
    hidden[2] *= 100
    plain = ACTIVATIONS[activation](F.linear(hidden, *weights))
    product = DynamicInt8Linear(*weights, activation)(hidden)
    for row in range(7):
        _near(product[row], plain[row], least=0.999)


NOT_IN_INT8 = {
    ("deberta", "masked_lm"): "the enhanced mask decoder",
}


@needs_int8
@pytest.mark.parametrize(("family", "head"), HEADS)
def test_every_head(family: str, head: str) -> None:
    model = _model(family, head)
    compiled = compile_model(model, _rows(model))
    if (why := NOT_IN_INT8.get((family, head))) is not None:
        assert compiled.reason == f"{why} has no int8 version"
        return
    assert compiled.kernel == "int8"
    for lengths in (LENGTHS, [4], [1]):
        inputs = _inputs(model, lengths)
        mask = inputs["attention_mask"]
        if head == "choice":
            inputs = {name: tensor[:, None] for name, tensor in inputs.items()}
        options = _options(head)
        with torch.inference_mode():
            plain = _numbers(model(**inputs, **options))
            fast = _numbers(compiled.model(**inputs, **options))
        if plain.shape[:2] == mask.shape and plain.shape[1] > 1:
            plain, fast = plain[mask], fast[mask]
        assert (fast - plain).abs().max() > 0
        _near(fast, plain)


@needs_int8
def test_neighbours_do_not_matter() -> None:
    model = _model("bert", "body")
    compiled = compile_model(model, _rows(model)).model
    inputs = _inputs(model, LENGTHS)
    with torch.inference_mode():
        together = compiled(**inputs).last_hidden_state
        for row, length in enumerate(LENGTHS):
            alone = {name: tensor[row : row + 1, :length] for name, tensor in inputs.items()}
            state = compiled(**alone).last_hidden_state
            torch.testing.assert_close(state[0], together[row, :length], rtol=0, atol=0.02)


@needs_int8
def test_an_outlying_channel_keeps_the_others_fine() -> None:
    model = _model("bert", "body")
    with torch.no_grad():
        for block in model.encoder.blocks:
            block.attention.output.LayerNorm.weight[5] = 40.0
    blocks = model.encoder.distinct
    largest = absolute_maxima(blocks, lambda: [model(rows) for rows in _rows(model)()])
    dense = blocks[0].intermediate.dense
    assert largest[dense][5] > 10 * largest[dense].median()
    steps = 1 / Int8Linears(largest, torch.float32).after_norm([dense]).per_step
    assert steps[5] > 3 * steps.median()


@pytest.fixture
def fresh_probe() -> Any:
    int8._why_unsupported.cache_clear()
    yield
    int8._why_unsupported.cache_clear()


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("_large_sums_agree", "are wrong on this CPU"),
        ("_has_instructions", "would emulate them"),
    ],
)
@pytest.mark.usefixtures("fresh_probe")
def test_refused(monkeypatch: pytest.MonkeyPatch, probe: str, words: str) -> None:
    monkeypatch.setattr(int8, "_large_sums_agree", lambda: True)
    monkeypatch.setattr(int8, probe, lambda: False)
    with pytest.raises(UserError, match=words) as error:
        load(RUNS / "classify", precision="int8")
    assert "\n" not in str(error.value)
    assert examine()["cpu_int8"] is False


@pytest.mark.usefixtures("fresh_probe")
def test_a_kernel_that_saturates_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def saturating(whole: torch.Tensor, *_: object) -> torch.Tensor:
        return torch.full((len(whole), 32), 32767.0)

    monkeypatch.setattr(int8, "_pack", lambda weight: (weight, weight, weight))
    monkeypatch.setattr(int8, "_multiply", saturating)
    assert not int8._large_sums_agree()


@pytest.mark.usefixtures("fresh_probe")
def test_a_torch_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(int8, "_multiply", missing)
    monkeypatch.setattr(int8, "_pack", lambda weight: (weight, weight, weight))
    assert int8.is_supported(CPU) == (
        False,
        "sums of products of int8 are wrong on this CPU (no such operator)",
    )


def test_never_on_a_gpu() -> None:
    assert not int8.is_supported(torch.device("cuda"))[0]


@needs_int8
def test_models_without_a_form() -> None:
    with pytest.raises(UserError, match=r"precision int8: .* give auto or fp32"):
        load(RUNS / "gru", precision="int8")


def test_auto_never_picks_it() -> None:
    predictor = load(RUNS / "classify")
    assert not predictor.precision.int8
    assert predictor.kernel != kernels.INT8


@needs_int8
def test_evaluate_says_what_it_costs(tmp_path: Path) -> None:
    run = Path(copytree(RUNS / "classify", tmp_path / "run"))
    data = tmp_path / "data.csv"
    labels = load(run).task.labels
    data.write_text("text,label\n" + "".join(f"some text,{label}\n" for label in labels))
    scores = evaluate(run, data, precision="int8", say=lambda line: None)
    wider = scores["wider"]
    assert wider["number_format"] in ("bfloat16", "float32")
    assert 0 <= wider["answers_changed"] <= scores["items"]
    assert 0 <= wider["scores"]["accuracy"] <= 1
    assert json.loads((run / "metrics.json").read_text())["wider"] == wider


@needs_int8
def test_scores_of_texts_are_wider() -> None:
    predictor = load(RUNS / "pretrain", precision="int8")
    with pytest.raises(UserError, match="not scored in int8"):
        score_texts(predictor, [("a text", "here")])


def test_a_score_may_be_called_precision(capsys: pytest.CaptureFixture[str]) -> None:
    wider = {"number_format": "bfloat16", "answers_changed": 3, "scores": {"precision": 0.5}}
    print_table(precision_table({"items": 7, "precision": 0.25, "wider": wider}))
    shown = capsys.readouterr().err
    assert "-0.2500" in shown
    assert "int8 changed 3 of 7 answers" in shown
