"""Documents to the sequences that BERT is pre-trained on.

Pairs for next sentence prediction (Devlin et al. 2019, section 3.1, task 2, and appendix A.2) or
for sentence order (Lan et al. 2020, section 3.1), or full sequences for masked language modelling
alone. The draws depend on the seed, the epoch and the document, so each epoch has other pairs, and
the same epoch always the same.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from heedful.batches.corpus import Documents, Tokenized
from heedful.batches.examples import Example
from heedful.errors import UserError
from heedful.tokens import PairLayout

NEXT, RANDOM = 0.0, 1.0
"""The labels of pairs: the second part follows the first, or it does not."""

IN_ORDER, SWAPPED = 0.0, 1.0
"""The labels of pairs for sentence order, as the reference's ALBERT has them."""

SHORT_SHARE = 0.1
"""Share of the pairs that are made shorter, so that the model sees short inputs, too."""

Ids = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """The special tokens around the tokens of a sequence, and the greatest length."""

    layout: PairLayout
    max_length: int
    """The most tokens of a sequence, special tokens included; at least 8."""
    one_text: bool = False
    """Whether a sequence of masked words holds one text alone, since several would mix."""


def sentence_pairs(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's pairs from a corpus: ``[CLS] first [SEP] second [SEP]``.

    As in the original, sentences of a document are collected until they fill a sequence (in 10 % of
    the pairs a shorter one of random length), and divided in two at random. In half of the pairs,
    sentences from a random position of another document then replace the second part, which is used
    again for the next pair. A document's last sentence, which no other follows, gets a random
    second part. A pair that is too long loses tokens at either end of its longer part.

    Unlike the original, the other document is never the same one, a length is drawn for each pair
    instead of each document, and a sentence of more than half a sequence counts as several, so that
    text without punctuation is not cut off.

    Args:
        corpus: at least two documents.
        frame: the form of a sequence.
        seed: determines the draws together with ``epoch``.
        epoch: number of the epoch.

    Yields:
        Examples in the order of the documents, with the label `NEXT` or `RANDOM`.

    Raises:
        UserError: there is only one document.
    """
    if len(corpus) < 2:
        raise UserError(
            "next sentence prediction needs at least 2 documents, to have a second part that does "
            "not follow the first; say with --documents what ends a document (blank-line, gap, "
            "file, line), or give --objective mlm"
        )
    room = frame.max_length - frame.layout.size(pair=True)
    for number in range(len(corpus)):
        draw = Random(f"{seed}/{epoch}/{number}")
        for first, second, label in _pairs(corpus, number, room, draw):
            yield _example(first, second, label, frame.layout)


def ordered_pairs(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's pairs of neighbouring parts, in half of which the two are swapped.

    Sentences of a document are collected and divided in two as for `sentence_pairs`. One that is
    left alone is divided in its middle. So no text is lost, except that a pair that is too long
    loses tokens at either end of its longer part.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws together with ``epoch``.
        epoch: number of the epoch.

    Yields:
        Examples in the order of the documents, with the label `IN_ORDER` or `SWAPPED`.
    """
    room = frame.max_length - frame.layout.size(pair=True)
    for number, document in enumerate(corpus):
        draw = Random(f"{seed}/{epoch}/{number}")
        for first, second in _neighbours(document, room, draw):
            if draw.random() < 0.5:
                yield _example(first, second, IN_ORDER, frame.layout)
            else:
                yield _example(second, first, SWAPPED, frame.layout)


def _example(first: Ids, second: Ids, label: float, layout: PairLayout) -> Example:
    parts = [_ids(layout.begin), first, _ids(layout.middle), second, _ids(layout.end)]
    split = layout.type_split(len(first))
    return Example(ids=np.concatenate(parts), split=split, labels=(label,))


def _neighbours(document: Tokenized, room: int, draw: Random) -> Iterator[tuple[Ids, Ids]]:
    """Yield the parts of a document, both together at most ``room`` tokens."""
    bounds = _bounds(document.ends, room // 2)
    start, last = 0, len(bounds) - 1
    while start < last:
        goal = bounds[start] + _target(room, draw)
        stop = min(bisect_left(bounds, goal, start + 1), last)
        begin, end = bounds[start], bounds[stop]
        if stop > start + 1:
            split = bounds[start + 1 + _below(stop - start - 1, draw)]
        else:
            split = (begin + end) // 2
        start = stop
        if split > begin:  # else it was a single token
            yield _shortened(document.ids[begin:split], document.ids[split:end], room, draw)


def _target(room: int, draw: Random) -> int:
    """Draw the length of a pair."""
    return room if draw.random() >= SHORT_SHARE else _below(room - 1, draw) + 2


def _pairs(
    corpus: Documents, number: int, room: int, draw: Random
) -> Iterator[tuple[Ids, Ids, float]]:
    """Yield a document's pairs, both parts together at most ``room`` tokens, and their labels."""
    document = corpus[number]
    bounds = _bounds(document.ends, room // 2)
    last = len(bounds) - 1
    start = 0
    while start < last:
        target = _target(room, draw)
        stop = min(bisect_left(bounds, bounds[start] + target, start + 1), last)
        split = start + 1 + (_below(stop - start - 1, draw) if stop > start + 1 else 0)
        first = document.ids[bounds[start] : bounds[split]]
        if split == stop or draw.random() < 0.5:
            other = _below(len(corpus) - 1, draw)
            other += other >= number  # every document but this one
            wanted = max(target - len(first), 1)
            second, label = _random_part(corpus[other], wanted, room // 2, draw), RANDOM
            start = split
        else:
            second, label = document.ids[bounds[split] : bounds[stop]], NEXT
            start = stop
        yield *_shortened(first, second, room, draw), label


def _bounds(ends: Ids, longest: int) -> list[int]:
    """Return where a document's sentences begin and end; long ones are cut into several."""
    bounds = [0]
    for end in ends.tolist():
        bounds += range(bounds[-1] + longest, end, longest)
        bounds.append(end)
    return bounds


def _random_part(document: Tokenized, wanted: int, longest: int, draw: Random) -> Ids:
    """Return sentences from a random one on, up to ``wanted`` tokens if there are that many."""
    sentence = _below(len(document.ends), draw)
    start = int(document.ends[sentence - 1]) if sentence else 0
    last = min(int(np.searchsorted(document.ends, start + wanted)), len(document.ends) - 1)
    return document.ids[start : min(int(document.ends[last]), start + wanted + longest)]


def _shortened(first: Ids, second: Ids, room: int, draw: Random) -> tuple[Ids, Ids]:
    """Remove tokens from the longer part until both fit, each from a random end."""
    if len(first) + len(second) <= room:
        return first, second
    kept = min(len(first), max(-(-room // 2), room - len(second)))
    return _trimmed(first, kept, draw), _trimmed(second, room - kept, draw)


def _trimmed(ids: Ids, kept: int, draw: Random) -> Ids:
    front = sum(draw.random() < 0.5 for _ in range(len(ids) - kept))
    return ids[front : front + kept]


def _below(bound: int, draw: Random) -> int:
    """Draw a number from 0 to ``bound - 1``, by the one method that Python promises to keep."""
    return int(draw.random() * bound)


def full_sequences(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's full sequences from a corpus: one or several ``[CLS] tokens [SEP]``.

    Documents follow one another; when a sequence is full, the rest of a document continues in the
    next. Each ``[CLS]`` begins a text, and `heedful.batches.packing` keeps the texts of a sequence
    from attending to each other. The first sequence has a random length, so that each
    epoch cuts at other positions; all others but the last are full.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws together with ``epoch``.
        epoch: number of the epoch.
    """
    begin, end = _ids(frame.layout.begin), _ids(frame.layout.end)
    around = len(begin) + len(end)
    least = around + 1
    room = least + _below(frame.max_length - least + 1, Random(f"{seed}/{epoch}"))
    parts: list[Ids] = []
    for document in corpus:
        start = 0
        while start < len(document.ids):
            text = document.ids[start : start + room - around]
            parts += [begin, text, end]
            start += len(text)
            room -= len(text) + around
            if room < least or frame.one_text:
                yield Example(ids=np.concatenate(parts))
                parts, room = [], frame.max_length
    if parts:
        yield Example(ids=np.concatenate(parts))


def single_texts(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's sequences from a corpus, each of one document: its text in order.

    The first sequence of a document has a random length, so that each epoch cuts at other
    positions; all others but the last are full.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws together with ``epoch``.
        epoch: number of the epoch.
    """
    begin, end = _ids(frame.layout.begin), _ids(frame.layout.end)
    most = frame.max_length - len(begin) - len(end)
    for number, document in enumerate(corpus):
        start, room = 0, 1 + _below(most, Random(f"{seed}/{epoch}/{number}"))
        while start < len(document.ids):
            yield Example(ids=np.concatenate([begin, document.ids[start : start + room], end]))
            start, room = start + room, most


def running_texts(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's sequences for next words from a corpus: what begins a text, then its tokens.

    Documents follow one another as in `full_sequences`. A document is ended only where it ends, so
    that no model learns to end a text where a sequence was full. Where one token ends a text and
    begins another it stands between two documents once.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws together with ``epoch``.
        epoch: number of the epoch.
    """
    begin, end = _ids(frame.layout.begin), _ids(frame.layout.end)
    same = frame.layout.begin == frame.layout.end
    least = len(begin) + 1
    room = least + _below(frame.max_length - least + 1, Random(f"{seed}/{epoch}"))
    parts: list[Ids] = []
    for document in corpus:
        start = 0
        while start < len(document.ids):
            if not (parts and same):
                parts.append(begin)
                room -= len(begin)
            text = document.ids[start : start + room]
            start, room = start + len(text), room - len(text)
            parts.append(text)
            if start == len(document.ids) and room >= len(end):
                parts.append(end)
                room -= len(end)
            if room < least:
                yield Example(ids=np.concatenate(parts))
                parts, room = [], frame.max_length
    if parts:
        yield Example(ids=np.concatenate(parts))


def _ids(special: tuple[int, ...]) -> Ids:
    return np.array(special, dtype=np.int32)
