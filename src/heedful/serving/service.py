"""What a server has to offer: its runs, and answers from them.

Protocols are written against this alone.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch

from heedful.errors import UserError, listed
from heedful.predictor import Predictor, with_options
from heedful.serving.lane import Lane, Turns
from heedful.serving.problem import Problem, refusal
from heedful.settings import PredictOptions, PredictSettings, ServeSettings
from heedful.task import AnyTask


@dataclass(kw_only=True, slots=True, eq=False)
class Served:
    """A run that is served."""

    name: str
    """What clients call it: its folder's name, with a number where another has the same."""
    folder: str
    """What the command line names: a folder, or a bare model."""
    predictor: Predictor
    """Another one once the run was read again; use it in one go, without awaiting in between."""
    lane: Lane
    warm: bool = False
    """Whether it has answered once, so that the first client does not wait longer than others."""

    @property
    def task(self) -> AnyTask:
        """What the run does."""
        return self.predictor.task

    def settings(self, **options: Unpack[PredictOptions]) -> PredictSettings:
        """Return how to compute, with what a request says.

        Raises:
            Problem: an option is misspelt, out of range, or was decided when the run was loaded.
        """
        try:
            return with_options(self.predictor.settings, options)
        except UserError as error:
            raise refusal(error) from None


class Service:
    """Several runs that answer at once.

    Args:
        loaded: what the command line names, and the predictor of each.
        settings: the limits.
    """

    def __init__(self, loaded: Sequence[tuple[str, Predictor]], settings: ServeSettings) -> None:
        self.settings = settings
        self._encoder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encode")
        turns = Turns(settings.threads or torch.get_num_threads(), len(loaded))
        self.runs: dict[str, Served] = {}
        """By name, in the order of the command line."""
        for folder, predictor in loaded:
            name = _free_name(folder, self.runs)
            lane = Lane(turns, self._encoder, settings)
            self.runs[name] = Served(name=name, folder=folder, predictor=predictor, lane=lane)
        self._lanes: list[asyncio.Task[None]] = []

    def find(self, name: str | None, able: Callable[[Served], bool]) -> Served:
        """Return the run of a name, or without one the first that can answer.

        Args:
            name: what the client calls it, if it names one.
            able: whether a run can answer what is asked.

        Raises:
            Problem: there is no such run, or it cannot answer this.
        """
        if name is not None:
            served = self.runs.get(name)
            if served is None:
                raise Problem("not found", f"no run of that name; there are: {listed(self.runs)}")
            if not able(served):
                raise Problem("validation", f"{name} is a {served.task.name} run, which cannot")
            return served
        for served in self.runs.values():
            if able(served):
                return served
        raise Problem("not found", f"none of the runs can: {listed(self.runs)}")

    async def answer(
        self, served: Served, records: Sequence[Any], settings: PredictSettings
    ) -> list[Any]:
        """Answer for the records of a request, together with those of others.

        Args:
            served: the run.
            records: of its task, as ``served.task.from_texts`` makes them.
            settings: how to compute, as ``served.settings`` gives it.

        Returns:
            The answer for each record, exactly what `Predictor.answers` gives.

        Raises:
            Problem: the run is not ready, a limit is passed, or a record cannot be answered.
        """
        if not served.warm:
            raise Problem("not ready", f"{served.name} is not ready yet", retry_after=1)
        hypotheses = max(settings.beam, settings.top if settings.sample else 1)
        if hypotheses > self.settings.max_hypotheses:
            message = f"{hypotheses:,} texts for each; at most {self.settings.max_hypotheses:,}"
            raise Problem("too many", message)
        return await served.lane.answer(served.predictor, records, settings)

    @property
    def ready(self) -> bool:
        """Whether every run is."""
        return all(served.warm for served in self.runs.values())

    def start(self) -> None:
        """Let the lanes run, and every run answer once, on the event loop."""
        self._lanes = [asyncio.create_task(served.lane.run()) for served in self.runs.values()]
        self._lanes.append(asyncio.create_task(self._warm()))

    async def close(self) -> None:
        """Stop the lanes. Whoever still waits is told by the server, which drains first."""
        for task in self._lanes:
            task.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)
        for served in self.runs.values():
            served.lane.close()
        self._encoder.shutdown(wait=False, cancel_futures=True)

    async def _warm(self) -> None:
        for served in self.runs.values():
            records = warm_records(served.predictor)
            await served.lane.answer(served.predictor, records, served.predictor.settings)
            served.warm = True


def warm_records(predictor: Predictor) -> list[Any]:
    """Return records to warm a run up with: a short one, and one as long as the model reads."""
    long = " ".join(["word"] * predictor.max_length)
    inputs: Any
    for inputs in (["word", long], [("word", long)], [("word", "word", long)]):
        try:
            records = predictor.task.from_texts(inputs)
            list(predictor.encode(records, predictor.settings))
        except UserError:  # it reads pairs, or choices
            continue
        return records
    return []


def load(runs: Sequence[str], settings: ServeSettings) -> list[tuple[str, Predictor]]:
    """Load runs, in their order.

    Raises:
        UserError: one is no finished run, no model, or damaged.
    """
    return [(run, load_one(run, settings)) for run in runs]


def load_one(run: str, settings: ServeSettings) -> Predictor:
    """Load a run with the settings of the server.

    Raises:
        UserError: see `load`.
    """
    predicting = PredictSettings(
        precision=settings.precision,
        device=settings.device,
        long_text=settings.long_text,
        max_length=settings.max_length,
        batch_tokens=settings.batch_tokens,
    )
    return Predictor.load(run, predicting)


def _free_name(folder: str, taken: dict[str, Served]) -> str:
    name = stem = Path(os.path.abspath(folder)).name
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name
