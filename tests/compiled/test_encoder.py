"""A compiled encoder computes the same as the plain form, for every head."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tests.compiled.test_linear import DTYPES
from tests.exact import assert_same_bits
from tests.tiny import SIZES
from tests.tiny_folders import OTHER_KEYS

from heedful.compiled import encoder, kernels
from heedful.compiled.linear import PackedLinear
from heedful.compiled.model import compile_model
from heedful.compiled.packing import pack
from heedful.models import FAMILIES
from heedful.models.model import Model

HEADS = [
    *((family, head) for family in ("bert", "roberta") for head in FAMILIES[family].models),
    *(("gpt2", head) for head in ("body", "sequence", "token", "causal_lm")),
    *(("albert", head) for head in ("sequence", "masked_lm", "pretraining")),
    *(("electra", head) for head in ("sequence", "choice", "replaced")),
    *(("mpnet", head) for head in ("body", "sequence", "token")),
    *(("deberta", head) for head in ("body", "sequence", "masked_lm")),
    *(("deberta-v2", head) for head in ("sequence", "masked_lm")),
]
_DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "max_relative_positions": 6,
}
DIFFERENT: dict[str, dict[str, Any]] = {
    "deberta": {**_DISENTANGLED, "enhanced_mask_decoder": True},
    "deberta-v2": {**_DISENTANGLED, "conv_kernel_size": 3, "share_att_key": True},
}
"""Options of families that are more than BERT's blocks."""
LENGTHS = [5, 9, 2, 9, 1, 7, 5]


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def _model(family: str, head: Any, **options: Any) -> Model:
    torch.manual_seed(0)
    sizes = SIZES | {"max_position_embeddings": 16, "initializer_range": 0.2}
    sizes |= DIFFERENT.get(family, {}) | options
    sizes = {OTHER_KEYS.get(family, {}).get(name, name): size for name, size in sizes.items()}
    config = FAMILIES[family].config_class()(**sizes)
    return FAMILIES[family].model_class(head).from_config(config).eval()


def _inputs(model: Model, lengths: list[int]) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 50, (len(lengths), max(lengths)))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids[~mask] = model.config.pad_token_id or 0
    return {"input_ids": ids, "attention_mask": mask}


def _options(head: str) -> dict[str, bool]:
    """Return what a call needs to be compiled: a language model returns no cache then."""
    return {"use_cache": False} if head == "causal_lm" else {}


def _numbers(output: Any) -> torch.Tensor:
    """Return the first output of a model that is not a cache."""
    return next(value for value in output.to_tuple() if isinstance(value, torch.Tensor)).float()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("family", "head"), HEADS)
def test_every_head(
    family: str, head: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model(family, head).to(dtype)
    attend = Mock(wraps=encoder.attend)
    monkeypatch.setattr(encoder, "attend", attend)
    compiled = compile_model(model)
    assert compiled.kernel == "packed"
    tolerance = 1e-5 if dtype is torch.float32 else 0.1
    for lengths in (LENGTHS, [6, 6, 6], [4], [1]):
        inputs = _inputs(model, lengths)
        mask = inputs["attention_mask"]
        if head == "choice":
            inputs = {name: tensor[:, None] for name, tensor in inputs.items()}
        options = _options(head)
        with torch.inference_mode():
            plain = _numbers(model(**inputs, **options))
            attend.reset_mock()
            fast = _numbers(compiled.model(**inputs, **options))
        assert attend.called
        if plain.shape[:2] == mask.shape and plain.shape[1] > 1:
            plain, fast = plain[mask], fast[mask]
        torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", sorted({family for family, _ in HEADS}))
def test_hidden_tokens_between_others(family: str, dtype: torch.dtype) -> None:
    """With relative positions, masked tokens must not change the distances of the others."""
    model = _model(family, "token").to(dtype)
    inputs = _inputs(model, [9, 6])
    inputs["attention_mask"][:, 2:5] = False
    with torch.inference_mode():
        plain, fast = _numbers(model(**inputs)), _numbers(compile_model(model).model(**inputs))
    tolerance, real = 1e-5 if dtype is torch.float32 else 0.1, inputs["attention_mask"]
    torch.testing.assert_close(fast[real], plain[real], rtol=tolerance, atol=tolerance)


OPTIONS: dict[str, dict[str, Any]] = {
    "pruned heads": {"pruned_heads": {0: [1, 3], 1: [0]}},
    "chunks of the feed-forward part": {"chunk_size_feed_forward": 2},
    "another activation": {"hidden_act": "gelu_new"},
}


@pytest.mark.parametrize("family", ["bert", "mpnet"])
@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_are_compiled(option: str, family: str) -> None:
    model = _model(family, "body", **OPTIONS[option])
    compiled = compile_model(model)
    assert compiled.kernel == "packed"
    inputs = _inputs(model, LENGTHS)
    with torch.inference_mode():
        output = compiled.model(**inputs, output_kernels=True)
        plain = model(**inputs).last_hidden_state
    assert set(output.kernels) == {"packed"}
    mask = inputs["attention_mask"]
    torch.testing.assert_close(output.last_hidden_state[mask], plain[mask], rtol=1e-5, atol=1e-5)
    assert not output.last_hidden_state[~mask].any()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("family", ["bert", "mpnet", "gpt2"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_sequences_and_many(dtype: torch.dtype, family: str) -> None:
    model = _model(family, "body", max_position_embeddings=80).to(dtype)
    compiled = compile_model(model).model
    inputs = _inputs(model, [64, 70, 33, 33, 64, 3] * 4)
    mask, tolerance = inputs["attention_mask"], 1e-5 if dtype is torch.float32 else 0.1
    with torch.inference_mode():
        plain, fast = (one(**inputs).last_hidden_state[mask] for one in (model, compiled))
    torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)


def _square(lengths: list[int]) -> torch.Tensor:
    rows = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return rows[:, None, :].expand(-1, max(lengths), -1)


LEFT_PADDED = torch.arange(9) >= 9 - torch.tensor(LENGTHS)[:, None]
NOT_COMPILED: dict[str, dict[str, Any]] = {
    "a head mask": {"head_mask": torch.tensor([1.0, 0.0, 1.0, 0.5])},
    "attention weights": {"output_attentions": True},
    "states between blocks": {"output_hidden_states": True},
    "a mask for each query": {"attention_mask": _square(LENGTHS)},
    "padding before the tokens": {"attention_mask": LEFT_PADDED},
}


def _ran_plain(model: Model, **inputs: Any) -> None:
    """Check that a call answers as the plain model does, and says so."""
    compiled = compile_model(model).model
    output, plain = compiled(**inputs, output_kernels=True), model(**inputs)
    assert "packed" not in output.kernels
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)


@pytest.mark.parametrize("option", NOT_COMPILED)
def test_what_is_not_compiled_runs_plain(option: str) -> None:
    model = _model("bert", "body")
    with torch.inference_mode():
        _ran_plain(model, **(_inputs(model, LENGTHS) | NOT_COMPILED[option]))


def test_a_call_that_needs_gradients_runs_plain() -> None:
    model = _model("bert", "body")
    _ran_plain(model, **_inputs(model, LENGTHS))


def test_a_model_with_hooks_runs_plain_and_they_are_called() -> None:
    model, calls = _model("bert", "body"), []
    compiled = compile_model(model).model
    part = model.get_submodule("encoder.layer.1.output.dense")
    hook = part.register_forward_hook(lambda *call: calls.append(call[0]))
    with torch.inference_mode():
        compiled(**_inputs(model, LENGTHS))
        assert calls == [part]
        hook.remove()
        compiled(**_inputs(model, LENGTHS))
    assert calls == [part]


@pytest.mark.parametrize(
    ("family", "options", "reason"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, "relative positions"),
        ("deberta", {"talking_head": True}, "heads that mix their scores"),
    ],
)
def test_models_without_a_compiled_form(family: str, options: dict[str, Any], reason: str) -> None:
    model = _model(family, "body", **options)
    compiled = compile_model(model)
    assert compiled.model is model
    assert compiled.kernel == "plain"
    assert reason in compiled.reason


def test_without_the_kernel_the_plain_model_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model("bert", "body")
    monkeypatch.setattr(kernels, "_wrong_with_packed", lambda dtype: "no such kernel")
    assert compile_model(model) == (model, "plain", "no such kernel")


def _rows_are_independent(dtype: torch.dtype) -> bool:
    """Return whether this machine's kernel computes a row the same alone and in a batch."""
    hidden, weight = (torch.randn(*shape).to(dtype) for shape in ((300, 40), (24, 40)))
    packed = PackedLinear(weight)
    together = packed(hidden)
    return all(not (packed(hidden[:rows]) - together[:rows]).any().item() for rows in (1, 2, 7, 50))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("family", ["bert", "mpnet"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_text_has_the_same_states_alone_and_in_a_batch(dtype: torch.dtype, family: str) -> None:
    if not _rows_are_independent(dtype):
        pytest.skip("this CPU's kernel computes a row otherwise among others")
    model = _model(family, "body", max_position_embeddings=80).to(dtype)
    compiled = compile_model(model).model
    lengths = [70, 64, 12, 1, 33, 12, 40]
    inputs = _inputs(model, lengths)
    with torch.inference_mode():
        together = compiled(**inputs).last_hidden_state
        for row, length in enumerate(lengths):
            alone = compiled(inputs["input_ids"][row : row + 1, :length]).last_hidden_state
            assert_same_bits(alone[0], together[row, :length], "rows apart")


def test_a_model_that_was_changed_runs_plain() -> None:
    model = _model("bert", "body")
    compiled = compile_model(model).model
    inputs = _inputs(model, LENGTHS)
    with torch.no_grad():
        model.get_submodule("encoder.layer.0.output.dense").weight.mul_(2)
    with torch.inference_mode():
        output, plain = compiled(**inputs, output_kernels=True), model(**inputs)
    assert "packed" not in output.kernels
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)
    model = _model("bert", "body")
    compiled = compile_model(model).model
    model.prune_heads({0: [1]})
    with torch.inference_mode():
        output, plain = compiled(**inputs, output_kernels=True), model(**inputs)
    assert "packed" not in output.kernels
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)


def test_a_model_with_another_layer_runs_plain() -> None:
    model = _model("bert", "body")
    compiled = compile_model(model).model
    inputs = _inputs(model, LENGTHS)
    intermediate: Any = model.get_submodule("encoder.layer.1.intermediate")
    torch.manual_seed(4)
    intermediate.dense = torch.nn.Linear(*reversed(intermediate.dense.weight.shape))
    with torch.inference_mode():
        output, plain = compiled(**inputs, output_kernels=True), model(**inputs)
    assert "packed" not in output.kernels
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)


class Doubled(torch.nn.Linear):
    """A linear layer with a forward pass of its own."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(hidden)


@pytest.mark.parametrize(
    "kind", [Doubled, lambda *sizes: torch.nn.Sequential(torch.nn.Linear(*sizes))]
)
@pytest.mark.parametrize("name", ["attention.self.query", "intermediate.dense", "output.dense"])
def test_a_layer_with_its_own_forward_is_not_compiled(name: str, kind: Any) -> None:
    model = _model("bert", "sequence")
    parent, _, last = f"bert.encoder.layer.1.{name}".rpartition(".")
    part = model.get_submodule(parent)
    rows, columns = getattr(part, last).weight.shape
    setattr(part, last, kind(columns, rows))
    compiled = compile_model(model)
    assert compiled.model is model
    assert compiled.kernel == "plain"
    assert f"layer.1.{name} (" in compiled.reason


def test_layers_with_hooks_are_not_compiled() -> None:
    model = _model("bert", "body")
    part = model.get_submodule("encoder.layer.1.output.dense")
    hook = part.register_forward_hook(lambda *call: None)
    assert compile_model(model).reason == (
        "layer.1.output.dense (Linear) has a forward or hooks of its own"
    )
    hook.remove()
    assert compile_model(model).kernel == "packed"


def test_a_model_in_another_number_format_runs_plain() -> None:
    model = _model("bert", "body")
    compiled = compile_model(model).model
    inputs = _inputs(model, LENGTHS)
    model.double()
    with torch.inference_mode():
        output, plain = compiled(**inputs, output_kernels=True), model(**inputs)
    assert "packed" not in output.kernels
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)


def test_few_numbers_of_rows_are_multiplied() -> None:
    counts = range(1, 2049)
    packings = [pack(None, 1, count) for count in counts]
    rows = [
        count if packing is None or packing.tokens is None else len(packing.tokens)
        for count, packing in zip(counts, packings, strict=True)
    ]
    assert [packing.num_tokens for packing in packings if packing] == [*counts]
    assert all(0 <= row - count <= count / 8 for row, count in zip(rows, counts, strict=True))
    assert max(row - count for row, count in zip(rows, counts, strict=True)) < 64
    assert len(set(rows)) == 80
