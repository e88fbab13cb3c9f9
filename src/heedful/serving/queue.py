"""The queue of a run: pending requests, and batches filled from them round-robin.

This module neither computes nor waits, so it can be tested without a model or a clock.
"""

import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heedful.batches import Example, Fitted
from heedful.settings import PredictSettings

if TYPE_CHECKING:
    import asyncio

    from heedful.predictor import Predictor

_GENERATED = 32
"""Maximum number of generated tokens of a batch, for each token that a batch may have."""


@dataclass(kw_only=True, slots=True, eq=False)
class Ticket:
    """A pending request: its records, and its answers so far."""

    predictor: "Predictor"
    """The predictor that encoded the records. Only it can answer them."""
    settings: PredictSettings
    records: list[Any]
    encoded: list[Fitted[Example]]
    tokens: list[int]
    """Number of tokens of each record."""
    generated: int = 0
    """Maximum number of tokens to generate for each record."""
    done: "asyncio.Future[None]"
    """Set once every record has its answer, or one fails."""
    queued: float = field(default_factory=time.perf_counter)
    """Time at which the request entered the queue."""
    started: float | None = None
    """Time at which the computation of its first record began."""
    answers: list[Any] = field(init=False)
    waiting: deque[int] = field(init=False)
    """Indices of the records that are in no batch yet, longest first."""
    waiting_tokens: int = field(init=False)
    num_unanswered: int = field(init=False)
    """Number of records without an answer."""

    def __post_init__(self) -> None:
        """Mark every record as waiting."""
        self.answers = [None] * len(self.records)
        self.waiting = deque(sorted(range(len(self.tokens)), key=lambda row: -self.tokens[row]))
        self.waiting_tokens = sum(self.tokens)
        self.num_unanswered = len(self.records)


@dataclass(kw_only=True, slots=True, eq=False)
class Batch:
    """Records computed together, with the same predictor and settings."""

    predictor: "Predictor"
    settings: PredictSettings
    items: list[tuple[Ticket, int]] = field(default_factory=list)
    """The ticket of each record, and the record's index in it."""
    tokens: int = 0

    def part(self, ticket: Ticket) -> "Batch":
        """Return a batch with only the records of one ticket."""
        items = [item for item in self.items if item[0] is ticket]
        return Batch(
            predictor=self.predictor,
            settings=self.settings,
            items=items,
            tokens=sum(ticket.tokens[row] for _, row in items),
        )

    def begin(self, now: float) -> Iterator[float]:
        """Record the start of the computation, and yield the waiting time of each new ticket."""
        for ticket, _ in self.items:
            if ticket.started is None:
                ticket.started = now
                yield now - ticket.queued

    @property
    def is_wanted(self) -> bool:
        """Whether a client still waits for an answer."""
        return any(not ticket.done.done() for ticket, _ in self.items)

    @property
    def records(self) -> list[Any]:
        """The records, in the order of the items."""
        return [ticket.records[row] for ticket, row in self.items]

    @property
    def encoded(self) -> list[Fitted[Example]]:
        """The encoded records, in the order of the items."""
        return [ticket.encoded[row] for ticket, row in self.items]


class Queue:
    """A queue that serves tickets round-robin.

    Args:
        batch_tokens: maximum number of tokens of a batch. A longer record gets its own batch. So
            does a record for which more than `_GENERATED` times as many tokens are generated.
    """

    def __init__(self, batch_tokens: int) -> None:
        self.batch_tokens = batch_tokens
        self.tickets: deque[Ticket] = deque()
        self.items = 0
        """Number of waiting records."""
        self.tokens = 0
        """Number of tokens of the waiting records."""
        self.tokens_ahead = 0
        """Number of tokens ahead of a new request. Each ticket counts for at most one batch: after
        that it takes turns with the new request."""

    @property
    def batches(self) -> int:
        """Number of batches for the tokens ahead. Different settings need separate batches."""
        kinds: Counter[tuple[int, PredictSettings]] = Counter()
        for ticket in self.tickets:
            kind = id(ticket.predictor), ticket.settings
            kinds[kind] += min(ticket.waiting_tokens, self.batch_tokens)
        return sum(-(-tokens // self.batch_tokens) for tokens in kinds.values())

    def put(self, ticket: Ticket) -> None:
        """Append a ticket to the queue."""
        self.tickets.append(ticket)
        self.items += len(ticket.waiting)
        self.tokens += ticket.waiting_tokens
        self.tokens_ahead += min(ticket.waiting_tokens, self.batch_tokens)

    def remove(self, ticket: Ticket) -> None:
        """Remove a ticket, if it is still in the queue."""
        if ticket in self.tickets:
            self.tickets.remove(ticket)
            self._subtract(ticket, items=len(ticket.waiting), tokens=ticket.waiting_tokens)
            ticket.waiting.clear()

    def next_batch(self) -> Batch | None:
        """Fill a batch round-robin, one record per ticket; return None if the queue is empty.

        The first ticket determines the predictor and the settings. Tickets with other settings
        keep their order and go to the front of the queue, for the next batch.
        """
        if not self.tickets:
            return None
        first = self.tickets[0]
        batch = Batch(predictor=first.predictor, settings=first.settings)
        max_items = _GENERATED * self.batch_tokens / max(first.generated, 1)
        skipped: deque[Ticket] = deque()
        while self.tickets:
            ticket = self.tickets.popleft()
            if ticket.predictor is not batch.predictor or ticket.settings != batch.settings:
                skipped.append(ticket)
                continue
            row = ticket.waiting[0]
            tokens = ticket.tokens[row]
            is_full = batch.tokens + tokens > self.batch_tokens or len(batch.items) + 1 > max_items
            if batch.items and is_full:
                self.tickets.appendleft(ticket)
                break
            ticket.waiting.popleft()
            self._subtract(ticket, items=1, tokens=tokens)
            batch.items.append((ticket, row))
            batch.tokens += tokens
            if ticket.waiting:
                self.tickets.append(ticket)
        self.tickets = skipped + self.tickets
        return batch

    def _subtract(self, ticket: Ticket, *, items: int, tokens: int) -> None:
        self.items -= items
        self.tokens -= tokens
        self.tokens_ahead -= min(ticket.waiting_tokens, self.batch_tokens)
        ticket.waiting_tokens -= tokens
        self.tokens_ahead += min(ticket.waiting_tokens, self.batch_tokens)
