"""A compiled decoder takes the same search steps as the plain form."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.compiled.test_linear import DTYPES
from torch import Tensor, nn

from heedful.compiled.model import compile_model
from heedful.decoding.search import Hypothesis, Search
from heedful.models import Transformer, TransformerConfig

V, PAD, LENGTHS = 90, 89, [6, 4, 1, 5, 6]
SIZES: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
SEPARATE = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 70, "pad_token_id": 69}
PRUNED = {
    "pruned_heads": {0: [1]},
    "decoder_pruned_heads": {1: [0, 2]},
    "cross_attn_pruned_heads": {0: [3], 2: [0, 1, 2]},
}
MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"normalize_before": True, "activation_function": "gelu"},
    "separate vocabularies": SEPARATE,
    "untied": {"tie_word_embeddings": False, "scale_embedding": False},
    "pruned": PRUNED,
    "pruned pre-norm": {"normalize_before": True, **PRUNED},
}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 5, "num_return_sequences": 3},
    "penalties": {"num_beams": 3, "coverage_penalty": 0.4, "length_penalty": 0.3},
    "repetition": {"num_beams": 4, "no_repeat_ngram": 2, "repetition_penalty": 1.3},
    "samples": {"do_sample": True, "num_return_sequences": 3, "top_p": 0.9, "seed": 4},
}


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def _model(**changed: Any) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**{**SIZES, "pad_token_id": PAD, **changed}))
    for name, parameter in model.named_parameters():
        gain = name.endswith(("LayerNorm.weight", "layer_norm.weight"))
        nn.init.normal_(parameter, float(gain), std=0.2)
    nn.init.normal_(model.final_logits_bias, std=0.5)
    return model.eval()


def _batch(model: Transformer, lengths: list[int] = LENGTHS) -> tuple[Tensor, Tensor | None]:
    torch.manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(1, 60, mask.shape).masked_fill(~mask, model.config.pad_token_id)
    return ids, None if mask.all() else mask


def _write(model: Any, batch: tuple[Tensor, Tensor | None], **options: Any) -> list[Any]:
    prefixes = options.pop("prefixes", None)
    search = Search(eos_token_id=0, max_new_tokens=10, **options)
    texts: list[list[Hypothesis]] = model.generate(*batch, search=search, prefixes=prefixes)
    return texts


def _assert_alike(ours: list[list[Hypothesis]], plain: list[list[Hypothesis]]) -> None:
    assert [[text.tokens for text in item] for item in ours] == [
        [text.tokens for text in item] for item in plain
    ]
    scores = [[text.score for item in texts for text in item] for texts in (ours, plain)]
    torch.testing.assert_close(*map(torch.tensor, scores), rtol=0, atol=1e-5)


@pytest.mark.parametrize("changed", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_texts_and_scores(changed: dict[str, Any], search: dict[str, Any]) -> None:
    model = _model(**changed)
    compiled = compile_model(model)
    assert compiled.kernel == "packed"
    batch = _batch(model)
    _assert_alike(_write(compiled.model, batch, **search), _write(model, batch, **search))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("lengths", [LENGTHS, [4, 4], [1]], ids=str)
@pytest.mark.parametrize("beams", [1, 4])
def test_threads_and_lengths(lengths: list[int], beams: int) -> None:
    model = _model()
    batch = _batch(model, lengths)
    texts = _write(compile_model(model).model, batch, num_beams=beams)
    _assert_alike(texts, _write(model, batch, num_beams=beams))


def test_prefixes() -> None:
    model = _model()
    prefixes = [[], [7], [8, 9, 10], [11], []]
    options: dict[str, Any] = {"num_beams": 3, "prefixes": prefixes}
    texts = _write(compile_model(model).model, _batch(model), **options)
    _assert_alike(texts, _write(model, _batch(model), **options))
    assert all(
        item[0].tokens[: len(start)] == tuple(start)
        for item, start in zip(texts, prefixes, strict=True)
    )


def _scaled(model: Transformer) -> None:
    with torch.no_grad():
        model.decoder.blocks[1].output.dense.weight.mul_(-3)


def _replaced(model: Transformer) -> None:
    cross: Any = model.decoder.blocks[0].crossattention.self
    cross.value = torch.nn.Linear(*reversed(cross.value.weight.shape))


def _biased(model: Transformer) -> None:
    model.final_logits_bias[0, 9] = 100.0


@pytest.mark.parametrize("change", [_scaled, _replaced, _biased])
def test_a_changed_model_writes_as_it_is_now(change: Callable[[Transformer], None]) -> None:
    model = _model()
    twin, batch = compile_model(model).model, _batch(model)
    before = _write(twin, batch, num_beams=2)
    torch.manual_seed(5)
    change(model)
    after = _write(twin, batch, num_beams=2)
    _assert_alike(after, _write(model, batch, num_beams=2))
    assert [item[0].tokens for item in before] != [item[0].tokens for item in after]


@pytest.mark.parametrize("beams", [1, 4])
def test_neighbours_change_nothing(beams: int) -> None:
    model = _model()
    compiled: Any = compile_model(model).model
    ids, _ = _batch(model)
    texts = _write(compiled, _batch(model), num_beams=beams)
    for row, length in enumerate(LENGTHS):
        alone = _write(compiled, (ids[row : row + 1, :length], None), num_beams=beams)
        _assert_alike(alone, [texts[row]])


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("changed", [{}, PRUNED | {"normalize_before": True}], ids=["", "pruned"])
def test_any_course_of_a_search(changed: dict[str, Any], dtype: torch.dtype) -> None:
    """Hypotheses continue at random, several times or not at all, and items finish."""
    model = _model(**changed).to(dtype)
    compiled: Any = compile_model(model).model
    ids, attention_mask = _batch(model)
    assert attention_mask is not None
    tolerance = 1e-4 if dtype is torch.float32 else 0.15
    with torch.inference_mode():
        encoded = model.encode(ids, attention_mask)
        mask = attention_mask[:, None, None]
        takers = (model, compiled.compiled_steps)
        states = [taker.start(encoded, mask, cover=True) for taker in takers]
        tokens = torch.full((len(ids),), model.config.decoder_start_token_id)
        for _ in range(18):
            (plain, ours), states = zip(
                *(taker.step(tokens, state) for taker, state in zip(takers, states, strict=True)),
                strict=True,
            )
            error = (ours.float() - plain.float()).abs().max() / plain.float().abs().max()
            assert error < tolerance
            assert (states[1].coverage - states[0].coverage).abs().max() < tolerance
            rows = torch.randint(len(tokens), (min(12, 2 * len(tokens)),)).sort().values
            states = tuple(state.select(rows) for state in states)
            tokens = torch.randint(1, 60, (len(rows),))


def test_scores_of_known_texts_and_alignments() -> None:
    model = _model()
    compiled: Any = compile_model(model).model
    ids, mask = _batch(model)
    labels = torch.randint(1, 60, (len(ids), 5))
    with torch.inference_mode():
        for one, other in (
            (compiled(ids, mask, labels=labels).logits, model(ids, mask, labels=labels).logits),
            (compiled.align(ids, mask, labels), model.align(ids, mask, labels)),
        ):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_the_model_itself_stays_plain() -> None:
    model = _model()
    parts = dict(model.named_modules())
    twin: Any = compile_model(model).model
    assert model.compiled_steps is None
    assert twin.compiled_steps is not None
    assert twin is not model
    assert dict(model.named_modules()) == parts
    assert twin.config is model.config


def test_a_layer_with_its_own_forward_is_not_compiled() -> None:
    class Adapter(nn.Linear):
        pass

    model = _model().eval()
    model.decoder.layer[2].crossattention.self.value = Adapter(32, 32)
    compiled = compile_model(model)
    assert compiled.model is model
    assert compiled.reason.startswith("layer.2.crossattention.self.value (Adapter) has a forward")
