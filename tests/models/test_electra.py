"""How ELECTRA differs from BERT: narrow embeddings, and the vector that represents a choice."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tests import tiny
from tests.exact import assert_same_bits

from heedful.errors import UserError
from heedful.models import (
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForMultipleChoice,
    ElectraForPreTraining,
    ElectraForSequenceClassification,
    ElectraModel,
    load_model,
)

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0]])
MASK = IDS.ne(0)
NARROW: dict[str, Any] = {**tiny.SIZES, **tiny.STILL, "embedding_size": 8}


def _config(**changes: Any) -> ElectraConfig:
    torch.manual_seed(0)
    return ElectraConfig(**{**NARROW, "initializer_range": 0.2, **changes})


def test_vectors_have_the_width_of_the_embeddings() -> None:
    model = ElectraModel(_config()).eval()
    vectors = model.get_input_embeddings()(IDS)
    assert vectors.shape == (2, 5, 8)
    by_ids, by_vectors = model(IDS, MASK), model(attention_mask=MASK, inputs_embeds=vectors)
    assert by_ids.last_hidden_state.shape == (2, 5, 24)
    torch.testing.assert_close(by_vectors.last_hidden_state, by_ids.last_hidden_state)
    message = r"inputs_embeds has shape \(2, 5, 24\); it must be \(batch, length, 8\)"
    with pytest.raises(UserError, match=message):
        model(inputs_embeds=torch.zeros(2, 5, 24))
    with pytest.raises(UserError, match="the embeddings have width 24; the model has 8"):
        model.set_input_embeddings(torch.nn.Embedding(50, 24))


def test_embeddings_of_the_same_width_are_not_widened() -> None:
    names = {name for name, _ in ElectraModel(_config(embedding_size=24)).named_parameters()}
    assert not any("project" in name for name in names)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding_size": 0}, "embedding_size is 0; it must be an integer of at least 1"),
        ({"summary_type": "frist"}, "summary_type 'frist'.*did you mean 'first'"),
        ({"summary_activation": "gel"}, "summary_activation 'gel'.*did you mean 'gelu'"),
        ({"summary_last_dropout": 1.0}, "summary_last_dropout is 1.0"),
        ({"summary_use_proj": 1}, "summary_use_proj is 1; it must be true or false"),
    ],
)
def test_a_wrong_option_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)


def test_a_generators_folder_has_the_names_of_the_reference(tmp_path: Path) -> None:
    model = ElectraForMaskedLM(_config(tie_word_embeddings=False)).eval()
    torch.nn.init.normal_(model.generator_lm_head.bias)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["model_type"], config["embedding_size"]) == ("electra", 8)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = {name for name in file.keys() if "encoder" not in name}  # noqa: SIM118
    tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    layers = (
        "electra.embeddings.LayerNorm",
        "electra.embeddings_project",
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
        "generator_lm_head",
    )
    expected = {f"electra.embeddings.{table}.weight" for table in tables}
    assert names == expected | {f"{name}.{kind}" for name in layers for kind in ("weight", "bias")}
    again = load_model(tmp_path)
    assert type(again) is ElectraForMaskedLM
    assert_same_bits(again(IDS).logits, model(IDS).logits, "stored")


def test_a_discriminator_gets_a_fresh_head(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ElectraForPreTraining(_config()).save_pretrained(tmp_path)
    caplog.set_level(logging.INFO)
    model = load_model(tmp_path, head="sequence", id2label={0: "bad", 1: "good"})
    assert type(model) is ElectraForSequenceClassification
    fresh, unused = caplog.messages
    assert fresh.endswith("fresh weights, to be trained: classifier")
    assert "weights not used: discriminator_predictions.dense.bias" in unused
    assert model(IDS, MASK, labels=torch.tensor([0, 1])).loss.isfinite()


def test_a_folder_without_what_widens_is_refused(tmp_path: Path) -> None:
    ElectraModel(_config(embedding_size=24)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"hidden_size": 48}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"weights are missing: embeddings\.project\.weight"):
        ElectraModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", ["first", "last", "mean", "cls_index"])
def test_padding_does_not_change_a_choice(kind: str) -> None:
    model = ElectraForMultipleChoice(_config(summary_type=kind)).eval()
    padded = model(IDS[None], MASK[None]).logits
    alone = [model(IDS[None, :1]).logits, model(IDS[None, 1:, :3]).logits]
    torch.testing.assert_close(padded, torch.cat(alone, 1))


def test_the_loss_of_replaced_tokens_leaves_padding_out() -> None:
    model = ElectraForPreTraining(_config()).eval()
    labels = torch.tensor([[0, 1, 0, 0, 0], [0, 1, 0, 1, 1]])
    output = model(IDS, MASK.long(), labels=labels)
    each = torch.nn.functional.softplus(torch.where(labels == 1, -output.logits, output.logits))
    torch.testing.assert_close(output.loss, each[MASK].mean())
    with pytest.raises(UserError, match="labels hold 2; the classes are 0 to 1"):
        model(IDS, labels=labels * 2)


def test_tokens_without_a_label_do_not_count() -> None:
    model = ElectraForPreTraining(_config()).eval()
    labels = IDS % 2
    loss = model(IDS, MASK, labels=labels).loss
    ignored = labels.masked_fill(~MASK, -100)
    torch.testing.assert_close(model(IDS, MASK, labels=ignored).loss, loss)
    torch.testing.assert_close(model(IDS, MASK.float()[:, None], labels=labels).loss, loss)
    with pytest.raises(UserError, match=r"attention_mask has shape \(2, 5, 5\); with labels it"):
        model(IDS, torch.ones(2, 5, 5), labels=labels)
