import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor

from heedful import BertPreTrainedModel, RobertaPreTrainedModel
from heedful.errors import UserError
from heedful.files import read_tensors, write_tensors
from heedful.models import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    load_model,
)
from heedful.models.weights import read_weights

IDS = torch.tensor([[2, 7, 8, 9, 3]])


@pytest.fixture
def folder(config: BertConfig, tmp_path: Path) -> Path:
    """Provide a folder with a classifier of three labels."""
    BertForSequenceClassification(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def _change(folder: Path, change: dict[str, Tensor | None]) -> dict[str, Tensor]:
    """Add, replace or (with None) remove weights."""
    merged = {**read_tensors(folder / "model.safetensors"), **change}
    tensors = {name: tensor for name, tensor in merged.items() if tensor is not None}
    write_tensors(folder / "model.safetensors", tensors)
    return tensors


def test_there_and_back_is_exact(config: BertConfig, tmp_path: Path) -> None:
    model = BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path / "a")
    again = BertForSequenceClassification.from_pretrained(tmp_path / "a")
    assert again.config == config
    assert not again.training
    assert_same_bits(again.state_dict(), model.state_dict(), "stored")
    assert_same_bits(again(IDS).logits, model(IDS).logits, "stored")
    again.save_pretrained(tmp_path / "b")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def _is_mapped(tensor: Tensor, file: Path) -> bool:
    """Return whether a tensor lies in a file that is mapped into memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= tensor.data_ptr() < last:
            return line.endswith(str(file))
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_weights_stay_in_their_file_where_that_is_asked_for(folder: Path) -> None:
    copied, mapped = load_model(folder), load_model(folder, memory_map=True)
    file = (folder / "model.safetensors").resolve()
    assert all(_is_mapped(weight, file) for weight in mapped.parameters())
    assert not any(_is_mapped(weight, file) for weight in copied.parameters())
    assert_same_bits(mapped.state_dict(), copied.state_dict(), "stored")


def test_a_change_of_mapped_weights_does_not_reach_the_file(folder: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    for weight in load_model(folder, memory_map=True).parameters():
        weight.data.add_(1)
    assert (folder / "model.safetensors").read_bytes() == before


def test_an_encoder_gets_a_fresh_head_and_says_so(
    config: BertConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = BertModel(config).eval()
    encoder.save_pretrained(tmp_path / "encoder")
    model = BertForSequenceClassification.from_pretrained(tmp_path / "encoder", num_labels=4)
    (record,) = caplog.records
    assert record.message.endswith("fresh weights, to be trained: classifier")
    assert_same_bits(model.bert(IDS).pooler_output, encoder(IDS).pooler_output, "stored")
    assert model.classifier.weight.shape == (4, 24)
    assert 0.01 < model.classifier.weight.std().item() < 0.03
    assert model.classifier.bias.eq(0).all()


def test_a_fresh_head_follows_the_seed(config: BertConfig, tmp_path: Path) -> None:
    BertModel(config).save_pretrained(tmp_path / "encoder")
    heads = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        model = BertForSequenceClassification.from_pretrained(tmp_path / "encoder")
        heads.append(model.classifier.weight)
    assert_same_bits(heads[0], heads[1], "same code")
    assert not torch.allclose(heads[0], heads[2])


def test_another_head_is_left_and_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    _change(folder, {"cls.predictions.bias": torch.zeros(50)})
    caplog.set_level(logging.INFO)
    model = BertModel.from_pretrained(folder)
    assert "not used: classifier.bias, classifier.weight, cls.predictions.bias" in caplog.text
    report = model.set_file_weights(read_weights(folder, False), folder)
    assert report.fresh == []
    assert report.unused == ["classifier.bias", "classifier.weight", "cls.predictions.bias"]


def test_a_model_without_a_pooler(folder: Path, config: BertConfig) -> None:
    model = BertModel(config, add_pooling_layer=False)
    unused = model.set_file_weights(read_weights(folder, False), folder).unused
    assert {"pooler.dense.weight", "pooler.dense.bias"} < set(unused)
    expected = BertModel.from_pretrained(folder)(IDS).last_hidden_state
    assert_same_bits(model.eval()(IDS).last_hidden_state, expected, "stored")


def test_old_names_and_buffers_are_read(folder: Path) -> None:
    expected = BertForSequenceClassification.from_pretrained(folder)(IDS).logits
    tensors = read_tensors(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    assert old.keys() != tensors.keys()
    old["bert.embeddings.position_ids"] = torch.arange(12)[None]
    write_tensors(folder / "model.safetensors", old)
    again = BertForSequenceClassification.from_pretrained(folder)
    assert_same_bits(again(IDS).logits, expected, "stored")


QUERY = "bert.encoder.layer.1.attention.self.query"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({f"{QUERY}.weight": None}, r"weights are missing: encoder\.layer\.1\.attention\.self\.q"),
        ({"bert.embeddings.word_embeddings.weight": None}, "missing: embeddings.word"),
        ({"classifier.bias": None}, "weights are missing: classifier.bias"),
        ({"bert.pooler.dense.bias": None}, "weights are missing: pooler.dense.bias"),
        (
            {"bert.encoder.layer.2.output.dense.bias": torch.zeros(24)},
            r"weights that config.json does not mention: encoder\.layer\.2\.output\.dense\.bias",
        ),
        (
            {f"{QUERY}.weight": torch.zeros(24, 20)},
            r"self\.query\.weight has shape \(24, 20\); the model expects \(24, 24\)",
        ),
        ({f"{QUERY}.bias": torch.zeros(24).long()}, "has type torch.int64; weights are floating"),
        ({f"{QUERY[5:]}.bias": torch.zeros(24)}, "self.query.bias appears twice"),
    ],
)
def test_weights_that_do_not_fit_are_named(
    folder: Path, change: dict[str, Tensor | None], message: str
) -> None:
    _change(folder, change)
    with pytest.raises(UserError, match=message) as raised:
        BertForSequenceClassification.from_pretrained(folder)
    assert str(raised.value).startswith(str(folder))


def test_many_names_are_cut_short(folder: Path) -> None:
    write_tensors(folder / "model.safetensors", {"roberta.x": torch.zeros(1)})
    with pytest.raises(UserError, match=r"missing: embeddings\.word.* and 25 more$"):
        BertForSequenceClassification.from_pretrained(folder)


def test_another_number_of_labels_needs_another_head(folder: Path) -> None:
    message = r"classifier.weight has shape \(3, 24\); .* \(5, 24\), or fresh_head=True"
    with pytest.raises(UserError, match=message):
        BertForSequenceClassification.from_pretrained(folder, num_labels=5)
    old = BertForSequenceClassification.from_pretrained(folder)
    new = BertForSequenceClassification.from_pretrained(folder, num_labels=5, fresh_head=True)
    assert new.classifier.weight.shape == (5, 24)
    assert_same_bits(new.bert(IDS).pooler_output, old.bert(IDS).pooler_output, "stored")
    again = BertForSequenceClassification.from_pretrained(folder, fresh_head=True)
    assert not torch.allclose(again.classifier.weight, old.classifier.weight)


def test_options_change_the_configuration(folder: Path) -> None:
    changes: dict[str, Any] = {
        "hidden_dropout_prob": 0.3,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": 0.5,
        "problem_type": "multi_label_classification",
        "id2label": {0: "a", 1: "b", 2: "c"},
    }
    model = BertForSequenceClassification.from_pretrained(folder, **changes)
    for name, value in changes.items():
        assert getattr(model.config, name) == value
    assert (
        BertForSequenceClassification.from_pretrained(folder, num_labels=3).config.num_labels == 3
    )
    with pytest.raises(UserError, match="num_labels is 0; it must be at least 1"):
        BertForSequenceClassification.from_pretrained(folder, num_labels=0)
    with pytest.raises(UserError, match="num_labels is '3'; it must be an integer"):
        BertForSequenceClassification.from_pretrained(folder, **{"num_labels": "3"})
    with pytest.raises(UserError, match="id2label has the ids 'a', 'b'; they must be 0 to 1"):
        BertForSequenceClassification.from_pretrained(folder, **{"id2label": ["a", "b"]})
    with pytest.raises(TypeError, match="num_label"):
        BertForSequenceClassification.from_pretrained(folder, num_label=3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_are_read_as_float32(folder: Path, dtype: torch.dtype) -> None:
    tensors = read_tensors(folder / "model.safetensors")
    stored = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    write_tensors(folder / "model.safetensors", stored)
    for name, parameter in BertForSequenceClassification.from_pretrained(folder).named_parameters():
        assert parameter.dtype == torch.float32
        assert_same_bits(parameter, stored[name].float(), "stored")


def test_the_file_can_go_away_after_reading(folder: Path) -> None:
    model = BertForSequenceClassification.from_pretrained(folder)
    before = model(IDS).logits
    file = folder / "model.safetensors"
    with file.open("r+b") as stream:
        stream.write(b"\0" * file.stat().st_size)
    assert_same_bits(model(IDS).logits, before, "stored")


def test_a_pickle_is_read_only_when_asked_for(folder: Path) -> None:
    expected = BertForSequenceClassification.from_pretrained(folder)(IDS).logits
    torch.save(read_tensors(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        UserError, match=r"convert it .* allow_pickle=True\) reads it, if you trust"
    ):
        BertForSequenceClassification.from_pretrained(folder)
    model = BertForSequenceClassification.from_pretrained(folder, allow_pickle=True)
    assert_same_bits(model(IDS).logits, expected, "stored")


def test_a_pickle_is_converted_as_the_documentation_says(folder: Path) -> None:
    expected = read_tensors(folder / "model.safetensors")
    shared = {**expected, "twice": next(iter(expected.values()))}  # as tied weights are
    torch.save(shared, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    page = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code.replace('"folder"', repr(str(folder))), str(page), "exec"), {})
    assert_same_bits(read_tensors(folder / "model.safetensors"), shared, "stored")
    BertForSequenceClassification.from_pretrained(folder)


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("trapped"),))


@pytest.mark.parametrize("content", [{"a": _Trap()}, {"a": 3}, [torch.zeros(1)], b"not a pickle"])
def test_a_pickle_of_anything_else_is_refused(
    folder: Path, content: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "model.safetensors").unlink()
    if isinstance(content, bytes):
        (folder / "pytorch_model.bin").write_bytes(content)
    else:
        torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model\.bin: .* nothing but tensors"):
        BertForSequenceClassification.from_pretrained(folder, allow_pickle=True)
    assert not (folder / "trapped").exists()


def test_a_folder_without_weights_says_so(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no weights; expected model\.safetensors"):
        BertForSequenceClassification.from_pretrained(folder)


def test_shards_are_read(folder: Path) -> None:
    expected = BertForSequenceClassification.from_pretrained(folder)(IDS).logits
    tensors = read_tensors(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    where = {name: f"part-{number % 3}.safetensors" for number, name in enumerate(names)}
    for part in sorted(set(where.values())):
        inside = {name: tensors[name] for name in names if where[name] == part}
        write_tensors(folder / part, inside)
    (folder / "sub").mkdir()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    again = BertForSequenceClassification.from_pretrained(folder)
    assert_same_bits(again(IDS).logits, expected, "stored")

    for wrong, message in (
        ({"weight_map": where | {"x": "part-0.safetensors"}}, "missing from the shards: x"),
        ({"weight_map": where | {"x": "../part"}}, "'../part' is not the name of a file beside"),
        ({"weight_map": where | {"x": [3]}}, r"\[3\] is not the name of a file beside"),
        *(
            ({"weight_map": where | {"x": name}}, f"{re.escape(repr(name))} is not the name of")
            for name in ("", ".", "..", "a\0b")
        ),
        ({"weight_map": where | {"x": "sub"}}, "sub: no such file .it is a folder"),
        ({"metadata": {}}, "no 'weight_map' in it"),
    ):
        index.write_text(json.dumps(wrong))
        with pytest.raises(UserError, match=message):
            BertForSequenceClassification.from_pretrained(folder)


def test_saving_keeps_other_files_and_asks_before_replacing(folder: Path) -> None:
    (folder / "vocab.txt").write_text("[PAD]\n")
    model = BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.fill_(1)
    with pytest.raises(UserError, match=r"has a config.json; .* give overwrite=True"):
        model.save_pretrained(folder)
    model.save_pretrained(folder, overwrite=True)
    again = BertForSequenceClassification.from_pretrained(folder)
    assert again.classifier.bias.eq(1).all()
    files = sorted(file.name for file in folder.iterdir())
    assert files == ["config.json", "model.safetensors", "vocab.txt"]


def test_a_file_is_no_folder(config: BertConfig, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("")
    with pytest.raises(UserError, match="model is a file; give a folder"):
        BertModel(config).save_pretrained(tmp_path / "model")


def test_a_tokenizer_may_have_saved_first(config: BertConfig, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    BertModel(config).save_pretrained(tmp_path)
    assert BertModel.from_pretrained(tmp_path).config == config


def test_an_encoder_becomes_a_decoder(
    config: BertConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = BertModel(config).eval()
    encoder.save_pretrained(tmp_path)
    model = BertModel.from_pretrained(tmp_path, is_decoder=True, add_cross_attention=True)
    (record,) = caplog.records
    assert record.message.endswith("fresh weights, to be trained: encoder.layer.*.crossattention")
    assert model.config.is_decoder
    cross = model.encoder.layer[1].crossattention
    assert 0.01 < cross.self.query.weight.std() < 0.03
    assert cross.output.LayerNorm.weight.eq(1).all()
    first = IDS[:, :1]  # it attends to itself alone
    torch.testing.assert_close(model(first).last_hidden_state, encoder(first).last_hidden_state)
    assert not torch.allclose(model(IDS).last_hidden_state, encoder(IDS).last_hidden_state)

    model.save_pretrained(tmp_path / "decoder")
    caplog.clear()
    again = BertModel.from_pretrained(tmp_path / "decoder")
    assert again.config == model.config
    assert not caplog.records


def test_absolute_positions_become_relative(
    config: BertConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    BertModel(config).save_pretrained(tmp_path)
    model = BertModel.from_pretrained(
        tmp_path, position_embedding_type="relative_key", chunk_size_feed_forward=2
    )
    name = "encoder.layer.*.attention.self.distance_embedding"
    assert caplog.messages == [f"{tmp_path}: fresh weights, to be trained: {name}"]
    assert model.config.chunk_size_feed_forward == 2
    assert model(IDS).last_hidden_state.isfinite().all()


@pytest.mark.parametrize("part", ["crossattention.self.query.weight", "crossattention.self.key"])
def test_a_part_of_cross_attention_is_not_enough(
    config: BertConfig, tmp_path: Path, part: str
) -> None:
    values = {**config.to_dict(), "is_decoder": True, "add_cross_attention": True}
    BertModel(BertConfig.from_dict(values)).save_pretrained(tmp_path)
    name = f"encoder.layer.1.{part}" + ("" if part.endswith("weight") else ".bias")
    _change(tmp_path, {name: None})
    with pytest.raises(UserError, match=f"weights are missing: {name}$"):
        BertModel.from_pretrained(tmp_path)


def test_a_loop_may_save_its_model_again(folder: Path, tmp_path: Path) -> None:
    model = BertModel.from_pretrained(folder)
    saved = tmp_path / "saved"
    for _ in range(2):
        model.save_pretrained(saved)
        model.config.save_pretrained(saved)
        with torch.no_grad():
            model.embeddings.word_embeddings.weight.add_(1)
    other = BertModel.from_pretrained(saved)
    with pytest.raises(UserError, match=r"has a config\.json; choose another folder"):
        other.save_pretrained(saved)
    other.save_pretrained(saved, overwrite=True)
    with pytest.raises(UserError, match=r"has a config\.json; choose another folder"):
        model.save_pretrained(saved)  # something else has saved there since


def test_a_frozen_head_stays_frozen_when_it_grows(config: BertConfig) -> None:
    model = BertForMaskedLM(config).requires_grad_(False)
    model.resize_token_embeddings(config.vocab_size + 1)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_a_model_of_ones_own_needs_a_body(folder: Path) -> None:
    class Bodiless(BertPreTrainedModel):
        pass

    with pytest.raises(UserError, match="Bodiless has no body; its constructor must set bert"):
        Bodiless.from_pretrained(folder)
    with pytest.raises(UserError, match="model_type is 'bert', but Other needs RobertaConfig"):
        type("Other", (RobertaPreTrainedModel,), {}).from_pretrained(folder)
