"""Real text of every file: ids, offsets and word ids equal the reference's.

By default every eighth line, others for each casing; every line with ``HEEDFUL_SWEEP`` (see
``test_sweep.py``), which takes some minutes, most of them the reference's.
"""

import gzip
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import SPECIAL

from heedful.tokens import BertTokenizer, Vocabulary

PACE = 1 if "HEEDFUL_SWEEP" in os.environ else 8


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
    return count


def _paced(lines: Iterator[str], start: int) -> Iterator[str]:
    return islice(lines, start % PACE, None, PACE)


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
