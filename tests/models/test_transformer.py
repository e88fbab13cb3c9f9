"""The Transformer alone: refusals, tree search, narrow weights, folders."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor, nn

from heedful.decoding.search import Hypothesis, Search
from heedful.errors import UserError
from heedful.files import read_json, read_tensors, write_json, write_tensors
from heedful.layers.positions import sinusoids
from heedful.models import Transformer, TransformerConfig
from heedful.models.transformer import names
from heedful.models.transformer.presets import PRESETS
from heedful.training.gradients import NarrowWeights, TableGradients

B, E, S, V, PAD = 4, 6, 5, 30, 29
SIZES: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 16,
    "tie_word_embeddings": False,
}


def _model(**changed: Any) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**{**SIZES, **changed}))
    for name, parameter in model.named_parameters():
        gain = name.endswith(("LayerNorm.weight", "layer_norm.weight"))
        nn.init.normal_(parameter, float(gain), std=0.4)
    return model.double().eval()


def _batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    mask = torch.arange(E) < torch.tensor([[6], [4], [1], [5]])
    return torch.randint(1, PAD, (B, E)).masked_fill(~mask, PAD), mask


def _labels() -> Tensor:
    labels = torch.randint(1, PAD, (B, S))
    return labels.masked_fill(torch.arange(S) >= torch.tensor([[5], [3], [2], [4]]), -100)


def test_base_is_as_large_as_published() -> None:
    with torch.device("meta"):
        base, big = (
            Transformer(TransformerConfig(vocab_size=37000, **sizes)).num_parameters()
            for sizes in (PRESETS["base"], PRESETS["big"])
        )
    assert base == 63_082_496  # 65 million in Vaswani et al. 2017, table 3
    assert big / 1e6 == pytest.approx(213, rel=0.02)


def test_fresh_weights() -> None:
    model = Transformer(TransformerConfig(vocab_size=500, **PRESETS["tiny"]))
    table = model.embeddings.weight.detach()
    assert not table[499].any()
    assert table[:499].norm(dim=1).mean() == pytest.approx(1, rel=0.05)
    wide = model.encoder.blocks[0].intermediate.dense.weight
    assert wide.abs().max() <= (6 / (128 + 512)) ** 0.5


@pytest.mark.parametrize("training", [True, False])
def test_the_loss_is_a_mean_or_a_sum(training: bool) -> None:
    model = _model(label_smoothing=0.2, dropout=0.0).train(training)
    ids, mask = _batch()
    labels = _labels()
    mean = model(ids, mask, labels=labels).loss
    total = model(ids, mask, labels=labels, reduction="sum").loss
    torch.testing.assert_close(total, mean * (labels != -100).sum())
    with pytest.raises(UserError, match=r"unknown reduction 'summ' \(did you mean 'sum'\?\)"):
        model(ids, mask, labels=labels, reduction="summ")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"d_model": 0}, "d_model is 0; it must be an integer of at least 1"),
        ({"d_model": 18}, "d_model 18 is not a multiple of decoder_attention_heads 4"),
        (
            {"d_model": 3, "encoder_attention_heads": 1, "decoder_attention_heads": 1},
            "d_model is 3; it must be even",
        ),
        ({"dropout": 1.0}, "dropout is 1.0; it must be a number of at least 0 and below 1"),
        ({"label_smoothing": -0.1}, "label_smoothing is -0.1"),
        ({"normalize_before": 1}, "normalize_before is 1; it must be true or false"),
        ({"activation_function": "rely"}, "relu"),
        ({"pad_token_id": 30}, "pad_token_id is 30; it must be an integer of at least 0 and below"),
        ({"pad_token_id": 0}, "pad_token_id and eos_token_id are both 0"),
        ({"chunk_size_feed_forward": -1}, "chunk_size_feed_forward is -1; it must be an integer"),
        ({"pruned_heads": {2: [0]}}, "pruned_heads names block 2; there are 0 to 1"),
        ({"decoder_pruned_heads": {0: [4]}}, "decoder_pruned_heads of block 0 are .4.*0 to 3"),
        ({"cross_attn_pruned_heads": {1: [0, 1, 2, 3]}}, "cross_attn_.* leaves no head in block 1"),
        ({"decoder_vocab_size": 20}, "with share_encoder_decoder_embeddings they must be the same"),
    ],
)
def test_what_a_configuration_refuses(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        TransformerConfig(**{**SIZES, **changed})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_type": "bart"}, "model_type is 'bart'; expected 'marian' or 'pegasus'"),
        ({"normalize_before": True}, "normalize_before is True; only False is supported"),
        ({"static_position_embeddings": False}, "static_position_embeddings is False"),
        ({"encoder_layer": 3}, "unknown key 'encoder_layer'.*encoder_layers"),
        ({"d_model": "16"}, "config.json: d_model is '16'"),
    ],
)
def test_what_a_config_file_may_not_say(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    _model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    write_json(path, {**read_json(path), **changed})
    with pytest.raises(UserError, match=said):
        Transformer.from_pretrained(tmp_path)


def test_config_of_a_published_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    # Keys and values like those of the OPUS-MT models.
    published = {
        **{name: SIZES[name] for name in SIZES if name != "tie_word_embeddings"},
        **{"_name_or_path": "/tmp/x", "_num_labels": 3, "activation_function": "swish"},
        **{"add_bias_logits": False, "add_final_layer_norm": False, "model_type": "marian"},
        **{"architectures": ["MarianMTModel"], "bad_words_ids": [[29]], "bos_token_id": 0},
        **{"classif_dropout": 0.0, "classifier_dropout": 0.0, "decoder_layerdrop": 0.0},
        **{"decoder_start_token_id": 29, "eos_token_id": 0, "extra_pos_embeddings": 30},
        **{"force_bos_token_to_be_generated": False, "forced_eos_token_id": 0},
        **{"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "init_std": 0.02},
        **{"is_encoder_decoder": True, "max_length": 512, "normalize_before": False},
        **{"normalize_embedding": False, "num_beams": 4, "num_hidden_layers": 6},
        **{"pad_token_id": 29, "scale_embedding": True, "static_position_embeddings": True},
        **{"transformers_version": "4.22.0", "use_cache": True, "dtype": "float16"},
        "share_encoder_decoder_embeddings": True,
    }
    write_json(path, published)
    config = TransformerConfig.read(path)
    assert config.tie_word_embeddings
    assert (config.decoder_vocab_size, config.pad_token_id) == (V, PAD)
    assert config.activation_function == "swish"
    assert TransformerConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("shared", [False, True])
def test_each_weight_has_one_name_in_a_file(shared: bool) -> None:
    model = _model(normalize_before=True, share_encoder_decoder_embeddings=shared)
    weights = model.state_dict()
    written = names.to_file(weights, model.config)
    assert len(written) == len(weights)
    read = names.from_file(written, weights, model.config, Path())
    assert read.keys() == weights.keys()
    assert all(read[name] is weights[name] for name in weights)
    for name in (
        "model.shared.weight" if shared else "model.decoder.embed_tokens.weight",
        "model.encoder.layers.1.self_attn.out_proj.bias",
        "model.decoder.layers.0.encoder_attn_layer_norm.weight",
        "model.decoder.layer_norm.bias",
    ):
        assert name in written


def test_weights_under_any_of_their_names(tmp_path: Path) -> None:
    model = _model(tie_word_embeddings=True).float()
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    written = read_tensors(path)
    right = model(*_batch(), labels=_labels()).logits
    table = written.pop("model.shared.weight")
    positions = {
        f"model.{part}.embed_positions.weight": sinusoids(torch.arange(16), 16)
        for part in ("encoder", "decoder")
    }
    del written["final_logits_bias"]
    for aliases in (["lm_head.weight"], ["model.decoder.embed_tokens.weight", "lm_head.weight"]):
        tables = {name: table.clone() for name in aliases}
        write_tensors(path, {**written, **tables, **positions})
        again = Transformer.from_pretrained(tmp_path)
        assert_same_bits(again(*_batch(), labels=_labels()).logits, right, "stored")


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("model.encoder.embed_tokens.weight", torch.ones(V, 16), "must be the same; they differ"),
        ("model.encoder.embed_positions.weight", torch.ones(16, 16), "holds no sinusoids"),
        (
            "model.encoder.layer_norm.weight",
            torch.ones(16),
            "unexpected weights: model.encoder.layer_n",
        ),
        ("model.shared.weight", torch.ones(V + 1, 16), r"shape \(31, 16\); the model expects"),
        ("model.shared.weight", torch.ones(V, 16, dtype=torch.int32), "weights are floating point"),
        ("model.shared.weight", None, "weights are missing: model.shared.weight"),
    ],
)
def test_wrong_weights(tmp_path: Path, name: str, tensor: Tensor | None, said: str) -> None:
    _model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = read_tensors(path)
    weights.pop(name, None)
    write_tensors(path, weights if tensor is None else {**weights, name: tensor})
    with pytest.raises(UserError, match=said):
        Transformer.from_pretrained(tmp_path)


def test_options_in_the_place_of_the_folder_s(tmp_path: Path) -> None:
    _model().save_pretrained(tmp_path)
    model = Transformer.from_pretrained(tmp_path, dropout=0.4, chunk_size_feed_forward=2)
    expected = replace(TransformerConfig(**SIZES), dropout=0.4, chunk_size_feed_forward=2)
    assert model.config == expected
    assert model.encoder.blocks[1].chunk == model.decoder.blocks[1].chunk == 2
    assert not model.training


@pytest.mark.parametrize("changed", [{}, {"normalize_before": True}])
def test_padding_changes_nothing(changed: dict[str, Any]) -> None:
    model = _model(**changed)
    (ids, mask), labels = _batch(), _labels()
    together = model(ids, mask, labels=labels)
    start = 0
    for row in range(B):
        count, length = int((labels[row] != -100).sum()), int(mask[row].sum())
        alone = model(ids[row : row + 1, :length], labels=labels[row : row + 1, :count])
        found = together.logits[start : start + count]
        torch.testing.assert_close(found, alone.logits, rtol=1e-10, atol=1e-10)
        start += count
    assert together.positions.tolist() == (labels.flatten() != -100).nonzero().flatten().tolist()


def test_labels_are_smoothed_in_training_alone() -> None:
    model = _model(label_smoothing=0.2, dropout=0.0)
    labels = _labels()
    chosen = labels[labels != -100]
    output = model(*_batch(), labels=labels)
    right = nn.functional.cross_entropy(output.logits, chosen)
    torch.testing.assert_close(output.loss, right)
    output = model.train()(*_batch(), labels=labels)
    right = nn.functional.cross_entropy(output.logits, chosen, label_smoothing=0.2)
    torch.testing.assert_close(output.loss, right)


@torch.no_grad()
def _log_probability(model: Transformer, source: Tensor, text: Hypothesis) -> float:
    """Return the log-probability of a text, computed without a cache and alone."""
    labels = torch.tensor([[*text.tokens, *([0] if text.ended else [])]])
    logits = model(source[None], labels=labels).logits
    return float(logits.log_softmax(-1).gather(1, labels.T).sum())


@pytest.mark.parametrize("changed", [{}, {"normalize_before": True}])
@pytest.mark.parametrize(
    "search",
    [
        Search(eos_token_id=0, num_beams=1, max_new_tokens=12),
        Search(eos_token_id=0, num_beams=4, num_return_sequences=4, max_new_tokens=12),
        Search(eos_token_id=0, do_sample=True, num_return_sequences=5, max_new_tokens=12),
    ],
    ids=["greedy", "beam", "samples"],
)
def test_a_search_computes_what_the_whole_text_does(
    changed: dict[str, Any], search: Search
) -> None:
    model = _model(**changed)
    model.final_logits_bias[:, 0] = 4.0  # so that texts end, at different times
    lengths = torch.randint(1, E + 1, (20, 1))
    ids, mask = torch.randint(1, PAD, (20, E)), torch.arange(E) < lengths
    found = model.generate(ids, mask, search=search)
    for row, texts in enumerate(found):
        for text in texts:
            right = _log_probability(model, ids[row, : lengths[row, 0]], text)
            assert text.log_probability == pytest.approx(right, rel=1e-9)
            assert PAD not in text.tokens
    assert {text.ended for texts in found for text in texts} == {True, False}
    assert len({len(text.tokens) for texts in found for text in texts}) > 1


def test_coverage_adds_up_what_was_attended_to() -> None:
    model = _model()
    ids, mask = _batch()
    plain = Search(eos_token_id=0, num_beams=3, max_new_tokens=6, length_penalty=0)
    penalised = replace(plain, coverage_penalty=0.5)
    for row, (text, *_) in enumerate(model.generate(ids, mask, search=penalised)):
        words = torch.tensor([[*text.tokens, *([0] if text.ended else [])]])
        attended = model.align(ids[row : row + 1], mask[row : row + 1], words)[0].sum(0)
        penalty = 0.5 * attended[mask[row]].clamp(max=1).log().sum()
        assert text.score == pytest.approx(text.log_probability + float(penalty), rel=1e-6)


def test_prefixes() -> None:
    prefixes = [[5, 6], [], [7], [8, 8, 8]]
    search = Search(eos_token_id=0, num_beams=3, max_new_tokens=8)
    found = _model().generate(*_batch(), search=search, prefixes=prefixes)
    for prefix, (text, *_) in zip(prefixes, found, strict=True):
        assert list(text.tokens[: len(prefix)]) == prefix


def test_each_target_word_attends_to_the_source_alone() -> None:
    ids, mask = _batch()
    links = _model().align(ids, mask, _labels())
    assert links.shape == (B, S, E)
    torch.testing.assert_close(links.sum(-1), torch.ones(B, S, dtype=torch.float64))
    assert not links.transpose(1, 2)[~mask].any()


@pytest.mark.parametrize("changed", [{}, {"tie_word_embeddings": True}])
def test_narrow_weights_give_near_gradients(changed: dict[str, Any]) -> None:
    model = _model(dropout=0.0, **changed).float().train()
    for parameter in model.parameters():
        parameter.data *= 0.25
    (ids, mask), labels = _batch(), _labels()
    model(ids, mask, labels=labels).loss.backward()
    right = {name: x.grad for name, x in model.named_parameters()}
    model.zero_grad()
    narrow = NarrowWeights(model, torch.bfloat16)
    narrow.renew()
    output: Any = narrow.forward(input_ids=ids, attention_mask=mask, labels=labels)
    assert output.logits.dtype == torch.bfloat16
    output.loss.backward()
    narrow.collect()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32
        error = (parameter.grad - right[name]).norm() / (right[name].norm() + 1e-3)  # type: ignore[union-attr, operator]
        assert error < 0.1, name


def test_sparse_gradients_of_a_table_that_also_scores() -> None:
    config = TransformerConfig(**{**SIZES, "vocab_size": 5000, "tie_word_embeddings": True})
    torch.manual_seed(0)
    model = Transformer(config).eval()
    model(*_batch(), labels=_labels()).loss.backward()
    table = model.embeddings
    assert table.weight.grad is not None
    right = table.weight.grad
    model.zero_grad()
    with TableGradients(model).sparse():
        model(*_batch(), labels=_labels()).loss.backward()
    torch.testing.assert_close(table.weight.grad, right)


def test_half_precision_writes() -> None:
    model = _model().bfloat16()
    search = Search(eos_token_id=0, num_beams=2, max_new_tokens=5)
    assert len(model.generate(*_batch(), search=search)) == B


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"input_ids": torch.zeros(3, dtype=torch.long)},
            r"shape \(3,\); it must be \(batch, length",
        ),
        ({"input_ids": torch.full((B, E), 30)}, "input_ids holds 30; the model knows 0 to 29"),
        ({"input_ids": torch.ones(B, 17, dtype=torch.long)}, "17 tokens; the model takes 1 to 16"),
        ({"attention_mask": torch.ones(B, 5)}, "attention_mask has shape"),
        ({"labels": None}, "give decoder_input_ids or labels"),
        ({"labels": torch.full((B, S), 30)}, "decoder_input_ids holds 30|labels hold 30"),
        ({"labels": torch.full((B, 17), 3)}, "labels has 17 tokens; the model takes 1 to 16"),
        ({"decoder_input_ids": torch.ones(B, 2, dtype=torch.long)}, "labels have shape"),
        (
            {"head_mask": torch.ones(4)},
            r"^head_mask has shape \(4,\); it must be \(2,\) or \(2, 2\)",
        ),
        ({"decoder_head_mask": torch.ones(2)}, r"^decoder_head_mask has .* \(4,\) or \(2, 4\)"),
        ({"cross_attn_head_mask": torch.ones(3, 4)}, r"^cross_attn_head_mask has .* \(2, 4\)"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], said: str) -> None:
    ids, mask = _batch()
    right = {"input_ids": ids, "attention_mask": mask, "labels": _labels()}
    with pytest.raises(UserError, match=said):
        _model()(**{**right, **given})


def test_a_text_longer_than_the_model() -> None:
    with pytest.raises(UserError, match="max_new_tokens is 17; the model generates at most 16"):
        _model().generate(*_batch(), search=Search(eos_token_id=0, max_new_tokens=17))


def test_the_references_call_of_generate() -> None:
    model: Any = _model()
    with pytest.raises(UserError, match=r"^give search=heedful\.Search\(eos_token_id"):
        model.generate(*_batch(), num_beams=2)
    with pytest.raises(UserError, match=r"generate has no argument 'prefix' .*'prefixes'"):
        model.generate(*_batch(), search=Search(eos_token_id=0), prefix=[[3]])


PRUNED: dict[str, Any] = {
    "heads": {1: [0]},
    "decoder_heads": {0: [1, 3]},
    "cross_attn_heads": {0: [0], 1: [2, 3]},
}


def test_a_model_without_heads_is_one_with_these_masked(tmp_path: Path) -> None:
    model = _model()
    masks = {
        "head_mask": torch.tensor([[1.0, 1], [0, 1]]),
        "decoder_head_mask": torch.tensor([[1.0, 0, 1, 0], [1, 1, 1, 1]]),
        "cross_attn_head_mask": torch.tensor([[0.0, 1, 1, 1], [1, 1, 0, 0]]),
    }
    expected = model(*_batch(), labels=_labels(), **masks).logits
    assert not torch.allclose(model(*_batch(), labels=_labels()).logits, expected)
    before = model.num_parameters()
    model.prune_heads(**PRUNED)
    torch.testing.assert_close(model(*_batch(), labels=_labels()).logits, expected)
    # Of each head gone: its part of three products in and their biases, and of one product out.
    assert before - model.num_parameters() == (4 * 16 + 3) * (1 * 8 + 2 * 4 + 3 * 4)
    model.prune_heads({}, decoder_heads={0: [0], 1: [2]})
    assert model.config.pruned_heads == {1: [0]}
    assert model.config.decoder_pruned_heads == {0: [0, 1, 3], 1: [2]}

    model.float().save_pretrained(tmp_path)
    assert read_json(tmp_path / "config.json")["cross_attn_pruned_heads"] == {"0": [0], "1": [2, 3]}
    again = Transformer.from_pretrained(tmp_path)
    assert again.config == model.config
    logits = again(*_batch(), labels=_labels()).logits
    assert_same_bits(logits, model(*_batch(), labels=_labels()).logits, "same code")


@pytest.mark.parametrize("wrong", ["heads", "decoder_heads", "cross_attn_heads"])
def test_what_cannot_be_pruned_is_named_and_nothing_is(wrong: str) -> None:
    model = _model()
    before = model.num_parameters()
    with pytest.raises(UserError, match="there is no block 2 to prune; there are 0 to 1"):
        model.prune_heads(**{**PRUNED, wrong: {0: [0], 2: [0]}})
    assert model.num_parameters() == before
    assert model.config.pruned_heads == {}


def test_a_pruned_model_writes() -> None:
    model = _model()
    model.prune_heads(**PRUNED)
    ids, mask = _batch()
    search = Search(eos_token_id=0, num_beams=3, num_return_sequences=3, max_new_tokens=8)
    for row, texts in enumerate(model.generate(ids, mask, search=search)):
        for text in texts:
            right = _log_probability(model, ids[row][mask[row]], text)
            assert text.log_probability == pytest.approx(right, rel=1e-9)


def test_recomputing_keeps_less_and_draws_the_same() -> None:
    model = _model(dropout=0.3, attention_dropout=0.3, activation_dropout=0.3).train()
    labels, results, kept = _labels(), [], []
    for recompute in (False, True):
        model.gradient_checkpointing = recompute
        model.zero_grad()
        numbers: list[int] = []

        def count(tensor: Tensor, numbers: list[int] = numbers) -> Tensor:
            numbers.append(tensor.numel())
            return tensor

        torch.manual_seed(3)
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            loss = model(*_batch(), labels=labels).loss
        loss.backward()
        kept.append(sum(numbers))
        results.append([loss, *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(results[0], results[1])
    assert kept[1] < kept[0] / 2


def test_narrow_weights_are_recomputed_narrow() -> None:
    model = _model(dropout=0.0).float().train()
    labels, gradients = _labels(), []
    for recompute in (False, True):
        model.gradient_checkpointing = recompute
        model.zero_grad()
        narrow = NarrowWeights(model, torch.bfloat16)
        narrow.renew()
        ids, mask = _batch()
        output: Any = narrow.forward(input_ids=ids, attention_mask=mask, labels=labels)
        output.loss.backward()
        narrow.collect()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_each_source_has_a_target() -> None:
    source, mask = _batch()
    with pytest.raises(UserError, match="input_ids are of 4 texts, the target of 1"):
        _model()(source, mask, labels=_labels()[:1])
