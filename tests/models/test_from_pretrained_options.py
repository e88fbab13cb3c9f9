"""The options of ``from_pretrained`` that tutorials give do what they do in the reference."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers
from tests.exact import assert_same_bits

import heedful
from heedful import BertConfig, BertForSequenceClassification, BertModel, UserError

IDS = torch.tensor([[2, 3, 4]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options") / "model"
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(path)
    return path


def _with_options(library: ModuleType, folder: Path) -> list[Any]:
    names = {0: "a", 1: "b"}
    config = library.BertConfig.from_pretrained(
        folder,
        output_hidden_states=True,
        hidden_dropout_prob=0.3,
        id2label=names,
        label2id={"a": 0, "b": 1},
    )
    body = library.BertModel.from_pretrained(folder, config=config)
    with_head = library.BertForSequenceClassification.from_pretrained(folder, config=config)
    shallow = library.BertConfig.from_pretrained(folder, num_hidden_layers=1, return_dict=False)
    tuples = library.BertForSequenceClassification(shallow)(IDS, output_attentions=True)
    return [
        [*body(IDS).hidden_states],
        [*with_head(IDS).hidden_states],
        with_head(IDS).logits,
        [body.config.hidden_dropout_prob, body.config.id2label, len(tuples), type(tuples)],
    ]


def _configured(library: ModuleType) -> list[Any]:
    labels = {"a": 0, "b": 1, "c": 2}
    names = {number: label for label, number in labels.items()}
    named = library.BertConfig(label2id=labels, id2label=names, attn_implementation="eager")
    config = library.BertConfig()
    config.update({"hidden_size": 24, "num_labels": 5, "hidden_dropout_prob": 0.3})
    wide = library.BertConfig(hidden_size=24, num_attention_heads=4, is_decoder=True)
    diffs = [json.loads(json.dumps(one.to_diff_dict())) for one in (wide, named)]
    for diff in diffs:
        diff.pop("transformers_version", None)
    return [
        *(named.num_labels, named.id2label, named.label2id, named.use_return_dict, diffs),
        *(config.hidden_size, config.num_labels, config.id2label, config.hidden_dropout_prob),
    ]


def test_a_configuration_of_options() -> None:
    assert _configured(heedful) == _configured(transformers)
    assert BertConfig(label2id={"no": 0, "yes": 1}).id2label == {0: "no", 1: "yes"}  # type: ignore[call-arg]
    with pytest.raises(UserError, match="configuration: id2label and label2id differ"):
        BertConfig(label2id={"no": 0}, id2label={0: "yes"})  # type: ignore[call-arg]
    with pytest.raises(UserError, match="unknown attn_implementation 'flash'; allowed: eager"):
        BertConfig(attn_implementation="flash")  # type: ignore[call-arg]
    with pytest.raises(UserError, match="BertConfig has no argument 'hiden_size'"):
        BertConfig(label2id={"no": 0}, hiden_size=3)  # type: ignore[call-arg]
    config = BertConfig(vocab_size=50)
    with pytest.raises(UserError, match="unknown field of BertConfig 'vocab_sise'"):
        config.update({"vocab_size": 40, "vocab_sise": 3})
    with pytest.raises(UserError, match="hidden_size 25 is not a multiple"):
        config.update({"vocab_size": 40, "hidden_size": 25})
    assert config == BertConfig(vocab_size=50)


def _saved_and_resized(library: ModuleType, folder: Path, work: Path) -> list[Any]:
    path = str(folder / "config.json")
    config = library.BertConfig.from_pretrained(path, num_labels=3)
    model = library.BertForMaskedLM.from_pretrained(folder, config=path)
    tables = []
    for options in (
        {},
        {"new_num_tokens": 51, "mean_resizing": False},
        {"mean_resizing": False, "pad_to_multiple_of": 8},
        {"new_num_tokens": 60, "pad_to_multiple_of": 32, "mean_resizing": False},
        {"new_num_tokens": 64, "pad_to_multiple_of": 64},
    ):
        weight = model.resize_token_embeddings(**options).weight
        tables += [weight[:50].clone(), len(weight)]
    model.save_pretrained(work, safe_serialization=True, max_shard_size="1GB")
    again = library.BertForMaskedLM.from_pretrained(work, low_cpu_mem_usage=True, device_map=None)
    return [
        again(IDS).logits[..., :50],
        *tables,
        *(config.num_labels, config.hidden_size, again.config.vocab_size),
    ]


def test_resized_and_saved_with_options(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    BertConfig.from_pretrained(folder).save_pretrained(tmp_path / "all")
    heedful.BertForPreTraining.from_pretrained(folder).save_pretrained(
        tmp_path / "all", overwrite=True
    )
    ours = _saved_and_resized(heedful, tmp_path / "all", tmp_path / "ours")
    theirs = _saved_and_resized(transformers, tmp_path / "all", tmp_path / "theirs")
    for our, their in zip(ours, theirs, strict=True):
        if isinstance(their, torch.Tensor):
            torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)
        else:
            assert our == their


def test_what_to_do_instead(folder: Path, tmp_path: Path) -> None:
    model = BertModel.from_pretrained(folder, device_map="cpu")
    with pytest.raises(UserError, match=r"no argument 'device_map'; call .to\(device\) of the"):
        BertModel.from_pretrained(folder, device_map="auto")
    with pytest.raises(UserError, match="safe_serialization=False asks for a pickle"):
        model.save_pretrained(tmp_path / "new", safe_serialization=False)
    with pytest.raises(UserError, match="mean_resizing is not supported"):
        model.resize_token_embeddings(60, mean_resizing=True)
    with pytest.raises(UserError, match="pad_to_multiple_of is 0; it must be an integer"):
        model.resize_token_embeddings(60, pad_to_multiple_of=0)
    with pytest.raises(UserError, match="model 'absent'"):
        BertModel.from_pretrained(folder, config="absent")


def test_a_configuration_with_options(folder: Path) -> None:
    ours, theirs = _with_options(heedful, folder), _with_options(transformers, folder)
    torch.testing.assert_close(ours[:3], theirs[:3], rtol=1e-4, atol=1e-5)
    assert ours[3] == theirs[3]


def test_files_do_not_keep_the_defaults_of_calls(folder: Path, tmp_path: Path) -> None:
    config = BertConfig.from_pretrained(folder, output_attentions=True, return_dict=False)
    config.save_pretrained(tmp_path)
    assert "output_attentions" not in config.to_dict()
    assert BertConfig.from_pretrained(tmp_path) == BertConfig.from_pretrained(folder)


@pytest.mark.parametrize("library", [heedful, transformers], ids=lambda each: each.__name__)
def test_a_head_of_another_size(library: ModuleType, folder: Path) -> None:
    model = library.BertForSequenceClassification.from_pretrained(
        folder, num_labels=5, ignore_mismatched_sizes=True
    )
    assert model.classifier.weight.shape == (5, 16)
    assert model.classifier.weight.std() > 0
    assert not model.classifier.bias.any()
    before = library.BertForSequenceClassification.from_pretrained(folder)
    weights = [each.bert.pooler.dense.weight for each in (model, before)]
    assert_same_bits(*weights, reason="stored")


@pytest.mark.parametrize("library", [heedful, transformers], ids=lambda each: each.__name__)
def test_dtypes_and_poolers(library: ModuleType, folder: Path, tmp_path: Path) -> None:
    read = library.BertModel.from_pretrained
    half = read(folder, dtype=torch.float16, add_pooling_layer=False, attn_implementation="eager")
    assert (half.dtype, half.pooler) == (torch.float16, None)
    assert read(folder, torch_dtype="bfloat16", attn_implementation="sdpa").dtype is torch.bfloat16
    assert read(folder, torch_dtype="auto").dtype is torch.float32
    half.save_pretrained(tmp_path / library.__name__)
    assert read(tmp_path / library.__name__, dtype="auto").dtype is torch.float16
    assert read(tmp_path / library.__name__).dtype is torch.float32


def test_options_that_there_are_not(folder: Path) -> None:
    for call, message in (
        (lambda: BertModel.from_pretrained(folder, dtype="bloat16"), "dtype is 'bloat16'"),
        (
            lambda: BertModel.from_pretrained(folder, dtype="float16", torch_dtype="float32"),
            "dtype float16 and torch_dtype float32 differ",
        ),
        (
            lambda: BertModel.from_pretrained(folder, attn_implementation="flash"),  # type: ignore[arg-type]
            "unknown attn_implementation 'flash'",
        ),
        (
            lambda: BertForSequenceClassification.from_pretrained(folder, add_pooling_layer=False),
            "has no option add_pooling_layer",
        ),
        (
            lambda: BertModel.from_pretrained(folder, config=heedful.GPT2Config()),
            "config is a GPT2Config; .* needs a BertConfig",
        ),
        (
            lambda: BertConfig.from_pretrained(folder, num_label=3),  # type: ignore[call-arg]
            "unknown option 'num_label' .did you mean 'num_labels'",
        ),
        (
            lambda: BertConfig.from_pretrained(folder, id2label={0: "a"}, label2id={"b": 0}),
            "id2label and label2id differ",
        ),
        (lambda: BertConfig(output_attentions=1), "output_attentions is 1; it must be true"),  # type: ignore[arg-type]
    ):
        with pytest.raises(UserError, match=message):
            call()
