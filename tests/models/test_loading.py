"""The table of families: each model's folder loads as that model."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from torch import nn

from heedful import models
from heedful.errors import UserError
from heedful.models import FAMILIES, BertConfig, Head, load_model
from heedful.models.loading import head_of, read_config

PIECES = {"vocab_size": 50, "pad_token_id": 49}
BERT = {**tiny.SIZES, "num_labels": 2, "is_decoder": False}
DEBERTA = {**tiny.SIZES, "num_labels": 2, "relative_attention": True, "pos_att_type": "c2p|p2c"}
ENDS = {"d_model": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
DEPTHS = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
SMALL: dict[str, dict[str, Any]] = {
    "albert": {**BERT, "embedding_size": 8},
    "bert": BERT,
    "big_bird": {**BERT, "sep_token_id": 3},
    "deberta": {**DEBERTA, "legacy": False},
    "deberta-v2": {**DEBERTA, "conv_kernel_size": 3},
    "distilbert": {"vocab_size": 50, "dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 40},
    "electra": {**BERT, "embedding_size": 8},
    "ernie": BERT,
    "gpt2": {"vocab_size": 50, "n_positions": 12, "n_embd": 24, "n_layer": 2, "n_head": 4},
    "heedful-rnn": {**PIECES, "embedding_width": 8, "hidden_width": 8},
    "marian": {**PIECES, **ENDS, **DEPTHS},
    "mpnet": BERT,
    "pegasus": {**PIECES, **ENDS, **DEPTHS, "normalize_before": True},
    "roberta": BERT,
    "vit": {
        **{"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4},
        **{"intermediate_size": 40, "image_size": 8, "patch_size": 4},
    },
    "xlm-roberta": BERT,
    "xlnet": {"vocab_size": 50, "d_model": 24, "n_layer": 2, "n_head": 4, "d_inner": 40},
}
EVERY = [(kind, head) for kind, family in FAMILIES.items() for head in family.models]


def _model(model_type: str, head: Head) -> Any:
    torch.manual_seed(0)
    family = FAMILIES[model_type]
    if model_type == "encoder-decoder":
        writer = {**BERT, "is_decoder": True, "add_cross_attention": True}
        decoder = models.BertLMHeadModel(BertConfig(**writer))
        return models.BertEncoderDecoder(models.BertModel(BertConfig(**BERT)), decoder)
    return family.model_class(head)(family.config_class()(**SMALL[model_type]))


def _assert_equal(one: nn.Module, other: nn.Module) -> None:
    assert_same_bits(one.state_dict(), other.state_dict(), "stored")


@pytest.mark.parametrize(("model_type", "head"), EVERY)
def test_a_folder_says_what_it_holds(tmp_path: Path, model_type: str, head: Head) -> None:
    model = _model(model_type, head)
    model.save_pretrained(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == model_type
    assert head_of(tmp_path / "model") == head
    assert read_config(tmp_path / "model") == model.config
    config = type(model.config).from_pretrained(tmp_path / "model")
    config.save_pretrained(tmp_path / "config")
    assert config == type(config).from_pretrained(tmp_path / "config") == model.config
    again = load_model(tmp_path / "model", dropout=0.25)
    assert type(again) is type(model) is type(load_model(tmp_path / "model", head=head))
    assert not again.training
    _assert_equal(again, model)
    parts = [again.config]
    if model_type == "encoder-decoder":
        parts = [again.config.encoder, again.config.decoder]
    for part in parts:
        assert {getattr(part, name) for name in again.config.DROPOUTS} == {0.25}


def test_what_a_configuration_cannot_be_read_from_or_written_to(tmp_path: Path) -> None:
    BertConfig(**BERT).save_pretrained(tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    with pytest.raises(UserError, match=r"has a config\.json; choose another folder or give over"):
        BertConfig().save_pretrained(folder)
    BertConfig(**BERT, hidden_act="relu").save_pretrained(folder, overwrite=True)
    assert BertConfig.from_pretrained(folder).hidden_act == "relu"
    assert [file.name for file in folder.iterdir()] == ["config.json"]
    with pytest.raises(UserError, match=r"config\.json is a file; give a folder"):
        BertConfig().save_pretrained(folder / "config.json")
    for kind in (models.RobertaConfig, models.AlbertConfig, models.TransformerConfig):
        with pytest.raises(
            UserError, match=r"model_type is 'bert'; call BertConfig\.from_pretrained$"
        ):
            kind.from_pretrained(folder)


def test_every_model_of_the_table_is_public() -> None:
    assert set(get_args(Head)) == {head for _, head in EVERY}
    for model_type, head in EVERY:
        family = FAMILIES[model_type]
        for kind in (family.config_class(), family.model_class(head)):
            assert getattr(models, kind.__name__) is kind


def test_another_head_takes_the_same_body(tmp_path: Path) -> None:
    model = _model("bert", "pretraining")
    model.save_pretrained(tmp_path)
    tagger = load_model(tmp_path, head="token", id2label={0: "O", 1: "B", 2: "I"})
    assert isinstance(tagger, models.BertForTokenClassification)
    assert tagger.config.label2id == {"O": 0, "B": 1, "I": 2}
    words = tagger.bert.embeddings.word_embeddings.weight
    assert_same_bits(words, model.bert.embeddings.word_embeddings.weight, "stored")
    writer = load_model(tmp_path, head="causal_lm", is_decoder=True)
    assert writer.config == dataclasses.replace(model.config, is_decoder=True)


def test_a_folder_that_names_no_head_is_a_body(tmp_path: Path) -> None:
    _model("bert", "masked_lm").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"], config["model_type"]  # as the reference's oldest folders
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert type(load_model(tmp_path)) is models.BertModel


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "tokens"}, "unknown head 'tokens' .*'token'"),
        ({"head": "token"}, "no head 'token' for model_type 'marian'; it has seq2seq"),
        ({"num_labels": 3}, "no num_labels for model_type 'marian'; leave it out"),
        ({"fresh_head": True}, "no fresh_head for model_type 'marian'; leave it out"),
    ],
)
def test_what_a_family_has_not_is_named(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    _model("marian", "seq2seq").save_pretrained(tmp_path)
    with pytest.raises(UserError, match=message):
        load_model(tmp_path, **options)


def test_an_unknown_family_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bart"}')
    with pytest.raises(UserError, match="model_type is 'bart'; expected one of albert, bert, "):
        load_model(tmp_path)


HEADS = {
    "body": ("pooler",),
    "sequence": ("pooler", "classifier", "score", "logits_proj"),
    "token": ("pooler", "classifier"),
    "span": ("qa_outputs", "qa_classifier"),
    "choice": ("pooler", "classifier", "logits_proj"),
    "pointer": ("pointer",),
    "next_sentence": ("pooler", "cls.seq_relationship"),
    "masked_lm": (
        *("pooler", "cls.predictions", "lm_head", "generator_lm_head", "vocab_projector"),
        "lm_predictions",
    ),
    "causal_lm": ("pooler", "cls.predictions", "lm_head", "generator_lm_head"),
    "permuted_lm": ("lm_loss",),
    "pretraining": ("pooler", "cls"),
    "pixels": ("decoder",),
    "double": ("heads",),
    "replaced": ("discriminator_predictions", "mask_predictions"),
}


@pytest.mark.parametrize(("model_type", "head"), EVERY)
def test_what_stands_on_the_body_is_the_head(model_type: str, head: Head) -> None:
    model = _model(model_type, head)
    names = {
        id(parameter): name.removeprefix(f"{model.body.prefix}.")
        for name, parameter in model.named_parameters()
    }
    expected: tuple[str, ...] = ()
    if "body" in FAMILIES[model_type].models:
        expected = HEADS[head]
    if model_type == "encoder-decoder":
        layers = [f"decoder.bert.encoder.layer.{number}.crossattention" for number in range(2)]
        expected = ("encoder.pooler", "decoder.cls", *layers)
    starts = tuple(f"{name}." for name in expected)
    in_head = sorted(names.pop(id(parameter)) for parameter in model.head_parameters())
    assert all(name.startswith(starts) for name in in_head)
    assert not any(name.startswith(starts) for name in names.values() if starts)


def test_both_parts_of_a_pair_recompute() -> None:
    pair = _model("encoder-decoder", "seq2seq")
    assert pair.supports_checkpointing
    pair.gradient_checkpointing = True
    assert pair.encoder.gradient_checkpointing
    assert pair.decoder.bert.gradient_checkpointing
    assert pair.max_positions == pair.encoder.max_positions == 12


def test_heads_that_cannot_be_pruned_stay() -> None:
    pair = _model("encoder-decoder", "seq2seq")
    assert pair.head_masks() == {}
    with pytest.raises(UserError, match="BertEncoderDecoder: its attention heads cannot be pruned"):
        pair.prune_heads({0: [1]})


MODELS = {name for family in FAMILIES.values() for name in family.models.values()}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_folder_is_no_configuration(name: str) -> None:
    call = f"{name}.from_pretrained('minilm')"
    with pytest.raises(UserError, match=re.escape(f"read one from a folder, call {call}")):
        getattr(models, name)("minilm")
