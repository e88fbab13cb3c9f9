"""The Transformer equals the reference's Marian and Pegasus: values, gradients, folders, texts."""

from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from tests.parity.equal import assert_equal
from torch import Tensor, nn

from heedful.decoding.search import Search
from heedful.files import read_tensors
from heedful.models import Transformer, TransformerConfig
from heedful.models.transformer import names

B, E, S, V, PAD = 3, 7, 5, 50, 49
SIZES: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 32,
    "dropout": 0.0,
    "activation_function": "relu",
    "scale_embedding": True,
    "pad_token_id": PAD,
    "eos_token_id": 0,
    "decoder_start_token_id": PAD,
}
OPTIONS: dict[str, Any] = {
    "activation_function": "swish",
    "scale_embedding": False,
    "tie_word_embeddings": False,
    "share_encoder_decoder_embeddings": False,
    "normalize_before": True,
}
ALONE = [(), *((name,) for name in OPTIONS)]
PAIRS = [
    pair
    for pair in combinations(OPTIONS, 2)
    # The reference's pre-norm model always shares its embeddings.
    if set(pair) != {"normalize_before", "share_encoder_decoder_embeddings"}
]


def _models(reference: ModuleType, changed: tuple[str, ...] = ()) -> tuple[Transformer, Any]:
    values = SIZES | {name: OPTIONS[name] for name in changed}
    ours = Transformer(TransformerConfig(**values))
    kind = "Pegasus" if values.pop("normalize_before", False) else "Marian"
    config = getattr(reference, f"{kind}Config")(
        **values, forced_eos_token_id=None, attn_implementation="eager"
    )
    model = "MarianMTModel" if kind == "Marian" else "PegasusForConditionalGeneration"
    theirs = getattr(reference, model)(config)
    torch.manual_seed(0)
    for name, parameter in theirs.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, float("layer_norm.weight" in name), std=0.3)
    nn.init.normal_(theirs.final_logits_bias)
    weights = names.from_file(theirs.state_dict(), ours.state_dict(), ours.config, Path())
    ours.load_state_dict(weights)
    return ours.double().eval(), theirs.double().eval()


def _batch() -> dict[str, Tensor]:
    torch.manual_seed(1)
    return {
        "input_ids": torch.randint(PAD, (B, E)),
        "attention_mask": (torch.arange(E) < torch.tensor([[7], [4], [1]])).long(),
    }


def _labels() -> Tensor:
    labels = torch.randint(PAD, (B, S))
    return labels.masked_fill(torch.arange(S) >= torch.tensor([[5], [3], [2]]), -100)


@pytest.mark.parametrize("changed", [*ALONE, *PAIRS], ids="+".join)
def test_values_and_gradients(reference: ModuleType, changed: tuple[str, ...]) -> None:
    ours, theirs = _models(reference, changed)
    batch = _batch() | {"labels": _labels()}
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.loss, expected.loss)
    assert_equal(output.logits, expected.logits[batch["labels"] != -100])
    assert_equal(output.encoder_last_hidden_state, expected.encoder_last_hidden_state)
    output.loss.backward()
    expected.loss.backward()
    found = names.to_file(dict(ours.named_parameters()), ours.config)
    right = {name: x for name, x in theirs.named_parameters() if x.requires_grad}
    assert found.keys() == right.keys()
    for name, parameter in right.items():
        gradient, right_one = found[name].grad, parameter.grad
        assert gradient is not None
        if "shared" in name or "embed_tokens" in name:
            # Padding is never written, and what it looks like as a score not learnt.
            assert not gradient[PAD].any()
            right_one[PAD] = 0
        assert_equal(gradient, right_one)


@pytest.mark.parametrize("changed", [(), ("normalize_before",)], ids="+".join)
def test_attention_and_logits_of_all_tokens(
    reference: ModuleType, changed: tuple[str, ...]
) -> None:
    ours, theirs = _models(reference, changed)
    batch = _batch() | {"decoder_input_ids": torch.randint(PAD, (B, S))}
    output = ours(**batch, return_attentions=True)
    expected = theirs(**batch, output_attentions=True)
    assert_equal(output.logits, expected.logits)
    assert output.loss is output.positions is None
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        for found, right in zip(output[name], expected[name], strict=True):
            assert_equal(found, right)
    assert ours(**batch).cross_attentions is None


def test_alignments(reference: ModuleType) -> None:
    ours, theirs = _models(reference)
    labels = _labels()
    expected = theirs(**_batch(), labels=labels, output_attentions=True).cross_attentions[1].mean(1)
    assert_equal(ours.align(*_batch().values(), labels), expected)


@pytest.mark.parametrize(
    "changed",
    [(), ("tie_word_embeddings",), ("share_encoder_decoder_embeddings",), ("normalize_before",)],
    ids="+".join,
)
def test_folders_both_ways(reference: ModuleType, tmp_path: Path, changed: tuple[str, ...]) -> None:
    ours, theirs = (model.float() for model in _models(reference, changed))
    ours.save_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    written, given = (read_tensors(tmp_path / x / "model.safetensors") for x in ("ours", "theirs"))
    # Pegasus writes what can be computed, too.
    given = {name: tensor for name, tensor in given.items() if "embed_positions" not in name}
    assert_same_bits(written, given, "stored")
    batch = _batch() | {"decoder_input_ids": torch.randint(PAD, (B, S))}
    again = Transformer.from_pretrained(tmp_path / "theirs")
    assert again.config == ours.config
    assert_same_bits(again(**batch).logits, ours(**batch).logits, "stored")
    read = reference.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours").eval()
    assert type(read) is type(theirs)
    torch.testing.assert_close(read(**batch).logits, theirs(**batch).logits)


@pytest.mark.parametrize("changed", [(), ("normalize_before",)], ids="+".join)
def test_what_the_reference_caches_is_kept(
    reference: ModuleType, tmp_path: Path, changed: tuple[str, ...]
) -> None:
    _, theirs = _models(reference, changed)
    theirs.config.use_cache = False
    theirs.float().save_pretrained(tmp_path / "theirs")
    Transformer.from_pretrained(tmp_path / "theirs").save_pretrained(tmp_path / "ours")
    assert reference.AutoConfig.from_pretrained(tmp_path / "ours").use_cache is False


@pytest.mark.parametrize("num_beams", [1, 2, 5])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
# With tied words these weights say the same word again and again.
@pytest.mark.parametrize(
    "changed",
    [("tie_word_embeddings",), ("tie_word_embeddings", "normalize_before")],
    ids="+".join,
)
def test_what_is_written(
    reference: ModuleType, num_beams: int, length_penalty: float, changed: tuple[str, ...]
) -> None:
    ours, theirs = _models(reference, changed)
    for model in (ours, theirs):
        model.final_logits_bias[:, 0] += 5  # so that texts end
    options = {"num_beams": num_beams, "num_return_sequences": num_beams, "max_new_tokens": 12}
    given: dict[str, Any] = {}
    if num_beams > 1:
        given = {"length_penalty": length_penalty, "early_stopping": True}
    expected = theirs.generate(
        **_batch(),
        **options,
        **given,
        do_sample=False,
        bad_words_ids=[[PAD]],
        return_dict_in_generate=True,
        output_scores=True,
    )
    search = Search(eos_token_id=0, length_penalty=length_penalty, **options)
    found = [text for texts in ours.generate(**_batch(), search=search) for text in texts]
    assert len({text.tokens for text in found}) > num_beams
    assert any(text.ended for text in found)
    for text, row in zip(found, expected.sequences.tolist(), strict=True):
        right = row[1 : row.index(0)] if 0 in row else row[1:]  # what follows is padding
        assert list(text.tokens) == right
        assert text.ended == (0 in row)
    if num_beams > 1:
        scores = torch.tensor([text.score for text in found], dtype=torch.float64)
        torch.testing.assert_close(scores, expected.sequences_scores.double(), rtol=1e-5, atol=1e-5)
