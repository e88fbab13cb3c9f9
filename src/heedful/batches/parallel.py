"""Encode texts and their translations as examples, and split texts that are too long."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from heedful.batches.examples import Example
from heedful.batches.sentences import split_sentences
from heedful.batches.windows import fit_text
from heedful.errors import UserError
from heedful.reading import Record
from heedful.settings import LongText
from heedful.tokens import TranslationTokenizer
from heedful.tokens.text import BYTES, SPACE

_CHUNK_TEXTS = 1024
"""Texts per tokenizer call."""
_CONTINUATION_BYTES = frozenset(BYTES[0x80:0xC0])
"""UTF-8 continuation bytes: at most three in a row, fewer than any length limit."""


def token_ids(
    records: Iterable[Record], tokenizer: TranslationTokenizer
) -> Iterator[tuple[Record, list[int], list[int]]]:
    """Yield each record with the token ids of its text and of its translation, if any."""
    stream = iter(records)
    while chunk := list(islice(stream, _CHUNK_TEXTS)):
        sources = tokenizer.source.encode_batch([record.text for record in chunk])
        targets = tokenizer.target.encode_batch([record.text_pair or "" for record in chunk])
        yield from zip(chunk, sources, targets, strict=True)


def to_example(
    source: Sequence[int], target: Sequence[int], tokenizer: TranslationTokenizer
) -> Example:
    """Return an example of source ids, with the end token appended, and target ids."""
    ids = np.array([*source, tokenizer.eos_token_id], dtype=np.int32)
    return Example(ids=ids, labels=tuple(target))


def encode_pairs(
    records: Iterable[Record], tokenizer: TranslationTokenizer
) -> Iterator[tuple[Record, Example]]:
    """Encode training pairs of any length."""
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
    """Shorten or split a text that is too long. Rule ``window`` splits it between sentences.

    Each part of a split text begins with the text's language code, if it has one.

    Args:
        record: the text.
        ids: the text's token ids, without the end token.
        tokenizer: the tokenizer that encoded the text.
        limit: maximum ids per part.
        rule: how to handle a longer text.

    Raises:
        UserError: the text is too long and the rule is ``refuse``. The message has file and line.
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
    parts = _split_at_sentences(record.text.removeprefix(code), tokenizer, limit - len(first))
    return [[*first, *part] for part in parts]


def _split_at_sentences(
    text: str, tokenizer: TranslationTokenizer, limit: int
) -> list[Sequence[int]]:
    """Split a text between sentences, and inside sentences that are too long."""
    running = split_sentences(text)
    sentences, joined = [sentence.strip() for sentence in running], "".join(running)
    parts: list[Sequence[int]] = []
    begin, end, is_open = 0, 0, False
    for sentence, sentence_ids in zip(
        sentences, tokenizer.source.encode_batch(sentences), strict=True
    ):
        start = joined.index(sentence, end)
        end = start + len(sentence)
        (extended_ids,) = (
            tokenizer.source.encode_batch([joined[begin:end]]) if is_open else (sentence_ids,)
        )
        if is_open and len(extended_ids) <= limit:
            parts[-1] = extended_ids
        else:
            parts += _split_at_words(sentence_ids, tokenizer, limit)
            begin, is_open = start, len(sentence_ids) <= limit
    return parts


def _split_at_words(
    ids: Sequence[int], tokenizer: TranslationTokenizer, limit: int
) -> list[Sequence[int]]:
    """Split ids before pieces that start a word, or else before pieces that start a character."""
    parts: list[Sequence[int]] = []
    pieces = tokenizer.source.pieces(ids)
    start = 0
    while len(ids) - start > limit:
        ends = range(start + limit, start, -1)
        words = (end for end in ends if pieces[end].startswith(SPACE))
        characters = (end for end in ends if pieces[end] not in _CONTINUATION_BYTES)
        end = next(chain(words, characters))
        parts.append(ids[start:end])
        start = end
    return [*parts, ids[start:]]
