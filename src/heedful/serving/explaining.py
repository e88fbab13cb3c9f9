"""Explanations: computed one at a time in a separate thread, in parallel with the lanes."""

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
from heedful.serving.limits import check_pixels, check_size
from heedful.serving.problem import Problem, refusal
from heedful.serving.request_record import CURRENT_REQUEST
from heedful.serving.service import ServedRun
from heedful.settings import ExplainSettings, ServeSettings

T = TypeVar("T")


class Explainer:
    """Explains the answers of runs.

    Args:
        settings: the server's settings, with the limits.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="explain")
        self._threads = max(1, (settings.threads or torch.get_num_threads()) // 2)
        self._pending = 0
        self._seconds = 1.0

    async def explain(
        self,
        served: ServedRun,
        record: Any,
        settings: ExplainSettings,
        make: Callable[[Explanation], T],
    ) -> T:
        """Explain the answer for a record.

        Args:
            served: the run.
            record: a record of the run's task.
            settings: what to explain, and how.
            make: turns the explanation into the result; called in the worker thread.

        Returns:
            The result of ``make``.

        Raises:
            Problem: the run is not ready, the record has too many characters, too many explanations
                are pending, or the record cannot be explained.
        """
        if not served.warm:
            raise Problem("not ready", f"{served.name} is not ready yet", retry_after=1)
        check_size([record], self._settings)
        if self._pending >= self._settings.explain_queue:
            retry = max(1, math.ceil(self._pending * self._seconds))
            message = f"other explanations are pending; try again in {retry} s"
            raise Problem("overloaded", message, retry_after=retry)
        if (exchange := CURRENT_REQUEST.get()) is not None:
            exchange.run = served.name
            exchange.items += 1
        predictor, loop = served.predictor, asyncio.get_running_loop()
        disconnected = threading.Event()
        work = self._thread.submit(
            lambda: make(self._explanation(predictor, record, settings, disconnected))
        )
        self._pending += 1
        work.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended))
        try:
            return await asyncio.wrap_future(work)
        except UserError as error:
            raise refusal(error) from None
        finally:
            disconnected.set()

    def _ended(self) -> None:
        self._pending -= 1

    def _explanation(
        self,
        predictor: Predictor,
        record: Any,
        settings: ExplainSettings,
        disconnected: threading.Event,
    ) -> Explanation:
        """Compute the explanation in the worker thread, with half of the CPU threads.

        Raises:
            ClientLeftError: the client disconnected before the explanation was done.
            Problem: the text has too many tokens, or the image too many pixels.
        """
        started = time.perf_counter()
        torch.set_num_threads(self._threads)  # affects only this thread
        check_pixels([record], self._settings)
        (fitted,) = predictor.encode([record], predictor.settings)
        max_tokens = self._settings.explain_tokens
        if fitted.tokens_total > max_tokens:
            message = (
                f"the text has {fitted.tokens_total:,} tokens; at most {max_tokens:,} can be "
                "explained"
            )
            raise Problem("too many", message)

        def check() -> None:
            if disconnected.is_set():
                raise ClientLeftError

        explanation = explain_record(predictor, record, settings, check=check)
        self._seconds = time.perf_counter() - started
        return explanation
