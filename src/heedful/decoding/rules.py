"""A step of an on-device search: which hypotheses continue and which end.

A step runs the same operations on the same tensors each time and never reads a value on the host.
So it can be captured as a CUDA graph and replayed.

Shapes: B items in the search, W beam width, V vocabulary, T maximum number of tokens, E source
length, C candidates per hypothesis, R ranked candidates per item.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.decoding.options import Search, StaticDecoder, StepInput, length_divisor
from heedful.decoding.search_state import BeamState, Ranked


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rules:
    """The rules of a search, with their lookup tables on the device."""

    options: Search
    never: Tensor
    """Tokens that are never generated. Int64."""
    divisors: Tensor
    """Divisor of the total of a text, indexed by its length. Shape (T + 2,), float64."""
    best_divisors: Tensor
    """Divisor for the most favourable final length, indexed by the current length. Shape (T + 1,),
    float64."""

    @classmethod
    def of(cls, options: Search, device: torch.device) -> "Rules":
        """Compute the lookup tables for all lengths."""
        max_length = options.max_new_tokens
        divisors = [length_divisor(length, False, options) for length in range(max_length + 2)]
        best_divisors = [
            divisors[max_length] if options.length_penalty > 0 else each for each in divisors[1:]
        ]
        return cls(
            options=options,
            never=torch.tensor(options.never, dtype=torch.int64, device=device),
            divisors=torch.tensor(divisors, dtype=torch.float64, device=device),
            best_divisors=torch.tensor(best_divisors, dtype=torch.float64, device=device),
        )

    def advance(self, steps: StaticDecoder, state: BeamState, base: int) -> None:
        """Run one step for all items.

        Args:
            steps: returns the scores of the next tokens.
            state: the state, updated in place.
            base: first node of the step, minus W for each earlier step.
        """
        width = self.options.num_beams
        columns = torch.arange(width, device=state.last_tokens.device)
        nodes = base + state.num_tokens * width + columns  # (W,)
        state.node_mask |= nodes[:, None] == torch.arange(
            state.node_mask.shape[2], device=nodes.device
        )
        logits, attended = steps.step(
            StepInput(
                tokens=state.last_tokens,
                nodes=nodes,
                node_mask=state.node_mask,
                num_tokens=state.num_tokens,
            )
        )
        if attended is not None:
            state.coverage += attended
        ranked = self._rank(logits, state)
        coverage = self._coverage(state)
        active_items = ~state.done[:, None]
        needs_more = state.finished.count[:, None] < width
        continues = self._take_finished(ranked, state, coverage, active_items)
        lead = self._lead(ranked, continues, state)
        # An item that is done has no candidates any more, so its margin stays.
        state.margins.copy_(torch.minimum(state.margins, self._margins(ranked, lead)))
        last = state.num_tokens + 1 == self.options.max_new_tokens
        in_beam = torch.arange(continues.shape[1], device=columns.device) < width
        truncated = continues & in_beam & active_items & needs_more & last
        self._finish(ranked, state, coverage, truncated)
        keep = continues & active_items & (lead < 0)[:, None]
        state.done |= ~keep.any(1)
        _continue(ranked, state, keep)

    def _rank(self, logits: Tensor, state: BeamState) -> Ranked:
        """Rank the candidates of each item. In a tie, the better parent hypothesis comes first."""
        plain = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        penalised = self._penalise(plain, state)  # (B, W, V)
        width = self.options.num_beams
        token_ids, best = _top(penalised, min(width + 1, penalised.shape[2]))  # (B, W, C)
        scores = best.double()
        log_probabilities = plain.gather(2, token_ids).double()
        prefix = state.num_tokens.clamp(max=state.forced.shape[1] - 1)
        forced = state.forced.index_select(1, prefix[None])[..., None]  # (B, 1, 1)
        is_forced = forced >= 0
        forced = forced.clamp(min=0).expand(-1, width, 1)
        # With a forced token, only the first candidate counts, and it is that token.
        forced_scores = plain.gather(2, forced).double()
        is_first = torch.arange(token_ids.shape[2], device=logits.device) == 0
        log_probabilities = torch.where(is_forced, forced_scores, log_probabilities)
        scores = torch.where(is_forced, torch.where(is_first, forced_scores, -math.inf), scores)
        token_ids = torch.where(is_forced, forced, token_ids)
        state.has_nan |= (scores.isnan().any(2) & state.active & ~state.done[:, None]).any()
        grid = torch.where(state.active[..., None], state.totals[..., None] + scores, -math.inf)
        totals, order = grid.flatten(1).sort(descending=True, stable=True)
        totals, order = totals[:, : 2 * width + 1], order[:, : 2 * width + 1]
        parents = order // token_ids.shape[2]
        return Ranked(
            parents=parents,
            token_ids=token_ids.flatten(1).gather(1, order),
            totals=totals,
            log_probabilities=state.log_probabilities.gather(1, parents)
            + log_probabilities.flatten(1).gather(1, order),
        )

    def _penalise(self, plain: Tensor, state: BeamState) -> Tensor:
        """Return log-probabilities after penalties; -inf for tokens that are forbidden now.

        See ``candidates.penalise``.
        """
        options, number = self.options, state.num_tokens
        vocabulary = plain.shape[2]
        positions = torch.arange(state.tokens.shape[2], device=plain.device)  # (T,)
        penalised = plain
        if options.repetition_penalty != 1:
            earlier = torch.where(positions < number, state.tokens, vocabulary)
            repeated = _occurrence_mask(earlier, vocabulary)
            penalised = torch.where(repeated, plain * options.repetition_penalty, plain)
        if options.never:
            penalised = penalised.index_fill(2, self.never, -math.inf)
        if options.min_new_tokens:
            ids = torch.arange(vocabulary, device=plain.device)
            is_early_end = (ids == options.eos_token_id) & (number < options.min_new_tokens)
            penalised = penalised.masked_fill(is_early_end, -math.inf)
        size = options.no_repeat_ngram
        if 0 < size <= state.tokens.shape[2]:
            ngrams = state.tokens.unfold(2, size, 1)  # (B, W, starts, size)
            newest = (number - size + 1 + positions[: size - 1]).clamp(min=0)
            same = (ngrams[..., :-1] == state.tokens.index_select(2, newest)[:, :, None]).all(-1)
            same = same & (positions[: ngrams.shape[2]] <= number - size)
            repeated = _occurrence_mask(torch.where(same, ngrams[..., -1], vocabulary), vocabulary)
            penalised = penalised.masked_fill(repeated, -math.inf)
        return penalised

    def _coverage(self, state: BeamState) -> Tensor:
        """Return the coverage penalty of each hypothesis; see ``beam._coverage``. Shape (B, W)."""
        if not self.options.coverage_penalty:
            return torch.zeros_like(state.totals)
        tiny = torch.finfo(torch.float32).tiny
        logs = state.coverage.double().clamp(tiny, 1).log()
        return logs.sum(2) * self.options.coverage_penalty

    def _take_finished(
        self, ranked: Ranked, state: BeamState, coverage: Tensor, active_items: Tensor
    ) -> Tensor:
        """Finish the hypotheses that end inside the beam; return the mask of those that continue.

        Shape:
            (B, R).
        """
        width = self.options.num_beams
        allowed = ranked.totals > -math.inf
        ends = ranked.token_ids == self.options.eos_token_id
        continues = allowed & ~ends
        continues &= continues.cumsum(1) <= width
        in_beam = torch.arange(ends.shape[1], device=ends.device) < width
        self._finish(ranked, state, coverage, allowed & ends & in_beam & active_items)
        # If every next token is forbidden, the current hypotheses are the result.
        dead_end = ~continues.any(1) & (state.finished.count == 0)
        number = state.num_tokens.expand(state.totals.shape)
        state.finished.add(
            state.active & active_items & dead_end[:, None],
            tokens=state.tokens,
            lengths=number,
            ended=torch.zeros_like(state.active),
            log_probabilities=state.log_probabilities,
            scores=state.totals / self.divisors[number] + coverage,
        )
        return continues

    def _finish(self, ranked: Ranked, state: BeamState, coverage: Tensor, mask: Tensor) -> None:
        """Add the selected candidates to the finished texts. Shape of the mask: (B, R)."""
        ended = ranked.token_ids == self.options.eos_token_id
        rows = ranked.parents[..., None].expand(-1, -1, state.tokens.shape[2])
        tokens = state.tokens.gather(1, rows)
        # This writes the end token too, but it is never read.
        tokens.index_copy_(2, state.num_tokens[None], ranked.token_ids[..., None])
        length = state.num_tokens + 1  # includes the end token
        state.finished.add(
            mask,
            tokens=tokens,
            lengths=length - ended.long(),
            ended=ended,
            log_probabilities=ranked.log_probabilities,
            scores=ranked.totals / self.divisors.index_select(0, length[None])
            + coverage.gather(1, ranked.parents),
        )

    def _lead(self, ranked: Ranked, continues: Tensor, state: BeamState) -> Tensor:
        """Return the lead of each item's result; see ``beam._lead``. Shape (B,)."""
        finished, num_results = state.finished, self.options.num_return_sequences
        best = torch.where(continues, ranked.totals, -math.inf).amax(1)
        texts = torch.arange(finished.scores.shape[1], device=best.device)
        exists = texts < finished.count[:, None]
        worst = torch.where(exists, finished.scores, -math.inf).topk(num_results)
        column = worst.indices[:, -1:]
        lengths = (finished.lengths + finished.ended.long()).gather(1, column)[:, 0]
        best_divisors = self.best_divisors.index_select(0, state.num_tokens[None] + 1)
        lead = worst.values[:, -1] - best / best_divisors
        lead = lead * torch.minimum(best_divisors, self.divisors[lengths])
        lead = torch.where(finished.count >= num_results, lead, -math.inf)
        return torch.where(finished.count >= self.options.num_beams, math.inf, lead)

    def _margins(self, ranked: Ranked, lead: Tensor) -> Tensor:
        """Return the smallest difference of totals that decided anything; see ``beam._margins``.

        Shape:
            (B,).
        """
        width, ends = self.options.num_beams, ranked.token_ids == self.options.eos_token_id
        unfinished = torch.where(ends, -math.inf, ranked.totals).sort(1, descending=True).values
        margins = torch.where(lead >= 0, lead, math.inf)
        for totals in (ranked.totals, unfinished):
            if totals.shape[1] > width:
                inside, outside = totals[:, width - 1], totals[:, width]
                gap = torch.where(outside > -math.inf, inside - outside, math.inf)
                margins = torch.minimum(margins, gap)
        return margins


def _continue(ranked: Ranked, state: BeamState, keep: Tensor) -> None:
    """Make the kept candidates the hypotheses of the next step. Unused slots come last.

    Args:
        ranked: the candidates.
        state: the state, updated in place.
        keep: mask of the candidates that continue; at most W per item. Shape (B, R).
    """
    width = state.totals.shape[1]
    column = torch.where(keep, keep.cumsum(1) - 1, width)  # the last column is never read

    def compact(values: Tensor) -> Tensor:
        padded = values.new_zeros(len(values), width + 1)
        return padded.scatter_(1, column, values)[:, :width]

    parents = compact(ranked.parents)
    state.last_tokens.copy_(compact(ranked.token_ids))
    state.totals.copy_(compact(ranked.totals))
    state.log_probabilities.copy_(compact(ranked.log_probabilities))
    columns = torch.arange(width, device=keep.device)
    state.active.copy_(columns < keep.sum(1, keepdim=True))
    for tensor in (state.tokens, state.node_mask, state.coverage):
        tensor.copy_(tensor.gather(1, parents[..., None].expand(tensor.shape)))
    state.tokens.index_copy_(2, state.num_tokens[None], state.last_tokens[..., None])
    state.num_tokens += 1


_CHUNK = 1024
"""Chunk size of the two-stage top-k on a GPU."""


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the indices and values of the largest scores, largest first. Shape (B, W, count).

    On a GPU, a single top-k over tens of thousands of scores takes many times as long.
    """
    if scores.device.type == "cpu" or count > _CHUNK // 4 or scores.shape[2] <= 4 * _CHUNK:
        values, indices = scores.topk(count)
        return indices, values
    return chunked_topk(scores, count)


def chunked_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the same as `_top`: the top-k of each chunk, then the top-k of the results.

    Args:
        scores: shape (B, W, V).
        count: k.
    """
    size = scores.shape[2]
    chunks = F.pad(scores, (0, -size % _CHUNK), value=-math.inf)
    chunks = chunks.view(*scores.shape[:2], -1, _CHUNK)
    values, indices = chunks.topk(count, sorted=False)  # (B, W, chunks, count)
    indices = indices + _CHUNK * torch.arange(indices.shape[2], device=indices.device)[:, None]
    values, order = values.flatten(2).topk(count)
    # Padding is selected only if all remaining tokens are forbidden too.
    return indices.flatten(2).gather(2, order).clamp(max=size - 1), values


def _occurrence_mask(token_ids: Tensor, vocabulary: int) -> Tensor:
    """Return the mask of the vocabulary tokens that occur in ``token_ids``; V means no token.

    Args:
        token_ids: shape (B, W, N).
        vocabulary: V.

    Returns:
        Shape (B, W, V), bool.
    """
    mask = token_ids.new_zeros((*token_ids.shape[:2], vocabulary + 1), dtype=torch.bool)
    return mask.scatter_(2, token_ids, True)[..., :vocabulary]
