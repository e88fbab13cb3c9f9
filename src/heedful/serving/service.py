"""The service behind all protocols: the server's runs, and answers from them.

The protocols use only this interface.
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

from heedful.answer_options import with_options
from heedful.errors import UserError, join_names, with_article
from heedful.predictor import Predictor
from heedful.serving.lane import Lane, ThreadShare, Throughput
from heedful.serving.limits import check_fill_mask, check_tokens
from heedful.serving.loading import Loaded, Version, load, version_of, warm_records
from heedful.serving.logs import log
from heedful.serving.memory import keep_returning_memory
from heedful.serving.metrics import Metrics
from heedful.serving.problem import Problem, refusal
from heedful.settings import PredictOptions, PredictSettings, ServeSettings
from heedful.task import AnyTask

T = TypeVar("T")

MAX_ANSWERS = 1000
"""Maximum number of answers for one text. A mask could otherwise return the whole vocabulary."""


@dataclass(kw_only=True, slots=True, eq=False)
class ServedRun:
    """A run that is served."""

    name: str
    """Name for clients: the folder's name, with a number if another run has the same name."""
    folder: str
    """The folder or bare model named on the command line."""
    predictor: Predictor
    """Replaced when the run is reloaded: do not read it twice with an ``await`` in between."""
    lane: Lane
    version: Version
    """Version of the folder when it was loaded."""
    loaded: float = field(default_factory=time.time)
    """Time of loading, in seconds since 1970."""
    warm: bool = False
    """Whether the run is warmed up, so that the first client waits no longer than others."""

    @property
    def task(self) -> AnyTask:
        """The run's task."""
        return self.predictor.task

    def settings(self, **options: Unpack[PredictOptions]) -> PredictSettings:
        """Return the prediction settings, with the options of a request applied.

        Raises:
            Problem: an option is misspelt, out of range, or fixed when the run was loaded.
        """
        try:
            return with_options(self.predictor.settings, options)
        except UserError as error:
            raise refusal(error) from None


class Service:
    """Serves several runs concurrently.

    Args:
        loaded: the loaded runs, in the order of the command line.
        settings: the server's settings, with the limits.
        on_failure: called if a lane fails, after which its run could answer no request.
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
        turns = ThreadShare(settings.threads or torch.get_num_threads(), len(loaded))
        self.runs: dict[str, ServedRun] = {}
        """The runs by name, in the order of the command line."""
        for run in loaded:
            name = _unique_name(run.folder, self.runs)
            lane = Lane(name, turns, self._encoder, settings, self.metrics)
            self.metrics.watch(lane)
            self.runs[name] = ServedRun(
                name=name,
                folder=run.folder,
                predictor=run.predictor,
                lane=lane,
                version=run.version,
            )
        self._tasks: list[asyncio.Task[None]] = []

    def find(self, name: str | None, able: Callable[[ServedRun], bool], need: str) -> ServedRun:
        """Return the run with the given name, or without a name the first that can answer.

        Args:
            name: name of the run, if the client gives one.
            able: returns whether a run can answer the request.
            need: description of such a run for error messages, such as "a run of embed".

        Raises:
            Problem: there is no such run, or it cannot answer the request.
        """
        if name is not None:
            served = self.runs.get(name)
            if served is None:
                raise Problem(
                    "not found", f"no run of that name; there are: {join_names(self.runs)}"
                )
            if not able(served):
                raise Problem(
                    "unable", f"{name} is {with_article(served.task.name)} run; this needs {need}"
                )
            return served
        for served in self.runs.values():
            if able(served):
                return served
        raise Problem("unable", f"this needs {need}, and there is none: {join_names(self.runs)}")

    async def run_in_encoder(self, function: Callable[[], T]) -> T:
        """Call a function that uses a tokenizer in the encoder thread, and return its result.

        Raises:
            Problem: the function raised a `UserError`.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._encoder, function)
        except UserError as error:
            raise refusal(error) from None

    async def check_tokens(self, text: str, tokenizer: Any) -> None:
        """Check that a text has at most as many tokens as a request may have.

        Raises:
            Problem: it has more.
        """
        await check_tokens(text, tokenizer, self.settings.max_tokens, self._encoder)

    async def answer(
        self, served: ServedRun, records: Sequence[Any], settings: PredictSettings
    ) -> list[Any]:
        """Answer the records of a request, batched with the records of other requests.

        Args:
            served: the run.
            records: records of the run's task, from ``served.task.from_texts``.
            settings: the prediction settings, from ``served.settings``.

        Returns:
            The answer for each record, exactly as from `Predictor.answers`.

        Raises:
            Problem: the run is not ready, a limit is exceeded, or a record cannot be answered.
        """
        if not served.warm:
            raise Problem("not ready", f"{served.name} is not ready yet", retry_after=1)
        hypotheses = max(settings.beam, settings.top if settings.sample else 1)
        if hypotheses > self.settings.max_hypotheses:
            message = f"{hypotheses:,} texts for each; at most {self.settings.max_hypotheses:,}"
            raise Problem("too many", message)
        if settings.top > MAX_ANSWERS:
            message = f"top is {settings.top:,}; at most {MAX_ANSWERS:,}"
            raise Problem("too many", message)
        if "fill" in served.task.abilities:
            tokenizer = served.predictor.tokenizer
            check_fill_mask(records, settings, tokenizer.mask_token, len(tokenizer), self.settings)
        return await served.lane.answer(served.predictor, records, settings)

    @property
    def ready(self) -> bool:
        """Whether every run is ready."""
        return all(served.warm for served in self.runs.values())

    def overloaded(self) -> Problem | None:
        """Return the problem for every request while all queues are full, else None."""
        lanes = [served.lane for served in self.runs.values()]
        if not all(lane.is_full() for lane in lanes):
            return None
        return min(lanes, key=Lane.wait_seconds).overloaded()

    def start(self) -> None:
        """Start the background tasks on the event loop: lanes, warm-up, and memory release."""
        work = [served.lane.run() for served in self.runs.values()]
        work += [self._warm(), keep_returning_memory()]
        self._tasks = [asyncio.create_task(one) for one in work]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop the lanes. Call this after the server has answered the accepted requests."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for served in self.runs.values():
            served.lane.close()
        self._encoder.shutdown(wait=False, cancel_futures=True)

    async def reload(self) -> list[str]:
        """Reload the runs whose folders have changed. They keep answering in the meantime.

        A request is answered by the model that was loaded when it arrived.

        Returns:
            A line for the user about each run.
        """
        async with self._reloading:
            return [await self._reload(served) for served in self.runs.values()]

    async def _reload(self, served: ServedRun) -> str:
        task = asyncio.create_task(self._load_if_changed(served))
        await asyncio.wait([task])
        if (error := task.exception()) is not None:
            reason = str(error) or type(error).__name__
            log("reload failed", {"run": served.name, "reason": reason})
            return f"{served.name}: unchanged, because it could not be reloaded: {reason}"
        loaded = task.result()
        if loaded is None:
            return f"{served.name}: unchanged"
        served.predictor, served.version = loaded.predictor, loaded.version
        log("reloaded", {"run": served.name})
        return f"{served.name}: reloaded"

    async def _load_if_changed(self, served: ServedRun) -> Loaded | None:
        """Load and warm up the new model of a run. Return None if its folder is unchanged."""
        if await asyncio.to_thread(version_of, served.folder) == served.version:
            return None
        loaded = await asyncio.to_thread(load, served.folder, self.settings, changing=True)
        await served.lane.warm_up(loaded.predictor, warm_records(loaded.predictor))
        return loaded

    async def _warm(self) -> None:
        for served in self.runs.values():
            await served.lane.warm_up(served.predictor, warm_records(served.predictor))
            served.lane.speed = Throughput()  # discard the timings of the warm-up, which is slower
            served.warm = True
        log("ready", {"runs": list(self.runs)})

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log("failure", {}, error=error)
            self._on_failure(error)


def _unique_name(folder: str, taken: dict[str, ServedRun]) -> str:
    name = stem = Path(os.path.abspath(folder)).name
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name
