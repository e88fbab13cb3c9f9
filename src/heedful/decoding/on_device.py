"""Beam search where all that is kept stays on a device, and a step has the same shapes each time.

The host asks for one step after another and looks only now and then who is done, so that the
device never waits for it. A GPU records the second step as a CUDA graph and plays it from then on:
the host launches a step at once, whatever it is made of. The result is that of ``beam.py``.

Shapes: B items that are searched, W beam, V vocabulary, T most tokens of a text, M nodes of an
item, E source length, C candidates of a hypothesis, R ranked candidates of an item, F texts of an
item that there is room for.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding.beam import best_texts
from heedful.decoding.candidates import check_forbidden, check_prefixes, damaged
from heedful.decoding.options import Hypothesis, Search, length_divisor

_LOOK = 8
"""Steps between two looks at who is done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Newest:
    """What a step is asked for: what follows the newest token of each hypothesis."""

    tokens: Tensor
    """Shape (B, W), int64."""
    nodes: Tensor
    """The nodes where their keys and values go. Shape (W,), int64."""
    seen: Tensor
    """Which nodes each hypothesis is made of, its newest included. Shape (B, W, M), bool."""
    number: Tensor
    """How many tokens each has been given before. Shape (), int64."""


class FixedSteps(Protocol):
    """What takes the steps, and keeps what a model needs of the hypotheses in a fixed room.

    Items have W hypotheses from the first step on; who is not there yet is computed and not read.
    """

    vocabulary: int
    """V."""
    read: Tensor
    """Which nodes are filled before the first step. Shape (B, nodes of prompts), bool."""
    coverage: Tensor | None
    """How much has been attended to each source token before the first step, if that counts. Shape
    (B, E)."""

    def step(self, newest: Newest) -> tuple[Tensor, Tensor | None]:
        """Return the scores of next tokens, and how much is attended to the source, if that counts.

        Shapes:
            (B, W, V) and (B, W, E).
        """

    def make_room(self, nodes: int) -> None:
        """Make room for a number of nodes: M."""

    def keep(self, items: Tensor) -> None:
        """Keep some items, and forget the others.

        Args:
            items: their numbers, in ascending order. Shape (B,), int64.
        """


@dataclass(kw_only=True, slots=True, eq=False)
class _Board:
    """What is kept of all items. A step writes its results where it read them."""

    number: Tensor
    """How many tokens hypotheses have. Shape (), int64."""
    damaged: Tensor
    """Whether a score was not a number. Shape (), bool."""
    newest: Tensor
    """The newest tokens. Shape (B, W), int64."""
    tokens: Tensor
    """All tokens so far. Shape (B, W, T), int64."""
    seen: Tensor
    """Shape (B, W, M), bool."""
    alive: Tensor
    """Which hypotheses there are. Shape (B, W), bool."""
    totals: Tensor
    """The sums of penalised log-probabilities, by which they are ranked. Shape (B, W), float64."""
    log_probabilities: Tensor
    """Shape (B, W), float64."""
    coverage: Tensor
    """Shape (B, W, E); E is 0 where it does not count."""
    margins: Tensor
    """Shape (B,), float64."""
    done: Tensor
    """Shape (B,), bool."""
    forced: Tensor
    """See ``candidates.forced_tokens``. Shape (B, longest prefix + 1), int64."""
    finished: "_Finished"

    @classmethod
    def start(
        cls, steps: FixedSteps, first: Tensor, options: Search, forced: NDArray[np.int64]
    ) -> "_Board":
        """Return what is kept before the first step: a hypothesis of each item."""
        items, width, most = len(first), options.num_beams, options.max_new_tokens
        like = first.new_zeros((), dtype=torch.float64)
        coverage = first.new_zeros((items, 0)) if steps.coverage is None else steps.coverage
        return cls(
            number=first.new_zeros(()),
            damaged=first.new_zeros((), dtype=torch.bool),
            newest=first[:, None].repeat(1, width),
            tokens=first.new_zeros(items, width, most),
            seen=steps.read[:, None].repeat(1, width, 1),
            alive=(torch.arange(width, device=first.device) == 0).repeat(items, 1),
            totals=like.new_zeros(items, width),
            log_probabilities=like.new_zeros(items, width),
            coverage=coverage[:, None].repeat(1, width, 1),
            margins=like.new_full((items,), math.inf),
            done=first.new_zeros(items, dtype=torch.bool),
            forced=torch.from_numpy(forced).to(first.device),
            finished=_Finished.start(items, width, most, like),
        )

    def make_room(self, nodes: int) -> None:
        """Make room for a number of nodes: M."""
        items, width, before = self.seen.shape
        more = self.seen.new_zeros(items, width, nodes - before)
        self.seen = torch.cat([self.seen, more], 2)

    def keep(self, items: Tensor) -> None:
        """Keep some items; see ``FixedSteps.keep``."""
        for field in fields(self):
            part = getattr(self, field.name)
            if isinstance(part, Tensor) and part.ndim:
                setattr(self, field.name, part[items])
        self.finished.keep(items)


@dataclass(kw_only=True, slots=True, eq=False)
class _Finished:
    """The texts of each item that have ended, in the order in which they did.

    Their last column is where a step writes what is no text.
    """

    count: Tensor
    """How many there are. Shape (B,), int64."""
    tokens: Tensor
    """Shape (B, F + 1, T), int64."""
    lengths: Tensor
    """How many of the tokens are theirs. Shape (B, F + 1), int64."""
    ended: Tensor
    """Shape (B, F + 1), bool."""
    log_probabilities: Tensor
    """Shape (B, F + 1), float64."""
    scores: Tensor
    """Shape (B, F + 1), float64."""

    @classmethod
    def start(cls, items: int, width: int, most: int, like: Tensor) -> "_Finished":
        """Return room for texts. Those of a step are W at most, and none come after W."""
        room = 2 * width
        return cls(
            count=like.new_zeros(items, dtype=torch.int64),
            tokens=like.new_zeros((items, room, most), dtype=torch.int64),
            lengths=like.new_zeros((items, room), dtype=torch.int64),
            ended=like.new_zeros((items, room), dtype=torch.bool),
            log_probabilities=like.new_zeros(items, room),
            scores=like.new_full((items, room), -math.inf),
        )

    def add(
        self,
        which: Tensor,
        *,
        tokens: Tensor,
        lengths: Tensor,
        ended: Tensor,
        log_probabilities: Tensor,
        scores: Tensor,
    ) -> None:
        """Add some texts.

        Args:
            which: which of the texts; at most W of an item. Shape (B, N).
            tokens: shape (B, N, T).
            lengths: shape (B, N).
            ended: the same.
            log_probabilities: the same.
            scores: the same.
        """
        trash = self.scores.shape[1] - 1
        column = torch.where(which, self.count[:, None] + which.cumsum(1) - 1, trash)
        self.tokens.scatter_(1, column[..., None].expand(tokens.shape), tokens)
        self.lengths.scatter_(1, column, lengths)
        self.ended.scatter_(1, column, ended)
        self.log_probabilities.scatter_(1, column, log_probabilities)
        self.scores.scatter_(1, column, scores)
        self.count += which.sum(1)

    def keep(self, items: Tensor) -> None:
        """Keep some items; see ``FixedSteps.keep``."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[items])

    def texts(self) -> list[list[Hypothesis]]:
        """Return the texts of each item. The host waits for them."""
        counts, tokens, lengths, ended, log_probabilities, scores = (
            getattr(self, field.name).cpu().numpy() for field in fields(self)
        )
        return [
            [
                Hypothesis(
                    tokens=tuple(tokens[item, text, : lengths[item, text]].tolist()),
                    ended=bool(ended[item, text]),
                    log_probability=float(log_probabilities[item, text]),
                    score=float(scores[item, text]),
                )
                for text in range(count)
            ]
            for item, count in enumerate(counts)
        ]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Ranked:
    """Continuations of each item's hypotheses, best first. Each of shape (B, R)."""

    parents: Tensor
    """Which hypothesis of the item each continues."""
    token_ids: Tensor
    """The next token."""
    totals: Tensor
    """What they are ranked by; -inf for none."""
    log_probabilities: Tensor


def beam_search_on_device(
    steps: FixedSteps, first: Tensor, options: Search, forced: NDArray[np.int64]
) -> list[list[Hypothesis]]:
    """Search all items side by side; see ``beam.beam_search``.

    Items that are done are computed on, until half of all are.

    Args:
        steps: score the next tokens.
        first: the token that each item starts with. Shape (B,).
        options: how to search; without draws.
        forced: see ``candidates.forced_tokens``.

    Raises:
        UserError: see ``search``.
    """
    check_prefixes(forced, steps.vocabulary)
    early = [options.eos_token_id] if options.min_new_tokens else []
    check_forbidden([*options.never, *early], steps.vocabulary)
    board = _Board.start(steps, first, options, forced)
    rules = _Rules.of(options, first.device)
    prompt, width, most = steps.read.shape[1], options.num_beams, options.max_new_tokens
    texts: list[list[Hypothesis]] = [[] for _ in range(len(first))]
    items = np.arange(len(first))
    room, launch = 0, None
    for length in range(1, most + 1):
        if length > room:
            room = min(most, 2 * room or 4 * _LOOK)
            board.make_room(prompt + room * width)
            steps.make_room(prompt + room * width)
            launch = None
        if launch is None:
            launch = _Launch(lambda: rules.advance(steps, board, prompt), first.device)
        launch()
        if length % _LOOK and length < most:
            continue
        if board.damaged.item():
            raise damaged()
        left = np.flatnonzero(~board.done.cpu().numpy()) if length < most else items[:0]
        if 2 * len(left) <= len(items):
            margins = board.margins.cpu().tolist()
            for item, found, margin in zip(items, board.finished.texts(), margins, strict=True):
                texts[item] = best_texts(found, margin, options)
            if not len(left):
                break
            items, rows = items[left], torch.from_numpy(left).to(first.device)
            board.keep(rows)
            steps.keep(rows)
            launch = None
    return texts


def records(device: torch.device) -> bool:
    """Tell whether a device can record a step."""
    return device.type == "cuda"


class _Launch:
    """Takes the same step again and again: on a GPU all of it at once, but for the first.

    Args:
        step: reads and writes the same tensors each time, and never asks for a number.
        device: where they are.
    """

    def __init__(self, step: Callable[[], None], device: torch.device) -> None:
        self.step, self.records = step, records(device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Take the step."""
        if self.graph is not None:
            self.graph.replay()
            return
        self.step()
        if self.records:
            # What is recorded is not computed, so the step is taken once. Other threads may use
            # the device meanwhile.
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.step()
            self.graph = graph


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Rules:
    """How hypotheses go on and end, with what of it is looked up on the device."""

    options: Search
    never: Tensor
    """The tokens that are never generated. Int64."""
    divisors: Tensor
    """What the score of a text is divided by, by its length. Shape (T + 2,), float64."""
    kindest: Tensor
    """The same of the most favourable length that a hypothesis of each length can come to."""

    @classmethod
    def of(cls, options: Search, device: torch.device) -> "_Rules":
        """Look up for all lengths what depends on them."""
        most = options.max_new_tokens
        divisors = [length_divisor(length, False, options) for length in range(most + 2)]
        later = [divisors[most] if options.length_penalty > 0 else each for each in divisors[1:]]
        return cls(
            options=options,
            never=torch.tensor(options.never, dtype=torch.int64, device=device),
            divisors=torch.tensor(divisors, dtype=torch.float64, device=device),
            kindest=torch.tensor(later, dtype=torch.float64, device=device),
        )

    def advance(self, steps: FixedSteps, board: _Board, prompt: int) -> None:
        """Take a step with all items.

        Args:
            steps: score the next tokens.
            board: what is kept; written to.
            prompt: how many nodes were filled before the first step.
        """
        width = self.options.num_beams
        columns = torch.arange(width, device=board.newest.device)
        nodes = prompt + board.number * width + columns  # (W,)
        board.seen |= nodes[:, None] == torch.arange(board.seen.shape[2], device=nodes.device)
        logits, attended = steps.step(
            Newest(tokens=board.newest, nodes=nodes, seen=board.seen, number=board.number)
        )
        if attended is not None:
            board.coverage += attended
        ranked = self._rank(logits, board)
        coverage = self._coverage(board)
        searched = ~board.done[:, None]
        goes_on = self._take_finished(ranked, board, coverage, searched)
        lead = self._lead(ranked, goes_on, board)
        margins = torch.minimum(board.margins, self._margins(ranked, lead))
        board.margins.copy_(torch.where(board.done, board.margins, margins))
        last = board.number + 1 == self.options.max_new_tokens
        lacking = board.finished.count[:, None] < width
        self._finish(ranked, board, coverage, goes_on & searched & lacking & last)
        keep = goes_on & searched & (lead < 0)[:, None]
        board.done |= ~keep.any(1)
        _go_on(ranked, board, keep)

    def _rank(self, logits: Tensor, board: _Board) -> _Ranked:
        """Rank the candidates of each item; of equal ones, those of the better hypothesis first."""
        plain = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        penalised = self._penalise(plain, board)  # (B, W, V)
        width = self.options.num_beams
        top = penalised.topk(min(width + 1, penalised.shape[2]))
        token_ids, scores = top.indices, top.values.double()  # (B, W, C)
        log_probabilities = plain.gather(2, token_ids).double()
        prefix = board.number.clamp(max=board.forced.shape[1] - 1)
        forced = board.forced.index_select(1, prefix[None])[..., None]  # (B, 1, 1)
        must = forced >= 0
        forced = forced.clamp(min=0).expand(-1, width, 1)
        # Only the first candidate is one, and it is the token that must come.
        only = plain.gather(2, forced).double()
        first = torch.arange(token_ids.shape[2], device=logits.device) == 0
        log_probabilities = torch.where(must, only, log_probabilities)
        scores = torch.where(must, torch.where(first, only, -math.inf), scores)
        token_ids = torch.where(must, forced, token_ids)
        board.damaged |= (scores.isnan().any(2) & board.alive & ~board.done[:, None]).any()
        grid = torch.where(board.alive[..., None], board.totals[..., None] + scores, -math.inf)
        totals, order = grid.flatten(1).sort(descending=True, stable=True)
        totals, order = totals[:, : 2 * width + 1], order[:, : 2 * width + 1]
        parents = order // token_ids.shape[2]
        return _Ranked(
            parents=parents,
            token_ids=token_ids.flatten(1).gather(1, order),
            totals=totals,
            log_probabilities=board.log_probabilities.gather(1, parents)
            + log_probabilities.flatten(1).gather(1, order),
        )

    def _penalise(self, plain: Tensor, board: _Board) -> Tensor:
        """Return log-probabilities after penalties, -inf for tokens that are forbidden now.

        See ``candidates.penalise``.
        """
        options, number = self.options, board.number
        vocabulary = plain.shape[2]
        places = torch.arange(board.tokens.shape[2], device=plain.device)  # (T,)
        penalised = plain
        if options.repetition_penalty != 1:
            written = torch.where(places < number, board.tokens, vocabulary)
            repeated = _among(written, vocabulary)
            penalised = torch.where(repeated, plain * options.repetition_penalty, plain)
        if options.never:
            penalised = penalised.index_fill(2, self.never, -math.inf)
        if options.min_new_tokens:
            ids = torch.arange(vocabulary, device=plain.device)
            early = (ids == options.eos_token_id) & (number < options.min_new_tokens)
            penalised = penalised.masked_fill(early, -math.inf)
        size = options.no_repeat_ngram
        if 0 < size <= board.tokens.shape[2]:
            runs = board.tokens.unfold(2, size, 1)  # (B, W, starts, size)
            newest = (number - size + 1 + places[: size - 1]).clamp(min=0)
            same = (runs[..., :-1] == board.tokens.index_select(2, newest)[:, :, None]).all(-1)
            same = same & (places[: runs.shape[2]] <= number - size)
            repeated = _among(torch.where(same, runs[..., -1], vocabulary), vocabulary)
            penalised = penalised.masked_fill(repeated, -math.inf)
        return penalised

    def _coverage(self, board: _Board) -> Tensor:
        """Return the coverage penalty of each hypothesis; see ``beam._coverage``. Shape (B, W)."""
        if not self.options.coverage_penalty:
            return torch.zeros_like(board.totals)
        tiny = torch.finfo(torch.float32).tiny
        logs = board.coverage.double().clamp(tiny, 1).log()
        return logs.sum(2) * self.options.coverage_penalty

    def _take_finished(
        self, ranked: _Ranked, board: _Board, coverage: Tensor, searched: Tensor
    ) -> Tensor:
        """Add what ends inside the beam to the finished texts; return which candidates go on.

        Shape:
            (B, R).
        """
        width = self.options.num_beams
        possible = ranked.totals > -math.inf
        ends = ranked.token_ids == self.options.eos_token_id
        goes_on = possible & ~ends
        goes_on &= goes_on.cumsum(1) <= width
        inside = torch.arange(ends.shape[1], device=ends.device) < width
        self._finish(ranked, board, coverage, possible & ends & inside & searched)
        # If every token is forbidden, the texts so far are the result.
        stuck = ~goes_on.any(1) & (board.finished.count == 0)
        number = board.number.expand(board.totals.shape)
        board.finished.add(
            board.alive & searched & stuck[:, None],
            tokens=board.tokens,
            lengths=number,
            ended=torch.zeros_like(board.alive),
            log_probabilities=board.log_probabilities,
            scores=board.totals / self.divisors[number] + coverage,
        )
        return goes_on

    def _finish(self, ranked: _Ranked, board: _Board, coverage: Tensor, which: Tensor) -> None:
        """Add the texts of some candidates, shape (B, R), to the finished ones."""
        ended = ranked.token_ids == self.options.eos_token_id
        rows = ranked.parents[..., None].expand(-1, -1, board.tokens.shape[2])
        tokens = board.tokens.gather(1, rows)
        # The end token is written here, too, and not read.
        tokens.index_copy_(2, board.number[None], ranked.token_ids[..., None])
        length = board.number + 1  # the end token counts in it
        board.finished.add(
            which,
            tokens=tokens,
            lengths=length - ended.long(),
            ended=ended,
            log_probabilities=ranked.log_probabilities,
            scores=ranked.totals / self.divisors.index_select(0, length[None])
            + coverage.gather(1, ranked.parents),
        )

    def _lead(self, ranked: _Ranked, goes_on: Tensor, board: _Board) -> Tensor:
        """Return by how much each item's result is safe; see ``beam._lead``. Shape (B,)."""
        finished, wanted = board.finished, self.options.num_return_sequences
        best = torch.where(goes_on, ranked.totals, -math.inf).amax(1)
        texts = torch.arange(finished.scores.shape[1], device=best.device)
        there = texts < finished.count[:, None]
        worst = torch.where(there, finished.scores, -math.inf).topk(wanted)
        column = worst.indices[:, -1:]
        lengths = (finished.lengths + finished.ended.long()).gather(1, column)[:, 0]
        kindest = self.kindest.index_select(0, board.number[None] + 1)
        lead = worst.values[:, -1] - best / kindest
        lead = lead * torch.minimum(kindest, self.divisors[lengths])
        lead = torch.where(finished.count >= wanted, lead, -math.inf)
        return torch.where(finished.count >= self.options.num_beams, math.inf, lead)

    def _margins(self, ranked: _Ranked, lead: Tensor) -> Tensor:
        """Return the smallest difference of totals that mattered; see ``beam._margins``.

        Shape:
            (B,).
        """
        width, ends = self.options.num_beams, ranked.token_ids == self.options.eos_token_id
        lasting = torch.where(ends, -math.inf, ranked.totals).sort(1, descending=True).values
        margins = torch.where(lead >= 0, lead, math.inf)
        for totals in (ranked.totals, lasting):
            if totals.shape[1] > width:
                inside, outside = totals[:, width - 1], totals[:, width]
                gap = torch.where(outside > -math.inf, inside - outside, math.inf)
                margins = torch.minimum(margins, gap)
        return margins


def _go_on(ranked: _Ranked, board: _Board, keep: Tensor) -> None:
    """Make the kept candidates the hypotheses of the next step; those that are none come last.

    Args:
        ranked: the candidates.
        board: what is kept; written to.
        keep: which go on, W of an item at most. Shape (B, R).
    """
    width = board.totals.shape[1]
    column = torch.where(keep, keep.cumsum(1) - 1, width)  # the last is read by nobody

    def kept(values: Tensor) -> Tensor:
        room = values.new_zeros(len(values), width + 1)
        return room.scatter_(1, column, values)[:, :width]

    parents = kept(ranked.parents)
    board.newest.copy_(kept(ranked.token_ids))
    board.totals.copy_(kept(ranked.totals))
    board.log_probabilities.copy_(kept(ranked.log_probabilities))
    columns = torch.arange(width, device=keep.device)
    board.alive.copy_(columns < keep.sum(1, keepdim=True))
    for part in (board.tokens, board.seen, board.coverage):
        part.copy_(part.gather(1, parents[..., None].expand(part.shape)))
    board.tokens.index_copy_(2, board.number[None], board.newest[..., None])
    board.number += 1


def _among(token_ids: Tensor, vocabulary: int) -> Tensor:
    """Tell which tokens of the vocabulary are among some; V itself stands for none.

    Args:
        token_ids: shape (B, W, N).
        vocabulary: V.

    Returns:
        Shape (B, W, V), bool.
    """
    room = token_ids.new_zeros((*token_ids.shape[:2], vocabulary + 1), dtype=torch.bool)
    return room.scatter_(2, token_ids, True)[..., :vocabulary]
