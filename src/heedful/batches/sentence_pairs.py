"""Cut documents into pre-training sequences.

Pairs for next sentence prediction (Devlin et al. 2019, section 3.1, task 2, and appendix A.2),
pairs for sentence order prediction (Lan et al. 2020, section 3.1), or full sequences for masked
language modelling only. The draws depend on the seed, the epoch and the document. So pairs differ
between epochs, but the same epoch always has the same pairs.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from heedful.batches.corpus import Documents, TokenizedDocument
from heedful.batches.examples import Example
from heedful.errors import UserError
from heedful.tokens import PairLayout

NEXT, RANDOM = 0.0, 1.0
"""Labels of pairs: the second part follows the first, or it does not."""

IN_ORDER, SWAPPED = 0.0, 1.0
"""Labels of sentence order pairs, as in the reference ALBERT."""

SHORT_SHARE = 0.1
"""Share of the pairs with a shorter target length, so that the model also sees short inputs."""

Ids = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """Special tokens and maximum length of a sequence."""

    layout: PairLayout
    max_length: int
    """Maximum tokens per sequence, special tokens included; at least 8."""
    one_text: bool = False
    """Whether a masked language modelling sequence has only one text, since several would mix."""


def sentence_pairs(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's pairs from a corpus: ``[CLS] first [SEP] second [SEP]``.

    As in the original, sentences of a document are collected until they fill a sequence. In 10 % of
    the pairs, the target is a shorter random length. The sentences are split in two at a random
    boundary. In half of the pairs, sentences from a random position of another document replace the
    second part, which is reused for the next pair. A document's last sentence has no successor and
    gets a random second part. A pair that is too long loses tokens at random ends of its longer
    part.

    Three points differ from the original. The other document is never the same document. A length
    is drawn per pair, not per document. A sentence longer than half a sequence counts as several,
    so that text without punctuation is not truncated.

    Args:
        corpus: at least two documents.
        frame: the form of a sequence.
        seed: determines the draws, with ``epoch``.
        epoch: number of the epoch.

    Yields:
        Examples in the order of the documents, with the label `NEXT` or `RANDOM`.

    Raises:
        UserError: there is only one document.
    """
    if len(corpus) < 2:
        raise UserError(
            "next sentence prediction needs at least 2 documents, to have a second part that does "
            "not follow the first; choose what ends a document with --documents (blank-line, gap,"
            " file, line), or give --objective mlm"
        )
    room = frame.max_length - frame.layout.size(pair=True)
    for document_index in range(len(corpus)):
        rng = Random(f"{seed}/{epoch}/{document_index}")
        for first, second, label in _pairs(corpus, document_index, room, rng):
            yield _example(first, second, label, frame.layout)


def ordered_pairs(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's pairs of consecutive parts; half of the pairs are swapped.

    Sentences of a document are collected and split in two as in `sentence_pairs`. A single
    remaining sentence is split in its middle. No text is lost, except that a pair that is too long
    loses tokens at random ends of its longer part.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws, with ``epoch``.
        epoch: number of the epoch.

    Yields:
        Examples in the order of the documents, with the label `IN_ORDER` or `SWAPPED`.
    """
    room = frame.max_length - frame.layout.size(pair=True)
    for document_index, document in enumerate(corpus):
        rng = Random(f"{seed}/{epoch}/{document_index}")
        for first, second in _neighbours(document, room, rng):
            if rng.random() < 0.5:
                yield _example(first, second, IN_ORDER, frame.layout)
            else:
                yield _example(second, first, SWAPPED, frame.layout)


def _example(first: Ids, second: Ids, label: float, layout: PairLayout) -> Example:
    parts = [_ids(layout.begin), first, _ids(layout.middle), second, _ids(layout.end)]
    split = layout.type_split(len(first))
    return Example(ids=np.concatenate(parts), split=split, labels=(label,))


def _neighbours(document: TokenizedDocument, room: int, rng: Random) -> Iterator[tuple[Ids, Ids]]:
    """Yield pairs of consecutive parts of a document, each pair at most ``room`` tokens."""
    bounds = _bounds(document.ends, room // 2)
    start, last = 0, len(bounds) - 1
    while start < last:
        target_end = bounds[start] + _target(room, rng)
        stop = min(bisect_left(bounds, target_end, start + 1), last)
        begin, end = bounds[start], bounds[stop]
        if stop > start + 1:
            split = bounds[start + 1 + _draw_below(stop - start - 1, rng)]
        else:
            split = (begin + end) // 2
        start = stop
        if split > begin:  # else the sentence is a single token
            yield _shortened(document.ids[begin:split], document.ids[split:end], room, rng)


def _target(room: int, rng: Random) -> int:
    """Draw the target length of a pair."""
    return room if rng.random() >= SHORT_SHARE else _draw_below(room - 1, rng) + 2


def _pairs(
    corpus: Documents, document_index: int, room: int, rng: Random
) -> Iterator[tuple[Ids, Ids, float]]:
    """Yield a document's pairs, each at most ``room`` tokens in total, and their labels."""
    document = corpus[document_index]
    bounds = _bounds(document.ends, room // 2)
    last = len(bounds) - 1
    start = 0
    while start < last:
        target = _target(room, rng)
        stop = min(bisect_left(bounds, bounds[start] + target, start + 1), last)
        split = start + 1 + (_draw_below(stop - start - 1, rng) if stop > start + 1 else 0)
        first = document.ids[bounds[start] : bounds[split]]
        if split == stop or rng.random() < 0.5:
            other = _draw_below(len(corpus) - 1, rng)
            other += other >= document_index  # any document except this one
            num_tokens = max(target - len(first), 1)
            second, label = _random_part(corpus[other], num_tokens, room // 2, rng), RANDOM
            start = split
        else:
            second, label = document.ids[bounds[split] : bounds[stop]], NEXT
            start = stop
        yield *_shortened(first, second, room, rng), label


def _bounds(ends: Ids, max_sentence: int) -> list[int]:
    """Return the sentence boundaries of a document. Long sentences are split into several."""
    bounds = [0]
    for end in ends.tolist():
        bounds += range(bounds[-1] + max_sentence, end, max_sentence)
        bounds.append(end)
    return bounds


def _random_part(
    document: TokenizedDocument, num_tokens: int, max_sentence: int, rng: Random
) -> Ids:
    """Return sentences from a random one on, until ``wanted`` tokens or the document's end."""
    sentence = _draw_below(len(document.ends), rng)
    start = int(document.ends[sentence - 1]) if sentence else 0
    last = min(int(np.searchsorted(document.ends, start + num_tokens)), len(document.ends) - 1)
    return document.ids[start : min(int(document.ends[last]), start + num_tokens + max_sentence)]


def _shortened(first: Ids, second: Ids, room: int, rng: Random) -> tuple[Ids, Ids]:
    """Remove tokens from random ends of the longer part until both parts fit."""
    if len(first) + len(second) <= room:
        return first, second
    num_kept = min(len(first), max(-(-room // 2), room - len(second)))
    return _trimmed(first, num_kept, rng), _trimmed(second, room - num_kept, rng)


def _trimmed(ids: Ids, num_kept: int, rng: Random) -> Ids:
    num_front = sum(rng.random() < 0.5 for _ in range(len(ids) - num_kept))
    return ids[num_front : num_front + num_kept]


def _draw_below(bound: int, rng: Random) -> int:
    """Draw an integer below ``bound`` with the only method whose sequence Python guarantees."""
    return int(rng.random() * bound)


def full_sequences(corpus: Documents, frame: Frame, *, seed: int, epoch: int) -> Iterator[Example]:
    """Cut an epoch's full sequences from a corpus: one or several ``[CLS] tokens [SEP]``.

    Documents are concatenated. When a sequence is full, the rest of the document continues in the
    next sequence. Each ``[CLS]`` begins a text, and `heedful.batches.packing` prevents attention
    between the texts of a sequence. The first sequence has a random length, so that each epoch cuts
    at different positions. All other sequences except the last are full.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws, with ``epoch``.
        epoch: number of the epoch.
    """
    begin, end = _ids(frame.layout.begin), _ids(frame.layout.end)
    num_special = len(begin) + len(end)
    min_room = num_special + 1
    room = min_room + _draw_below(frame.max_length - min_room + 1, Random(f"{seed}/{epoch}"))
    parts: list[Ids] = []
    for document in corpus:
        start = 0
        while start < len(document.ids):
            text = document.ids[start : start + room - num_special]
            parts += [begin, text, end]
            start += len(text)
            room -= len(text) + num_special
            if room < min_room or frame.one_text:
                yield Example(ids=np.concatenate(parts))
                parts, room = [], frame.max_length
    if parts:
        yield Example(ids=np.concatenate(parts))


def single_document_sequences(
    corpus: Documents, frame: Frame, *, seed: int, epoch: int
) -> Iterator[Example]:
    """Cut an epoch's sequences from a corpus, each from a single document, in text order.

    The first sequence of a document has a random length, so that each epoch cuts at different
    positions. All other sequences of the document except the last are full.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws, with ``epoch``.
        epoch: number of the epoch.
    """
    begin, end = _ids(frame.layout.begin), _ids(frame.layout.end)
    max_tokens = frame.max_length - len(begin) - len(end)
    for document_index, document in enumerate(corpus):
        start, room = 0, 1 + _draw_below(max_tokens, Random(f"{seed}/{epoch}/{document_index}"))
        while start < len(document.ids):
            yield Example(ids=np.concatenate([begin, document.ids[start : start + room], end]))
            start, room = start + room, max_tokens


def causal_sequences(
    corpus: Documents, frame: Frame, *, seed: int, epoch: int
) -> Iterator[Example]:
    """Cut an epoch's sequences for causal language modelling: begin tokens, then the text's tokens.

    Documents are concatenated as in `full_sequences`. End tokens follow only a document's real end,
    so that no model learns to end a text where a sequence is full. If the begin and end tokens are
    the same, the token appears once between two documents.

    Args:
        corpus: the documents.
        frame: the form of a sequence.
        seed: determines the draws, with ``epoch``.
        epoch: number of the epoch.
    """
    begin, end = _ids(frame.layout.begin), _ids(frame.layout.end)
    same = frame.layout.begin == frame.layout.end
    min_room = len(begin) + 1
    room = min_room + _draw_below(frame.max_length - min_room + 1, Random(f"{seed}/{epoch}"))
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
            if room < min_room:
                yield Example(ids=np.concatenate(parts))
                parts, room = [], frame.max_length
    if parts:
        yield Example(ids=np.concatenate(parts))


def _ids(special: tuple[int, ...]) -> Ids:
    return np.array(special, dtype=np.int32)
