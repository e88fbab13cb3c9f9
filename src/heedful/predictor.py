"""A run folder as a function from text to answers.

The command line, evaluation during and after training, and Python all go through here, so that
they cannot differ.
"""

import copy
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice, tee
from typing import Any, TypeAlias, Unpack

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Draw, Example, Fitted, plan_pass
from heedful.batches.buckets import PASS_PADDING, Positions
from heedful.batches.pictures import random_pictures
from heedful.checkpoints.runs import RunRecord
from heedful.compiled import kernels
from heedful.compiled.int8_layers import random_rows
from heedful.compiled.model import Compiled, compile_model
from heedful.compiled.watch import Structure
from heedful.errors import UserError, naming_arguments, option_of, with_article
from heedful.files import as_path
from heedful.interop import answering_record
from heedful.models.model import Model
from heedful.models.sizing import tokens_at_once
from heedful.readers import load_reader
from heedful.reading import Text
from heedful.settings import PredictOptions, PredictSettings, ScoreSettings, checked_options
from heedful.sources import PACKAGES, resolve
from heedful.task import AnyTask, Fit, check_max_length
from heedful.tasks import check_fit, read_task
from heedful.tasks.texts import checked_items, checked_texts
from heedful.tokens import TranslationTokenizer
from heedful.training.allocator import keep_few_kernels
from heedful.training.device import (
    choose_answer_precision,
    choose_device,
    in_precision,
    prepare_products,
)

# Examples sorted by length together: enough to fill batches without padding, few enough that memory
# does not grow with the file.
_SORTED_TOGETHER = 4096
# Of each length that single texts have, those of a block: so that the next such text need not wait.
_KERNELS = 512
_DEFAULT = PredictSettings()


Asked: TypeAlias = str | Sequence[str] | bytes | os.PathLike[str]
"""A text, or several that belong together; of a run on pictures a name of a file, or its bytes."""


class Predictor:
    """Answers with a model.

    Args:
        model: the model; it is not changed, and a copy is made where the precision asks for one.
        tokenizer: its tokenizer.
        record: what the run folder says of it.
        settings: precision and device, and how to compute where a call does not say.
        name: of the run.

    Attributes:
        model: the model in its readable form, in the precision that was asked for. One that is put
            in its place, or is changed, answers as it is, without a compiled form.

    Raises:
        UserError: an option would change nothing, or the model has no form in int8.
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
        self.model = inference_copy(model, self.precision.dtype, self.device)
        self._compile()
        self._tokens_at_once = tokens_at_once(self.model)
        if self.precision.int8 and self.kernel != kernels.INT8:
            reason = self.compiled.reason
            raise UserError(f"--precision int8: {reason}; give auto or fp32")

    def _compile(self) -> None:
        rows = self._random_rows if self.precision.int8 else None
        self._compiled, self._compiled_of = compile_model(self.model, rows), self.model
        self._structure = Structure(self.model)

    def __repr__(self) -> str:
        return f"<Predictor {self.name!r}: {self.task.card()}>"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled form: its weights, packed for this machine, cannot be stored."""
        left_out = ("_compiled", "_compiled_of", "_structure")
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    def score_by(self, settings: ScoreSettings) -> None:
        """Say how the answers are to be scored.

        Raises:
            UserError: the task is not scored so.
        """
        if settings != ScoreSettings():
            self.task = self.task.scored_by(settings)

    @property
    def compiled(self) -> Compiled:
        """What computes the answers: the compiled form of the model, or the model as it is."""
        if self.model is not self._compiled_of:
            return Compiled(self.model, kernels.PLAIN, "the model was put in the place of another")
        if self._structure.is_changed():
            return Compiled(self.model, kernels.PLAIN, "layers of the model were replaced")
        return self._compiled

    @property
    def kernel(self) -> str:
        """What computes: see `heedful.compiled.model.Compiled`."""
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

        Some folders of other programs are like runs: see ``heedful.interop.READERS``.

        Args:
            run: the folder.
            settings: how to compute.
            mapped: whether weights may stay in their file, mapped into memory, which is sooner
                done. Whoever then writes into the file changes the model, or ends the process.

        Raises:
            UserError: the folder is none of these, is unfinished, or one of its files is damaged.
        """
        keep_few_kernels(_KERNELS)
        folder = as_path("run", run)
        packaged = os.fspath(run) in PACKAGES
        folder = resolve(run) if packaged else folder
        record = answering_record(folder)
        device = choose_device(settings.device)
        dtype = choose_answer_precision(settings.precision, device).dtype
        # Nobody's yet, so no copy is needed.
        task = read_task(record, folder)
        with torch.inference_mode(False):  # else its weights could give no explanation
            model = in_precision(task.load(folder, record.head), device, dtype)
        check_fit(folder, task, record, model, settings.max_length or record.max_length)
        if not mapped:
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()
        name = os.fspath(run) if packaged else folder.resolve().name
        reader = load_reader(folder, outside=record.outside)
        return cls(model, reader, record, settings, name=name)

    def __call__(self, texts: Asked | Iterable[Asked], **options: Unpack[PredictOptions]) -> Any:
        """Answer for one text (or a pair as a tuple), or for a list of them.

        Args:
            texts: one or several.
            options: fields of `PredictSettings`, for this call alone.

        Returns:
            The answer of the run's task, or a list of them.
        """
        if isinstance(texts, str | tuple | bytes | os.PathLike):
            return next(self.predict([texts], **options))
        return list(self.predict(texts, **options))

    def predict(self, texts: Iterable[Asked], **options: Unpack[PredictOptions]) -> Iterator[Any]:
        """Answer for each text, or pair, in its order, holding only some thousands at a time.

        Args:
            texts: a list, a column of a table, or anything that gives them one by one; but not a
                single text, which the predictor itself takes.
            options: fields of `PredictSettings`, for this call alone.

        Raises:
            UserError: at once for a wrong option, and for a single text or a table; during
                iteration for what is no text.
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
        """Return the records of some texts, or pictures.

        Raises:
            UserError: they are something else.
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
        """Answer for each record of the task, in its order, holding only some thousands at a time.

        Args:
            records: as the task's ``read`` gives them.
            settings: how to compute; by default as the predictor was told.
        """
        settings = settings or self.settings
        for some, encoded in self.encoded(records, settings):
            yield from self.decode(some, encoded, settings)

    def encoded(
        self, records: Iterable[Any], settings: PredictSettings, *, labelled: bool = False
    ) -> Iterator[tuple[list[Any], list[Fitted[Example]]]]:
        """Yield some thousands of records at a time, with what `encode` makes of each."""
        records, copies = tee(records)
        encoded = self.encode(copies, settings, labelled=labelled)
        while chunk := _gather(encoded):
            yield list(islice(records, len(chunk))), chunk

    def encode(
        self, records: Iterable[Any], settings: PredictSettings, *, labelled: bool = False
    ) -> Iterator[Fitted[Example]]:
        """Turn each record into examples of the model: the first half of `answers`.

        Raises:
            UserError: an option has no effect, or a record cannot be encoded.
        """
        if settings is not self.settings:  # which were checked when the run was loaded
            check_options(self.task, settings)
        fit = Fit(max_length=self._max_length(settings), rule=settings.long_text)
        return self.task.encode(records, self.tokenizer, fit, labelled=labelled)

    def decode(
        self,
        records: Iterable[Any],
        encoded: Sequence[Fitted[Example]],
        settings: PredictSettings,
    ) -> Iterator[Any]:
        """Answer for records that are encoded: the second half of `answers`.

        Args:
            records: the records, in any number that memory holds.
            encoded: what `encode` made of each, with the same settings.
            settings: how to compute.
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
        """Yield what the task computes for the examples of each record; see `decode`.

        Args:
            encoded: what `encode` made of each record, with the same settings.
            settings: how to compute.
            draws: numbers of the records, by which is drawn what is scored; None where the truth
                was not encoded.
        """
        outputs = self._compute(encoded, settings, draws)
        for fitted in encoded:
            yield [next(outputs) for _ in fitted.pieces]

    def plan(self, lengths: Sequence[int], settings: PredictSettings) -> list[Positions]:
        """Decide which examples are computed together, by how many tokens each has."""
        return plan_pass(
            lengths,
            batch_tokens=self.tokens_at_once(settings),
            max_items=_most_items(settings),
            # Writing takes a step for each token of a batch's longest text, whatever else is in it:
            # one batch more costs far more than what padding there is to read.
            most_padding=math.inf if "write" in self.task.abilities else PASS_PADDING,
        )

    def tokens_at_once(self, settings: PredictSettings) -> int:
        """Return the most tokens of a batch."""
        return settings.batch_tokens or self._tokens_at_once

    def _max_length(self, settings: PredictSettings) -> int:
        for option in ("max_length", "long_text") if "see" in self.task.abilities else ():
            if getattr(settings, option) != getattr(_DEFAULT, option):
                name = option.replace("_", "-")
                raise UserError(f"--{name} is for texts; leave it out")
        return check_max_length(settings.max_length or self.record.max_length, self.positions)

    def _random_rows(self) -> list[Tensor]:
        if "see" in self.task.abilities:
            return random_pictures(self.tokenizer)
        assert not isinstance(self.tokenizer, TranslationTokenizer)  # translators ask for none
        return random_rows(
            self.tokenizer.layout.begin,
            self.tokenizer.layout.end,
            vocab_size=self.model.config.vocab_size,
            positions=self.positions,
        )

    @torch.inference_mode()
    def _compute(
        self,
        items: Sequence[Fitted[Example]],
        settings: PredictSettings,
        draws: Sequence[int] | None,
    ) -> Iterator[Any]:
        """Return what the task computes for each example of the items, in order, on the CPU."""
        examples = [example for item in items for example in item.pieces]
        numbers = np.repeat(draws or [0] * len(items), [len(item.pieces) for item in items])
        outputs: list[Any] = [None] * len(examples)
        forward = self.compiled.model
        for rows in self.plan([len(example.ids) for example in examples], settings):
            draw = None if draws is None else Draw(seed=0, epoch=0, rows=numbers[rows])
            batch = self.task.batch([examples[row] for row in rows], self.tokenizer, draw)
            computed = self.task.compute(forward, batch.to(self.device), settings)
            computed = computed.cpu() if isinstance(computed, Tensor) else computed
            _check_numbers(computed)
            for row, output in zip(rows, computed, strict=True):
                outputs[row] = output
        return iter(outputs)


def _check_numbers(computed: Sequence[Any] | Tensor) -> None:
    for part in [computed] if isinstance(computed, Tensor) else computed:
        if isinstance(part, Tensor) and part.is_floating_point() and part.isnan().any():
            raise UserError("what the model computes is not a number; the model is damaged")


def _most_items(settings: PredictSettings) -> int:
    """Return the largest batch in texts: smaller where many texts are generated for each."""
    hypotheses = settings.top if settings.sample else settings.beam
    return max(1, settings.batch_size // max(1, hypotheses // _DEFAULT.beam))


def _gather(encoded: Iterator[Fitted[Example]]) -> list[Fitted[Example]]:
    """Take the next items, until they have examples enough."""
    items, examples = [], 0
    while examples < _SORTED_TOGETHER and (item := next(encoded, None)) is not None:
        items.append(item)
        examples += max(len(item.pieces), 1)  # an empty text may have none
    return items


_EVERY_TASK = frozenset(
    {"precision", "device", "long_text", "max_length", "batch_size", "batch_tokens"}
)


def check_options(task: AnyTask, settings: PredictSettings) -> None:
    """Refuse an option that would change nothing.

    Raises:
        UserError: it is one of other tasks, or decides draws where none are drawn.
    """
    for field in fields(PredictSettings):
        option = option_of(field.name)
        if getattr(settings, field.name) == field.default or field.name in _EVERY_TASK:
            continue
        if field.name not in task.answer_options:
            raise UserError(f"{option} has no effect on {with_article(task.name)} run")
        if field.name in ("temperature", "top_k", "top_p", "seed") and not settings.sample:
            raise UserError(f"{option} shapes random draws: give --sample too")
        if field.name in ("beam", "length_penalty", "coverage_penalty") and settings.sample:
            raise UserError(f"{option} searches and --sample draws: give one of them")
    if "write" in task.abilities and not settings.sample:
        top, beam = settings.top, settings.beam
        if top != _DEFAULT.top and top > beam:
            raise UserError(
                f"--top {top}: a search keeps --beam {beam} texts; give a larger --beam"
            )


def with_options(settings: PredictSettings, options: PredictOptions) -> PredictSettings:
    """Return settings with what a call says.

    Raises:
        UserError: an option is misspelt, out of range, or was decided when the run was loaded.
    """
    for name in ("precision", "device"):
        if name in options:
            raise UserError(
                f"--{name} is decided when a run is loaded: heedful.load(run, {name}=...)"
            )
    return replace(settings, **checked_options(options)) if options else settings


def inference_copy(model: Model, dtype: torch.dtype, device: torch.device) -> Model:
    """Return the model in evaluation mode in a number format; a copy if that changes anything."""
    parameter = next(model.parameters())
    if parameter.dtype is not dtype or parameter.device != device:
        model = in_precision(copy.deepcopy(model), device, dtype)
    return model.eval()


def load(run: str | os.PathLike[str], **options: Unpack[PredictOptions]) -> Predictor:
    """Load a finished run as a function from text to answer: ``load("runs/tickets")("a text")``.

    Args:
        run: the run folder, or a folder of transformers, sentence-transformers or Marian that can
            answer.
        options: fields of `PredictSettings`; all but precision and device can change at each call.
    """
    with naming_arguments():
        return Predictor.load(run, replace(_DEFAULT, **checked_options(options)))
