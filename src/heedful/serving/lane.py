"""A run's lane: requests are encoded, wait in its queue, and are computed in batches.

All of this is on the event loop but for two things: texts are encoded in one thread of the service,
and batches are computed in one thread of the lane.
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
from heedful.errors import UserError
from heedful.serving.exchange import CURRENT
from heedful.serving.limits import check_size, check_tokens, size_of, too_many_tokens, turns
from heedful.serving.metrics import Metrics
from heedful.serving.problem import Problem, refusal
from heedful.serving.queue import Batch, Queue, Ticket
from heedful.settings import PredictSettings, ServeSettings

if TYPE_CHECKING:
    from heedful.predictor import Predictor

_KEPT = 0.8
"""How much of what was measured is kept when something new is."""

_UNKNOWN = 4
"""Batches that may wait before it is known how long a full one takes."""


class Turns:
    """Shares out the threads of the machine: which lanes compute, and with how many threads each.

    Args:
        threads: CPU threads in all.
        lanes: how many lanes there are.
    """

    def __init__(self, threads: int, lanes: int) -> None:
        self._threads = threads
        self._free = asyncio.Semaphore(min(threads, lanes))  # first come, first served
        self._busy = 0

    async def __aenter__(self) -> int:
        """Wait for a turn, and return how many threads to compute with."""
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
class Speed:
    """How fast a lane has answered lately, in batches of each size: small ones are slow."""

    tokens: float = 0.0
    seconds: float = 0.0
    tokens_per_character: float = 0.0
    _by_size: dict[int, float] = field(default_factory=dict)
    """Seconds for a token, by the binary digits of the number of a batch's tokens."""

    @property
    def tokens_per_second(self) -> float:
        """The speed of the latest batches, or 0 before anything was computed."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        """Take in what a batch took."""
        self.tokens = _KEPT * self.tokens + tokens
        self.seconds = _KEPT * self.seconds + seconds
        size, each = tokens.bit_length(), seconds / tokens
        before = self._by_size.get(size, each)
        self._by_size[size] = _KEPT * before + (1 - _KEPT) * each

    def knows(self, tokens: int) -> bool:
        """Tell whether a batch of at least so many tokens was computed."""
        return max(self._by_size, default=0) >= tokens.bit_length()

    def expected(self, tokens: float) -> float:
        """Return the seconds that a batch will take, by those of the same size, or near to it.

        By smaller ones it is too long, and it is 0 before anything was computed.
        """
        size = int(tokens).bit_length()
        smaller = [known for known in self._by_size if known <= size]
        near = max(smaller) if smaller else min(self._by_size, default=0)
        return tokens * self._by_size.get(near, 0.0)

    def learn_size(self, tokens: int, characters: int) -> None:
        """Take in how many tokens the characters of a request's texts became."""
        each = tokens / characters
        self.tokens_per_character = _KEPT * self.tokens_per_character + (1 - _KEPT) * each


class Lane:
    """What a run's requests go through.

    Args:
        name: of the run.
        turns: shared with the other lanes.
        encoder: the thread that encodes texts, also shared.
        settings: the limits.
        metrics: what counts batches.
    """

    def __init__(
        self,
        name: str,
        turns: Turns,
        encoder: Executor,
        settings: ServeSettings,
        metrics: Metrics,
    ) -> None:
        self.name = name
        self.queue = Queue(settings.batch_tokens)
        self.speed = Speed()
        self._turns = turns
        self._encoder = encoder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
        self.settings = settings
        self._metrics = metrics
        self._encoding: list[int] = []
        """Characters of each request that is being encoded."""
        self._computing = 0
        """Tokens of the batch that is being computed."""
        self._more = asyncio.Event()

    async def answer(
        self, predictor: "Predictor", records: Sequence[Any], settings: PredictSettings
    ) -> list[Any]:
        """Answer for the records of one request; if it is cancelled, they leave the queue.

        Raises:
            Problem: the queue is full, the request has too many tokens, or a record cannot be
                answered.
        """
        if not records:
            return []
        self._admit(records)
        encoded, tokens = await self._encode(predictor, records, settings, self.settings.max_tokens)
        if self.queue.tokens + sum(tokens) > self.settings.queue_tokens and self.queue.items:
            raise self.overloaded()
        self.speed.learn_size(sum(tokens), size_of(records))
        return await self._queued(predictor, records, settings, encoded, tokens)

    async def warm_up(self, predictor: "Predictor", records: Sequence[Any]) -> None:
        """Compute records that no client sent, whatever the limits for clients are."""
        settings = predictor.settings
        encoded, tokens = await self._encode(predictor, records, settings, math.inf)
        if records:
            await self._queued(predictor, records, settings, encoded, tokens)

    async def _queued(
        self,
        predictor: "Predictor",
        records: Sequence[Any],
        settings: PredictSettings,
        encoded: list[Fitted[Example]],
        tokens: list[int],
    ) -> list[Any]:
        """Let records wait until they are answered."""
        ticket = Ticket(
            predictor=predictor,
            settings=settings,
            records=list(records),
            encoded=encoded,
            tokens=tokens,
            done=asyncio.get_running_loop().create_future(),
        )
        if (exchange := CURRENT.get()) is not None:
            exchange.run = self.name
            exchange.items += len(records)
            exchange.tokens += sum(tokens)
        self.queue.put(ticket)
        self._more.set()
        try:
            await ticket.done
        finally:
            self.queue.drop(ticket)
            if exchange is not None and ticket.begun is not None:
                exchange.queue_seconds += ticket.begun - ticket.queued
        return ticket.answers

    async def run(self) -> None:
        """Compute batches for as long as the server runs."""
        while True:
            if not self.queue.tickets:
                self._more.clear()
                await self._more.wait()
                await asyncio.sleep(self.settings.batch_wait / 1000)
            started = time.perf_counter()
            async with self._turns as threads:
                batch = self.queue.take()
                if batch is None:
                    continue
                self._computing = batch.tokens
                await self._compute(batch, threads)
                self._computing = 0
            self.speed.learn(batch.tokens, time.perf_counter() - started)

    def close(self) -> None:
        """Let the thread of the lane end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def wait_seconds(self) -> float:
        """Return how long a new request would wait, by the speed measured so far."""
        waiting = self.queue.ahead + self._guessed()
        batches = max(self.queue.batches, math.ceil(waiting / self.settings.batch_tokens))
        seconds = self.speed.expected(self._computing)
        return seconds + (batches * self.speed.expected(waiting / batches) if batches else 0.0)

    def _guessed(self) -> float:
        """Return about how many tokens those requests have that are being encoded.

        Of a long request it is a batch's worth, as of one in the queue.
        """
        each = self.speed.tokens_per_character
        return sum(min(size * each, self.settings.batch_tokens) for size in self._encoding)

    def _admit(self, records: Sequence[Any]) -> None:
        check_size(records, self.settings)
        if self.is_full():
            raise self.overloaded()

    def is_full(self) -> bool:
        """Tell whether a new request would have to wait for longer than the limit.

        What a full batch takes is not known before there was one: a few are let in till then.
        """
        full = self.settings.batch_tokens
        ahead = self._computing + self.queue.ahead + self._guessed()
        enough = full if self.speed.knows(full // 2) else _UNKNOWN * full
        return ahead > enough and self.wait_seconds() > self.settings.queue_seconds

    def overloaded(self) -> Problem:
        """Return what is told to those who are refused."""
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
        """Encode a request's records, some at a time, and count the tokens of each.

        It ends with the first record that has too many, or when nobody waits any longer.
        """
        encoded: list[Fitted[Example]] = []
        tokens: list[int] = []
        loop, left = asyncio.get_running_loop(), threading.Event()
        self._encoding.append(size := size_of(records))
        try:
            for part in turns(records):
                for record in part:
                    await check_tokens(record, predictor.tokenizer, most_tokens, self._encoder)
                room = most_tokens - sum(tokens)
                fitted, sizes = await loop.run_in_executor(
                    self._encoder, _encoded, predictor, part, settings, room, left
                )
                encoded += fitted
                tokens += sizes
                if sum(tokens) > most_tokens:
                    raise too_many_tokens(most_tokens)
        except UserError as error:
            raise refusal(error) from None
        finally:
            left.set()
            self._encoding.remove(size)
        return encoded, tokens

    async def _compute(self, batch: Batch, threads: int) -> None:
        """Compute a batch, and give the answers to those that wait for them."""
        answers, error = await self._computed(batch, threads)
        if error is None:
            _deliver(batch, answers)
            return
        for ticket in {id(ticket): ticket for ticket, _ in batch.items}.values():
            # Whoever is not to blame for it shall not suffer from it.
            alone = batch.part(ticket)
            if len(alone.items) < len(batch.items):
                answers, error = await self._computed(alone, threads)
            if error is None:
                _deliver(alone, answers)
            else:
                _fail(ticket, error)

    async def _computed(self, batch: Batch, threads: int) -> tuple[list[Any], BaseException | None]:
        """Return the answers of a batch, or the error."""
        started = time.perf_counter()
        for seconds in batch.begin(started):
            self._metrics.queue_seconds.labels(self.name).observe(seconds)
        future = asyncio.get_running_loop().run_in_executor(self._thread, _answers, batch, threads)
        await asyncio.wait([future])
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


def _encoded(
    predictor: "Predictor",
    records: Sequence[Any],
    settings: PredictSettings,
    room: float,
    left: threading.Event,
) -> tuple[list[Fitted[Example]], list[int]]:
    """Encode some records, in the thread that does so, and count the tokens of each.

    A record without any counts as one, so that no queue is free. None is encoded after those that
    have more tokens than there is room for, nor when the client has left.
    """
    encoded, tokens = [], []
    for fitted in predictor.encode(records, settings):
        encoded.append(fitted)
        tokens.append(max(1, sum(len(piece.ids) for piece in fitted.pieces)))
        room -= tokens[-1]
        if room < 0 or left.is_set():
            break
    return encoded, tokens


def _answers(batch: Batch, threads: int) -> tuple[list[Any], int]:
    """Compute a batch, in the lane's thread. Return the answers, and the tokens of padding."""
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)  # of this thread alone
    answers = list(batch.predictor.decode(batch.records, batch.encoded, batch.settings))
    return answers, _padding(batch)


def _padding(batch: Batch) -> int:
    """Return the tokens of padding that a batch is computed with."""
    lengths = [len(example.ids) for fitted in batch.encoded for example in fitted.pieces]
    plan = batch.predictor.plan(lengths, batch.settings)
    padded: int = sum(len(rows) * max(lengths[row] for row in rows.tolist()) for rows in plan)
    return padded - sum(lengths)


def _deliver(batch: Batch, answers: Sequence[Any]) -> None:
    for (ticket, row), answer in zip(batch.items, answers, strict=True):
        ticket.answers[row] = answer
        ticket.missing -= 1
        if not ticket.missing and not ticket.done.done():
            ticket.done.set_result(None)


def _fail(ticket: Ticket, error: BaseException) -> None:
    if not ticket.done.done():
        ticket.done.set_exception(refusal(error) if isinstance(error, UserError) else error)
