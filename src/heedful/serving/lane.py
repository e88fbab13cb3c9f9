"""A run's lane: it encodes requests, queues them, and computes them in batches.

Two steps run outside the event loop: texts are encoded in one thread of the service, and batches
are computed in one thread of the lane.
"""

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from heedful.batches import Example, Fitted
from heedful.cancellation import cancellable
from heedful.errors import UserError
from heedful.serving.body import ClientLeftError
from heedful.serving.limits import (
    check_pixels,
    check_size,
    check_token_vectors,
    check_tokens,
    num_characters,
    split_into_turns,
    too_many_tokens,
)
from heedful.serving.metrics import Metrics
from heedful.serving.problem import Problem, refusal
from heedful.serving.queue import Batch, Queue, Ticket
from heedful.serving.request_record import CURRENT_REQUEST
from heedful.settings import PredictSettings, ServeSettings
from heedful.tasks.generate import MAX_NEW_TOKENS

if TYPE_CHECKING:
    from heedful.predictor import Predictor

_DECAY = 0.8
"""Decay factor of the moving averages: the weight of the old value."""

_UNTIMED_BATCHES = 4
"""Number of batches that may be queued before the time of a full batch is known."""


class ThreadShare:
    """Shares the CPU threads: decides which lanes compute, and with how many threads each.

    Args:
        threads: total number of CPU threads.
        lanes: number of lanes.
    """

    def __init__(self, threads: int, lanes: int) -> None:
        self._threads = threads
        self._free = asyncio.Semaphore(min(threads, lanes))  # first come, first served
        self._busy = 0

    async def __aenter__(self) -> int:
        """Wait for a turn, and return the number of threads to use."""
        self._busy += 1
        try:
            await self._free.acquire()
        except BaseException:
            self._busy -= 1
            raise
        return max(1, self._threads // self._busy)

    async def __aexit__(self, *error: object) -> None:
        """Let the next lane compute."""
        self._busy -= 1
        self._free.release()


@dataclass(kw_only=True, slots=True)
class Throughput:
    """Recent throughput of a lane by batch size: small batches take longer per token."""

    tokens: float = 0.0
    seconds: float = 0.0
    tokens_per_character: float = 0.0
    _by_size: dict[int, float] = field(default_factory=dict)
    """Seconds per token, by the bit length of the batch's number of tokens."""

    @property
    def tokens_per_second(self) -> float:
        """Throughput of the latest batches, or 0 before the first batch."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def update(self, tokens: int, seconds: float) -> None:
        """Update the averages with the time of a batch."""
        self.tokens = _DECAY * self.tokens + tokens
        self.seconds = _DECAY * self.seconds + seconds
        size, seconds_per_token = tokens.bit_length(), seconds / tokens
        previous = self._by_size.get(size, seconds_per_token)
        self._by_size[size] = _DECAY * previous + (1 - _DECAY) * seconds_per_token

    def has_measured(self, tokens: int) -> bool:
        """Return whether a batch of at least about this many tokens has been computed."""
        return max(self._by_size, default=0) >= tokens.bit_length()

    def expected(self, tokens: float) -> float:
        """Return the estimated seconds of a batch, from batches of the same or the nearest size.

        An estimate from smaller batches is too high. It is 0 before the first batch.
        """
        size = int(tokens).bit_length()
        smaller = [measured for measured in self._by_size if measured <= size]
        nearest = max(smaller) if smaller else min(self._by_size, default=0)
        return tokens * self._by_size.get(nearest, 0.0)

    def learn_size(self, tokens: int, characters: int) -> None:
        """Update the average number of tokens per character with a request's counts."""
        ratio = tokens / characters
        self.tokens_per_character = _DECAY * self.tokens_per_character + (1 - _DECAY) * ratio


class Lane:
    """Processes the requests of one run.

    Args:
        name: name of the run.
        turns: shares the CPU threads with the other lanes.
        encoder: the thread that encodes texts, shared with the other lanes.
        settings: the server's settings, with the limits.
        metrics: the metrics that count batches.
    """

    def __init__(
        self,
        name: str,
        turns: ThreadShare,
        encoder: Executor,
        settings: ServeSettings,
        metrics: Metrics,
    ) -> None:
        self.name = name
        self.queue = Queue(settings.batch_tokens)
        self.speed = Throughput()
        self._turns = turns
        self._encoder = encoder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
        self.settings = settings
        self._metrics = metrics
        self._encoding: list[int] = []
        """Number of characters of each request that is being encoded."""
        self._computing = 0
        """Number of tokens of the batch that is being computed."""
        self._more = asyncio.Event()
        self._closing = threading.Event()

    async def answer(
        self, predictor: "Predictor", records: Sequence[Any], settings: PredictSettings
    ) -> list[Any]:
        """Answer the records of one request. If the call is cancelled, they leave the queue.

        Raises:
            Problem: the queue is full, the request has too many tokens, or a record cannot be
                answered.
        """
        if not records:
            return []
        self._admit(records)
        if "see" in predictor.task.abilities:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._encoder, check_pixels, records, self.settings)
        encoded, tokens = await self._encode(predictor, records, settings, self.settings.max_tokens)
        if settings.token_vectors:
            width = predictor.model.config.hidden_size
            check_token_vectors(sum(tokens), width, self.settings)
        if self.queue.tokens + sum(tokens) > self.settings.queue_tokens and self.queue.items:
            raise self.overloaded()
        self.speed.learn_size(sum(tokens), num_characters(records))
        return await self._enqueue(predictor, records, settings, encoded, tokens)

    async def warm_up(self, predictor: "Predictor", records: Sequence[Any]) -> None:
        """Compute warm-up records, without the limits for clients."""
        settings = predictor.settings
        encoded, tokens = await self._encode(predictor, records, settings, math.inf)
        if records:
            await self._enqueue(predictor, records, settings, encoded, tokens)

    async def _enqueue(
        self,
        predictor: "Predictor",
        records: Sequence[Any],
        settings: PredictSettings,
        encoded: list[Fitted[Example]],
        tokens: list[int],
    ) -> list[Any]:
        """Queue records, and return their answers."""
        ticket = Ticket(
            predictor=predictor,
            settings=settings,
            records=list(records),
            encoded=encoded,
            tokens=tokens,
            generated=_max_generated(predictor, settings),
            done=asyncio.get_running_loop().create_future(),
        )
        if (exchange := CURRENT_REQUEST.get()) is not None:
            exchange.run = self.name
            exchange.items += len(records)
            exchange.tokens += sum(tokens)
        self.queue.put(ticket)
        self._more.set()
        try:
            await ticket.done
        finally:
            self.queue.remove(ticket)
            if exchange is not None and ticket.started is not None:
                exchange.queue_seconds += ticket.started - ticket.queued
        return ticket.answers

    async def run(self) -> None:
        """Compute batches until the server stops."""
        while True:
            if not self.queue.tickets:
                self._more.clear()
                await self._more.wait()
                await asyncio.sleep(self.settings.batch_wait / 1000)
            started = time.perf_counter()
            async with self._turns as threads:
                batch = self.queue.next_batch()
                if batch is None:
                    continue
                self._computing = batch.tokens
                await self._compute(batch, threads)
                self._computing = 0
            self.speed.update(batch.tokens, time.perf_counter() - started)

    def close(self) -> None:
        """Cancel the batch that is being computed, and shut down the lane's thread."""
        self._closing.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def wait_seconds(self) -> float:
        """Return the estimated seconds that a new request would wait."""
        waiting = self.queue.tokens_ahead + self._estimated_tokens()
        batches = max(self.queue.batches, math.ceil(waiting / self.settings.batch_tokens))
        seconds = self.speed.expected(self._computing)
        return seconds + (batches * self.speed.expected(waiting / batches) if batches else 0.0)

    def _estimated_tokens(self) -> float:
        """Return the estimated tokens ahead of a new request among those being encoded.

        A long request counts for at most one batch, as in the queue.
        """
        tokens_per_character = self.speed.tokens_per_character
        return sum(
            min(size * tokens_per_character, self.settings.batch_tokens) for size in self._encoding
        )

    def _admit(self, records: Sequence[Any]) -> None:
        check_size(records, self.settings)
        if self.is_full():
            raise self.overloaded()

    def is_full(self) -> bool:
        """Return whether a new request would wait longer than the limit.

        The time of a full batch is unknown before the first one. Until then a few batches are
        admitted.
        """
        batch_tokens = self.settings.batch_tokens
        ahead = self._computing + self.queue.tokens_ahead + self._estimated_tokens()
        admitted = (
            batch_tokens
            if self.speed.has_measured(batch_tokens // 2)
            else _UNTIMED_BATCHES * batch_tokens
        )
        return ahead > admitted and self.wait_seconds() > self.settings.queue_seconds

    def overloaded(self) -> Problem:
        """Return the problem for a rejected request."""
        retry = max(1, math.ceil(self.wait_seconds()))
        message = f"the queue is full; try again in {retry} s"
        return Problem("overloaded", message, retry_after=retry)

    async def _encode(
        self,
        predictor: "Predictor",
        records: Sequence[Any],
        settings: PredictSettings,
        most_tokens: float,
    ) -> tuple[list[Fitted[Example]], list[int]]:
        """Encode a request's records in parts, and count the tokens of each record.

        Encoding stops when the tokens exceed the limit or the client disconnects.

        Raises:
            Problem: the records have too many tokens, or one cannot be encoded.
        """
        encoded: list[Fitted[Example]] = []
        tokens: list[int] = []
        loop, disconnected = asyncio.get_running_loop(), threading.Event()
        self._encoding.append(size := num_characters(records))
        try:
            for part in split_into_turns(records):
                for record in part:
                    await check_tokens(record, predictor.tokenizer, most_tokens, self._encoder)
                budget = most_tokens - sum(tokens)
                fitted, sizes = await loop.run_in_executor(
                    self._encoder, _encode_records, predictor, part, settings, budget, disconnected
                )
                encoded += fitted
                tokens += sizes
                if sum(tokens) > most_tokens:
                    raise too_many_tokens(most_tokens)
        except UserError as error:
            raise refusal(error) from None
        finally:
            disconnected.set()
            self._encoding.remove(size)
        return encoded, tokens

    async def _compute(self, batch: Batch, threads: int) -> None:
        """Compute a batch, and deliver the answers to its tickets.

        If the batch fails, each ticket is computed separately.
        """
        answers, error = await self._run_batch(batch, threads)
        if error is None:
            _deliver(batch, answers)
            return
        for ticket in {id(ticket): ticket for ticket, _ in batch.items}.values():
            # Only the request that causes the error may fail.
            part = batch.part(ticket)
            if len(part.items) < len(batch.items):
                answers, error = await self._run_batch(part, threads)
            if error is None:
                _deliver(part, answers)
            else:
                _fail(ticket, error)

    async def _run_batch(
        self, batch: Batch, threads: int
    ) -> tuple[list[Any], BaseException | None]:
        """Compute a batch in the lane's thread, and return its answers, or the error."""
        started = time.perf_counter()
        for seconds in batch.begin(started):
            self._metrics.queue_seconds.labels(self.name).observe(seconds)
        future = asyncio.get_running_loop().run_in_executor(
            self._thread, _compute_answers, batch, threads, self._closing
        )
        try:
            await asyncio.wait([future])
        finally:
            future.cancel()  # nobody retrieves its error if the server stops
        if (error := future.exception()) is not None:
            return [], error
        answers, padding = future.result()
        self._metrics.count_batch(
            self.name,
            items=len(batch.items),
            tokens=batch.tokens,
            padding=padding,
            seconds=time.perf_counter() - started,
        )
        return answers, None


def _encode_records(
    predictor: "Predictor",
    records: Sequence[Any],
    settings: PredictSettings,
    budget: float,
    disconnected: threading.Event,
) -> tuple[list[Fitted[Example]], list[int]]:
    """Encode records in the encoder thread, and count the tokens of each record.

    A record without tokens counts as one token, so that no record is free. Encoding stops once the
    tokens exceed ``budget`` or the client has disconnected.
    """
    encoded, tokens = [], []
    for fitted in predictor.encode(records, settings):
        encoded.append(fitted)
        tokens.append(max(1, sum(len(piece.ids) for piece in fitted.pieces)))
        budget -= tokens[-1]
        if budget < 0 or disconnected.is_set():
            break
    return encoded, tokens


def _max_generated(predictor: "Predictor", settings: PredictSettings) -> int:
    """Return the maximum number of tokens to generate for a text, over all its hypotheses."""
    if "write" not in predictor.task.abilities:
        return 0
    hypotheses = settings.top if settings.sample else settings.beam
    return hypotheses * (settings.max_new_tokens or MAX_NEW_TOKENS)


def _compute_answers(batch: Batch, threads: int, closing: threading.Event) -> tuple[list[Any], int]:
    """Compute a batch in the lane's thread. Return its answers and number of padding tokens.

    Raises:
        ClientLeftError: every client of the batch has left, or the lane is closing.
    """

    def check() -> None:
        if closing.is_set() or not batch.is_wanted:
            raise ClientLeftError

    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)  # affects only this thread
    with cancellable(check):
        answers = list(batch.predictor.decode(batch.records, batch.encoded, batch.settings))
    return answers, _count_padding(batch)


def _count_padding(batch: Batch) -> int:
    """Return the number of padding tokens in a batch's computation."""
    lengths = [len(example.ids) for fitted in batch.encoded for example in fitted.pieces]
    plan, _ = batch.predictor.schedule(lengths, batch.settings)
    padded: int = sum(len(rows) * max(lengths[row] for row in rows.tolist()) for rows in plan)
    return padded - sum(lengths)


def _deliver(batch: Batch, answers: Sequence[Any]) -> None:
    for (ticket, row), answer in zip(batch.items, answers, strict=True):
        ticket.answers[row] = answer
        ticket.num_unanswered -= 1
        if not ticket.num_unanswered and not ticket.done.done():
            ticket.done.set_result(None)


def _fail(ticket: Ticket, error: BaseException) -> None:
    if not ticket.done.done():
        ticket.done.set_exception(refusal(error) if isinstance(error, UserError) else error)
