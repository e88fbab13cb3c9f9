"""Real text of every file: ids, offsets and word ids equal the reference's.

By default every 40th line, others for each casing, and every 80th for bytes; every line with
``HEEDFUL_SWEEP`` (see ``test_sweep.py``), which takes some minutes, most of them the reference's.
"""

import gzip
import os
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import SPECIAL
from tests.tokens.reference import (
    assert_same_batch,
    assert_same_pieces,
    unpacked,
)

from heedful.tokens import BertTokenizer, RobertaTokenizer, SpecialTokens, Vocabulary
from heedful.tokens.bytelevel import ByteLevelEncoder
from heedful.tokens.vocabulary import read_ids, read_merges, read_tokens

pytestmark = pytest.mark.slow

SWEEP = "HEEDFUL_SWEEP" in os.environ
PACE, BYTE_PACE = (1, 1) if SWEEP else (40, 80)


def _lines(folder: Path, pattern: str = "**/*.gz") -> Iterator[str]:
    """Yield each line of a folder's files once; CoNLL's repeat a lot."""
    met: set[str] = set()
    for path in sorted(folder.glob(pattern)):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
            for line in stream.read().split("\n"):
                if line not in met:
                    met.add(line)
                    yield line


def _assert_equal(ours: BertTokenizer, theirs: Any, lines: Iterator[str]) -> int:
    count = 0
    while texts := list(islice(lines, 20_000)):
        count += len(texts)
        expected = theirs.encode_batch(texts, add_special_tokens=False)
        for text, ids, one in zip(texts, ours.encode_batch(texts), expected, strict=True):
            found = ours.pieces(text)
            assert ids == one.ids, text
            assert (found.ids, found.offsets, found.words) == (ids, one.offsets, one.word_ids), text
        together = ours._encoder.batch(texts, located=True).lists()
        assert (together.ids == [*chain.from_iterable(one.ids for one in expected)]) is True
        assert (together.offsets == [*chain.from_iterable(e.offsets for e in expected)]) is True
    return count


def _paced(lines: Iterator[str], start: int, pace: int = PACE) -> Iterator[str]:
    return islice(lines, start % pace, None, pace)


def test_every_line_uncased(
    data_folder: Path, uncased: BertTokenizer, compiled: Callable[..., Any]
) -> None:
    theirs = compiled(uncased.vocabulary.tokens, do_lower_case=True)
    assert _assert_equal(uncased, theirs, _paced(_lines(data_folder), 0)) > 450_000 / PACE


def test_every_line_cased(data_folder: Path, compiled: Callable[..., Any]) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=6_000, special_tokens=SPECIAL, show_progress=False
    )
    learner = compiled(SPECIAL, do_lower_case=False)
    learner.train_from_iterator(_lines(data_folder, "multi30k/val*.gz"), trainer)
    learned = learner.get_vocab()
    tokens = sorted(learned, key=learned.__getitem__)
    assert len(tokens) == 6_000
    ours = BertTokenizer(Vocabulary(tokens), do_lower_case=False)
    theirs = compiled(tokens, do_lower_case=False)
    assert _assert_equal(ours, theirs, _paced(_lines(data_folder), 2)) > 450_000 / PACE


def test_every_chinese_line(data_folder: Path, compiled: Callable[..., Any]) -> None:
    vocabulary = Vocabulary(read_tokens(data_folder / "zh/vocab.txt"))
    lines = _paced(_lines(data_folder / "zh"), 6)
    ours = BertTokenizer(vocabulary)
    theirs = compiled(vocabulary.tokens, do_lower_case=True)
    assert _assert_equal(ours, theirs, lines) > 150_000 / PACE


def _assert_equal_bytes(ours: ByteLevelEncoder, theirs: Any, lines: Iterator[str]) -> int:
    count = 0
    while texts := list(islice(lines, 20_000)):
        count += len(texts)
        expected = theirs.encode_batch(texts, add_special_tokens=False)
        assert_same_batch(texts, ours.batch(texts, located=True), expected)
        for text, ids, one in islice(
            zip(texts, ours.ids(texts), expected, strict=True), 0, None, 8
        ):
            assert ids == one.ids, text
            assert_same_pieces(text, ours.pieces(text), one)
    return count


def test_every_line_as_roberta(
    data_folder: Path, roberta: RobertaTokenizer, roberta_reference: Any
) -> None:
    ours = roberta._encoder
    assert isinstance(ours, ByteLevelEncoder)
    theirs, lines = roberta_reference.backend_tokenizer, _paced(_lines(data_folder), 4, BYTE_PACE)
    assert _assert_equal_bytes(ours, theirs, lines) > 450_000 / BYTE_PACE


def test_every_line_as_gpt_2(data_folder: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    folder = unpacked(data_folder / "tokenizers/gpt2", tmp_path)
    ids, merges = read_ids(folder / "vocab.json"), read_merges(folder / "merges.txt")
    special = SpecialTokens(**dict.fromkeys(SpecialTokens().named(), "<|endoftext|>"))
    vocabulary = Vocabulary(sorted(ids, key=ids.__getitem__), special)
    ours = ByteLevelEncoder(vocabulary, merges, add_prefix_space=False)
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.post_processor = tokenizers.processors.ByteLevel(add_prefix_space=False)
    theirs.add_special_tokens(["<|endoftext|>"])
    lines = _paced(_lines(data_folder), 6, BYTE_PACE)
    assert _assert_equal_bytes(ours, theirs, lines) > 450_000 / BYTE_PACE
