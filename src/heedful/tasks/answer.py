"""Extractive question answering: find the span of a text that answers a question, or no answer.

Each window of the context is paired with the whole question. Two scores per token say how likely an
answer starts and ends there. The class token, which is outside the text, stands for no answer
(Devlin et al. 2019, sections 4.2 and 4.3).

Shapes: B windows of a batch, T tokens of a window, N tokens of a context.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import collate, spans
from heedful.batches.features import row_offsets
from heedful.batches.windows import locating_errors, refuse, window_starts
from heedful.batches.words import extend_over_accents, strip_spaces
from heedful.decoding.spans import ScoredWindow, best_spans
from heedful.distillation import DistillationLoss
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import ItemScorer
from heedful.models.model import Model
from heedful.models.outputs import QuestionAnsweringOutput
from heedful.reading import Text
from heedful.reading.answer_offsets import MisplacedAnswers, aligned_answers
from heedful.reading.squad import Question, check_texts, read_questions
from heedful.scripts import is_unspaced
from heedful.settings import AnswerSettings, ColumnSettings, LongText, PredictSettings
from heedful.task import Forward, Input, LengthLimit, Recipe, Say, Start, StoreOf, Task
from heedful.tasks.answers.candidates import CANDIDATES, SpanAnswer, span_probabilities
from heedful.tasks.explanation_targets.spans import span as span_target
from heedful.tasks.item_scorers import decisions as item_scorers
from heedful.tasks.texts import encode_training_records, refuse_columns, start_encoder
from heedful.tokens import PairLayout, Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer(Task[Question, Tensor, SpanAnswer]):
    """Answers questions with spans of their contexts."""

    name: ClassVar[str] = "answer"
    answer_options: ClassVar[frozenset[str]] = frozenset({"no_answer_threshold", "top"})
    example: ClassVar[str] = '"a question" --context "a text that answers it"'

    no_answer: bool | None
    """Whether the training data has unanswerable questions, so that the run may give no answer.
    None: unknown; then it may if a threshold is given."""
    threshold: float
    """Margin by which the no-answer score must exceed that of the best span."""
    stride: int
    """Tokens shared by neighbouring windows; at most half a window."""
    max_answer_tokens: int
    """Maximum number of tokens of an answer."""

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Question]:
        """Stream questions.

        Raises:
            UserError: a question is invalid; names the file, place and id of the first one.
        """
        refuse_columns(cls.name, columns)
        return read_questions(paths, labelled=labelled, encoding=columns.encoding)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Question]:
        """Make records from pairs of a question and a context.

        Raises:
            UserError: an item is not a pair, or a text is empty.
        """
        records = []
        for number, text in enumerate(texts, start=first):
            where = f"question {number}"
            if isinstance(text, str):
                raise UserError(f"{where}: no context to answer it from: give --context")
            if len(text) != 2:
                raise UserError(f"{where}: {len(text)} texts; give a question and its context")
            question, context = text
            check_texts(question, context, where)
            records.append(Question(question=question, context=context, answers=None, where=where))
        return records

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A question and its context."""
        return Input(name="question"), Input(name="context")

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Find out whether some questions have no answer.

        Raises:
            UserError: no question has an answer; or many answers are not where the files say; or a
                no-answer threshold is given, but all questions have answers.
        """
        options = recipe.options
        assert isinstance(options, AnswerSettings)
        places = MisplacedAnswers()
        records = places.count(cls.read(recipe.data.train, recipe.columns, labelled=True))
        kinds = Counter(bool(record.answers) for record in records)
        places.check()
        if not kinds[True]:
            raise UserError("no question of the training data has an answer: nothing to learn")
        if not kinds[False] and options.no_answer_threshold != AnswerSettings().no_answer_threshold:
            raise UserError(
                "--no-answer-threshold is for questions without an answer; the training data has "
                "none"
            )
        return cls(
            no_answer=kinds[False] > 0,
            threshold=options.no_answer_threshold,
            stride=options.stride,
            max_answer_tokens=options.max_answer_tokens,
        )

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        return ("f1", "exact_match")

    def start(self, recipe: Recipe) -> Start:
        """Load an encoder with a span head: its own if it has one, else a fresh one.

        Raises:
            UserError: long texts are read with a gap, which answers cannot span.
        """
        _check_rule(recipe.data.long_text)
        return start_encoder(recipe, head="span", num_labels=2)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records; a long context is read in windows by default."""
        places = MisplacedAnswers()
        records = places.count(self.read(recipe.data.train, recipe.columns, labelled=True))
        usable = (record for record in records if not record.answers or aligned_answers(record))
        store = encode_training_records(
            self, recipe, start, folder, say, rule="window", records=usable
        )
        if places.misplaced:
            say(places.report("not used for training"))
        return self, start, store

    def warn_about(self, records: Sequence[Question]) -> str | None:
        """Return a warning about answers that are not where their file says, else None."""
        places = MisplacedAnswers()
        for _ in places.count(records):
            pass
        return places.report("scored as texts") if places.misplaced else None

    def encode(
        self, records: Iterable[Question], tokenizer: Tokenizer, fit: LengthLimit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Encode each question as one example per window of its context.

        Raises:
            UserError: the question is too long; or the pair is too long and may not be cut; or the
                answer has no token; or see `start`.
        """
        _check_rule(fit.long_text)
        budget = fit.max_length - tokenizer.layout.size(pair=True)
        context: str | None = None
        for record in records:
            if record.context is not context:  # consecutive questions share a context
                context = record.context
                pieces = tokenizer.pieces(context)
                offsets = extend_over_accents(
                    context, strip_spaces(context, pieces.offsets)
                )  # (N, 2)
            (question,) = tokenizer.encode_batch([record.question])
            limit = budget - len(question)
            with locating_errors(record):
                refuse(len(question) + len(offsets), budget, fit.long_text)
            if len(offsets) > limit < budget // 2:
                raise UserError(
                    f"{record.where}: the question has {len(question)} tokens; with --max-length "
                    f"{fit.max_length} it may have at most {budget - budget // 2}: shorten it, or "
                    "give a larger --max-length"
                )
            answer = _answer_tokens(record, offsets) if labelled else None
            starts = self._starts(len(offsets), limit) if fit.long_text == "window" else [0]
            examples = [
                _example(tokenizer, question, pieces.ids, slice(start, start + limit), answer)
                for start in starts
            ]
            num_used = len(offsets) if fit.long_text == "window" else min(limit, len(offsets))
            yield Fitted(
                pieces=examples,
                tokens_total=len(question) + len(offsets),
                tokens_used=len(question) + num_used,
                offsets=[
                    row_offsets(offsets[start : start + limit], tokenizer.layout, len(question))
                    for start in starts
                ],
                kept=[
                    (range(len(question)), range(start, min(start + limit, len(offsets))))
                    for start in starts
                ],
            )

    def _starts(self, total: int, limit: int) -> list[int]:
        """Return the start of each window of a context; see `window_starts`."""
        if total <= limit:
            return [0]
        return window_starts(total, limit, min(self.stride, limit // 2))

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Collate and pad examples. Targets: ``spans``, (B, 2), first and last answer token."""
        targets = {} if draw is None else {"spans": spans(examples)}
        return collate(
            examples,
            pad_id=tokenizer.pad_token_id,
            closing_type=tokenizer.layout.closing_type,
            targets=targets,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of the start and the end of each answer."""
        logits = _logits(forward, batch).transpose(1, 2)  # (B, 2, T)
        return losses.cross_entropy(logits, batch.targets["spans"])[0]

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of start and end targets."""
        return 2.0 * batch.num_examples

    @property
    def teacher_output(self) -> Literal["scores"]:
        """A teacher provides logits."""
        return "scores"

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation loss of the start and end logits."""
        return (
            DistillationLoss(
                kind="classes",
                divisor=self.loss_divisor(batch),
                extract=lambda output: (
                    _scores(output, batch).transpose(1, 2).flatten(0, 1)
                ),  # (2B, T)
            ),
        )

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse an invalid answer length or stride."""
        if self.max_answer_tokens < 1 or self.stride < 0:
            raise UserError(
                f"max_answer_tokens is {self.max_answer_tokens} and stride {self.stride}; they "
                "must be at least 1 and 0"
            )

    def run_model(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the start and end logits of each token. Shape (B, T, 2)."""
        return _logits(model, batch).float()

    def decode(
        self,
        record: Question,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> SpanAnswer:
        """Find the best spans over all windows, and compare them with giving no answer.

        Raises:
            UserError: a score is NaN, or a threshold is given that has no effect.
        """
        threshold = settings.no_answer_threshold
        if threshold is None:
            threshold = self.threshold
        elif self.no_answer is False:
            raise UserError(
                "--no-answer-threshold: this run was trained without unanswerable questions"
            )
        may_refuse = self.no_answer or settings.no_answer_threshold is not None
        top_spans = best_spans(
            list(self._scored_windows(fitted, outputs, tokenizer.layout)),
            count=max(CANDIDATES, settings.top),
            max_tokens=self.max_answer_tokens,
        )
        # Most windows of a long context hold no answer, so the lowest no-answer score decides.
        no_answer_score = min(
            float(scores[tokenizer.layout.class_position(len(piece.ids))].sum())
            for scores, piece in zip(outputs, fitted.pieces, strict=True)
        )
        candidate_score = no_answer_score if may_refuse or not top_spans else None
        candidates = span_probabilities(record.context, top_spans, candidate_score)
        margin = no_answer_score - top_spans[0].score if may_refuse and top_spans else None
        chosen = candidates[0] if margin is None or margin <= threshold else candidates[-1]
        ranked = sorted(candidates, key=lambda candidate: -candidate.score)
        return SpanAnswer(
            answer=chosen.answer,
            start=chosen.start,
            end=chosen.end,
            score=chosen.score,
            n_best=tuple(ranked[: settings.top]),
            best=candidates[0].answer or "",
            margin=margin,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
            windows=len(outputs),
        )

    def _scored_windows(
        self, fitted: Fitted[Example], outputs: Sequence[Tensor], layout: PairLayout
    ) -> Iterator[ScoredWindow]:
        """Yield the scores of the context tokens of each window."""
        context_positions = [np.flatnonzero(offsets[:, 0] >= 0) for offsets in fitted.offsets]
        starts = [0]
        if len(context_positions) > 1:
            size = len(context_positions[0])
            question = len(fitted.pieces[0].ids) - layout.size(pair=True) - size
            starts = self._starts(fitted.tokens_total - question, size)
        for first, positions, offsets, scores in zip(
            starts, context_positions, fitted.offsets, outputs, strict=True
        ):
            start, end = scores[positions].T.numpy()
            yield ScoredWindow(first=first, offsets=offsets[positions], start=start, end=end)

    def explanation_target(
        self,
        computed: Answered[Question, Tensor, SpanAnswer],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain a span of the context, or the answer: its start and end logits."""
        return span_target(computed, target, tokenizer, _logits)

    def scores(self) -> "SpanAnswerScores":
        """Return a new, empty accumulator of scores."""
        return SpanAnswerScores(self)

    def item_scorer(self) -> ItemScorer[SpanAnswer, Question]:
        """Return the scorer of its answers."""
        return item_scorers.spans(no_answer=bool(self.no_answer))

    def model_card(self) -> str:
        """Describe the run for its model card."""
        no_answer = ", or says that the text has no answer" if self.no_answer else ""
        return f"Answers a question with a span of a given text{no_answer}."


def _example(
    tokenizer: Tokenizer,
    question: Sequence[int],
    context: Sequence[int],
    window: slice,
    answer: tuple[int, int] | None,
) -> Example:
    """Encode one window. If it does not contain the whole answer, its target is no answer."""
    layout, context_part = tokenizer.layout, context[window]
    first, last = (token - window.start for token in answer or (-1, -1))
    contains_answer = first >= 0 and last < len(context_part)
    start = layout.second_start(len(question))
    ids = layout.ids(question, context_part)
    no_answer = layout.class_position(len(ids))
    return Example(
        ids=np.array(ids, dtype=np.int32),
        split=layout.type_split(len(question)),
        labels=(start + first, start + last) if contains_answer else (no_answer, no_answer),
    )


def _answer_tokens(record: Question, offsets: NDArray[np.int32]) -> tuple[int, int] | None:
    """Return the first and the last token of the answer; of several answers, the most frequent.

    Raises:
        UserError: the answer has no token.
    """
    answers = aligned_answers(record)
    if not answers:
        return None
    (((start, text), _),) = Counter(answers).most_common(1)
    (overlapping,) = np.nonzero((offsets[:, 0] < start + len(text)) & (offsets[:, 1] > start))
    if not len(overlapping):
        raise UserError(
            f"{record.where}: the answer {text!r} has no characters that the tokenizer reads"
        )
    return int(overlapping[0]), int(overlapping[-1])


def _check_rule(rule: LongText | None) -> None:
    if rule == "head-tail":
        raise UserError(
            "--long-text head-tail leaves a gap, but an answer is one span; give window or head"
        )


def _logits(forward: Forward, batch: Batch) -> Tensor:
    return _scores(forward(**batch.inputs), batch)


def _scores(output: QuestionAnsweringOutput, batch: Batch) -> Tensor:
    """Return the start and end logits of each token. Shape (B, T, 2)."""
    logits = torch.stack([output.start_logits, output.end_logits], dim=-1)  # (B, T, 2)
    mask = batch.inputs.get("attention_mask")
    # Padding must not affect the loss of an example.
    return logits if mask is None else logits.masked_fill(~mask[..., None], -torch.inf)


class SpanAnswerScores:
    """Accumulates scores of answers; see ``heedful.metrics.AnswerScores``."""

    def __init__(self, task: Answer) -> None:
        from heedful.metrics import AnswerScores

        self._scores = AnswerScores(no_answer=bool(task.no_answer))
        self._misplaced = 0

    def update(self, answers: Sequence[SpanAnswer], records: Sequence[Question]) -> None:
        """Add answers to questions with known answers."""
        # Where the training data are unknown, only the answers say whether a threshold is given.
        self._scores.no_answer |= any(answer.margin is not None for answer in answers)
        for answer, record in zip(answers, records, strict=True):
            self._scores.update(
                answer.best,
                [truth.text for truth in record.answers or ()],
                answered=answer.answer is not None,
                margin=answer.margin or 0.0,
                unspaced=is_unspaced(record.context),
            )
            self._misplaced += len(record.misplaced)

    def compute(self) -> dict[str, Any]:
        """Return the scores, and the number of answers that are not where the file says, if any."""
        misplaced = {"misplaced_answers": self._misplaced} if self._misplaced else {}
        return self._scores.compute() | misplaced
