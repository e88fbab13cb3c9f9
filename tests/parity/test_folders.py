"""The reference reads our folders, we read its folders, and nothing changes on the way."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from tests.parity.families import ROWS

from heedful import models
from heedful.files import read_json, read_tensors, write_tensors
from heedful.models import FAMILIES, BertForSequenceClassification, BertModel, Head

SIZES: dict[str, Any] = {
    **tiny.SIZES,
    "layer_norm_eps": 1e-7,
    "hidden_act": "relu",
    "classifier_dropout": 0.25,
    "initializer_range": 0.03,
    "pad_token_id": 1,
}
BODIES: tuple[Head, ...] = ("body", "sequence")
LABELS = {0: "no", 1: "yes", 2: "maybe"}
KINDS = ["BertModel", "BertForSequenceClassification"]
OURS: dict[str, Any] = {
    "BertModel": BertModel,
    "BertForSequenceClassification": BertForSequenceClassification,
}
CLASSES = [(family, FAMILIES[family].models[head]) for family in ROWS for head in BODIES]
OPTIONS = {
    f"{family} {name}": (family, options)
    for family, row in ROWS.items()
    for name, options in row.folders.items()
}
IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 1, 1]])


def _call(model: Any, options: dict[str, Any]) -> torch.Tensor:
    given: dict[str, Any] = {}
    if "is_decoder" in options:
        given["use_cache"] = False
        given["encoder_hidden_states"] = torch.randn(
            2, 3, 24, generator=torch.Generator().manual_seed(1)
        )
    with torch.no_grad():
        state: torch.Tensor = model.eval()(IDS, **given).last_hidden_state
    return state


def _same_weights(one: Path, other: Path) -> None:
    ours, theirs = (read_tensors(folder / "model.safetensors") for folder in (one, other))
    assert_same_bits(ours, theirs, "stored")


@pytest.mark.parametrize(("family", "kind"), CLASSES)
def test_ours_to_theirs_and_back(
    reference: ModuleType, tmp_path: Path, family: str, kind: str
) -> None:
    sizes = SIZES if family == "bert" else ROWS[family].sizes
    config = FAMILIES[family].config_class()(
        **sizes, id2label=LABELS, problem_type="single_label_classification"
    )
    ours = getattr(models, kind)(config).eval()
    ours.save_pretrained(tmp_path / "ours")
    theirs = getattr(reference, kind).from_pretrained(tmp_path / "ours")
    for name, value in config.to_dict().items():
        expected = LABELS if name == "id2label" else value
        assert getattr(theirs.config, name) == expected, name
    torch.testing.assert_close(ours(IDS)[0], theirs(IDS)[0])
    theirs.save_pretrained(tmp_path / "theirs")
    _same_weights(tmp_path / "ours", tmp_path / "theirs")
    again = getattr(models, kind).from_pretrained(tmp_path / "theirs")
    assert again.config == config
    assert_same_bits(again(IDS)[0], ours(IDS)[0], "stored")


def test_what_the_reference_caches_is_kept(reference: ModuleType, tmp_path: Path) -> None:
    theirs = reference.BertModel(reference.BertConfig(**SIZES, use_cache=False))
    theirs.save_pretrained(tmp_path / "theirs")
    BertModel.from_pretrained(tmp_path / "theirs").save_pretrained(tmp_path / "ours")
    assert reference.BertConfig.from_pretrained(tmp_path / "ours").use_cache is False


@pytest.mark.parametrize("kind", [*KINDS, "BertForPreTraining", "BertForMaskedLM"])
def test_theirs_to_ours_and_back(reference: ModuleType, tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    config = reference.BertConfig(**SIZES, num_labels=3, attn_implementation="eager")
    theirs = getattr(reference, kind)(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    ours_kind = kind if kind in OURS else "BertModel"
    ours = OURS[ours_kind].from_pretrained(tmp_path / "theirs")
    encoder = theirs if kind == "BertModel" else theirs.bert
    expected = encoder(IDS) if ours_kind == "BertModel" else theirs(IDS)
    torch.testing.assert_close(ours(IDS)[0], expected[0])
    ours.save_pretrained(tmp_path / "ours")
    if kind in OURS:
        _same_weights(tmp_path / "ours", tmp_path / "theirs")
        written, given = (read_json(tmp_path / side / "config.json") for side in ("ours", "theirs"))
        assert {key: given[key] for key in written if key in given} == {
            key: value for key, value in written.items() if key in given
        }


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM"])
def test_an_encoder_in_a_classifier(reference: ModuleType, tmp_path: Path, kind: str) -> None:
    """Names with and without the prefix; one of the two has no pooler."""
    theirs = getattr(reference, kind)(reference.BertConfig(**SIZES)).eval()
    theirs.save_pretrained(tmp_path)
    ours = BertForSequenceClassification.from_pretrained(tmp_path, num_labels=4)
    encoder = theirs.bert if kind == "BertForMaskedLM" else theirs
    expected = encoder(IDS).last_hidden_state
    torch.testing.assert_close(ours.bert(IDS).last_hidden_state, expected)


def test_shards_and_old_files_of_the_reference(reference: ModuleType, tmp_path: Path) -> None:
    theirs = reference.BertModel(reference.BertConfig(**SIZES)).eval()
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    theirs.save_pretrained(tmp_path / "old", safe_serialization=False)
    for folder, allow_pickle in (("shards", False), ("old", True)):
        ours = BertModel.from_pretrained(tmp_path / folder, allow_pickle=allow_pickle)
        assert_same_bits(ours.state_dict(), theirs.state_dict(), "stored")


@pytest.mark.parametrize("family", ROWS)
def test_a_full_configuration_of_the_reference_is_read(
    reference: ModuleType, tmp_path: Path, family: str
) -> None:
    """Old releases wrote every key, defaults as well."""
    sizes, name = ROWS[family].sizes, FAMILIES[family].config
    config = getattr(reference, name)(**sizes, id2label=LABELS)
    config.to_json_file(tmp_path / "config.json", use_diff=False)
    ours = FAMILIES[family].config_class()
    assert ours.read(tmp_path / "config.json") == ours(**sizes, id2label=LABELS)


@pytest.mark.parametrize(("family", "options"), OPTIONS.values(), ids=list(OPTIONS))
def test_an_option_of_ours_to_theirs_and_back(
    reference: ModuleType, tmp_path: Path, family: str, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    config = FAMILIES[family].config_class()(**ROWS[family].sizes | options)
    kind = FAMILIES[family].models["body"]
    ours = getattr(models, kind)(config)
    ours.save_pretrained(tmp_path / "ours")
    theirs = getattr(reference, kind).from_pretrained(
        tmp_path / "ours", attn_implementation="eager"
    )
    for name, value in options.items():
        assert getattr(theirs.config, name) == value, name
    torch.testing.assert_close(_call(ours, options), _call(theirs, options))
    theirs.save_pretrained(tmp_path / "theirs")
    _same_weights(tmp_path / "ours", tmp_path / "theirs")
    again = getattr(models, kind).from_pretrained(tmp_path / "theirs")
    assert again.config == config
    assert_same_bits(_call(again, options), _call(ours, options), "stored")


def test_a_model_that_the_reference_pruned(reference: ModuleType, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = reference.BertModel(reference.BertConfig(**tiny.SIZES, attn_implementation="eager"))
    theirs.prune_heads({0: [0, 2]})
    theirs.prune_heads({0: [3], 1: [1]})
    theirs.save_pretrained(tmp_path)
    ours = BertModel.from_pretrained(tmp_path)
    assert ours.config.pruned_heads == {0: [0, 2, 3], 1: [1]}
    torch.testing.assert_close(_call(ours, {}), _call(theirs, {}))


@pytest.mark.parametrize("family", ["albert", "roberta"])
def test_a_bias_of_pieces_that_is_named_by_the_decoder_alone(
    reference: ModuleType, tmp_path: Path, family: str
) -> None:
    kind = FAMILIES[family].models["masked_lm"]
    getattr(models, kind)(FAMILIES[family].config_class()(**ROWS[family].sizes)).save_pretrained(
        tmp_path
    )
    tensors = {**read_tensors(tmp_path / "model.safetensors")}
    (name,) = {"lm_head.bias", "predictions.bias"} & tensors.keys()
    bias = torch.randn(len(tensors.pop(name)))
    write_tensors(
        tmp_path / "model.safetensors", tensors | {name.replace(".bias", ".decoder.bias"): bias}
    )
    ours = getattr(models, kind).from_pretrained(tmp_path)
    theirs = getattr(reference, kind).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(ours(IDS).logits, theirs(IDS).logits)
