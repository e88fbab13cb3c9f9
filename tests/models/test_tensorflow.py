"""A checkpoint of Google's original BERT, as TensorFlow 2.21 (``v1.train.Saver``) writes it.

``tensorflow/original`` holds a tiny one, with every variable that Google's pre-training has, some
of the optimizer's and the step. The values of each variable begin at the length of its name and go
up by an eighth. ``tensorflow/tuned`` has the heads that Google's fine-tuning scripts make, and
``tensorflow/objects`` is the index of a checkpoint that ``tf.train.Checkpoint`` wrote.
"""

import logging
import os
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tests.exact import assert_same_bits

from heedful.errors import UserError
from heedful.models import BertForPreTraining, BertModel, tensorflow
from heedful.models.tensorflow import find_index, read_tensors

FILES = Path(__file__).parent / "tensorflow"
INDEX = FILES / "original" / "bert_model.ckpt.index"
DATA = "bert_model.ckpt.data-00000-of-00001"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a copy of the original checkpoint."""
    shutil.copytree(FILES / "original", tmp_path / "bert")
    return tmp_path / "bert"


def _values(name: str, *shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (len(name) + torch.arange(count) / 8).view(shape)


@pytest.mark.parametrize(
    ("ours", "name", "shape"),
    [
        ("bert.embeddings.word_embeddings.weight", "bert/embeddings/word_embeddings", (7, 4)),
        ("bert.embeddings.LayerNorm.weight", "bert/embeddings/LayerNorm/gamma", (4,)),
        ("bert.embeddings.LayerNorm.bias", "bert/embeddings/LayerNorm/beta", (4,)),
        (
            "bert.encoder.layer.0.attention.self.query.bias",
            "bert/encoder/layer_0/attention/self/query/bias",
            (4,),
        ),
        ("cls.predictions.bias", "cls/predictions/output_bias", (7,)),
        ("cls.seq_relationship.weight", "cls/seq_relationship/output_weights", (2, 4)),
    ],
)
def test_values_come_under_the_references_names(
    ours: str, name: str, shape: tuple[int, ...]
) -> None:
    assert_same_bits(read_tensors(INDEX)[ours], _values(name, *shape), "stored")


def test_a_kernel_is_turned_round() -> None:
    name = "bert/encoder/layer_0/intermediate/dense/kernel"
    weight = read_tensors(INDEX)["bert.encoder.layer.0.intermediate.dense.weight"]
    assert_same_bits(weight, _values(name, 4, 6).T, "stored")


def test_heads_that_were_fine_tuned_have_their_names() -> None:
    index = find_index(FILES / "tuned")
    assert index is not None
    tensors = read_tensors(index)
    assert_same_bits(tensors["classifier.weight"], _values("output_weights", 3, 4), "stored")
    ends = _values("cls/squad/output_weights", 2, 4)
    assert_same_bits(tensors["qa_outputs.weight"], ends, "stored")
    assert tensors.keys() == {
        f"{head}.{part}" for head in ("classifier", "qa_outputs") for part in ("weight", "bias")
    }


def test_a_model_is_read_whole(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model = BertForPreTraining.from_pretrained(folder)
    assert not caplog.records  # nothing fresh, nothing left over
    assert (model.config.hidden_size, model.config.vocab_size) == (4, 7)
    ids = torch.tensor([[1, 2, 3]])
    model.save_pretrained(folder.with_name("ours"))
    again = BertModel.from_pretrained(folder.with_name("ours"))
    assert_same_bits(again(ids).pooler_output, model.bert(ids).pooler_output, "stored")


def test_newer_files_come_first(folder: Path) -> None:
    model = BertModel.from_pretrained(folder)
    with torch.no_grad():
        model.pooler.dense.bias.fill_(3)
    model.save_pretrained(folder)
    assert BertModel.from_pretrained(folder).pooler.dense.bias.eq(3).all()


def test_damage_in_the_index_is_told_or_harmless(folder: Path) -> None:
    path = folder / INDEX.name
    content, right = path.read_bytes(), read_tensors(INDEX)
    places, told = range(0, len(content), 3), 0
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        try:
            found = read_tensors(path)
        except UserError:
            told += 1
            continue
        assert_same_bits(found, right, "stored")
    # The rest is padding, and an empty block about the table.
    assert told > 0.95 * len(places)


@pytest.mark.parametrize("length", [0, 7, 40, 700, 1460])
def test_a_part_of_an_index_is_told(folder: Path, length: int) -> None:
    path = folder / INDEX.name
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match=r"ckpt\.index: damaged, or not the index of a TensorFlow"):
        BertModel.from_pretrained(folder)


def test_missing_or_short_weights_are_told(folder: Path) -> None:
    content = (folder / DATA).read_bytes()
    (folder / DATA).write_bytes(content[:-9])  # the step, of 8 bytes, is the last
    with pytest.raises(UserError, match=r"damaged or truncated: .* does not fit into it"):
        BertModel.from_pretrained(folder)
    (folder / DATA).unlink()
    with pytest.raises(UserError, match="no such file; the checkpoint's index lists it"):
        BertModel.from_pretrained(folder)


def test_a_checkpoint_of_objects_is_not_read() -> None:
    with pytest.raises(UserError, match=r"a checkpoint of TensorFlow 2, .*; convert it"):
        read_tensors(FILES / "objects" / INDEX.name)


def test_of_several_checkpoints_none_is_taken(folder: Path) -> None:
    shutil.copy(folder / INDEX.name, folder / "model.ckpt-100.index")
    with pytest.raises(UserError, match=r"several .*: bert_model\.ckpt\.index, model\.ckpt-100"):
        find_index(folder)


@pytest.mark.parametrize(
    "name", ["tf_model.h5", "flax_model.msgpack", "pytorch_model.bin.index.json"]
)
def test_other_formats_say_what_to_convert(folder: Path, name: str) -> None:
    (folder / INDEX.name).rename(folder / name)
    with pytest.raises(UserError, match=f"weights are in {name}, .* convert it to model.safetens"):
        BertModel.from_pretrained(folder)


def _number(value: int) -> bytes:
    low = value & 127
    return bytes([low | 128]) + _number(value >> 7) if value > 127 else bytes([low])


def _block(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    parts = (b"\0" + _number(len(key)) + _number(len(x)) + key + x for key, x in entries)
    return b"".join(parts) + struct.pack("<II", 0, 1)


def _index(path: Path, entries: Sequence[tuple[bytes, bytes]], handles: int = 1) -> Path:
    """Write an index of one block, with right checksums."""
    content = b""

    def added(block: bytes) -> bytes:
        nonlocal content
        crc = tensorflow._crc32c(block + b"\0")
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
        handle = _number(len(content)) + _number(len(block))
        content += block + b"\0" + struct.pack("<I", masked)
        return handle

    data = added(_block([(b"", b"\x08\x01"), *entries]))
    footer = b"\0\0" + added(_block([(b"z", data)] * handles))
    path.write_bytes(content + footer.ljust(40, b"\0") + struct.pack("<Q", tensorflow._MAGIC))
    return path


def _entry(offset: int, shape: Sequence[int] = (2,), more: bytes = b"") -> bytes:
    sizes = (b"\x08" + _number(size) for size in shape)
    dimensions = b"".join(b"\x12" + _number(len(size)) + size for size in sizes)
    shaped = b"\x12" + _number(len(dimensions)) + dimensions
    return b"\x08\x01" + shaped + b"\x20" + _number(offset) + b"\x28\x08" + more


def test_an_index_that_was_made_to_do_harm_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt.index"
    path.with_suffix(".data-00000-of-00001").write_bytes(bytes(16))
    assert len(read_tensors(_index(path, [(b"a", _entry(0)), (b"b", _entry(8))]))) == 2
    assert len(read_tensors(_index(path, [(b"a" * 512, _entry(0))]))) == 1
    damaged = r"a\.ckpt\.index: damaged, or not the index"
    for entries, handles in (
        ([(b"a", _entry(0)), (b"b", _entry(4))], 1),  # overlapping
        ([(b"a", _entry(0)), (b"b", _entry(0))], 1),
        ([(b"a", _entry(0))], 2),  # one block, named twice
        ([(b"a" * 513, _entry(0))], 1),
        ([(b"a", _entry(0, (1,) * 32 + (2,)))], 1),
        ([(b"a", _entry(0, (0, 2**62)))], 1),
        ([(b"a", _entry(0, more=b"\x18" + b"\x80" * 70 + b"\0"))], 1),  # a number without an end
        ([(b"a", _entry(0, more=b"\x1a\x01a"))], 1),  # bytes for a number
    ):
        with pytest.raises(UserError, match=damaged):
            read_tensors(_index(path, entries, handles))
    with pytest.raises(UserError, match="damaged or truncated: b does not fit into it"):
        read_tensors(_index(path, [(b"a", _entry(0)), (b"b", _entry(16))]))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserError, match="not a regular file"):
        read_tensors(path)
