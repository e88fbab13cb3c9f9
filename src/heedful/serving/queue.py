"""What waits for a run: requests, from which batches are filled by fair turns.

Nothing here computes or waits, so it can be tested without a model or a clock.
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


@dataclass(kw_only=True, slots=True, eq=False)
class Ticket:
    """A request that waits: its records, and the answers that it has so far."""

    predictor: "Predictor"
    """Encoded the records, so only it can answer them."""
    settings: PredictSettings
    records: list[Any]
    encoded: list[Fitted[Example]]
    tokens: list[int]
    """Tokens of each record."""
    done: "asyncio.Future[None]"
    """Set when every record has its answer, or when one cannot be answered."""
    queued: float = field(default_factory=time.perf_counter)
    """When it began to wait, and..."""
    begun: float | None = None
    """...when the first of its records was computed."""
    answers: list[Any] = field(init=False)
    waiting: deque[int] = field(init=False)
    """Positions of the records that are in no batch yet, the longest first."""
    waiting_tokens: int = field(init=False)
    missing: int = field(init=False)
    """Records without an answer."""

    def __post_init__(self) -> None:
        """Let every record wait."""
        self.answers = [None] * len(self.records)
        self.waiting = deque(sorted(range(len(self.tokens)), key=lambda row: -self.tokens[row]))
        self.waiting_tokens = sum(self.tokens)
        self.missing = len(self.records)


@dataclass(kw_only=True, slots=True, eq=False)
class Batch:
    """Records that are computed together: of one predictor, with the same settings."""

    predictor: "Predictor"
    settings: PredictSettings
    items: list[tuple[Ticket, int]] = field(default_factory=list)
    """The ticket and the position of each record."""
    tokens: int = 0

    def part(self, ticket: Ticket) -> "Batch":
        """Return a batch of the records that are of one ticket."""
        items = [item for item in self.items if item[0] is ticket]
        return Batch(
            predictor=self.predictor,
            settings=self.settings,
            items=items,
            tokens=sum(ticket.tokens[row] for _, row in items),
        )

    def begin(self, now: float) -> Iterator[float]:
        """Note that it is being computed, and yield how long each new ticket has waited."""
        for ticket, _ in self.items:
            if ticket.begun is None:
                ticket.begun = now
                yield now - ticket.queued

    @property
    def records(self) -> list[Any]:
        """The records, in the order of the items."""
        return [ticket.records[row] for ticket, row in self.items]

    @property
    def encoded(self) -> list[Fitted[Example]]:
        """The encoded records, in the order of the items."""
        return [ticket.encoded[row] for ticket, row in self.items]


class Queue:
    """Tickets in fair turns.

    Args:
        batch_tokens: the most tokens of a batch; one record may have more, and is then alone.
    """

    def __init__(self, batch_tokens: int) -> None:
        self.batch_tokens = batch_tokens
        self.tickets: deque[Ticket] = deque()
        self.items = 0
        """Records that wait."""
        self.tokens = 0
        """Their tokens."""
        self.ahead = 0
        """Tokens that a new request has to wait for: a long one lets it in after a batch's worth,
        since both then take turns."""

    @property
    def batches(self) -> int:
        """How many batches those tokens fill: requests with other settings are computed apart."""
        kinds: Counter[tuple[int, PredictSettings]] = Counter()
        for ticket in self.tickets:
            kind = id(ticket.predictor), ticket.settings
            kinds[kind] += min(ticket.waiting_tokens, self.batch_tokens)
        return sum(-(-tokens // self.batch_tokens) for tokens in kinds.values())

    def put(self, ticket: Ticket) -> None:
        """Let a ticket wait behind all others."""
        self.tickets.append(ticket)
        self.items += len(ticket.waiting)
        self.tokens += ticket.waiting_tokens
        self.ahead += min(ticket.waiting_tokens, self.batch_tokens)

    def drop(self, ticket: Ticket) -> None:
        """Let a ticket leave, if it still waits."""
        if ticket in self.tickets:
            self.tickets.remove(ticket)
            self._count_out(ticket, items=len(ticket.waiting), tokens=ticket.waiting_tokens)
            ticket.waiting.clear()

    def take(self) -> Batch | None:
        """Fill a batch, one record of each ticket in turn; None if nothing waits.

        The first ticket decides for which predictor and settings. Tickets with others keep their
        place, and the first of them comes next.
        """
        if not self.tickets:
            return None
        first = self.tickets[0]
        batch = Batch(predictor=first.predictor, settings=first.settings)
        others: deque[Ticket] = deque()
        while self.tickets:
            ticket = self.tickets.popleft()
            if ticket.predictor is not batch.predictor or ticket.settings != batch.settings:
                others.append(ticket)
                continue
            row = ticket.waiting[0]
            tokens = ticket.tokens[row]
            if batch.items and batch.tokens + tokens > self.batch_tokens:
                self.tickets.appendleft(ticket)
                break
            ticket.waiting.popleft()
            self._count_out(ticket, items=1, tokens=tokens)
            batch.items.append((ticket, row))
            batch.tokens += tokens
            if ticket.waiting:
                self.tickets.append(ticket)
        self.tickets = others + self.tickets
        return batch

    def _count_out(self, ticket: Ticket, *, items: int, tokens: int) -> None:
        self.items -= items
        self.tokens -= tokens
        self.ahead -= min(ticket.waiting_tokens, self.batch_tokens)
        ticket.waiting_tokens -= tokens
        self.ahead += min(ticket.waiting_tokens, self.batch_tokens)
