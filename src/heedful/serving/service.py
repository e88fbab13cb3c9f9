"""What a server has to offer: its runs, and answers from them.

Protocols are written against this alone.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, Unpack

import torch

from heedful.errors import UserError, listed, with_article
from heedful.predictor import Predictor, with_options
from heedful.serving.lane import Lane, Speed, Turns
from heedful.serving.limits import check_filled, check_tokens
from heedful.serving.loading import Loaded, Version, load, version_of, warm_records
from heedful.serving.logs import log
from heedful.serving.memory import keep_returning_memory
from heedful.serving.metrics import Metrics
from heedful.serving.problem import Problem, refusal
from heedful.settings import PredictOptions, PredictSettings, ServeSettings
from heedful.task import AnyTask

T = TypeVar("T")

MOST_ANSWERS = 1000
"""The most answers to one text: those of a mask could be the whole vocabulary."""


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
    version: Version
    """Of the folder, when it was read."""
    loaded: float = field(default_factory=time.time)
    """When, in seconds since 1970."""
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
        on_failure: called if a lane breaks, after which its run would answer nobody.
    """

    def __init__(
        self,
        loaded: Sequence[Loaded],
        settings: ServeSettings,
        on_failure: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._on_failure = on_failure
        self._reloading = asyncio.Lock()
        self._encoder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encode")
        turns = Turns(settings.threads or torch.get_num_threads(), len(loaded))
        self.runs: dict[str, Served] = {}
        """By name, in the order of the command line."""
        for run in loaded:
            name = _free_name(run.folder, self.runs)
            lane = Lane(name, turns, self._encoder, settings, self.metrics)
            self.metrics.watch(lane)
            self.runs[name] = Served(
                name=name,
                folder=run.folder,
                predictor=run.predictor,
                lane=lane,
                version=run.version,
            )
        self._tasks: list[asyncio.Task[None]] = []

    def find(self, name: str | None, able: Callable[[Served], bool], need: str) -> Served:
        """Return the run of a name, or without one the first that can answer.

        Args:
            name: what the client calls it, if it names one.
            able: whether a run can answer what is asked.
            need: what such a run is, such as "a run of embed", for the client.

        Raises:
            Problem: there is no such run, or it cannot answer this.
        """
        if name is not None:
            served = self.runs.get(name)
            if served is None:
                raise Problem("not found", f"no run of that name; there are: {listed(self.runs)}")
            if not able(served):
                raise Problem(
                    "unable", f"{name} is {with_article(served.task.name)} run; this needs {need}"
                )
            return served
        for served in self.runs.values():
            if able(served):
                return served
        raise Problem("unable", f"this needs {need}, and there is none: {listed(self.runs)}")

    async def encoding(self, function: Callable[[], T]) -> T:
        """Call what uses a tokenizer in the thread that encodes, and return what it returns.

        Raises:
            Problem: for its `UserError`.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._encoder, function)
        except UserError as error:
            raise refusal(error) from None

    async def check_tokens(self, text: str, tokenizer: Any) -> None:
        """Refuse a text that has more tokens than a request may have.

        Raises:
            Problem: it has.
        """
        await check_tokens(text, tokenizer, self.settings.max_tokens, self._encoder)

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
        if settings.top > MOST_ANSWERS:
            message = f"top is {settings.top:,}; at most {MOST_ANSWERS:,}"
            raise Problem("too many", message)
        if "fill" in served.task.abilities:
            tokenizer = served.predictor.tokenizer
            check_filled(records, settings, tokenizer.mask_token, len(tokenizer), self.settings)
        return await served.lane.answer(served.predictor, records, settings)

    @property
    def ready(self) -> bool:
        """Whether every run is."""
        return all(served.warm for served in self.runs.values())

    def overloaded(self) -> Problem | None:
        """Return what is told to every request while all queues are full, or None."""
        lanes = [served.lane for served in self.runs.values()]
        if not all(lane.is_full() for lane in lanes):
            return None
        return min(lanes, key=Lane.wait_seconds).overloaded()

    def start(self) -> None:
        """Let the lanes run, every run answer once, and free memory go back, on the event loop."""
        work = [served.lane.run() for served in self.runs.values()]
        work += [self._warm(), keep_returning_memory()]
        self._tasks = [asyncio.create_task(one) for one in work]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop the lanes, once the server has answered what it accepted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for served in self.runs.values():
            served.lane.close()
        self._encoder.shutdown(wait=False, cancel_futures=True)

    async def reload(self) -> list[str]:
        """Read again those folders that have changed, while the runs answer as before.

        Requests that have come are answered by the model that was there when they came.

        Returns:
            A line for the user on each folder.
        """
        async with self._reloading:
            return [await self._reload(served) for served in self.runs.values()]

    async def _reload(self, served: Served) -> str:
        task = asyncio.create_task(self._fresh(served))
        await asyncio.wait([task])
        if (error := task.exception()) is not None:
            reason = str(error) or type(error).__name__
            log("reload failed", {"run": served.name, "reason": reason})
            return f"{served.name}: goes on as it was, for it cannot be read again: {reason}"
        fresh = task.result()
        if fresh is None:
            return f"{served.name}: unchanged"
        served.predictor, served.version = fresh.predictor, fresh.version
        log("reloaded", {"run": served.name})
        return f"{served.name}: read again"

    async def _fresh(self, served: Served) -> Loaded | None:
        """Load a run whose folder has changed, and let the new model answer once."""
        if await asyncio.to_thread(version_of, served.folder) == served.version:
            return None
        fresh = await asyncio.to_thread(load, served.folder, self.settings, changing=True)
        await served.lane.warm_up(fresh.predictor, warm_records(fresh.predictor))
        return fresh

    async def _warm(self) -> None:
        for served in self.runs.values():
            await served.lane.warm_up(served.predictor, warm_records(served.predictor))
            served.lane.speed = Speed()  # the first answers are slower than any after them
            served.warm = True
        log("ready", {"runs": list(self.runs)})

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log("failure", {}, error=error)
            self._on_failure(error)


def _free_name(folder: str, taken: dict[str, Served]) -> str:
    name = stem = Path(os.path.abspath(folder)).name
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name
