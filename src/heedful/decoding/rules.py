"""A step of a search that stays on a device: how hypotheses go on and end.

It reads and writes the tensors of a board, always in the same way, and never asks for a number. So
a GPU can record it, and play it again.

Shapes: B items that are searched, W beam, V vocabulary, T most tokens of a text, E source length, C
candidates of a hypothesis, R ranked candidates of an item.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.decoding.board import Board, Ranked
from heedful.decoding.options import FixedSteps, Newest, Search, length_divisor


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rules:
    """How hypotheses go on and end, with what of it is looked up on the device."""

    options: Search
    never: Tensor
    """The tokens that are never generated. Int64."""
    divisors: Tensor
    """What the score of a text is divided by, by its length. Shape (T + 2,), float64."""
    kindest: Tensor
    """The same of the most favourable length that a hypothesis of each length can come to."""

    @classmethod
    def of(cls, options: Search, device: torch.device) -> "Rules":
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

    def advance(self, steps: FixedSteps, board: Board, base: int) -> None:
        """Take a step with all items.

        Args:
            steps: score the next tokens.
            board: what is kept; written to.
            base: where the nodes of a step begin, less W for each step before it.
        """
        width = self.options.num_beams
        columns = torch.arange(width, device=board.newest.device)
        nodes = base + board.number * width + columns  # (W,)
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
        # Of an item that is done nothing is ranked any more, so its margin stays.
        board.margins.copy_(torch.minimum(board.margins, self._margins(ranked, lead)))
        last = board.number + 1 == self.options.max_new_tokens
        lacking = board.finished.count[:, None] < width
        self._finish(ranked, board, coverage, goes_on & searched & lacking & last)
        keep = goes_on & searched & (lead < 0)[:, None]
        board.done |= ~keep.any(1)
        _go_on(ranked, board, keep)

    def _rank(self, logits: Tensor, board: Board) -> Ranked:
        """Rank the candidates of each item; of equal ones, those of the better hypothesis first."""
        plain = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        penalised = self._penalise(plain, board)  # (B, W, V)
        width = self.options.num_beams
        token_ids, best = _top(penalised, min(width + 1, penalised.shape[2]))  # (B, W, C)
        scores = best.double()
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
        return Ranked(
            parents=parents,
            token_ids=token_ids.flatten(1).gather(1, order),
            totals=totals,
            log_probabilities=board.log_probabilities.gather(1, parents)
            + log_probabilities.flatten(1).gather(1, order),
        )

    def _penalise(self, plain: Tensor, board: Board) -> Tensor:
        """Return log-probabilities after penalties, -inf for tokens that are forbidden now.

        See ``candidates.penalise``.
        """
        options, number = self.options, board.number
        vocabulary = plain.shape[2]
        places = torch.arange(board.tokens.shape[2], device=plain.device)  # (T,)
        penalised = plain
        if options.repetition_penalty != 1:
            earlier = torch.where(places < number, board.tokens, vocabulary)
            repeated = _among(earlier, vocabulary)
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

    def _coverage(self, board: Board) -> Tensor:
        """Return the coverage penalty of each hypothesis; see ``beam._coverage``. Shape (B, W)."""
        if not self.options.coverage_penalty:
            return torch.zeros_like(board.totals)
        tiny = torch.finfo(torch.float32).tiny
        logs = board.coverage.double().clamp(tiny, 1).log()
        return logs.sum(2) * self.options.coverage_penalty

    def _take_finished(
        self, ranked: Ranked, board: Board, coverage: Tensor, searched: Tensor
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

    def _finish(self, ranked: Ranked, board: Board, coverage: Tensor, which: Tensor) -> None:
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

    def _lead(self, ranked: Ranked, goes_on: Tensor, board: Board) -> Tensor:
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

    def _margins(self, ranked: Ranked, lead: Tensor) -> Tensor:
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


def _go_on(ranked: Ranked, board: Board, keep: Tensor) -> None:
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


_PART = 1024
"""Numbers of which a GPU finds the largest in one go."""


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the places and values of the largest numbers, the largest first. Shape (B, W, count).

    A GPU takes many times as long to look for the largest of tens of thousands at once.
    """
    if scores.device.type == "cpu" or count > _PART // 4 or scores.shape[2] <= 4 * _PART:
        values, places = scores.topk(count)
        return places, values
    return top_of_parts(scores, count)


def top_of_parts(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the same by those of each part, and then those of all parts.

    Args:
        scores: shape (B, W, V).
        count: of what is looked for.
    """
    size = scores.shape[2]
    parts = F.pad(scores, (0, -size % _PART), value=-math.inf)
    parts = parts.view(*scores.shape[:2], -1, _PART)
    values, places = parts.topk(count, sorted=False)  # (B, W, parts, count)
    places = places + _PART * torch.arange(places.shape[2], device=places.device)[:, None]
    values, order = values.flatten(2).topk(count)
    # What is filled up with is among them only where the rest is forbidden, too.
    return places.flatten(2).gather(2, order).clamp(max=size - 1), values


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
