"""Writing text: what goes on after a text, or another text for it, such as a summary or a reply.

From plain text a BERT learns as a decoder, each word from those before it. From pairs one BERT
reads and another writes, both warm-started from the same weights (Rothe et al. 2020).

Shapes: B items of a batch, S tokens of the text to read, U of the text to write, R hypotheses.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted, collate
from heedful.batches.windows import apart, fit_text
from heedful.decoding.search import Hypothesis
from heedful.errors import UserError
from heedful.losses import IGNORED
from heedful.models import BertEncoderDecoder
from heedful.models.loading import head_of, load_model
from heedful.models.model import Model
from heedful.reading import Record, Text
from heedful.settings import ColumnSettings, DataSettings, GenerateSettings, PredictSettings
from heedful.sources import resolve
from heedful.tasks.task import Fit, Forward, Task
from heedful.tasks.texts import from_texts as records_of
from heedful.tasks.texts import read as read_table
from heedful.tasks.written import (
    Generation,
    Scores,
    draw_number,
    joined,
    log_likelihoods,
    plain,
    read_line,
    row,
    search_options,
)
from heedful.tokens import Tokenizer, load_encoder_tokenizer

MAX_NEW_TOKENS = 64
"""The most tokens of a text that is written, unless told otherwise."""
_TOGETHER = 1024
"""Texts tokenized at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a run writes."""

    pairs: bool
    """Whether it reads a text and writes another; else it goes on after the text."""


# Records.


def read(paths: Sequence[Path], columns: ColumnSettings, labelled: bool) -> Iterator[Record]:
    """Stream texts of plain files, or pairs of a text and, in the label's column, another.

    Raises:
        UserError: naming the file and line of the first record that cannot be used.
    """
    if columns.text_pair is not None or columns.label_separator is not None:
        raise UserError(
            "generate reads --text and writes --label: leave out --text-pair and --label-separator"
        )
    plain = [path.name.removesuffix(".gz").endswith(".txt") for path in paths]
    if columns.format == "text" or (columns.format is None and any(plain)):
        if not all(plain) and columns.format is None:
            raise UserError("give either .txt files or tables, not both at once")
        lines = read_table(paths, columns, False)
        return (item for item in lines if item.text.strip()) if labelled else lines
    return read_table(paths, columns, labelled)


def from_texts(texts: Sequence[Text]) -> list[Record]:
    """Make records of texts.

    Raises:
        UserError: they are pairs.
    """
    if not all(isinstance(text, str) for text in texts):
        raise UserError("generate reads single texts, not pairs")
    return records_of(texts)


def goal_of(records: Iterable[Record], columns: ColumnSettings, settings: GenerateSettings) -> Goal:
    """See whether there are texts to write beside those to read.

    Raises:
        UserError: there is no text.
    """
    kinds = {record.labels is not None for record in records}
    if not kinds:
        raise UserError("the training data holds no text")
    return Goal(pairs=kinds.pop())


def check(record: Record, goal: Goal) -> None:
    """Refuse a plain text where a pair is wanted, the other way round, and several to write.

    Raises:
        UserError: with file and line.
    """
    if (record.labels is not None) != goal.pairs:
        wanted = "a text to read and one to write" if goal.pairs else "plain text"
        raise UserError(f"{record.source}, line {record.line}: expected {wanted}")
    if record.labels is not None and len(record.labels) != 1:
        raise UserError(
            f"{record.source}, line {record.line}: {len(record.labels)} texts to write, expected 1"
        )


# Training.


def metrics(goal: Goal) -> tuple[str, ...]:
    """Name what can pick the best step."""
    return ("bleu", "chrf", "log_likelihood") if goal.pairs else ("log_likelihood",)


def encode(
    records: Iterable[Record], goal: Goal, tokenizer: Tokenizer, fit: Fit, labelled: bool
) -> Iterator[Fitted[Example]]:
    """Turn texts into examples that start with ``[CLS]`` and end with ``[SEP]``.

    A text to go on from keeps its end, and leaves as much room as it may take. A text to read is
    read in windows that share nothing, and each gets its own text; what is known to be written for
    the whole is learnt, or scored, from the first of them alone.

    Raises:
        UserError: see `check`, or a rule is given for a text to go on from.
    """
    if not goal.pairs and not labelled and fit.rule != "window":
        raise UserError("--long-text: a text to go on from keeps its end; leave the option out")
    room = fit.max_length - tokenizer.layout.size(pair=False)
    records, copies = tee(records)
    for record, ids in zip(records, _ids(copies, tokenizer), strict=True):
        if labelled:
            check(record, goal)
        written, kept = [], []
        if goal.pairs and labelled:
            (written,) = tokenizer.encode_batch(record.labels or ())
            kept = written[:room]
        used = ids if goal.pairs or labelled else ids[-max(room // 2, 1) :]
        parts = (
            apart(used, room) if fit.rule == "window" else fit_text(used, limit=room, rule=fit.rule)
        )
        examples = [_example(tokenizer, part) for part in parts.pieces]
        if goal.pairs and labelled:
            end = tokenizer.sep_token_id
            examples[0] = replace(examples[0], labels=(*map(float, kept), float(end)))
        elif labelled:
            examples = [replace(one, labels=tuple(map(float, one.ids))) for one in examples]
        yield Fitted(
            pieces=examples,
            tokens_total=len(ids) + len(written),
            tokens_used=parts.tokens_used + len(kept),
        )


def _ids(records: Iterable[Record], tokenizer: Tokenizer) -> Iterator[list[int]]:
    while chunk := [record.text for record in islice(records, _TOGETHER)]:
        yield from tokenizer.encode_batch(chunk)


def _example(tokenizer: Tokenizer, ids: Sequence[int]) -> Example:
    return Example(ids=np.array(tokenizer.layout.ids(ids), dtype=np.int32))


def build(goal: Goal, data: DataSettings) -> Model:
    """Warm-start what reads and what writes from one encoder, or go on with a run of the task."""
    folder = resolve(data.model, data.revision)
    tokenizer = load_encoder_tokenizer(folder)
    load = partial(load_model, folder, dropout=data.dropout)
    if not goal.pairs:
        model: Model = load(head="causal_lm", is_decoder=True)
        return model
    if head_of(folder) == "seq2seq":
        both: BertEncoderDecoder = load()
    else:
        both = BertEncoderDecoder(
            load(head="body"),
            load(head="causal_lm", is_decoder=True, add_cross_attention=True),
            decoder_start_token_id=tokenizer.cls_token_id,
        )
    if both.encoder.pooler is not None:
        both.encoder.pooler.requires_grad_(False)  # nothing reads it
    return both


def batch_of(
    examples: Sequence[Example], goal: Goal, tokenizer: Tokenizer, draw: Draw | None
) -> Batch:
    """Pad examples, with what is to be written where there is something to learn."""
    return collate(
        examples, pad_id=tokenizer.pad_token_id, labels=None if draw is None else "tokens"
    )


def loss(forward: Forward, batch: Batch, goal: Goal) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses of the tokens to write, and how many there are."""
    output = forward(
        batch.input_ids, batch.attention_mask, batch.token_type_ids, labels=batch.labels
    )
    number = torch.tensor(count(batch, goal), device=output.logits.device)
    if not number:  # a mean over nothing is no number
        return output.logits.sum() * 0.0, number
    return output.loss * number, number


def count(batch: Batch, goal: Goal) -> float:
    """Return how many tokens are to be written; the first of a plain text comes from nothing."""
    assert batch.labels is not None
    labels = batch.labels if goal.pairs else batch.labels[:, 1:]
    return float((labels != IGNORED).sum())


# Answers.


def compute(forward: Forward, batch: Batch, goal: Goal, settings: PredictSettings) -> Tensor:
    """Write texts, or score those that are known; of pairs both.

    Returns:
        Shape (B, 1 + R, 2 + U). The first line holds the log-likelihood of the known text and how
        many tokens it has; each other line a score, 1 if it ended, and the tokens, -1 after them.
    """
    known = torch.zeros(batch.items, 2)
    if batch.labels is not None:
        known = _log_likelihood(forward, batch, goal)
    found: list[list[Hypothesis]] = [[]] * batch.items
    if batch.labels is None or goal.pairs:
        found = _write(forward, batch, goal, settings)
    longest = max((len(one.tokens) for texts in found for one in texts), default=0)
    rows = torch.full((batch.items, 1 + max(map(len, found)), 2 + longest), -1.0)
    rows[:, 0, :2] = known
    for lines, texts in zip(rows, found, strict=True):
        for line, one in zip(lines[1:], texts, strict=False):
            tokens = [one.score, float(one.ended), *map(float, one.tokens)]
            line[: len(tokens)] = torch.tensor(tokens)
    return rows


def _log_likelihood(forward: Forward, batch: Batch, goal: Goal) -> Tensor:
    """Return the sum over each known text's tokens, and their number. Shape (B, 2)."""
    assert batch.labels is not None
    output = forward(
        batch.input_ids, batch.attention_mask, batch.token_type_ids, labels=batch.labels
    )
    labels = batch.labels
    if not goal.pairs:  # each is scored at the place before it
        labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)], dim=1)
    return log_likelihoods(output.logits, output.positions, labels).cpu()


def _write(
    model: Any, batch: Batch, goal: Goal, settings: PredictSettings
) -> list[list[Hypothesis]]:
    ids, mask = batch.input_ids, batch.attention_mask
    lengths = torch.full((len(ids),), ids.shape[1]) if mask is None else mask.sum(1)
    start, end = int(ids[0, 0]), int(ids[0, int(lengths[0]) - 1])
    positions = model.decoder.max_positions if goal.pairs else model.max_positions
    # Not by the longest text of the batch, on which the others must not depend.
    room = positions if goal.pairs else positions // 2
    most = min(settings.max_new_tokens or MAX_NEW_TOKENS, room)
    options = search_options(settings, eos_token_id=end, max_new_tokens=most, never=start)
    rows = zip(ids.tolist(), lengths.tolist(), strict=True)
    numbers = [draw_number(row[:size]) for row, size in rows]
    if isinstance(model, BertEncoderDecoder):
        return model.generate(ids, mask, search=options, numbers=numbers)
    places = torch.arange(ids.shape[1] - 1, device=ids.device)
    before_end = places < (lengths.to(ids.device) - 1)[:, None]  # (B, S - 1)
    texts: list[list[Hypothesis]] = model.generate(
        ids[:, :-1], before_end, search=options, numbers=numbers
    )
    return texts


def decode(
    record: Record,
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    goal: Goal,
    settings: PredictSettings,
    tokenizer: Tokenizer,
) -> Generation:
    """Turn tokens into texts; those of several windows are joined, the best of each."""
    windows = [
        [one for line in rows[1:] if (one := read_line(line, tokenizer))] for rows in outputs
    ]
    return Generation(
        n_best=tuple(joined(windows)) if windows[0] else (),
        log_likelihood=sum(float(rows[0, 0]) for rows in outputs),
        tokens_written=sum(int(rows[0, 1]) for rows in outputs),
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
    )


def card(goal: Goal) -> str:
    """Say what the run writes."""
    if goal.pairs:
        return "Reads a text and writes another, as it learnt from pairs of texts."
    return "Goes on with a text, word by word, as it learnt from plain text."


TASK = Task(
    name="generate",
    head=None,
    goal=Goal,
    read=read,
    from_texts=from_texts,
    goal_of=goal_of,
    check=check,
    metrics=metrics,
    encode=encode,
    build=build,
    batch_of=batch_of,
    loss=loss,
    count=count,
    compute=compute,
    decode=decode,
    row=row,
    plain=plain,
    scores=lambda goal: Scores(pairs=goal.pairs),
    card=card,
    long_text=lambda goal: "head" if goal.pairs else "window",
    answer_options=frozenset(
        {
            "beam",
            "max_new_tokens",
            "length_penalty",
            "sample",
            "temperature",
            "top_k",
            "top_p",
            "seed",
        }
    ),
)
