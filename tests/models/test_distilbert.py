"""How DistilBERT differs from BERT: names, positions, dropout, and missing parts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits

from heedful.errors import UserError
from heedful.models import (
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForQuestionAnswering,
    DistilBertForSequenceClassification,
    DistilBertModel,
    load_model,
)

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "dim": 24,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 40,
    "max_position_embeddings": 12,
}
IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0]])


def _config(**changes: Any) -> DistilBertConfig:
    torch.manual_seed(0)
    return DistilBertConfig(**SIZES | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 25}, "dim 25 is not a multiple of n_heads 4"),
        ({"dim": 25, "n_heads": 5, "sinusoidal_pos_embds": True}, "dim is 25; .* must be even"),
        ({"activation": "gelo"}, "unknown activation 'gelo'"),
        ({"seq_classif_dropout": 1}, "seq_classif_dropout is 1; it must be a number .* below 1"),
        ({"pruned_heads": {2: [0]}}, "pruned_heads names block 2; there are 0 to 1"),
        ({"problem_type": "regresion"}, "unknown problem_type 'regresion'"),
    ],
)
def test_a_wrong_configuration_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)


def test_a_key_of_another_family_is_refused() -> None:
    with pytest.raises(UserError, match="unknown key 'hidden_size'"):
        DistilBertConfig.from_dict({"model_type": "distilbert", "hidden_size": 24})
    with pytest.raises(UserError, match="is_decoder is True; only False is supported"):
        DistilBertConfig.from_dict({"is_decoder": True})


def test_an_old_file_is_read() -> None:
    values = {**SIZES, "tie_weights_": True, "output_attentions": False, "torchscript": False}
    assert DistilBertConfig.from_dict(values) == DistilBertConfig(**SIZES)


def test_token_types_are_not_read() -> None:
    model = DistilBertModel(_config()).eval()
    with_types = model(IDS, token_type_ids=torch.ones_like(IDS)).last_hidden_state
    assert_same_bits(with_types, model(IDS).last_hidden_state, "same code")


def test_where_values_are_dropped() -> None:
    """Unlike in BERT, not the attention output; each head has its own rate."""
    config = _config(dropout=0.1, attention_dropout=0.2, qa_dropout=0.3, seq_classif_dropout=0.4)
    classifier = DistilBertForSequenceClassification(config)
    block = classifier.distilbert.encoder.blocks[0]
    assert classifier.distilbert.embeddings.dropout.p == 0.1
    assert block.attention.self.dropout.p == 0.2
    assert block.attention.output.dropout.p == 0.0
    assert block.output.dropout.p == 0.1
    assert (classifier.head.input_dropout.p, classifier.head.dropout.p) == (
        0.0,
        0.4,
    )
    assert DistilBertForQuestionAnswering(config).head.dropout.p == 0.3


def test_one_rate_of_dropout_sets_all(tmp_path: Path) -> None:
    DistilBertForSequenceClassification(_config()).save_pretrained(tmp_path)
    config = load_model(tmp_path, dropout=0.05).config
    assert {getattr(config, name) for name in DistilBertConfig.DROPOUTS} == {0.05}


def test_sinusoids_are_not_trained(tmp_path: Path) -> None:
    model = DistilBertForMaskedLM(_config(sinusoidal_pos_embds=True))
    table = model.distilbert.embeddings.position_embeddings.weight
    torch.testing.assert_close(table[3, :2], torch.tensor([0.1411200, -0.9899925]))
    model.save_pretrained(tmp_path)
    again = DistilBertForMaskedLM.from_pretrained(tmp_path)
    for one in (model, again):
        trained = {name for name, x in one.named_parameters() if x.requires_grad}
        fixed = {name for name, _ in one.named_parameters()} - trained
        assert fixed == {"distilbert.embeddings.position_embeddings.weight"}
    assert_same_bits(again.file_weights(), model.file_weights(), "stored")


def test_a_vocabulary_can_grow_and_heads_can_go() -> None:
    model = DistilBertForMaskedLM(_config()).eval()
    model.resize_token_embeddings(60)
    assert model(IDS).logits.shape == (2, 5, 60)
    model.prune_heads({0: [1]})
    assert model.config.pruned_heads == {0: [1]}
    assert model(IDS).logits.shape == (2, 5, 60)


def test_a_model_needs_no_option_that_it_always_has(tmp_path: Path) -> None:
    DistilBertModel(_config()).save_pretrained(tmp_path)
    assert load_model(tmp_path, is_decoder=False).config == _config()
    with pytest.raises(UserError, match="no is_decoder for model_type 'distilbert'"):
        load_model(tmp_path, is_decoder=True)
