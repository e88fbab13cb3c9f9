"""A compiled decoder generates the same texts as the plain form, for prompts of mixed lengths."""

from typing import Any

import pytest
import torch
from tests.alike import tokens_of
from tests.compiled.test_linear import DTYPES
from torch import Tensor, nn

from heedful.compiled.model import compile_model
from heedful.decoding.search import Hypothesis, Search
from heedful.models import FAMILIES
from heedful.models.decoders import EncoderOutput
from heedful.models.generation import generate
from heedful.models.model import Model
from heedful.models.with_head import language_head

SIZES = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
GPT2 = {"vocab_size": 50, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 40}
FAMILY_SIZES: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "bert": {**SIZES, "intermediate_size": 40, "max_position_embeddings": 40, "is_decoder": True},
    "roberta": {
        **SIZES,
        "intermediate_size": 40,
        "max_position_embeddings": 42,
        "is_decoder": True,
    },
}
PROMPTS = [[2], [2, 7, 9, 4], [2, 5], [2, 8, 30, 6], [11, 12, 13, 14, 15, 16, 17]]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5},
    "samples": {"do_sample": True, "num_return_sequences": 2, "top_k": 20, "seed": 3},
}


def _model(family: str, **options: Any) -> Any:
    config = FAMILIES[family].config_class()(**FAMILY_SIZES[family] | options)
    model = FAMILIES[family].model_class("causal_lm").from_config(config).eval()
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def _prompts() -> tuple[Tensor, Tensor]:
    ids = nn.utils.rnn.pad_sequence([torch.tensor(prompt) for prompt in PROMPTS], batch_first=True)
    return ids, torch.arange(ids.shape[1]) < torch.tensor([[len(row)] for row in PROMPTS])


def assert_same_texts(fast: list[list[Hypothesis]], plain: list[list[Hypothesis]]) -> None:
    """Check texts, except where rounding could have decided."""
    pairs = [
        (mine, its)
        for mine, its in zip(fast, plain, strict=True)
        if min(text.margin for text in its) > 1e-4
    ]
    assert len(pairs) > 1
    found, right = ([side[at] for side in pairs] for at in (0, 1))
    assert tokens_of(found) == tokens_of(right)
    for mine, its in pairs:
        for text, other in zip(mine, its, strict=True):
            assert text.score == pytest.approx(other.score, rel=1e-4)


def _compiled(model: Model) -> Any:
    twin, kernel, reason = compile_model(model)
    if kernel == "plain":
        pytest.skip(reason)
    return twin


@pytest.mark.parametrize("family", FAMILY_SIZES)
@pytest.mark.parametrize("search", SEARCHES)
def test_it_writes_what_the_readable_form_writes(family: str, search: str) -> None:
    model = _model(family)
    twin = _compiled(model)
    assert twin.compiled_steps.is_current
    options = Search(eos_token_id=3, max_new_tokens=20, **SEARCHES[search])
    ids, mask = _prompts()
    plain, fast = (one.generate(ids, mask, search=options) for one in (model, twin))
    assert_same_texts(fast, plain)
    for prompt, texts in zip(PROMPTS, fast, strict=True):
        if search != "samples":
            (alone,) = twin.generate(torch.tensor([prompt]), search=options)
            assert tokens_of([alone]) == tokens_of([texts])


@pytest.mark.parametrize(
    "options",
    [
        {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
        {"pruned_heads": {0: [1, 3], 1: [0]}},
        {"tie_word_embeddings": False, "n_inner": 40, "activation_function": "relu"},
        {"add_cross_attention": True},
    ],
)
def test_options_of_gpt2(options: dict[str, Any]) -> None:
    model = _model("gpt2", **options)
    search = Search(eos_token_id=3, max_new_tokens=20, num_beams=2)
    ids, mask = _prompts()
    plain, fast = (one.generate(ids, mask, search=search) for one in (model, _compiled(model)))
    assert_same_texts(fast, plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_of_each_step(dtype: torch.dtype) -> None:
    model = _model("gpt2").to(dtype)
    steps = _compiled(model).compiled_steps
    ids, mask = _prompts()
    lengths = mask.sum(1)
    tolerance = 1e-4 if dtype is torch.float32 else 0.2
    with torch.inference_mode():
        state = steps.start(ids, lengths)
        last = ids.gather(1, lengths[:, None] - 1).squeeze(1)
        written = [list(prompt) for prompt in PROMPTS]
        for _ in range(18):  # over more than one piece of room
            logits, state = steps.step(last, state)
            for row, text in zip(logits.float(), written, strict=True):
                plain = model(torch.tensor([text])).logits[0, -1].float()
                torch.testing.assert_close(row, plain, rtol=tolerance, atol=10 * tolerance)
            last = logits.argmax(-1)
            for text, token in zip(written, last.tolist(), strict=True):
                text.append(token)


def test_a_changed_model_writes_as_it_is_now() -> None:
    model = _model("gpt2")
    twin = _compiled(model)
    ids, mask = _prompts()
    search = Search(eos_token_id=3, max_new_tokens=10)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(-1.5)
    assert not twin.compiled_steps.is_current
    assert_same_texts(
        twin.generate(ids, mask, search=search), model.generate(ids, mask, search=search)
    )
    model = _model("gpt2")
    twin = _compiled(model)
    with torch.no_grad():
        model.body.encoder.blocks[0].output.dense.weight.mul_(2)
    assert not twin.compiled_steps.is_current


def test_a_changed_bias_of_the_scores_counts() -> None:
    model = _model("bert", is_decoder=True)
    twin = _compiled(model)
    ids, mask = _prompts()
    search = Search(eos_token_id=3, max_new_tokens=10)
    head = language_head(model)
    assert head is not None
    assert head.bias is not None
    with torch.no_grad():
        head.bias[7] += 100
    assert not twin.compiled_steps.is_current
    texts = twin.generate(ids, mask, search=search)
    assert {token for item in texts for token in item[0].tokens} == {7}


def test_with_an_encoder_the_readable_form_writes() -> None:
    model = _model("gpt2", add_cross_attention=True)
    twin = _compiled(model)
    ids, mask = _prompts()
    torch.manual_seed(2)
    encoded = EncoderOutput(hidden=torch.randn(len(PROMPTS), 3, 24), mask=None)
    search = Search(eos_token_id=3, max_new_tokens=10)
    plain, fast = (generate(one, ids, mask, search, encoded) for one in (model, twin))
    assert_same_texts(fast, plain)
