"""Texts and their translations as examples; a text that is too long is cut into parts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from heedful.batches.examples import Example
from heedful.batches.sentences import running_sentences
from heedful.batches.windows import fit_text
from heedful.errors import UserError
from heedful.reading import Record
from heedful.settings import LongText
from heedful.tokens import TranslationTokenizer
from heedful.tokens.text import BYTES, SPACE

_TOGETHER = 1024
"""Texts tokenized at once."""
_INSIDE = frozenset(BYTES[0x80:0xC0])
"""Bytes that continue a character in UTF-8: at most three in a row, fewer than any limit."""


def token_ids(
    records: Iterable[Record], tokenizer: TranslationTokenizer
) -> Iterator[tuple[Record, list[int], list[int]]]:
    """Yield each record with the ids of its text and of its translation, if it has one."""
    stream = iter(records)
    while chunk := list(islice(stream, _TOGETHER)):
        sources = tokenizer.source.encode_batch([record.text for record in chunk])
        targets = tokenizer.target.encode_batch([record.text_pair or "" for record in chunk])
        yield from zip(chunk, sources, targets, strict=True)


def to_example(
    source: Sequence[int], target: Sequence[int], tokenizer: TranslationTokenizer
) -> Example:
    """Make an example of a text, whose end token is added, and of the tokens to write."""
    ids = np.array([*source, tokenizer.eos_token_id], dtype=np.int32)
    return Example(ids=ids, labels=tuple(target))


def encode_pairs(
    records: Iterable[Record], tokenizer: TranslationTokenizer
) -> Iterator[tuple[Record, Example]]:
    """Encode pairs to learn from, of any length."""
    for record, source, target in token_ids(records, tokenizer):
        yield record, to_example(source, [*target, tokenizer.eos_token_id], tokenizer)


def cut_source(
    record: Record,
    ids: list[int],
    tokenizer: TranslationTokenizer,
    *,
    limit: int,
    rule: LongText,
) -> list[Sequence[int]]:
    """Cut a text that is too long by the rule; ``window`` cuts it at the ends of sentences.

    Each part then begins with the language code of the text, if it has one.

    Args:
        record: the text.
        ids: its ids, without the end token.
        tokenizer: the tokenizer that encoded it.
        limit: the most ids of a part.
        rule: what to do with a longer text.

    Raises:
        UserError: it is too long, and the rule is ``refuse``; with file and line.
    """
    if len(ids) <= limit:
        return [ids]
    if rule == "refuse":
        raise UserError(
            f"{record.where}: {len(ids):,} tokens; this run reads {limit} at "
            "once, and --long-text window translates sentence by sentence"
        )
    if rule != "window":
        return list(fit_text(ids, limit=limit, rule=rule).pieces)
    code = tokenizer.source.language_code(record.text)
    first = ids[: bool(code)]
    parts = _cut_at_sentences(record.text.removeprefix(code), tokenizer, limit - len(first))
    return [[*first, *part] for part in parts]


def _cut_at_sentences(
    text: str, tokenizer: TranslationTokenizer, limit: int
) -> list[Sequence[int]]:
    """Cut a text between its sentences, and inside those that are too long."""
    running = running_sentences(text)
    sentences, spaced = [sentence.strip() for sentence in running], "".join(running)
    parts: list[Sequence[int]] = []
    begin, end, is_open = 0, 0, False
    for sentence, alone in zip(sentences, tokenizer.source.encode_batch(sentences), strict=True):
        start = spaced.index(sentence, end)
        end = start + len(sentence)
        (both,) = tokenizer.source.encode_batch([spaced[begin:end]]) if is_open else (alone,)
        if is_open and len(both) <= limit:
            parts[-1] = both
        else:
            parts += _cut_at_words(alone, tokenizer, limit)
            begin, is_open = start, len(alone) <= limit
    return parts


def _cut_at_words(
    ids: Sequence[int], tokenizer: TranslationTokenizer, limit: int
) -> list[Sequence[int]]:
    """Cut ids before pieces that start a word, or if there is none, a character."""
    parts: list[Sequence[int]] = []
    pieces = tokenizer.source.pieces(ids)
    start = 0
    while len(ids) - start > limit:
        ends = range(start + limit, start, -1)
        words = (end for end in ends if pieces[end].startswith(SPACE))
        characters = (end for end in ends if pieces[end] not in _INSIDE)
        end = next(chain(words, characters))
        parts.append(ids[start:end])
        start = end
    return [*parts, ids[start:]]
