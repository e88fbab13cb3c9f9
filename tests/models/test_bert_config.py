import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import UserError
from heedful.models import BertConfig, BertForSequenceClassification, RobertaConfig
from heedful.models.stored_config import fix_shape


def test_defaults_are_bert_base() -> None:
    config = BertConfig()
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (768, 12, 30522)
    assert config.num_labels == 2
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 10, "num_attention_heads": 4}, "hidden_size 10 is not a multiple of"),
        ({"hidden_size": 0}, "hidden_size is 0; it must be an integer of at least 1"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"vocab_size": "30522"}, "vocab_size is '30522'; it must be an integer"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"intermediate_size": 3.0}, "intermediate_size is 3.0"),
        ({"hidden_dropout_prob": 1.0}, r"hidden_dropout_prob is 1.0; .* at least 0 and below 1"),
        ({"attention_probs_dropout_prob": -0.1}, "attention_probs_dropout_prob is -0.1"),
        ({"classifier_dropout": 2}, "classifier_dropout is 2"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps is nan"),
        ({"initializer_range": None}, "initializer_range is None"),
        ({"pad_token_id": 30522}, "pad_token_id is 30522; .* below 30522"),
        ({"hidden_act": "gelo"}, r"unknown hidden_act 'gelo' \(did you mean 'gelu'\?\)"),
        ({"problem_type": "regresion"}, r"did you mean 'regression'\?"),
        ({"num_labels": 3, "id2label": {0: "no", 1: "yes"}}, "num_labels is 3, but id2label has 2"),
        ({"id2label": {0: "no", 2: "yes"}}, r"the ids 0, 2; they must be 0 to 1"),
        ({"id2label": {"0": "no"}}, r"the ids '0'; they must be 0 to 0"),
        ({"id2label": {0: "no", 1: "no"}}, "must be different strings"),
        ({"id2label": {0: "no", 1: 1}}, "must be different strings"),
        ({"num_labels": -2}, "num_labels is -2"),
        ({"num_labels": 10**9}, "num_labels is 1000000000; .* below 1048577"),
        (
            {"id2label": dict.fromkeys(range(2**20 + 1), "a")},
            "id2label has 1,048,577 names; at most 1,048,576",
        ),
        ({"chunk_size_feed_forward": -1}, "chunk_size_feed_forward is -1; it must be an integer"),
        ({"is_decoder": 1}, "is_decoder is 1; it must be true or false"),
        ({"use_cache": None}, "use_cache is None; it must be true or false"),
        ({"tie_word_embeddings": None}, "tie_word_embeddings is None; it must be true or false"),
        ({"add_cross_attention": True}, "add_cross_attention is true, which needs is_decoder"),
        ({"position_embedding_type": "relative_keys"}, r"did you mean 'relative_key'\?"),
        ({"pruned_heads": {12: [0]}}, "pruned_heads names block 12; there are 0 to 11"),
        ({"pruned_heads": {0: [12]}}, r"of block 0 are \[12\]; .* different numbers from 0 to 11"),
        ({"pruned_heads": {0: [1, 1]}}, r"of block 0 are \[1, 1\]; they must be different"),
        ({"pruned_heads": {3: list(range(12))}}, "leaves no head in block 3; it must keep one"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BertConfig(**values)


def test_labels_complete_each_other() -> None:
    assert BertConfig(num_labels=3).id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    config = BertConfig(id2label={1: "yes", 0: "no", 2: "maybe"})
    assert config.num_labels == 3
    assert list(config.id2label.items()) == [(0, "no"), (1, "yes"), (2, "maybe")]
    assert config.label2id == {"no": 0, "yes": 1, "maybe": 2}


def small() -> BertConfig:
    sizes = {"num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}
    return BertConfig(vocab_size=9, hidden_size=8, max_position_embeddings=5, **sizes)


def test_it_can_change_until_a_model_has_it() -> None:
    config = small()
    config.num_labels = 3  # type: ignore[misc]
    config.output_hidden_states = True  # type: ignore[misc]
    with pytest.raises(UserError, match="hidden_size 9 is not a multiple of"):
        config.hidden_size = 9  # type: ignore[misc]
    config.hidden_size = 4  # type: ignore[misc]
    assert [*config.id2label] == [0, 1, 2]
    model = BertForSequenceClassification(config)
    assert (model.classifier.weight.shape, model.output_hidden_states) == ((3, 4), True)
    for other in (config, model.config, copy.deepcopy(model).config):
        with pytest.raises(UserError, match="num_labels cannot change once a model has"):
            other.num_labels = 2  # type: ignore[misc]
    model.resize_token_embeddings(12)
    with pytest.raises(UserError, match="hidden_size cannot change once a model has"):
        model.config.hidden_size = 8


def test_it_can_be_copied() -> None:
    config = BertConfig(num_labels=3)
    fix_shape(config)
    with pytest.raises(UserError, match="output_attentions is a default of calls"):
        config.output_attentions = True  # type: ignore[misc]
    with pytest.raises(
        UserError, match=r"unknown field .*'hiden_size' .did you mean 'hidden_size'"
    ):
        config.hiden_size = 3  # type: ignore[attr-defined]
    assert copy.deepcopy(config) == config
    assert dataclasses.replace(config, hidden_act="relu") != config
    assert hash(config) == hash(BertConfig(num_labels=3))


def test_what_does_not_shape_the_model_can_be_assigned() -> None:
    config = BertConfig(num_labels=2)
    fix_shape(config)
    config.pad_token_id = 7  # type: ignore[misc]
    config.use_cache = False  # type: ignore[misc]
    config.id2label = {0: "no", 1: "yes"}  # type: ignore[misc]
    assert config == BertConfig(pad_token_id=7, use_cache=False, id2label={0: "no", 1: "yes"})
    config.label2id = {"bad": 0, "good": 1}  # type: ignore[misc]
    assert config.to_dict()["id2label"] == {"0": "bad", "1": "good"}
    with pytest.raises(UserError, match="id2label has 3 names; the model has 2 outputs"):
        config.id2label = {0: "a", 1: "b", 2: "c"}  # type: ignore[misc]
    assert config.label2id == {"bad": 0, "good": 1}
    other = RobertaConfig(pad_token_id=1)
    fix_shape(other)
    other.pad_token_id = 1  # type: ignore[misc]
    with pytest.raises(UserError, match="pad_token_id cannot change in this family"):
        other.pad_token_id = 3  # type: ignore[misc]


def test_a_dictionary_there_and_back() -> None:
    config = BertConfig(
        hidden_size=24,
        id2label={0: "no", 1: "yes", 2: "maybe"},
        classifier_dropout=0.2,
        is_decoder=True,
        add_cross_attention=True,
        position_embedding_type="relative_key",
        chunk_size_feed_forward=8,
        pruned_heads={1: [0, 11], 3: [2]},
        tie_word_embeddings=False,
    )
    values = json.loads(json.dumps(config.to_dict()))
    assert BertConfig.from_dict(values) == config
    assert values["model_type"] == "bert"
    assert "num_labels" not in values  # the reference counts id2label


BOOKKEEPING = {
    "_num_labels": 9,
    "_name_or_path": "bert-base-uncased",
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "directionality": "bidi",
    "dtype": "float32",
    "finetuning_task": "mnli",
    "gradient_checkpointing": False,
    "layer_norm_eps": 1e-12,
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "torch_dtype": "float32",
    "transformers_version": "4.8.2",
    "use_cache": True,
    "xla_device": True,
}


def test_the_books_that_reference_files_keep_are_read_over() -> None:
    assert BertConfig.from_dict(BOOKKEEPING) == BertConfig()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden_size": 3}, r"cfg: unknown key 'hiden_size' \(did you mean 'hidden_size'\?\)"),
        ({"rotary_base": 3}, "unknown key 'rotary_base'.*; delete it there if it does not change"),
        ({"model_type": "roberta"}, "cfg: model_type is 'roberta'; only 'bert' is supported"),
        ({"position_embedding_type": "relative"}, "unknown position_embedding_type 'relative'"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder is True; only False is supported"),
        ({"pruned_heads": [2]}, r'cfg: pruned_heads must be like {"0": \[2, 3\]}'),
        ({"pruned_heads": {"a": [2]}}, "cfg: pruned_heads must be like"),
        ({"pruned_heads": {"12": [2]}}, "cfg: pruned_heads names block 12; there are 0 to 11"),
        ({"hidden_size": None}, "cfg: hidden_size is None"),
        ({"id2label": ["a", "b"]}, "cfg: id2label must be like"),
        ({"id2label": {"a": "b"}}, "cfg: id2label must be like"),
        ({"label2id": {"a": float("inf")}}, "cfg: id2label must be like"),
        ({"pruned_heads": {"1": [float("inf")]}}, "cfg: pruned_heads must be like"),
        ({"id2label": {"0": "a"}, "label2id": {"b": 0}}, "cfg: id2label and label2id differ"),
        ({"num_labels": 3, "id2label": {"0": "a"}}, "cfg: num_labels is 3, but id2label has 1"),
    ],
)
def test_foreign_keys_and_values_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BertConfig.from_dict({**BOOKKEEPING, **values}, where="cfg")


def test_labels_of_a_file() -> None:
    values = {"id2label": {"1": "yes", "0": "no"}, "label2id": {"yes": 1, "no": 0}}
    assert BertConfig.from_dict(values).id2label == {0: "no", 1: "yes"}
    assert BertConfig.from_dict({"label2id": {"yes": 1, "no": 0}}).label2id == {"no": 0, "yes": 1}
    assert BertConfig.from_dict({"num_labels": 1}).num_labels == 1


def test_read_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"hidden_size": 7}')
    with pytest.raises(UserError, match=f"^{path}: hidden_size 7 is not a multiple"):
        BertConfig.read(path)


def test_a_configuration_is_read_from_a_file_of_any_name(tmp_path: Path) -> None:
    config = BertConfig(hidden_size=24, num_attention_heads=2)
    for name in ("bert_config.json", "mine.json", "mine.json"):
        config.to_json_file(tmp_path / name)
        assert BertConfig.from_json_file(str(tmp_path / name)) == config
    with pytest.raises(UserError, match=r"other\.json: no such file"):
        BertConfig.from_json_file(tmp_path / "other.json")
