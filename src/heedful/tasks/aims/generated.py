"""Texts that were generated, and their words.

What is explained is the log-probability of the tokens of a word, or of all, each after those before
it. What was generated before a word stays as it is: only the text that was read is explained.

Shapes: N times that the example is in a batch, S tokens that were generated, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.aim import Aim, Computed, Side, Token, side_of, special, window_notes
from heedful.batches import Batch, Example
from heedful.batches.word_spans import word_numbers, word_spans
from heedful.errors import UserError, did_you_mean, listed
from heedful.reading import Record
from heedful.tasks.aims.words import words_named
from heedful.tasks.generation import GenerationOutput
from heedful.tokens import PairLayout, Tokenizer, TranslationTokenizer
from heedful.tokens.translation import Side as SideTokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class _Generated:
    """What was generated for one part of a text."""

    token_ids: tuple[int, ...]
    side: Side
    """Its tokens, without the one that ends it."""
    ended: bool


def answered(
    computed: Computed[Record, GenerationOutput, Any], target: str | None, tokenizer: Tokenizer
) -> Aim:
    """Explain what a BERT wrote for a text that another read.

    Raises:
        UserError: the target is no word of it.
    """
    parts = [_by_encoder(output, tokenizer) for output in computed.outputs]
    part, positions = _find(parts, target)
    side = side_of("text", [computed.record.text], computed.fitted.kept[part], tokenizer)
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    pieces = (tokenizer.vocabulary.token(start), tokenizer.vocabulary.token(end))
    return _two_sided(computed, part, parts[part], positions, target, side, (end, *pieces))


def translated(
    computed: Computed[Record, GenerationOutput, Any],
    target: str | None,
    tokenizer: TranslationTokenizer,
) -> Aim:
    """Explain a translation.

    Raises:
        UserError: the target is no word of it.
    """
    parts = []
    for output in computed.outputs:
        best = output.hypotheses[0]
        tokens, text = _spelt(best.tokens, tokenizer.target)
        side = Side(name="translation", texts=(text,), tokens=tokens)
        parts.append(_Generated(token_ids=tuple(best.tokens), side=side, ended=best.ended))
    part, positions = _find(parts, target)
    tokens, text = _spelt(computed.fitted.pieces[part].ids[:-1].tolist(), tokenizer.source)
    ending = tokenizer.source.tokens[tokenizer.eos_token_id]
    read = Side(name="text", texts=(text,), tokens=(*tokens, special(ending)))
    names = (tokenizer.target.tokens[tokenizer.pad_token_id], ending)
    return _two_sided(
        computed, part, parts[part], positions, target, read, (tokenizer.eos_token_id, *names)
    )


def continued(
    computed: Computed[Record, GenerationOutput, Any], target: str | None, tokenizer: Tokenizer
) -> Aim:
    """Explain how a text goes on.

    Raises:
        UserError: the target is no word of what was generated.
    """
    (output,), (example,) = computed.outputs, computed.fitted.pieces
    generated = _by_encoder(output, tokenizer)
    _, chosen = _find([generated], target)
    # A text to continue stands between these, whatever the family's rows have around texts.
    prompt, begun = example.ids[:-1], PairLayout(begin=(tokenizer.cls_token_id,))
    read = side_of("text", [computed.record.text], computed.fitted.kept[0], tokenizer, begun)
    after = tuple(replace(token, text=1, word=None) for token in generated.side.tokens)
    token_ids = torch.tensor([*generated.token_ids, tokenizer.sep_token_id])  # (S,)

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        length = batch.inputs["input_ids"].shape[1]
        firsts = torch.arange(len(positions), device=positions.device)[:, None] * length
        logits = forward(**batch.inputs, positions=(firsts + positions).flatten()).logits
        return _log_probability(logits.view(*positions.shape, -1), token_ids[chosen].to(positions))

    return Aim(
        target=_words(target, "the text that was written"),
        examples=(Example(ids=np.append(prompt, generated.token_ids).astype(np.int32)),),
        sides=(
            Side(
                name="text and what was written",
                texts=(*read.texts, *generated.side.texts),
                tokens=(*read.tokens, *after),
            ),
        ),
        outputs=outputs,
        link="exp",
        # Each token was generated at the one before it.
        positions=tuple(len(prompt) - 1 + at for at in chosen),
    )


def _two_sided(
    computed: Computed[Record, GenerationOutput, Any],
    part: int,
    generated: _Generated,
    chosen: list[int],
    target: str | None,
    read: Side,
    ends: tuple[int, str, str],
) -> Aim:
    """Explain some tokens of what a decoder wrote for what an encoder read.

    Args:
        computed: the answer.
        part: the part of the text.
        generated: what was generated for it.
        chosen: the numbers of the tokens.
        target: what the user asked about.
        read: what was read.
        ends: the token id that ends a text, and as it stands in the vocabulary the one that a
            decoder starts with, and the ending one.
    """
    end, start_piece, end_piece = ends
    # The end of a text that was stopped has not been generated, and may have no position.
    size = len(generated.token_ids) + generated.ended
    labels = torch.tensor([*generated.token_ids, end])[:size]  # (S,)

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        rows = labels.to(batch.inputs["input_ids"]).expand(batch.num_examples, -1)  # (N, S)
        logits = forward(**batch.inputs, labels=rows).logits.view(*rows.shape, -1)  # (N, S, V)
        return _log_probability(logits[:, chosen], rows[0, chosen])

    back = replace(
        generated.side,
        name=f"{generated.side.name}, read back",
        tokens=(special(start_piece), *generated.side.tokens)[:size],
    )
    wrote = replace(generated.side, tokens=(*generated.side.tokens, special(end_piece))[:size])
    return Aim(
        target=_words(target, f"the {generated.side.name}"),
        examples=(replace(computed.fitted.pieces[part], labels=()),),
        sides=(read,),
        outputs=outputs,
        link="exp",
        generated=(back, wrote),
        notes=window_notes(part, len(computed.outputs), "with what was written for it"),
    )


def _log_probability(logits: Tensor, token_ids: Tensor) -> Tensor:
    """Return the sum over some tokens. Shape (N, 1) for logits (N, P, V) and tokens (P,)."""
    rows = token_ids.expand(len(logits), -1)[..., None]  # (N, P, 1)
    return logits.log_softmax(-1).gather(-1, rows).sum(1)


def _words(target: str | None, every: str) -> str:
    if target is None:
        return every
    return f"the {'words' if len(target.split()) > 1 else 'word'} {target!r}"


def _find(parts: Sequence[_Generated], target: str | None) -> tuple[int, list[int]]:
    """Return which part has some words in a row, and the numbers of their tokens.

    Args:
        parts: what was generated.
        target: a word, or several; None is all of the first part.

    Raises:
        UserError: there are no such words.
    """
    if target is None:
        first = parts[0]
        return 0, list(range(len(first.token_ids) + first.ended))
    known = []
    for part, generated in enumerate(parts):
        text, words = generated.side.texts[0], _words_of(generated.side)
        spans = [_span(text, tokens) for tokens in words]
        if chosen := words_named(text, spans, target):
            return part, [at for word in chosen for at, _ in words[word]]
        known += [text[start:end] for start, end in spans]
    raise UserError(
        f"--target {target!r} is not a word of what was written"
        f"{did_you_mean(target, known)}: {listed(known)}"
    )


def _span(text: str, tokens: Sequence[tuple[int, Token]]) -> tuple[int, int]:
    """Return where a word starts, without the space that its first token may have, and ends."""
    start, end = tokens[0][1].start or 0, tokens[-1][1].end or 0
    return end - len(text[start:end].lstrip()), end


def _words_of(side: Side) -> list[list[tuple[int, Token]]]:
    """Return the tokens of each word, with their numbers."""
    words: dict[int, list[tuple[int, Token]]] = {}
    for at, token in enumerate(side.tokens):
        if token.word is not None:
            words.setdefault(token.word, []).append((at, token))
    return list(words.values())


def _by_encoder(output: GenerationOutput, tokenizer: Tokenizer) -> _Generated:
    """Return what was generated with the tokenizer of an encoder."""
    best = output.hypotheses[0]
    ids, name = list(best.tokens), "text that was written"
    bare = tokenizer.text_of(ids)
    for text in (bare, f" {bare}"):  # to some tokenizers a word begins with its space
        if tokenizer.pieces(text).ids == ids:
            side = side_of(name, [text], [range(len(ids))], tokenizer, PairLayout())
            break
    else:  # another way to cut the same text
        spelt = [tokenizer.vocabulary.token(token_id) for token_id in ids]
        side = _joined(name, spelt, [tokenizer.continues_word(at) for at in ids])
    return _Generated(token_ids=tuple(ids), side=side, ended=best.ended)


def _joined(name: str, pieces: Sequence[str], goes_on: Sequence[bool]) -> Side:
    """Return a side whose text is its pieces, with spaces between."""
    tokens, start, word = [], 0, -1
    for piece, inside in zip(pieces, goes_on, strict=True):
        word += not inside or word < 0
        end = start + len(piece)
        tokens.append(Token(piece=piece, text=0, start=start, end=end, word=word))
        start = end + 1
    return Side(name=name, texts=(" ".join(pieces),), tokens=tuple(tokens))


def _spelt(token_ids: Sequence[int], tokenizer: SideTokenizer) -> tuple[tuple[Token, ...], str]:
    """Return tokens of one side of a translation, and their text."""
    text = tokenizer.decode(token_ids)
    spans = tokenizer.offsets(token_ids)
    (numbers,) = word_numbers([spans], word_spans(text))
    tokens = (
        Token(piece=piece, text=0, start=start, end=end, word=word)
        for piece, (start, end), word in zip(
            tokenizer.pieces(token_ids), spans, numbers, strict=True
        )
    )
    return tuple(tokens), text
