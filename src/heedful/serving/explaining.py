"""Explanations for clients: one at a time, in a thread of their own, beside the lanes."""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from heedful.errors import UserError
from heedful.explanations.explaining import explain_record
from heedful.explanations.explanation import Explanation
from heedful.predictor import Predictor
from heedful.serving.body import ClientLeftError
from heedful.serving.exchange import CURRENT
from heedful.serving.problem import Problem, refusal
from heedful.serving.service import Served
from heedful.settings import ExplainSettings, ServeSettings

T = TypeVar("T")


class Explainer:
    """Explains answers of runs.

    Args:
        settings: the limits.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="explain")
        self._threads = max(1, (settings.threads or torch.get_num_threads()) // 2)
        self._pending = 0
        self._seconds = 1.0

    async def explain(
        self,
        served: Served,
        record: Any,
        settings: ExplainSettings,
        make: Callable[[Explanation], T],
    ) -> T:
        """Explain the answer for a record.

        Args:
            served: the run.
            record: of its task.
            settings: what is explained, and how.
            make: turns the explanation into what the client gets.

        Raises:
            Problem: the run is not ready, others wait already, or there is nothing to explain.
        """
        if not served.warm:
            raise Problem("not ready", f"{served.name} is not ready yet", retry_after=1)
        if self._pending >= self._settings.explain_queue:
            retry = max(1, math.ceil(self._pending * self._seconds))
            message = f"others wait for explanations; try again in {retry} s"
            raise Problem("overloaded", message, retry_after=retry)
        if (exchange := CURRENT.get()) is not None:
            exchange.run = served.name
            exchange.items += 1
        predictor, loop = served.predictor, asyncio.get_running_loop()
        left = threading.Event()
        work = self._thread.submit(
            lambda: make(self._explanation(predictor, record, settings, left))
        )
        self._pending += 1
        work.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended))
        try:
            return await asyncio.wrap_future(work)
        except UserError as error:
            raise refusal(error) from None
        finally:
            left.set()

    def _ended(self) -> None:
        self._pending -= 1

    def _explanation(
        self, predictor: Predictor, record: Any, settings: ExplainSettings, left: threading.Event
    ) -> Explanation:
        """Explain in the thread that does so, with half of all threads at most.

        Raises:
            ClientLeftError: before it was done.
        """
        started = time.perf_counter()
        torch.set_num_threads(self._threads)  # of this thread alone
        (fitted,) = predictor.encode([record], predictor.settings)
        most = self._settings.explain_tokens
        if fitted.tokens_total > most:
            message = f"the text has {fitted.tokens_total:,} tokens; up to {most:,} are explained"
            raise Problem("too many", message)

        def check() -> None:
            if left.is_set():
                raise ClientLeftError

        explanation = explain_record(predictor, record, settings, check=check)
        self._seconds = time.perf_counter() - started
        return explanation
