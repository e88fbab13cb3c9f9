"""Translation: a text in one language for a text in another, learnt from pairs of them.

By the Transformer (Vaswani et al. 2017) or by recurrent networks with attention (Bahdanau et al.
2015). Any text for any text is learnt so.

Shapes: B items of a batch, E tokens of the text to read, S of the text to write.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted, collate
from heedful.batches.sentences import split_sentences
from heedful.batches.windows import fit_text
from heedful.errors import UserError
from heedful.losses import IGNORED
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.reading import Record
from heedful.reading.parallel import letter_shares, look_swapped, read_pairs, read_sources
from heedful.settings import ColumnSettings, ParallelSettings, PredictSettings, TranslateSettings
from heedful.tasks import translator
from heedful.tasks.task import Fit, Forward, Task
from heedful.tasks.texts import from_texts
from heedful.tasks.translations import Scores, Translation, links_of, plain, row
from heedful.tasks.written import Written, joined
from heedful.tokens import TranslationTokenizer
from heedful.tokens.text import BYTES, SPACE

_TOGETHER = 1024
"""Texts tokenized at once."""
_INSIDE = frozenset(BYTES[0x80:0xC0])
"""What a character goes on with in UTF-8, three times at most; any room is larger."""
_SAMPLE = 10_000
"""Pairs by which the two languages are told apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a run translates."""

    longest: int
    """The most tokens of a translation: those of the longest it learnt from, and half as many
    more."""
    source_letters: dict[str, float] = field(default_factory=dict)
    """Shares of the letters of the language it reads; see ``batches.parallel.letter_shares``."""
    target_letters: dict[str, float] = field(default_factory=dict)
    """The same of the language it writes."""


# Records.


def read(paths: Sequence[Path], columns: ColumnSettings, labelled: bool) -> Iterator[Record]:
    """Stream texts, with their translations if those are wanted.

    Raises:
        UserError: naming the file and line of the first record that cannot be used.
    """
    return read_pairs(paths, columns) if labelled else read_sources(paths, columns)


def goal_of(
    records: Iterable[Record], columns: ColumnSettings, settings: TranslateSettings
) -> Goal:
    """See which letters the two languages have, and go through all records once.

    Raises:
        UserError: there is no pair.
    """
    stream = iter(records)
    sample = list(islice(stream, _SAMPLE))
    if not sample:
        raise UserError("the training data holds no pair of texts")
    for _ in stream:  # so that what is wrong in a file is said before anything is learnt
        pass
    return Goal(
        longest=0,  # known once the pairs have been tokenized
        source_letters=letter_shares(record.text for record in sample),
        target_letters=letter_shares(record.text_pair or "" for record in sample),
    )


def check(record: Record, goal: Goal) -> None:
    """Refuse a pair that nothing can be scored on.

    Raises:
        UserError: with file and line.
    """
    for text, what in ((record.text, "text"), (record.text_pair, "translation")):
        if text is None or not text.strip():
            raise UserError(
                f"{record.source}, line {record.line}: the {what} is empty; to score a run, each "
                "text needs its translation"
            )


def doubt(records: Sequence[Record], goal: Goal) -> str | None:
    """Say so if texts and translations look swapped."""
    if look_swapped(records, goal.source_letters, goal.target_letters):
        return (
            "by their letters, the texts look like what this run writes and their translations "
            "like what it reads: are the files, or the columns, swapped?"
        )
    return None


def metrics(goal: Goal) -> tuple[str, ...]:
    """Name what can pick the best step."""
    return ("bleu", "bleu_lowercase", "chrf", "log_likelihood")


# Examples.


def learnable(
    records: Iterable[Record], tokenizer: TranslationTokenizer
) -> Iterator[tuple[Record, Example]]:
    """Encode pairs to learn from, whatever their length."""
    stream = iter(records)
    while chunk := list(islice(stream, _TOGETHER)):
        sources = tokenizer.source.encode_batch([record.text for record in chunk])
        targets = tokenizer.target.encode_batch([record.text_pair or "" for record in chunk])
        for record, source, target in zip(chunk, sources, targets, strict=True):
            yield record, _example(source, [*target, tokenizer.eos_token_id], tokenizer)


def encode(
    records: Iterable[Record],
    goal: Goal,
    tokenizer: TranslationTokenizer,
    fit: Fit,
    labelled: bool,
) -> Iterator[Fitted[Example]]:
    """Turn texts into examples that end with the ending piece, in parts where one is too long.

    The labels of an example are its known translation, or what its translation must begin with; of
    several parts the first has them. An empty text has no example.

    Raises:
        UserError: see `check`; or a text is too long and may not be cut.
    """
    stream = iter(records)
    while chunk := list(islice(stream, _TOGETHER)):
        sources = tokenizer.source.encode_batch([record.text for record in chunk])
        targets = tokenizer.target.encode_batch([record.text_pair or "" for record in chunk])
        for record, source, target in zip(chunk, sources, targets, strict=True):
            if labelled:
                check(record, goal)
                target = [*target[: goal.longest - 1], tokenizer.eos_token_id]
            blank = not record.text.strip()
            parts = [] if blank else _parts(record, source, tokenizer, fit)
            whole = blank or fit.rule == "window"
            yield Fitted(
                pieces=[
                    _example(part, target if number == 0 else (), tokenizer)
                    for number, part in enumerate(parts)
                ],
                tokens_total=len(source),
                tokens_used=len(source) if whole else sum(map(len, parts)),
            )


def _parts(
    record: Record, ids: list[int], tokenizer: TranslationTokenizer, fit: Fit
) -> list[Sequence[int]]:
    """Cut a text that is too long: as the rule says, or at the ends of sentences."""
    room = fit.max_length - 1  # the ending piece
    if len(ids) <= room:
        return [ids]
    if fit.rule == "refuse":
        raise UserError(
            f"{record.source}, line {record.line}: {len(ids):,} tokens; this run reads {room} at "
            "once, and --long-text window translates sentence by sentence"
        )
    if fit.rule != "window":
        return list(fit_text(ids, limit=room, rule=fit.rule).pieces)
    sentences, spaced = split_sentences(record.text), " ".join(record.text.split())
    parts: list[Sequence[int]] = []
    begin, end, is_open = 0, 0, False
    for sentence, alone in zip(sentences, tokenizer.source.encode_batch(sentences), strict=True):
        start = spaced.index(sentence, end)
        end = start + len(sentence)
        (both,) = tokenizer.source.encode_batch([spaced[begin:end]]) if is_open else (alone,)
        if is_open and len(both) <= room:
            parts[-1] = both
        else:
            parts += _at_words(alone, room, tokenizer)
            begin, is_open = start, len(alone) <= room
    return parts


def _at_words(
    ids: Sequence[int], room: int, tokenizer: TranslationTokenizer
) -> list[Sequence[int]]:
    """Cut ids that are too long before a piece that starts a word, or a character if none does."""
    parts: list[Sequence[int]] = []
    pieces = tokenizer.source.pieces(ids)
    start = 0
    while len(ids) - start > room:
        places = range(start + room, start, -1)
        words = (at for at in places if pieces[at].startswith(SPACE))
        characters = (at for at in places if pieces[at] not in _INSIDE)
        end = next(chain(words, characters))
        parts.append(ids[start:end])
        start = end
    return [*parts, ids[start:]]


def _example(
    source: Sequence[int], target: Sequence[int], tokenizer: TranslationTokenizer
) -> Example:
    ids = np.array([*source, tokenizer.eos_token_id], dtype=np.int32)
    return Example(ids=ids, labels=tuple(target))


def batch_of(
    examples: Sequence[Example], goal: Goal, tokenizer: TranslationTokenizer, draw: Draw | None
) -> Batch:
    """Pad examples; with a draw their translations, too, and without one keep what they are."""
    if draw is not None:
        return collate(examples, pad_id=tokenizer.pad_token_id, labels="target")
    batch = collate(examples, pad_id=tokenizer.pad_token_id)
    prefixes = [[int(token) for token in example.labels] for example in examples]
    return replace(batch, prefixes=prefixes if any(prefixes) else None)


# Training and answers.


def build(goal: Goal, data: ParallelSettings) -> Model:
    """Load the model to go on from."""
    assert data.model is not None
    model: Model = load_model(
        data.model, head="seq2seq", dropout=data.dropout, revision=data.revision
    )
    return model


def loss(forward: Forward, batch: Batch, goal: Goal) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses of the tokens to write, and how many there are."""
    output = forward(batch.input_ids, batch.attention_mask, labels=batch.labels)
    number = torch.tensor(count(batch, goal), device=output.logits.device)
    return output.loss * number, number


def count(batch: Batch, goal: Goal) -> float:
    """Return how many tokens are to be written."""
    assert batch.labels is not None
    return float((batch.labels != IGNORED).sum())


def compute(
    forward: Forward, batch: Batch, goal: Goal, settings: PredictSettings
) -> list[translator.Found]:
    """Write translations, and score those that are known."""
    assert isinstance(forward, translator.Translator)
    return translator.translations(forward, batch, settings, longest=goal.longest)


def decode(
    record: Record,
    fitted: Fitted[Example],
    outputs: Sequence[translator.Found],
    goal: Goal,
    settings: PredictSettings,
    tokenizer: TranslationTokenizer,
) -> Translation:
    """Turn tokens into texts; those of several parts are joined with a space, the best of each."""
    parts = [
        [
            Written(text=tokenizer.target.decode(one.tokens), score=one.score, ended=one.ended)
            for one in found.hypotheses
        ]
        for found in outputs
    ]
    texts = joined(parts)
    links = None
    if settings.alignments:
        read = [example.ids[:-1].tolist() for example in fitted.pieces]
        written = [found.hypotheses[0].tokens for found in outputs]
        weights = [found.attention for found in outputs if found.attention is not None]
        links = links_of(record.text, read, texts[0].text, written, weights, tokenizer)
    return Translation(
        n_best=tuple(texts),
        links=links,
        log_likelihood=sum(found.log_likelihood for found in outputs),
        tokens_known=sum(found.tokens for found in outputs),
        tokens_written=sum(len(found.hypotheses[0].tokens) + 1 for found in outputs),
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
    )


def card(goal: Goal) -> str:
    """Say what the run does."""
    return "Translates texts, as it learnt from texts and their translations."


TASK = Task(
    name="translate",
    head="seq2seq",
    goal=Goal,
    read=read,
    from_texts=from_texts,
    goal_of=goal_of,
    check=check,
    metrics=metrics,
    encode=encode,
    build=build,
    load_tokenizer=TranslationTokenizer.from_pretrained,
    doubt=doubt,
    batch_of=batch_of,
    loss=loss,
    count=count,
    compute=compute,
    decode=decode,
    row=row,
    plain=plain,
    scores=lambda goal: Scores(),
    card=card,
    long_text=lambda goal: "window",
    answer_options=frozenset(
        {
            "alignments",
            "beam",
            "coverage_penalty",
            "length_penalty",
            "max_new_tokens",
            "min_new_tokens",
            "no_repeat_ngram",
            "repetition_penalty",
            "sample",
            "seed",
            "temperature",
            "top_k",
            "top_p",
        }
    ),
)
