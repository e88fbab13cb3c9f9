"""A finished run as a function from text to answers.

The command line, the Python API and all evaluations use this module, so that their answers cannot
differ.
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, tee
from typing import Any, TypeAlias, Unpack

import numpy as np
import torch
from torch import Tensor

from heedful.answer_options import check_options, with_options
from heedful.batches import Draw, Example, Fitted, plan_pass
from heedful.batches.buckets import MAX_PADDING, Positions
from heedful.batches.images import random_images
from heedful.cancellation import check_cancelled
from heedful.checkpoints.runs import RunRecord
from heedful.compiled import kernels
from heedful.compiled.int8_layers import calibration_rows
from heedful.compiled.model import Compiled, compile_model
from heedful.compiled.watch import Structure, has_hooks
from heedful.device_transfer import without_autocast
from heedful.errors import UserError, naming_arguments
from heedful.files import as_path
from heedful.interop import predictable_record
from heedful.models.model import Model
from heedful.models.sizing import max_batch_tokens
from heedful.parallel_batches import compute_batches, num_at_once
from heedful.readers import load_reader
from heedful.reading import Text
from heedful.settings import PredictOptions, PredictSettings, ScoreSettings, checked_options
from heedful.sources import PACKAGES, resolve
from heedful.task import LengthLimit, check_max_length
from heedful.tasks import check_fit, read_task
from heedful.tasks.texts import checked_items, checked_texts
from heedful.tokens import TranslationTokenizer
from heedful.training.allocator import keep_few_kernels
from heedful.training.device import (
    choose_answer_precision,
    choose_device,
    in_precision,
    inference_copy,
    prepare_products,
)

# Examples to sort by length at a time: enough to fill batches with little padding, few enough to
# bound memory use for a large file.
_SORTED_TOGETHER = 4096
# Texts whose generation is not divided among threads: a step for fewer is hardly faster.
_FEW_TEXTS = 64
# oneDNN kernels to cache: those of a block for each length of a single text, to avoid recompiling.
_KERNELS = 512
_DEFAULT = PredictSettings()

PredictInput: TypeAlias = str | Sequence[str] | bytes | os.PathLike[str]
"""A text, or several that belong to one item; for an image model, a file name or its bytes."""


class Predictor:
    """Answers texts with a trained model.

    Args:
        model: the model. It is not changed; it is copied if the precision or device differs.
        tokenizer: the model's tokenizer.
        record: the record of the run.
        settings: precision and device, and defaults for each call.
        name: the name of the run.

    Attributes:
        model: the uncompiled model in the requested precision. A model that is assigned to this
            attribute, or modified in place, runs without compilation.

    Raises:
        UserError: an option would have no effect, or the model cannot run in int8.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Any,
        record: RunRecord,
        settings: PredictSettings = _DEFAULT,
        *,
        name: str = "",
    ) -> None:
        self.task = read_task(record)
        self.name = name
        self.device = choose_device(settings.device)
        self.precision = choose_answer_precision(settings.precision, self.device)
        prepare_products(self.precision)
        self.tokenizer = tokenizer
        self.record = record
        self.positions = model.max_positions
        check_options(self.task, settings)
        self.settings = settings
        self.max_length = self._max_length(settings)
        self.model = inference_copy(model, self.device, self.precision.dtype)
        self._compile()
        self._tokens_at_once = max_batch_tokens(self.model)
        if self.precision.int8 and self.kernel != kernels.INT8:
            reason = self.compiled.reason
            raise UserError(f"--precision int8: {reason}; give auto or fp32")

    def _compile(self) -> None:
        rows = self._random_rows if self.precision.int8 else None
        self._compiled, self._compiled_of = compile_model(self.model, rows), self.model
        self._structure = Structure(self.model)

    def __repr__(self) -> str:
        return f"<Predictor {self.name!r}: {self.task.model_card()}>"

    def __getstate__(self) -> dict[str, Any]:
        """Omit the compiled model: its weights are packed for this machine and cannot be stored."""
        omitted = ("_compiled", "_compiled_of", "_structure")
        return {name: value for name, value in vars(self).items() if name not in omitted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    def set_score_settings(self, settings: ScoreSettings) -> None:
        """Set how the answers are scored.

        Raises:
            UserError: the task does not support these settings.
        """
        if settings != ScoreSettings():
            self.task = self.task.with_score_settings(settings)

    @property
    def compiled(self) -> Compiled:
        """The compiled model that computes the answers, or the plain model if there is none."""
        if self.model is not self._compiled_of:
            return Compiled(self.model, kernels.PLAIN, "the model was replaced")
        if self._structure.is_changed():
            return Compiled(self.model, kernels.PLAIN, "layers of the model were replaced")
        return self._compiled

    @property
    def kernel(self) -> str:
        """The kernel that computes the answers: see `heedful.compiled.model.Compiled`."""
        return self.compiled.kernel

    @classmethod
    def load(
        cls,
        run: str | os.PathLike[str],
        settings: PredictSettings = _DEFAULT,
        *,
        mapped: bool = True,
    ) -> "Predictor":
        """Load a finished run.

        Model folders of some other libraries also work: see ``heedful.interop.READERS``.

        Args:
            run: the run folder.
            settings: the prediction settings.
            mapped: whether weights may stay memory-mapped, which loads faster. If another process
                then writes to the file, the model changes or this process crashes.

        Raises:
            UserError: the folder is not a run, is unfinished, or has a damaged file.
        """
        keep_few_kernels(_KERNELS)
        folder = as_path("run", run)
        packaged = os.fspath(run) in PACKAGES
        folder = resolve(run) if packaged else folder
        record = predictable_record(folder)
        device = choose_device(settings.device)
        dtype = choose_answer_precision(settings.precision, device).dtype
        # The model has no other owner yet, so it can be converted without a copy.
        task = read_task(record, folder)
        with torch.inference_mode(False):  # explanations need gradients, and so normal tensors
            model = in_precision(task.load(folder, record.head), device, dtype)
        check_fit(folder, task, record, model, settings.max_length or record.max_length)
        if not mapped:
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()
        name = os.fspath(run) if packaged else folder.resolve().name
        reader = load_reader(folder, outside=record.outside)
        return cls(model, reader, record, settings, name=name)

    def __call__(
        self, texts: PredictInput | Iterable[PredictInput], **options: Unpack[PredictOptions]
    ) -> Any:
        """Answer one text (or a pair as a tuple), or a list of them.

        Args:
            texts: one or several.
            options: fields of `PredictSettings`, for this call only.

        Returns:
            The answer of the run's task, or a list of answers.
        """
        if isinstance(texts, str | tuple | bytes | os.PathLike):
            return next(self.predict([texts], **options))
        return list(self.predict(texts, **options))

    def predict(
        self, texts: Iterable[PredictInput], **options: Unpack[PredictOptions]
    ) -> Iterator[Any]:
        """Yield the answer to each text or pair in order, with a few thousand in memory at a time.

        Args:
            texts: a list, a column of a table, or any other iterable. For a single text, call the
                predictor itself.
            options: fields of `PredictSettings`, for this call only.

        Raises:
            UserError: immediately for an invalid option, a single text or a table; during iteration
                for an item that is not a text.
        """
        with naming_arguments():
            settings = with_options(self.settings, options)
            return self._predicted(self._checked_texts(texts), settings)

    def _predicted(self, texts: Iterator[Text], settings: PredictSettings) -> Iterator[Any]:
        with naming_arguments():
            first = 1
            while chunk := list(islice(texts, _SORTED_TOGETHER)):
                yield from self.answers(self.task.from_texts(chunk, first), settings)
                first += len(chunk)

    def records(self, texts: Iterable[Any]) -> list[Any]:
        """Make records from texts or images.

        Raises:
            UserError: an item has another type.
        """
        return list(self.task.from_texts(list(self._checked_texts(texts))))

    def _checked_texts(self, texts: Iterable[Any]) -> Iterator[Any]:
        check = checked_items if "see" in self.task.abilities else checked_texts
        return check(texts)

    def answers(
        self,
        records: Iterable[Any],
        settings: PredictSettings | None = None,
    ) -> Iterator[Any]:
        """Yield the answer to each record in order, with a few thousand in memory at a time.

        Args:
            records: records as returned by the task's ``read``.
            settings: the prediction settings; default: those of the predictor.
        """
        settings = settings or self.settings
        for chunk, encoded in self.encoded(records, settings):
            yield from self.decode(chunk, encoded, settings)

    def encoded(
        self, records: Iterable[Any], settings: PredictSettings, *, labelled: bool = False
    ) -> Iterator[tuple[list[Any], list[Fitted[Example]]]]:
        """Yield a few thousand records at a time, with the encoding of each."""
        records, copies = tee(records)
        encoded = self.encode(copies, settings, labelled=labelled)
        while chunk := _gather(encoded):
            yield list(islice(records, len(chunk))), chunk

    def encode(
        self, records: Iterable[Any], settings: PredictSettings, *, labelled: bool = False
    ) -> Iterator[Fitted[Example]]:
        """Encode records into model inputs: the first half of `answers`.

        Raises:
            UserError: an option has no effect, or a record cannot be encoded.
        """
        if settings is not self.settings:  # the default settings were checked on loading
            check_options(self.task, settings)
        limit, rule = self._max_length(settings), settings.long_text
        fit = LengthLimit(max_length=limit, long_text=rule, max_new_tokens=settings.max_new_tokens)
        return self.task.encode(records, self.tokenizer, fit, labelled=labelled)

    def decode(
        self,
        records: Iterable[Any],
        encoded: Sequence[Fitted[Example]],
        settings: PredictSettings,
    ) -> Iterator[Any]:
        """Answer encoded records: the second half of `answers`.

        Args:
            records: the records, as many as fit in memory.
            encoded: the result of `encode` for each record, with the same settings.
            settings: the prediction settings.
        """
        computed = self.computed(encoded, settings)
        for record, fitted, outputs in zip(records, encoded, computed, strict=True):
            yield self.task.decode(record, fitted, outputs, settings, self.tokenizer)

    def computed(
        self,
        encoded: Sequence[Fitted[Example]],
        settings: PredictSettings,
        *,
        draws: Sequence[int] | None = None,
    ) -> Iterator[list[Any]]:
        """Yield the output of `Task.run_model` for all examples of each record; see `decode`.

        Args:
            encoded: the result of `encode` for each record, with the same settings.
            settings: the prediction settings.
            draws: the numbers of the records, which seed the random targets to score; None if the
                ground truth was not encoded.
        """
        outputs = self._compute(encoded, settings, draws)
        for fitted in encoded:
            yield [next(outputs) for _ in fitted.pieces]

    def plan(
        self, lengths: Sequence[int], settings: PredictSettings, at_once: int = 1
    ) -> list[Positions]:
        """Group examples into batches by their lengths in tokens.

        Args:
            lengths: number of tokens of each example.
            settings: the prediction settings.
            at_once: how many batches are computed at the same time; they share the limits of one.
        """
        max_items, max_padding = _max_items(settings), float(MAX_PADDING)
        batch_tokens = max(1, self.max_batch_tokens(settings) // at_once)
        if "write" in self.task.abilities:
            max_items = max(max_items // at_once, min(max_items, _FEW_TEXTS))
            # Unless the user sets a limit: most memory is for the hypotheses.
            batch_tokens = batch_tokens if settings.batch_tokens else self._tokens_at_once
            # Generation takes a step per token of the longest text in the batch, however large the
            # batch: an extra batch costs far more than the padding that it avoids.
            max_padding = math.inf
        return plan_pass(
            lengths,
            batch_tokens=batch_tokens,
            max_items=max_items,
            max_padding=max_padding,
        )

    def schedule(
        self, lengths: Sequence[int], settings: PredictSettings
    ) -> tuple[list[Positions], int]:
        """Plan batches, and return how many of them to compute at the same time."""
        # A text longer than its share of the tokens would exceed the limit.
        at_once = min(num_at_once(), self.max_batch_tokens(settings) // max([1, *lengths]))
        if len(lengths) >= 2 * at_once > 2 and self._gains_from_parallel_batches(settings):
            plan = self.plan(lengths, settings, at_once)
            if len(plan) >= 2 * at_once:
                return plan, at_once
        return self.plan(lengths, settings), 1

    def _gains_from_parallel_batches(self, settings: PredictSettings) -> bool:
        """Return whether parallel batches are faster; ``docs/performance.md`` has measurements."""
        if self.kernel not in (kernels.PACKED, kernels.INT8) or has_hooks(self.model):
            return False  # hooks see the batches in order
        if "write" in self.task.abilities:
            # Greedy search in int8 is mostly Python, which runs in one thread at a time.
            return _num_hypotheses(settings) > 1 or not self.precision.int8
        # In float32 the products of an encoder keep all threads busy by themselves.
        return self.precision.int8 or self.precision.dtype.itemsize == 2

    def max_batch_tokens(self, settings: PredictSettings) -> int:
        """Return the maximum number of tokens of a batch."""
        return settings.batch_tokens or self._tokens_at_once

    def _max_length(self, settings: PredictSettings) -> int:
        for option in ("max_length", "long_text") if "see" in self.task.abilities else ():
            if getattr(settings, option) != getattr(_DEFAULT, option):
                name = option.replace("_", "-")
                raise UserError(f"--{name} is for texts; leave it out")
        return check_max_length(settings.max_length or self.record.max_length, self.positions)

    def _random_rows(self) -> list[Tensor]:
        if "see" in self.task.abilities:
            return random_images(self.tokenizer)
        assert not isinstance(self.tokenizer, TranslationTokenizer)  # translators have no int8 form
        layout, size = self.tokenizer.layout, self.model.config.vocab_size
        return calibration_rows(layout.begin, layout.end, vocab_size=size, positions=self.positions)

    def _compute(
        self,
        items: Sequence[Fitted[Example]],
        settings: PredictSettings,
        draws: Sequence[int] | None,
    ) -> Iterator[Any]:
        """Return the output of `Task.run_model` for each example in order, on the CPU."""
        examples = [example for item in items for example in item.pieces]
        record_numbers = np.repeat(draws or [0] * len(items), [len(item.pieces) for item in items])
        forward = self.compiled.model

        @torch.inference_mode()
        def compute(rows: Positions) -> list[Any]:
            check_cancelled()
            draw = None if draws is None else Draw(seed=0, epoch=0, rows=record_numbers[rows])
            batch = self.task.batch([examples[row] for row in rows], self.tokenizer, draw)
            with without_autocast(self.device):  # a caller's: the precision is the predictor's own
                computed = self.task.run_model(forward, batch.to(self.device), settings)
            computed = computed.cpu() if isinstance(computed, Tensor) else computed
            _check_not_nan(computed)
            return list(computed)

        outputs: list[Any] = [None] * len(examples)
        plan, at_once = self.schedule([len(example.ids) for example in examples], settings)
        for rows, computed in zip(plan, compute_batches(compute, plan, at_once), strict=True):
            for row, output in zip(rows, computed, strict=True):
                outputs[row] = output
        return iter(outputs)


def _check_not_nan(computed: Sequence[Any] | Tensor) -> None:
    for tensor in [computed] if isinstance(computed, Tensor) else computed:
        if isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.isnan().any():
            raise UserError("the model's output is not a number; the model is damaged")


def _max_items(settings: PredictSettings) -> int:
    """Return the maximum number of texts in a batch: lower if many texts are generated for each."""
    return max(1, settings.batch_size // max(1, _num_hypotheses(settings) // _DEFAULT.beam))


def _num_hypotheses(settings: PredictSettings) -> int:
    """Return the number of hypotheses for each text that is generated."""
    return settings.top if settings.sample else settings.beam


def _gather(encoded: Iterator[Fitted[Example]]) -> list[Fitted[Example]]:
    """Take items until they have `_SORTED_TOGETHER` examples."""
    items, num_examples = [], 0
    while num_examples < _SORTED_TOGETHER and (item := next(encoded, None)) is not None:
        items.append(item)
        num_examples += max(len(item.pieces), 1)  # an empty text may have no example
    return items


def load(run: str | os.PathLike[str], **options: Unpack[PredictOptions]) -> Predictor:
    """Load a finished run as a function from text to answer: ``load("runs/tickets")("a text")``.

    Args:
        run: the run folder, or a supported model folder of transformers, sentence-transformers or
            Marian.
        options: fields of `PredictSettings`; calls can override all but precision and device.
    """
    with naming_arguments():
        return Predictor.load(run, replace(_DEFAULT, **checked_options(options)))
