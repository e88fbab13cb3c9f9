"""What a pre-trained model answers: words for the masks of a text, or whether a text follows.

Shapes: B texts of a batch, T their length, N masks, M the most of one text, K candidates,
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
from heedful.batches.windows import fit_text, naming
from heedful.errors import LONGEST_NAME, UserError, shorten
from heedful.host import on_host, send
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.task import Fit
from heedful.tokens import Tokenizer

_SPARE = 8
"""Candidates computed beyond those that are wanted: special tokens among them are left out."""

_MASK_LIKE = re.compile(r"\[\s*mask\s*\]|<mask>", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """Where a mask was, in the text with the likeliest token for every mask."""

    filled: str
    """That text, the same one for all masks."""
    start: int
    """Where what was before the mask ends, the spaces at its end left out."""
    end: int
    """Where what was after it begins."""
    spaces: str
    """Those before the mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """What a token of the vocabulary is in a text."""

    token: str
    """As it stands in the vocabulary."""
    text: str
    """As it stands in a text."""
    joined: bool
    """Whether it goes on a word, and stands close to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FilledToken:
    """A token for a mask."""

    word: Word
    """The token, which other masks share."""
    score: float
    """Its probability."""
    slot: Slot = field(repr=False)
    """Where the mask was."""

    @property
    def token(self) -> str:
        """As it stands in the vocabulary."""
        return self.word.token

    @property
    def text(self) -> str:
        """The text with this token for this mask, and the likeliest for every other.

        It is put together when it is asked for: all of them would have as many characters as the
        text, times its masks, times their candidates.
        """
        slot = self.slot
        spaces = "" if self.word.joined else slot.spaces
        return f"{slot.filled[: slot.start]}{spaces}{self.word.text}{slot.filled[slot.end :]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Blank:
    """A mask of a text, and what may stand behind it."""

    start: int
    """Where the mask stands in the text, in characters."""
    end: int
    candidates: tuple[FilledToken, ...]
    """The likeliest first; none where the mask is in a part of the text that was not read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """The answer for one text or pair."""

    text: str | None
    """The text with the likeliest token for every mask, each by itself; None for a pair."""
    blanks: tuple[Blank, ...]
    """Its masks, in order."""
    next_sentence: float | None
    """Probability that the second text follows the first; None for a single text."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens the model was given."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the filled text with each mask's tokens, or whether the second text follows."""
        tokens = {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}
        if self.next_sentence is not None:
            return {"next_sentence": round(self.next_sentence, 6)} | tokens
        masks = [
            {
                "start": blank.start,
                "end": blank.end,
                "candidates": [
                    {"token": one.token, "score": round(one.score, 6), "text": one.text}
                    for one in blank.candidates
                ],
            }
            for blank in self.blanks
        ]
        return {"text": self.text, "masks": masks} | tokens

    def plain(self) -> str:
        """Return the filled text, or the probability that the second text follows."""
        return self.text if self.text is not None else f"{self.next_sentence:.6f}"


def encode(record: Record, tokenizer: Tokenizer, fit: Fit, *, pairs: bool) -> Fitted[Example]:
    """Encode a text with masks, or a pair of texts.

    Args:
        record: the text or pair.
        tokenizer: the model's tokenizer.
        fit: what each example must fit into.
        pairs: whether the model learnt to tell what follows.

    Raises:
        UserError: a text has no mask, a pair has an empty text, or the model knows nothing of
            pairs; or it is too long and may not be cut.
    """
    if record.text_pair is None:
        return _encode_masks(record, tokenizer, fit)
    where = record.where
    if not pairs:
        raise UserError(f"{where}: a pair, but this run learnt only masked words (objective mlm)")
    for name, text in (("first", record.text), ("second", record.text_pair)):
        if not text.strip():
            raise UserError(f"{where}: the {name} text of the pair is empty")
    texts = [(record.text, record.text_pair)]
    with naming(record):
        return next(features(texts, tokenizer, max_length=fit.max_length, rule=fit.rule))


def _encode_masks(record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
    text, where = record.text, record.where
    pieces = tokenizer.pieces(text)
    wrong = [mark for mark in _MASK_LIKE.findall(text) if mark != tokenizer.mask_token]
    if wrong and (tokenizer.mask_token_id not in pieces.ids or wrong[0].startswith("[")):
        raise UserError(f"{where}: {wrong[0]!r} is not a mask; write {tokenizer.mask_token}")
    if tokenizer.mask_token_id not in pieces.ids:
        raise UserError(
            f"{where}: no {tokenizer.mask_token} in the text; write it where a word is missing, or "
            "give a pair of texts to be told whether the second follows the first"
        )
    return encode_text(record, tokenizer, fit)


def encode_text(record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
    """Encode a text to ask about its tokens, a long one in windows that overlap by half.

    Raises:
        UserError: it is too long and may not be cut.
    """
    pieces = tokenizer.pieces(record.text)
    offsets = np.array(pieces.offsets, dtype=np.int32).reshape(-1, 2)  # (T, 2)
    layout = tokenizer.layout
    room = fit.max_length - layout.size(pair=False)
    with naming(record):
        fitted = fit_text(range(len(pieces.ids)), limit=room, rule=fit.rule, stride=room // 2)
    examples, row_spans = [], []
    for part in fitted.pieces:
        ids = layout.ids([pieces.ids[at] for at in part])
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
    """Return the likeliest tokens of each mask, and whether the second text follows.

    Args:
        logits: of the masks' tokens. Shape (N, V).
        follows: logits of what follows, if the model has them. Shape (B, 2).
        positions: where the masks are, in the batch laid out as one row. Shape (N,).
        shape: (B, T).
        top: how many tokens are wanted for each mask.

    Returns:
        Shape (B, 1 + M, 2, K). At [:, 0, 0, 0] the probability that the second text follows; of
        each mask the token ids, then their probabilities.
    """
    best = logits.float().softmax(-1).topk(min(top + _SPARE, logits.shape[1]))  # each (N, K)
    owner = on_host(positions) // shape[1]  # (N,)
    counts = torch.bincount(owner, minlength=shape[0])  # (B,)
    firsts = counts.cumsum(0) - counts
    slot = torch.arange(len(owner), device=owner.device) - firsts[owner] + 1
    owner, slot = send(owner, logits.device), send(slot, logits.device)
    rows = best.values.new_zeros(shape[0], 1 + int(counts.max()), 2, best.values.shape[1])
    rows[owner, slot] = torch.stack([best.indices.float(), best.values], dim=1)
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
    """Choose tokens for the masks of a text, or say whether a pair's second text follows.

    Args:
        record: the text or pair.
        fitted: its examples.
        outputs: rows of `candidates`, one for each example.
        settings: how many tokens to give for each mask, and among which.
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
    """Return where each mask is, and its candidates where it has the most text around it."""
    best: dict[tuple[int, int], tuple[int, Tensor]] = {}
    for example, offsets, output in zip(fitted.pieces, fitted.offsets, outputs, strict=True):
        masks = np.flatnonzero(example.ids == tokenizer.mask_token_id).tolist()
        for slot, position in enumerate(masks, start=1):
            around = min(position, len(example.ids) - 1 - position)
            start, end = offsets[position].tolist()
            if around > best.get((start, end), (-1,))[0]:
                best[start, end] = around, output[slot]
    pieces = tokenizer.pieces(text)
    spans = [
        span
        for at, span in zip(pieces.ids, pieces.offsets, strict=True)
        if at == tokenizer.mask_token_id
    ]
    outputs_of_masks = [best[span][1] if span in best else None for span in spans]
    return [_without_spaces(text, *span) for span in spans], outputs_of_masks


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a slice without the spaces at its ends, which some masks take along."""
    mask = text[start:end].strip()
    start = text.index(mask, start)
    return start, start + len(mask)


@lru_cache(maxsize=4)  # for each text the same
def _target_ids(targets: tuple[str, ...], tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids of the tokens to choose among; none for all.

    Raises:
        UserError: naming the first that is not a token of the vocabulary.
    """
    ids = set()
    for target in targets:
        token_id = tokenizer.vocabulary.ids.get(target)
        pieces = tokenizer.encode_batch([target])[0] if token_id is None else [token_id]
        if len(pieces) != 1 or pieces[0] in tokenizer.all_special_ids:
            raise UserError(
                f"--targets {shorten(target, LONGEST_NAME)!r}: not a word of the vocabulary; a "
                "mask stands for one of its words"
            )
        ids.add(pieces[0])
    return frozenset(ids)


def _tokens(
    output: Tensor | None, top: int, targets: frozenset[int], tokenizer: Tokenizer
) -> list[tuple[int, float]]:
    """Return the ids of the likeliest tokens, special ones left out, and their probabilities."""
    if output is None:
        return []
    special, size = set(tokenizer.all_special_ids), len(tokenizer)
    rows = [
        (int(at), score)
        for at, score in zip(*output.tolist(), strict=True)
        if int(at) < size and int(at) not in special
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
    """Put the likeliest tokens in the place of masks; one that goes on a word stands close to it.

    Args:
        text: the text.
        spans: where its masks are, in order.
        choices: of each mask the likeliest token and its probability, or nothing.
        tokenizer: the model's tokenizer.

    Returns:
        The text, and where each mask was in it.
    """
    parts: list[str] = []
    bounds = []
    done = size = 0
    for (start, end), likeliest in zip(spans, choices, strict=True):
        bare = text[done:start].rstrip()
        spaces = kept = text[done + len(bare) : start]
        word = text[start:end]
        if likeliest:
            ((token_id, _),) = likeliest
            word = tokenizer.text_of([token_id])
            kept = "" if tokenizer.continues_word(token_id) else spaces
        begin = size + len(bare)
        size = begin + len(kept) + len(word)
        parts += bare, kept, word
        bounds.append((begin, size, spaces))
        done = end
    filled = "".join([*parts, text[done:]])
    return filled, [
        Slot(filled=filled, start=start, end=end, spaces=spaces) for start, end, spaces in bounds
    ]
