"""Explanation targets for replaced-token detection.

Shapes: N copies of the example in a batch, T tokens.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heedful.batches import Batch
from heedful.errors import UserError, did_you_mean, join_names
from heedful.explanation_target import Answered, ExplanationTarget, side_of, window_notes
from heedful.reading import Record
from heedful.tasks.answers.replaced import Detected, Word, most_context, tokens_of_words
from heedful.tokens import Tokenizer


def word(
    computed: Answered[Any, Tensor, Detected], target: str | None, tokenizer: Tokenizer
) -> ExplanationTarget:
    """Explain the logit that a word is replaced.

    For a word of several tokens, this is the token with the highest logit. Its window is the one
    with the most context around the token.

    Args:
        computed: the answer.
        target: the word; default: the one with the highest score.
        tokenizer: the model's tokenizer.

    Raises:
        UserError: there is no such word.
    """
    record = computed.record
    assert isinstance(record, Record)
    chosen = _word(computed.answer, target)
    locations = most_context(computed.encoded, tokenizer)
    words = tokens_of_words(record.text, sorted(locations), tokenizer)
    window, position = max(
        (locations[number] for number in words[chosen.start, chosen.end]),
        key=lambda location: float(computed.outputs[location[0]][location[1]]),
    )

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        logits = forward(**batch.inputs).logits  # (N, T)
        rows = torch.arange(len(positions), device=logits.device)
        chosen: Tensor = logits[rows, positions[:, 0]][:, None]  # (N, 1)
        return chosen

    return ExplanationTarget(
        description=f"{chosen.text!r} looks replaced",
        examples=(computed.encoded.pieces[window],),
        sides=(side_of("text", [record.text], computed.encoded.kept[window], tokenizer),),
        outputs=outputs,
        link="sigmoid",
        positions=(position,),
        notes=window_notes(window, len(computed.outputs), "where the word has the most context"),
    )


def _word(answer: Detected, target: str | None) -> Word:
    if not answer.words:
        raise UserError("the text has no word to explain")
    if target is None:
        return max(answer.words, key=lambda one: one.score)
    for one in answer.words:
        if one.text == target:
            return one
    texts = [one.text for one in answer.words]
    near = did_you_mean(target, texts)
    raise UserError(f"--target {target!r}: not a word of the text{near}: {join_names(texts)}")
