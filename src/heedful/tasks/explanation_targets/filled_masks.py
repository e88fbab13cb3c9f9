"""Explanation targets for masked tokens and for next-sentence prediction.

Shapes: N copies of the example in a batch, T tokens, V vocabulary.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch
from heedful.errors import UserError
from heedful.explanation_target import (
    Answered,
    ExplanationTarget,
    NothingToExplainError,
    side_of,
    window_notes,
)
from heedful.models.outputs import PreTrainingOutput, SentenceOrderOutput
from heedful.reading import Record
from heedful.tasks.answers.filled_masks import Filled
from heedful.tokens import Tokenizer

_FOLLOWS = ("the second text follows", "the second text does not follow")
_NUMBERED = re.compile(r"(?:(\d+)=)?(.*)", re.DOTALL)


def blank(
    computed: Answered[Any, Tensor, Any], target: str | None, tokenizer: Tokenizer
) -> ExplanationTarget:
    """Explain the logit of a word for a mask, or for a pair the logit that its second text follows.

    Args:
        computed: the answer.
        target: ``WORD`` for the first mask, ``2=WORD`` for the second, or ``2=`` for the most
            probable word of the second; default: the most probable word of the first.
        tokenizer: the model's tokenizer.

    Raises:
        NothingToExplainError: the mask is in a part of the text that was not read.
        UserError: there is no such mask, or the word is not a single token.
    """
    record = computed.record
    assert isinstance(record, Record)
    if record.text_pair is not None:
        return _follows(computed, (record.text, record.text_pair), target, tokenizer)
    number, token_id = _choice(computed.answer, target, tokenizer)
    window, position = _position(computed, number)

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        # Masks that the explanation puts in place of removed tokens are not predicted.
        length = batch.inputs["input_ids"].shape[1]
        row_starts = torch.arange(len(positions), device=positions.device) * length
        output = forward(**batch.inputs | {"positions": row_starts + positions[:, 0]})
        logits: Tensor
        has_pair_head = isinstance(output, PreTrainingOutput | SentenceOrderOutput)
        logits = output.prediction_logits if has_pair_head else output.logits
        return logits  # (N, V)

    word = tokenizer.vocabulary.token(token_id)
    kept = computed.encoded.kept[window]
    return ExplanationTarget(
        description=f"{word!r} for mask {number + 1}",
        examples=(computed.encoded.pieces[window],),
        sides=(side_of("text", [record.text], kept, tokenizer),),
        outputs=outputs,
        output_index=token_id,
        link="softmax",
        positions=(position,),
        notes=window_notes(window, len(computed.outputs), "where the mask has the most context"),
    )


def _position(computed: Answered[Any, Tensor, Filled], number: int) -> tuple[int, int]:
    """Return the window where a mask has the most context, and the mask's position in it.

    Raises:
        NothingToExplainError: no window has the mask.
    """
    start = computed.answer.blanks[number].start
    candidates = []
    for window, offsets in enumerate(computed.encoded.offsets):
        # The token of a mask may include the preceding space.
        covers_start = (offsets[:, 0] <= start) & (start < offsets[:, 1])
        for position in np.flatnonzero(covers_start).tolist():
            candidates.append((min(position, len(offsets) - 1 - position), -window, position))
    if not candidates:
        raise _not_read(number)
    _, window, position = max(candidates)
    return -window, position


def _choice(answer: Filled, target: str | None, tokenizer: Tokenizer) -> tuple[int, int]:
    """Return the index of a mask, from 0, and the id of a token for it."""
    match = _NUMBERED.fullmatch(target or "")
    assert match is not None
    number, word = int(match[1] or 1) - 1, match[2]
    if not 0 <= number < len(answer.blanks):
        raise UserError(f"--target {target!r}: the text has {len(answer.blanks)} masks")
    if not word:
        candidates = answer.blanks[number].candidates
        if not candidates:
            raise _not_read(number)
        return number, tokenizer.vocabulary.ids[candidates[0].token]
    for spelt in (word, f" {word}"):  # in some vocabularies, words start with a space
        (token_ids,) = tokenizer.encode_batch([spelt])
        if len(token_ids) == 1 and token_ids[0] != tokenizer.unk_token_id:
            return number, token_ids[0]
    raise UserError(
        f"--target {target!r}: {word!r} is not a single token of the vocabulary, but a mask is "
        "filled with one"
    )


def _not_read(number: int) -> NothingToExplainError:
    return NothingToExplainError(f"mask {number + 1} is in a part of the text that was not read")


def _follows(
    computed: Answered[Any, Tensor, Any],
    texts: tuple[str, str],
    target: str | None,
    tokenizer: Tokenizer,
) -> ExplanationTarget:
    if target is not None:
        raise UserError(
            f"--target {target!r}: for a pair, this run only predicts whether the second text "
            "follows; leave it out"
        )

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        logits: Tensor = forward(**batch.inputs).pair_logits  # (N, 2)
        return logits

    index = int(computed.answer.next_sentence < 0.5)
    return ExplanationTarget(
        description=_FOLLOWS[index],
        examples=(computed.encoded.pieces[0],),
        sides=(side_of("texts", texts, computed.encoded.kept[0], tokenizer),),
        outputs=outputs,
        output_index=index,
        link="softmax",
        notes=window_notes(0, len(computed.outputs), "the first"),
    )
