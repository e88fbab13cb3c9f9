"""Explanation targets for labels, numbers and choices.

Shapes: N copies of the example in a batch, C labels.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from heedful.batches import Batch, Example
from heedful.errors import UserError, did_you_mean, join_names
from heedful.explanation_target import (
    Answered,
    ExplanationTarget,
    OutputActivation,
    side_of,
    window_notes,
)
from heedful.reading import Record
from heedful.reading.choices import Choices
from heedful.tasks.modalities import Modality
from heedful.tokens import Tokenizer


def label(
    computed: Answered[Any, Tensor, Any],
    target: str | None,
    tokenizer: Any,
    labels: Sequence[str],
    link: OutputActivation,
    modality: Modality,
) -> ExplanationTarget:
    """Explain the logit of the given label, or by default of the most probable one.

    Raises:
        UserError: the model has no such label.
    """
    name = max(labels, key=computed.answer.scores.__getitem__) if target is None else target
    if name not in labels:
        raise UserError(
            f"--target {name!r} is not one of the model's labels"
            f"{did_you_mean(name, labels)}: {join_names(labels)}"
        )
    index = labels.index(name)
    # A softmax depends on all logits, a sigmoid only on the label's own.
    scores = [one.softmax(-1) if link == "softmax" else one for one in computed.outputs]
    window = max(range(len(scores)), key=lambda number: float(scores[number][index]))
    why = "where the label is most probable"
    return _of_window(computed, window, tokenizer, modality, f"label {name!r}", index, link, why)


def number(
    computed: Answered[Record, Tensor, Any],
    target: str | None,
    tokenizer: Tokenizer,
    modality: Modality,
) -> ExplanationTarget:
    """Explain the predicted value.

    Raises:
        UserError: a target is given.
    """
    if target is not None:
        raise UserError(f"--target {target!r}: a regress run has only one number; leave it out")
    return _of_window(computed, 0, tokenizer, modality, "the number", 0, "none", "the first")


def _of_window(
    computed: Answered[Any, Tensor, Any],
    window: int,
    tokenizer: Any,
    modality: Modality,
    target: str,
    index: int,
    link: OutputActivation,
    why: str,
) -> ExplanationTarget:
    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        logits: Tensor = forward(**batch.inputs).logits  # (N, C)
        return logits

    side = modality.sides(computed.record, computed.encoded, window, tokenizer)
    example = computed.encoded.pieces[window]
    return ExplanationTarget(
        description=target,
        examples=(example,),
        sides=(side,),
        mask_tokens=modality.token_masker(tokenizer, side),
        outputs=outputs,
        output_index=index,
        link=link,
        positions=() if side.patches is not None else _class_token(example, tokenizer),
        notes=window_notes(window, len(computed.outputs), why),
    )


def choice(
    computed: Answered[Choices, Tensor, Any],
    target: str | None,
    tokenizer: Tokenizer,
    scores: Callable[[Callable[..., Any], Batch], Tensor],
) -> ExplanationTarget:
    """Explain the logit of a choice, given by text or index from 0; default: the chosen one.

    Args:
        computed: the answer.
        target: the user's choice.
        tokenizer: the model's tokenizer.
        scores: returns a logit per example for a model and a batch, shape (N, 1).

    Raises:
        UserError: there is no such choice.
    """
    record = computed.record
    index_of = {**{str(index): index for index in range(len(record.choices))}}
    index_of |= {text: index for index, text in enumerate(record.choices)}
    if target is not None and target not in index_of:
        raise UserError(
            f"--target {target!r} is not one of the choices{did_you_mean(target, record.choices)}: "
            f"{join_names(record.choices)}"
        )
    chosen = computed.answer.choice if target is None else index_of[target]
    windows = [index for index, one in enumerate(computed.encoded.pieces) if one.part == chosen]
    texts = (record.question, record.choices[chosen])
    kept, example = computed.encoded.kept[windows[0]], computed.encoded.pieces[windows[0]]
    return ExplanationTarget(
        description=f"choice {record.choices[chosen]!r}",
        examples=(example,),
        sides=(side_of("question and choice", texts, kept, tokenizer),),
        outputs=lambda forward, batch, positions: scores(forward, batch),
        positions=_class_token(example, tokenizer),
        notes=window_notes(0, len(windows), "the first"),
    )


def _class_token(example: Example, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the position of XLNet's class token, which is the last; else ().

    GPT-2 has no class token: its first token belongs to the text and can be removed.
    """
    if tokenizer.layout.closing_type is None:
        return ()
    return (tokenizer.layout.class_position(len(example.ids)),)
