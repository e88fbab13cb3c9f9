"""DeBERTa where the reference has no counterpart, or where its classes do less."""

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.errors import UserError
from heedful.files import read_json, read_tensors, write_json, write_tensors
from heedful.layers.disentangled import Distances, disentangled_bias
from heedful.models import (
    FAMILIES,
    DebertaConfig,
    DebertaForMaskedLM,
    DebertaForPreTraining,
    DebertaForSequenceClassification,
    DebertaModel,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DebertaV2ForPreTraining,
    DebertaV2Model,
    load_model,
)
from heedful.models.pair import AddedEmbedding, GeneratorDiscriminatorPair

SIZES: dict[str, Any] = {
    **tiny.SIZES,
    **tiny.STILL,
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "initializer_range": 0.2,
}
IDS = torch.tensor([[2, 7, 8, 9, 10, 3], [2, 11, 12, 3, 0, 0]])
MASK = IDS.ne(0)


@pytest.mark.parametrize(
    ("reach", "most", "length"),
    [(256, 512, 600), (4, 5, 9), (4, 12, 20), (6, 30, 40), (2, 9, 12), (7, 20, 60), (32, 33, 40)],
)
def test_ranges_of_distances_are_those_of_the_reference(reach: int, most: int, length: int) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference")
    theirs = transformers.models.deberta_v2.modeling_deberta_v2
    apart = torch.arange(1 - length, length)
    ranges = theirs.make_log_bucket_position(apart, reach, most).long()
    expected = torch.clamp(ranges + reach, 0, 2 * reach - 1)
    assert Distances(reach, 8, max_distance=most - 1).rows(length).tolist() == expected.tolist()


@pytest.mark.parametrize("queries", [1, 3, 5])
@pytest.mark.parametrize("terms", ["both", "keys", "queries"])
def test_terms_are_those_of_the_definition(queries: int, terms: str) -> None:
    """He et al. 2021, equations 2 and 4, one pair of tokens at a time, for N of 6 and T of 5."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, queries, 4).double(), torch.randn(2, 3, 5, 4).double()
    keys, asks = (torch.randn(11, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    given = [keys if terms != "queries" else None, asks if terms != "keys" else None]
    expected = torch.zeros(2, 3, queries, 5, dtype=torch.float64)
    for i in range(queries):
        for j in range(5):
            if given[0] is not None:
                expected[:, :, i, j] += (query[:, :, i] * keys[i - j + 5]).sum(-1)
            if given[1] is not None:
                expected[:, :, i, j] += (key[:, :, j] * asks[i - j + 5]).sum(-1)
    expected = expected / 2  # the root of the width
    bias = disentangled_bias(query, key, *given)
    assert bias is not None
    torch.testing.assert_close(bias, expected)
    learnt = [each for each in given if each is not None]
    found = torch.autograd.grad(bias.sin().sum(), learnt)
    torch.testing.assert_close(found, torch.autograd.grad(expected.sin().sum(), learnt))


def _by_hand(model: DebertaForMaskedLM, asking: Tensor, hidden: Tensor) -> Tensor:
    """Compute the last block for one text, by plain attention with its weights."""
    body = model.deberta
    block, config = body.encoder.blocks[-1], model.config
    parts, length, width = block.attention.self, hidden.shape[1], hidden.shape[2]
    heads, head_width = config.num_attention_heads, width // config.num_attention_heads
    query, key, value = (
        layer(x)[0].view(-1, heads, head_width)
        for layer, x in ((parts.query, asking), (parts.key, hidden), (parts.value, hidden))
    )
    table = body.encoder.distances.vectors.weight
    far_key = parts.disentangled.key(table).view(-1, heads, head_width)
    far_query = parts.disentangled.query(table).view(-1, heads, head_width)
    mixed = torch.zeros(length, heads, head_width, dtype=hidden.dtype)
    for head in range(heads):
        scores = torch.zeros(length, length, dtype=hidden.dtype)
        for i in range(length):
            for j in range(length):
                row = i - j + config.max_position_embeddings
                q, k = query[i, head], key[j, head]
                scores[i, j] = q @ k + q @ far_key[row, head] + k @ far_query[row, head]
        mixed[:, head] = (scores / math.sqrt(3 * head_width)).softmax(-1) @ value[:, head]
    output = block.attention.output
    after = output.LayerNorm(output.dense(mixed.flatten(1)[None]) + asking)
    inner = block.output.dense(block.intermediate(after))
    normal: Tensor = block.output.LayerNorm(inner + after)
    return normal


def test_masked_words_are_decoded_as_in_the_paper() -> None:
    """Section 3.2: absolute positions come in right before the softmax, by two layers that share
    their weights; the output of the first is what the second asks with."""
    torch.manual_seed(0)
    model = DebertaForMaskedLM(DebertaConfig(**SIZES, enhanced_mask_decoder=True)).double().eval()
    ids = IDS[:1]
    output = model(ids, output_hidden_states=True)
    hidden = output.hidden_states[-2]
    positions = model.deberta.embeddings.position_embeddings.weight[: ids.shape[1]]
    first = _by_hand(model, hidden + positions, hidden)
    second = _by_hand(model, first, hidden)
    torch.testing.assert_close(output.hidden_states[-1], second)
    expected = model.cls.predictions(second, model.get_input_embeddings())
    torch.testing.assert_close(output.logits, expected)
    moved = model(ids, position_ids=torch.arange(6)[None] + 3).logits
    assert not torch.allclose(moved, output.logits)
    plain = DebertaForMaskedLM(DebertaConfig(**SIZES)).double().eval()
    assert plain.deberta.embeddings.position_embeddings is None


@pytest.mark.parametrize(
    "changes",
    [
        {"position_buckets": 256},  # more than there are distances
        {"conv_kernel_size": 5, "conv_act": "gelu", "conv_groups": 3},  # which sees padding
    ],
)
def test_what_the_reference_does_beside_padding(changes: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference")
    values, ids = {**SIZES, **changes}, IDS.masked_fill(~MASK, 5)
    theirs = transformers.DebertaV2Model(transformers.DebertaV2Config(**values)).eval()
    ours = DebertaV2Model(DebertaV2Config(**values)).eval()
    ours.set_file_weights(theirs.state_dict(), Path())
    torch.testing.assert_close(
        ours(ids, MASK).last_hidden_state[MASK],
        theirs(ids, MASK.long()).last_hidden_state[MASK],
    )


def test_only_a_model_of_masked_words_has_the_decoder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = DebertaConfig(**SIZES, enhanced_mask_decoder=True, legacy=False)
    model = DebertaForMaskedLM(config)
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    assert again.config == config
    assert_same_bits(again.state_dict(), model.state_dict(), "stored")
    fine = load_model(tmp_path, head="sequence")
    assert not fine.config.enhanced_mask_decoder
    assert fine.deberta.embeddings.position_embeddings is None


def test_an_encoder_recomputes_what_the_decoder_does() -> None:
    torch.manual_seed(0)
    model = DebertaForMaskedLM(DebertaConfig(**SIZES, enhanced_mask_decoder=True)).double().train()
    labels, gradients = IDS.masked_fill(~MASK, -100), []
    for recompute in (False, True):
        model.gradient_checkpointing = recompute
        model.zero_grad()
        model(IDS, MASK, labels=labels).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients)


def test_heads_that_talk_stay() -> None:
    model = DebertaModel(DebertaConfig(**SIZES, talking_head=True))
    with pytest.raises(UserError, match="attention heads that mix cannot be pruned"):
        model.prune_heads({0: [1]})


def test_published_folders_are_read(tmp_path: Path) -> None:
    """They hold position embeddings that are not read, and a head under the newer names."""
    torch.manual_seed(0)
    model = DebertaForMaskedLM(DebertaConfig(**SIZES, legacy=False)).eval()
    model.save_pretrained(tmp_path)
    config = read_json(tmp_path / "config.json")
    for key in ("legacy", "architectures", "enhanced_mask_decoder"):
        config.pop(key, None)
    write_json(tmp_path / "config.json", config | {"padding_idx": 0, "pooler_hidden_size": 24})
    weights = read_tensors(tmp_path / "model.safetensors")
    assert "lm_predictions.lm_head.dense.weight" in weights
    weights["deberta.embeddings.position_embeddings.weight"] = torch.randn(12, 24)
    write_tensors(tmp_path / "model.safetensors", weights)
    again = DebertaForMaskedLM.from_pretrained(tmp_path)
    assert again.config.legacy
    torch.testing.assert_close(again(IDS).logits, model(IDS).logits)


def test_a_norm_of_distances_where_there_are_none(tmp_path: Path) -> None:
    """The reference's files have one, which it does not use."""
    transformers = pytest.importorskip("transformers", reason="needs the reference")
    values = {**SIZES, "relative_attention": False, "norm_rel_ebd": "layer_norm"}
    theirs = transformers.DebertaV2Model(transformers.DebertaV2Config(**values)).eval()
    theirs.save_pretrained(tmp_path)
    assert "encoder.LayerNorm.weight" in read_tensors(tmp_path / "model.safetensors")
    ours = DebertaV2Model.from_pretrained(tmp_path)
    found, expected = ours(IDS, MASK), theirs(IDS, MASK)
    torch.testing.assert_close(found.last_hidden_state[MASK], expected.last_hidden_state[MASK])


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (DebertaConfig, {"pos_att_type": "c2p|p2p"}, "unknown pos_att_type 'p2p'"),
        (DebertaConfig, {"pos_att_type": "c2p|c2p"}, "names one term twice"),
        (DebertaConfig, {"is_decoder": True}, "deberta supports only False"),
        (
            DebertaConfig,
            {"enhanced_mask_decoder": True, "position_biased_input": True},
            "needs position_biased_input to be false",
        ),
        (DebertaConfig, {"talking_head": True, "pruned_heads": {0: [1]}}, "cannot be pruned"),
        (DebertaV2Config, {"talking_head": True}, "only the first version of DeBERTa has it"),
        (DebertaV2Config, {"conv_kernel_size": 2}, "it must be odd, or 0"),
        (DebertaV2Config, {"conv_groups": 7}, "is not a multiple of conv_groups 7"),
        (DebertaV2Config, {"position_buckets": 1}, "it must be at least 2, or -1"),
        (
            DebertaV2Config,
            {"position_buckets": 8, "max_relative_positions": 5},
            "with position_buckets 8 it must be at least 6",
        ),
        (DebertaV2Config, {"norm_rel_ebd": "norm"}, "unknown norm_rel_ebd 'norm'"),
    ],
)
def test_wrong_configurations(kind: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        kind(**SIZES | changes)


def test_sizes_that_follow_from_others_are_checked() -> None:
    for key in ("pooler_hidden_size", "attention_head_size"):
        with pytest.raises(UserError, match=f"config: {key} is 7; only"):
            DebertaV2Config.from_dict({**SIZES, key: 7}, where="config")
    narrow = DebertaConfig(**SIZES, embedding_size=16, legacy=False)
    with pytest.raises(UserError, match="embedding_size is 16 and hidden_size 24"):
        DebertaForMaskedLM(narrow)


@pytest.mark.parametrize(
    ("family", "name", "millions"),
    [
        # Without word vectors, as the published files of version 3 have them; and the whole base.
        ("deberta-v2", "xsmall", 22),
        ("deberta-v2", "small", 44),
        ("deberta-v2", "base", 86),
        ("deberta-v2", "large", 304),
        ("deberta", "base", 100),
    ],
)
def test_sizes_are_those_published(family: str, name: str, millions: float) -> None:
    config = FAMILIES[family].config_class()(**FAMILIES[family].presets()[name])
    with torch.device("meta"):
        model = FAMILIES[family].model_class("body")(config)
    words = model.get_input_embeddings().weight.numel()
    assert (model.num_parameters() - words) / 1e6 == pytest.approx(millions, rel=0.03)


def _pair(fresh: bool = True) -> GeneratorDiscriminatorPair:
    torch.manual_seed(0)
    config = DebertaV2Config(**SIZES, position_buckets=4, share_att_key=True, legacy=False)
    discriminator = DebertaV2ForPreTraining(config)
    return GeneratorDiscriminatorPair(
        discriminator, DebertaV2ForMaskedLM(config.generator(0.5)), fresh=fresh
    )


POSITIONS = {"positions": torch.tensor([1, 8]), "uniforms": torch.tensor([0.25, 0.75])}


def test_the_discriminator_sends_no_gradient_into_the_generator_s_table() -> None:
    """He et al. 2023, section 3.2: each loss reaches only its own tables."""
    pair = _pair()
    added, table = pair.get_input_embeddings(), pair.generator.get_input_embeddings().weight
    assert isinstance(added, AddedEmbedding)
    assert pair.generator.config.num_hidden_layers == 1
    torch.testing.assert_close(added(IDS), pair.generator.get_input_embeddings()(IDS))
    output = pair(IDS, MASK, **POSITIONS)
    output.logits.square().sum().backward(retain_graph=True)
    assert table.grad is None
    assert added.weight.grad is not None
    assert added.weight.grad[IDS[0]].any()
    added.weight.grad = None
    output.prediction_logits.square().sum().backward()
    assert table.grad is not None
    assert table.grad.any()
    assert added.weight.grad is None


def test_what_was_added_is_in_the_discriminator_s_folder(tmp_path: Path) -> None:
    pair = _pair().eval()
    added = pair.get_input_embeddings()
    assert isinstance(added, AddedEmbedding)
    torch.nn.init.normal_(added.weight)
    answers = pair(IDS, MASK).logits
    pair.save_pretrained(tmp_path)
    assert pair.get_input_embeddings() is added
    alone = load_model(tmp_path)
    assert type(alone) is DebertaV2ForPreTraining
    expected = pair.generator.get_input_embeddings().weight + added.weight
    torch.testing.assert_close(alone.get_input_embeddings().weight, expected)
    torch.testing.assert_close(alone(IDS, MASK).logits, answers)
    again = GeneratorDiscriminatorPair(alone, load_model(tmp_path / "generator"))
    torch.testing.assert_close(again.state_dict(), pair.state_dict())
    fresh = _pair()
    fresh.load_state_dict(pair.state_dict())
    assert_same_bits(fresh.state_dict(), pair.state_dict(), "stored")


def test_heads_take_what_another_has_learnt(tmp_path: Path) -> None:
    torch.manual_seed(0)
    DebertaForPreTraining(DebertaConfig(**SIZES)).save_pretrained(tmp_path)
    assert "mask_predictions.classifier.weight" in read_tensors(tmp_path / "model.safetensors")
    fine = load_model(tmp_path, head="sequence", num_labels=3)
    assert type(fine) is DebertaForSequenceClassification
    assert fine(IDS).logits.shape == (2, 3)


def test_a_reference_without_a_decoder_reads_the_folder(tmp_path: Path) -> None:
    transformers: ModuleType = pytest.importorskip("transformers", reason="needs the reference")
    torch.manual_seed(0)
    config = DebertaV2Config(**SIZES, enhanced_mask_decoder=True, position_buckets=4)
    DebertaV2ForMaskedLM(config).save_pretrained(tmp_path)
    theirs = transformers.DebertaV2Model.from_pretrained(tmp_path).eval()
    ours = DebertaV2Model.from_pretrained(tmp_path)
    torch.testing.assert_close(ours(IDS).last_hidden_state, theirs(IDS).last_hidden_state)
