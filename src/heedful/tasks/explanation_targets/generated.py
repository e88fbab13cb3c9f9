"""Explanation targets for generated texts and their words.

The explained number is the log-probability of a word's tokens, or of all tokens, each given the
tokens before it. The generated tokens before a word are fixed: only the source is explained.

Shapes: N copies of the example in a batch, S generated tokens, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch, Example
from heedful.batches.word_spans import word_numbers, word_spans
from heedful.errors import UserError, did_you_mean, join_names
from heedful.explanation_target import (
    Answered,
    ExplanationTarget,
    Side,
    Token,
    side_of,
    special,
    window_notes,
)
from heedful.reading import Record
from heedful.tasks.explanation_targets.words import words_named
from heedful.tasks.generation import GenerationOutput
from heedful.tokens import PairLayout, Tokenizer, TranslationTokenizer
from heedful.tokens.translation import Side as SideTokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class _Generated:
    """The generated text for one part of the source."""

    token_ids: tuple[int, ...]
    side: Side
    """Its tokens, without the end token."""
    ended: bool


def answered(
    computed: Answered[Record, GenerationOutput, Any],
    target: str | None,
    tokenizer: Tokenizer,
) -> ExplanationTarget:
    """Explain the text that a BERT encoder-decoder generated.

    Raises:
        UserError: the generated text does not contain the target.
    """
    parts = [_by_encoder(output, tokenizer) for output in computed.outputs]
    part, positions = _find(parts, target)
    side = side_of("text", [computed.record.text], computed.encoded.kept[part], tokenizer)
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    pieces = (tokenizer.vocabulary.token(start), tokenizer.vocabulary.token(end))
    return _two_sided(computed, part, parts[part], positions, target, side, (end, *pieces))


def translated(
    computed: Answered[Record, GenerationOutput, Any],
    target: str | None,
    tokenizer: TranslationTokenizer,
) -> ExplanationTarget:
    """Explain a translation.

    Raises:
        UserError: the translation does not contain the target.
    """
    parts = []
    for output in computed.outputs:
        best = output.hypotheses[0]
        tokens, text = _spelt(best.tokens, tokenizer.target)
        side = Side(name="translation", texts=(text,), tokens=tokens)
        parts.append(_Generated(token_ids=tuple(best.tokens), side=side, ended=best.ended))
    part, positions = _find(parts, target)
    tokens, text = _spelt(computed.encoded.pieces[part].ids[:-1].tolist(), tokenizer.source)
    ending = tokenizer.source.tokens[tokenizer.eos_token_id]
    source = Side(name="text", texts=(text,), tokens=(*tokens, special(ending)))
    names = (tokenizer.target.tokens[tokenizer.pad_token_id], ending)
    return _two_sided(
        computed, part, parts[part], positions, target, source, (tokenizer.eos_token_id, *names)
    )


def continued(
    computed: Answered[Record, GenerationOutput, Any],
    target: str | None,
    tokenizer: Tokenizer,
) -> ExplanationTarget:
    """Explain the continuation of a text.

    Raises:
        UserError: the continuation does not contain the target.
    """
    (output,), (example,) = computed.outputs, computed.encoded.pieces
    generated = _by_encoder(output, tokenizer)
    _, indices = _find([generated], target)
    # A prompt has only a start token, even if the family frames texts in another way.
    prompt, layout = example.ids[:-1], PairLayout(begin=(tokenizer.cls_token_id,))
    source = side_of("text", [computed.record.text], computed.encoded.kept[0], tokenizer, layout)
    continuation = tuple(replace(token, text=1, word=None) for token in generated.side.tokens)
    token_ids = torch.tensor([*generated.token_ids, tokenizer.sep_token_id])  # (S,)

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        length = batch.inputs["input_ids"].shape[1]
        row_starts = torch.arange(len(positions), device=positions.device)[:, None] * length
        logits = forward(**batch.inputs, positions=(row_starts + positions).flatten()).logits
        return _log_probability(logits.view(*positions.shape, -1), token_ids[indices].to(positions))

    return ExplanationTarget(
        description=_words(target, "the generated text"),
        examples=(Example(ids=np.append(prompt, generated.token_ids).astype(np.int32)),),
        sides=(
            Side(
                name="text and generated text",
                texts=(*source.texts, *generated.side.texts),
                tokens=(*source.tokens, *continuation),
            ),
        ),
        outputs=outputs,
        link="exp",
        # Each token was predicted at the position before it.
        positions=tuple(len(prompt) - 1 + index for index in indices),
    )


def _two_sided(
    computed: Answered[Record, GenerationOutput, Any],
    part: int,
    generated: _Generated,
    indices: list[int],
    target: str | None,
    source: Side,
    ends: tuple[int, str, str],
) -> ExplanationTarget:
    """Explain some output tokens of an encoder-decoder by its source tokens.

    Args:
        computed: the answer.
        part: index of the part of the source.
        generated: the text generated for it.
        indices: indices of the explained tokens.
        target: the user's target.
        source: the source tokens.
        ends: id of the end token, and the vocabulary entries of the decoder start token and of the
            end token.
    """
    end, start_piece, end_piece = ends
    # If the length limit stopped the text, its end was not generated and may have no position.
    size = len(generated.token_ids) + generated.ended
    labels = torch.tensor([*generated.token_ids, end])[:size]  # (S,)

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        rows = labels.to(batch.inputs["input_ids"]).expand(batch.num_examples, -1)  # (N, S)
        logits = forward(**batch.inputs, labels=rows).logits.view(*rows.shape, -1)  # (N, S, V)
        return _log_probability(logits[:, indices], rows[0, indices])

    read = replace(
        generated.side,
        name=f"{generated.side.name}, as decoder input",
        tokens=(special(start_piece), *generated.side.tokens)[:size],
    )
    written = replace(generated.side, tokens=(*generated.side.tokens, special(end_piece))[:size])
    return ExplanationTarget(
        description=_words(target, f"the {generated.side.name}"),
        examples=(replace(computed.encoded.pieces[part], labels=()),),
        sides=(source,),
        outputs=outputs,
        link="exp",
        decoder_tokens=(read, written),
        notes=window_notes(part, len(computed.outputs), "with the text generated for it"),
    )


def _log_probability(logits: Tensor, token_ids: Tensor) -> Tensor:
    """Return the summed log-probability. Shape (N, 1) for logits (N, P, V) and tokens (P,)."""
    rows = token_ids.expand(len(logits), -1)[..., None]  # (N, P, 1)
    return logits.log_softmax(-1).gather(-1, rows).sum(1)


def _words(target: str | None, whole: str) -> str:
    if target is None:
        return whole
    return f"the {'words' if len(target.split()) > 1 else 'word'} {target!r}"


def _find(parts: Sequence[_Generated], target: str | None) -> tuple[int, list[int]]:
    """Return the part that contains some consecutive words, and the indices of their tokens.

    Args:
        parts: the generated texts.
        target: a word, or several; None for all of the first part.

    Raises:
        UserError: no part contains them.
    """
    if target is None:
        first = parts[0]
        return 0, list(range(len(first.token_ids) + first.ended))
    all_words = []
    for part, generated in enumerate(parts):
        text, words = generated.side.texts[0], _words_of(generated.side)
        spans = [_span(text, tokens) for tokens in words]
        if word_indices := words_named(text, spans, target):
            return part, [index for word in word_indices for index, _ in words[word]]
        all_words += [text[start:end] for start, end in spans]
    raise UserError(
        f"--target {target!r} is not a word of the generated "
        f"text{did_you_mean(target, all_words)}: {join_names(all_words)}"
    )


def _span(text: str, tokens: Sequence[tuple[int, Token]]) -> tuple[int, int]:
    """Return the start and end of a word, without the space that its first token may include."""
    start, end = tokens[0][1].start or 0, tokens[-1][1].end or 0
    return end - len(text[start:end].lstrip()), end


def _words_of(side: Side) -> list[list[tuple[int, Token]]]:
    """Return the tokens of each word, with their indices."""
    words: dict[int, list[tuple[int, Token]]] = {}
    for index, token in enumerate(side.tokens):
        if token.word is not None:
            words.setdefault(token.word, []).append((index, token))
    return list(words.values())


def _by_encoder(output: GenerationOutput, tokenizer: Tokenizer) -> _Generated:
    """Return the text generated with an encoder's tokenizer."""
    best = output.hypotheses[0]
    ids, name = list(best.tokens), "generated text"
    bare = tokenizer.text_of(ids)
    for text in (bare, f" {bare}"):  # in some vocabularies, words start with a space
        if tokenizer.pieces(text).ids == ids:
            side = side_of(name, [text], [range(len(ids))], tokenizer, PairLayout())
            break
    else:  # the tokenizer would split this text differently
        spelt = [tokenizer.vocabulary.token(token_id) for token_id in ids]
        side = _joined(name, spelt, [tokenizer.continues_word(token_id) for token_id in ids])
    return _Generated(token_ids=tuple(ids), side=side, ended=best.ended)


def _joined(name: str, pieces: Sequence[str], continues_word: Sequence[bool]) -> Side:
    """Return a side whose text is its tokens, separated by spaces."""
    tokens, start, word = [], 0, -1
    for piece, continues in zip(pieces, continues_word, strict=True):
        word += not continues or word < 0
        end = start + len(piece)
        tokens.append(Token(piece=piece, text=0, start=start, end=end, word=word))
        start = end + 1
    return Side(name=name, texts=(" ".join(pieces),), tokens=tuple(tokens))


def _spelt(token_ids: Sequence[int], tokenizer: SideTokenizer) -> tuple[tuple[Token, ...], str]:
    """Return tokens of one side of a translation, and their text."""
    text = tokenizer.decode(token_ids)
    spans = tokenizer.offsets(token_ids)
    (words,) = word_numbers([spans], word_spans(text))
    tokens = (
        Token(piece=piece, text=0, start=start, end=end, word=word)
        for piece, (start, end), word in zip(tokenizer.pieces(token_ids), spans, words, strict=True)
    )
    return tuple(tokens), text
