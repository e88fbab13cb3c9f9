"""Answers of masked language models: words for masks, or whether a text follows another.

Shapes: B texts of a batch, T their length, N masks, M maximum masks of a text, K candidates,
V vocabulary.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Example, Fitted, features
from heedful.batches.features import row_offsets
from heedful.batches.windows import fit_text, locating_errors
from heedful.device_transfer import copy_to_device, get_host_copy
from heedful.errors import MAX_NAME_LENGTH, UserError, shorten
from heedful.reading import Record
from heedful.scripts import on_one_line
from heedful.settings import PredictSettings
from heedful.task import LengthLimit
from heedful.tokens import Tokenizer

_SPARE = 8
"""Number of extra candidates, so that enough remain after special tokens are removed."""

_MASK_LIKE = re.compile(r"\[\s*mask\s*\]|<mask>", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """The position of a mask in the filled text."""

    filled: str
    """The text with the most probable token for every mask; the same for all masks."""
    start: int
    """End of the text before the mask, without trailing spaces."""
    end: int
    """Start of the text after the mask."""
    spaces: str
    """The spaces before the mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """A token of the vocabulary as part of a text."""

    token: str
    """As in the vocabulary."""
    text: str
    """As in a text."""
    joined: bool
    """Whether it continues a word, so that no space precedes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FilledToken:
    """A token for a mask."""

    word: Word
    """The token; shared between masks."""
    score: float
    """Its probability."""
    slot: Slot = field(repr=False)
    """The position of the mask in the filled text."""

    @property
    def token(self) -> str:
        """As in the vocabulary."""
        return self.word.token

    @property
    def text(self) -> str:
        """The text with this token for this mask, and the most probable token for all others.

        Built on access: the texts of all candidates together have text length x masks x candidates
        characters.
        """
        slot = self.slot
        spaces = "" if self.word.joined else slot.spaces
        return f"{slot.filled[: slot.start]}{spaces}{self.word.text}{slot.filled[slot.end :]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Blank:
    """A mask of a text, and candidate tokens for it."""

    start: int
    """Start of the mask in the text, in characters."""
    end: int
    candidates: tuple[FilledToken, ...]
    """Most probable first; empty if the mask is in a part of the text that was not read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """The answer for one text or pair."""

    text: str | None
    """The text with each mask's most probable token, chosen independently; None for a pair."""
    blanks: tuple[Blank, ...]
    """Its masks, in order."""
    next_sentence: float | None
    """Probability that the second text follows the first; None for a single text."""
    tokens_total: int
    """Number of tokens of the text."""
    tokens_used: int
    """Number of tokens that the model read."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the filled text with each mask's candidates, or the probability for a pair."""
        tokens = {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}
        if self.next_sentence is not None:
            return {"next_sentence": round(self.next_sentence, 6)} | tokens
        masks = [
            {
                "start": blank.start,
                "end": blank.end,
                "candidates": [
                    {
                        "token": candidate.token,
                        "score": round(candidate.score, 6),
                        "text": candidate.text,
                    }
                    for candidate in blank.candidates
                ],
            }
            for blank in self.blanks
        ]
        return {"text": self.text, "masks": masks} | tokens

    def plain(self) -> str:
        """Return the filled text on one line, or the probability that the second text follows."""
        return on_one_line(self.text) if self.text is not None else f"{self.next_sentence:.6f}"


def encode(
    record: Record, tokenizer: Tokenizer, fit: LengthLimit, *, pairs: bool
) -> Fitted[Example]:
    """Encode a text with masks, or a pair of texts.

    Args:
        record: the text or pair.
        tokenizer: the model's tokenizer.
        fit: the length limit of each example.
        pairs: whether the model predicts whether a text follows.

    Raises:
        UserError: a text has no mask; a pair has an empty text; the model does not support pairs;
            or the record is too long and may not be cut.
    """
    if record.text_pair is None:
        return _encode_masks(record, tokenizer, fit)
    where = record.where
    if not pairs:
        raise UserError(f"{where}: a pair, but this run takes single texts (objective mlm)")
    for name, text in (("first", record.text), ("second", record.text_pair)):
        if not text.strip():
            raise UserError(f"{where}: the {name} text of the pair is empty")
    texts = [(record.text, record.text_pair)]
    with locating_errors(record):
        return next(features(texts, tokenizer, max_length=fit.max_length, rule=fit.long_text))


def _encode_masks(record: Record, tokenizer: Tokenizer, fit: LengthLimit) -> Fitted[Example]:
    text, where = record.text, record.where
    pieces = tokenizer.pieces(text)
    invalid = [mark for mark in _MASK_LIKE.findall(text) if mark != tokenizer.mask_token]
    if invalid and (tokenizer.mask_token_id not in pieces.ids or invalid[0].startswith("[")):
        raise UserError(f"{where}: {invalid[0]!r} is not a mask; write {tokenizer.mask_token}")
    if tokenizer.mask_token_id not in pieces.ids:
        raise UserError(
            f"{where}: no {tokenizer.mask_token} in the text; write it where a word is missing, or "
            "give a pair of texts to predict whether the second follows the first"
        )
    return encode_text(record, tokenizer, fit)


def encode_text(record: Record, tokenizer: Tokenizer, fit: LengthLimit) -> Fitted[Example]:
    """Encode a text for token predictions, with half-overlapping windows if it is long.

    Raises:
        UserError: it is too long and may not be cut.
    """
    pieces = tokenizer.pieces(record.text)
    offsets = np.array(pieces.offsets, dtype=np.int32).reshape(-1, 2)  # (T, 2)
    layout = tokenizer.layout
    limit = fit.max_length - layout.size(pair=False)
    with locating_errors(record):
        fitted = fit_text(
            range(len(pieces.ids)), limit=limit, rule=fit.long_text, stride=limit // 2
        )
    examples, row_spans = [], []
    for part in fitted.pieces:
        ids = layout.ids([pieces.ids[index] for index in part])
        examples.append(Example(ids=np.array(ids, dtype=np.int32)))
        row_spans.append(row_offsets(offsets[list(part)], layout))
    return Fitted(
        pieces=examples,
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
        offsets=row_spans,
        kept=fitted.kept,
    )


def candidates(
    logits: Tensor, follows: Tensor | None, positions: Tensor, shape: torch.Size, top: int
) -> Tensor:
    """Return the most probable tokens of each mask, and whether the second text follows.

    Args:
        logits: logits of the masked tokens. Shape (N, V).
        follows: next-sentence logits, if the model has them. Shape (B, 2).
        positions: flat indices of the masks in the batch. Shape (N,).
        shape: (B, T).
        top: number of tokens for each mask.

    Returns:
        Shape (B, 1 + M, 2, K). At [:, 0, 0, 0] the probability that the second text follows; for
        each mask the token ids, then their probabilities.
    """
    best = logits.float().softmax(-1).topk(min(top + _SPARE, logits.shape[1]))  # each (N, K)
    row_of = get_host_copy(positions) // shape[1]  # (N,)
    counts = torch.bincount(row_of, minlength=shape[0])  # (B,)
    first_masks = counts.cumsum(0) - counts
    slot = torch.arange(len(row_of), device=row_of.device) - first_masks[row_of] + 1
    row_of, slot = copy_to_device(row_of, logits.device), copy_to_device(slot, logits.device)
    rows = best.values.new_zeros(shape[0], 1 + int(counts.max()), 2, best.values.shape[1])
    rows[row_of, slot] = torch.stack([best.indices.float(), best.values], dim=1)
    if follows is not None:
        rows[:, 0, 0, 0] = follows.float().softmax(-1)[:, 0]
    return rows


def decode(
    record: Record,
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    settings: PredictSettings,
    tokenizer: Tokenizer,
) -> Filled:
    """Choose tokens for the masks of a text, or compute whether a pair's second text follows.

    Args:
        record: the text or pair.
        fitted: its examples.
        outputs: the row of `candidates` for each example.
        settings: how many tokens to return for each mask, and optionally which to choose among.
        tokenizer: the model's tokenizer.

    Raises:
        UserError: a token to choose among is not in the vocabulary.
    """
    if record.text_pair is not None:
        follows = float(torch.stack([output[0, 0, 0] for output in outputs]).mean())
        return Filled(
            text=None,
            blanks=(),
            next_sentence=follows,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )
    spans, outputs_of_masks = _masks(record.text, fitted, outputs, tokenizer)
    targets = _target_ids(settings.targets, tokenizer)
    choices = [_tokens(output, settings.top, targets, tokenizer) for output in outputs_of_masks]
    filled, slots = _fill(record.text, spans, [rows[:1] for rows in choices], tokenizer)
    ids = {token_id for rows in choices for token_id, _ in rows}
    words = {token_id: _word(token_id, tokenizer) for token_id in ids}
    blanks = [
        Blank(
            start=start,
            end=end,
            candidates=tuple(
                FilledToken(word=words[token_id], score=score, slot=slot)
                for token_id, score in rows
            ),
        )
        for (start, end), rows, slot in zip(spans, choices, slots, strict=True)
    ]
    return Filled(
        text=filled,
        blanks=tuple(blanks),
        next_sentence=None,
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
    )


def _masks(
    text: str, fitted: Fitted[Example], outputs: Sequence[Tensor], tokenizer: Tokenizer
) -> tuple[list[tuple[int, int]], list[Tensor | None]]:
    """Return each mask's span, and its candidates from the window with the most context."""
    best: dict[tuple[int, int], tuple[int, Tensor]] = {}
    for example, offsets, output in zip(fitted.pieces, fitted.offsets, outputs, strict=True):
        masks = np.flatnonzero(example.ids == tokenizer.mask_token_id).tolist()
        for slot, position in enumerate(masks, start=1):
            context = min(position, len(example.ids) - 1 - position)
            start, end = offsets[position].tolist()
            if context > best.get((start, end), (-1,))[0]:
                best[start, end] = context, output[slot]
    pieces = tokenizer.pieces(text)
    spans = [
        span
        for token_id, span in zip(pieces.ids, pieces.offsets, strict=True)
        if token_id == tokenizer.mask_token_id
    ]
    outputs_of_masks = [best[span][1] if span in best else None for span in spans]
    return [_without_spaces(text, *span) for span in spans], outputs_of_masks


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the surrounding spaces that some mask tokens include."""
    mask = text[start:end].strip()
    start = text.index(mask, start)
    return start, start + len(mask)


@lru_cache(maxsize=4)  # the result is the same for each text
def _target_ids(targets: tuple[str, ...], tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids of the tokens to choose among; empty for all.

    Raises:
        UserError: naming the first token that is not in the vocabulary.
    """
    ids = set()
    for target in targets:
        token_id = tokenizer.vocabulary.ids.get(target)
        pieces = tokenizer.encode_batch([target])[0] if token_id is None else [token_id]
        if len(pieces) != 1 or pieces[0] in tokenizer.all_special_ids:
            raise UserError(
                f"--targets {shorten(target, MAX_NAME_LENGTH)!r}: not a token of the vocabulary; a "
                "mask is filled with one of its tokens"
            )
        ids.add(pieces[0])
    return frozenset(ids)


def _tokens(
    output: Tensor | None, top: int, targets: frozenset[int], tokenizer: Tokenizer
) -> list[tuple[int, float]]:
    """Return ids and probabilities of the most probable tokens, excluding special tokens."""
    if output is None:
        return []
    special, size = set(tokenizer.all_special_ids), len(tokenizer)
    rows = [
        (int(token_id), score)
        for token_id, score in zip(*output.tolist(), strict=True)
        if int(token_id) < size and int(token_id) not in special
    ]
    return [row for row in rows if not targets or row[0] in targets][:top]


def _word(token_id: int, tokenizer: Tokenizer) -> Word:
    return Word(
        token=tokenizer.vocabulary.token(token_id),
        text=tokenizer.text_of([token_id]),
        joined=tokenizer.continues_word(token_id),
    )


def _fill(
    text: str,
    spans: Sequence[tuple[int, int]],
    choices: Sequence[Sequence[tuple[int, float]]],
    tokenizer: Tokenizer,
) -> tuple[str, list[Slot]]:
    """Fill masks with the most probable tokens; no space precedes a token that continues a word.

    Args:
        text: the text.
        spans: the spans of its masks, in order.
        choices: the most probable token of each mask and its probability, or nothing.
        tokenizer: the model's tokenizer.

    Returns:
        The filled text, and the position of each mask in it.
    """
    parts: list[str] = []
    bounds = []
    position = size = 0
    for (start, end), best in zip(spans, choices, strict=True):
        before = text[position:start].rstrip()
        spaces = spaces_kept = text[position + len(before) : start]
        word = text[start:end]
        if best:
            ((token_id, _),) = best
            word = tokenizer.text_of([token_id])
            spaces_kept = "" if tokenizer.continues_word(token_id) else spaces
        begin = size + len(before)
        size = begin + len(spaces_kept) + len(word)
        parts += before, spaces_kept, word
        bounds.append((begin, size, spaces))
        position = end
    filled = "".join([*parts, text[position:]])
    return filled, [
        Slot(filled=filled, start=start, end=end, spaces=spaces) for start, end, spaces in bounds
    ]
