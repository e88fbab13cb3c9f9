"""Long texts read by blocks of tokens, at a cost that grows as the text does (Zaheer et al. 2020).

The first and the last block of a text read all of it, and every block reads them. Any other block
reads itself and both its neighbours besides, and in training some blocks that are drawn (section
2, figure 1). Outside training the first block stands in for those that were drawn: it counts once
more for each, as in the reference. Short texts are read as a whole, every token by every token.

A text is read as if it were alone: how long the others of its batch are makes no difference.

Shapes: B batch, H heads, S length, K head width, N blocks of a text, R drawn blocks, G texts of one
number of blocks, C blocks that a block reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heedful.host import send, waits
from heedful.layers.attention import Mixed, attend
from heedful.layers.blockwise import attend_by_blocks

_PUBLISHED = (1024, 3072, 4096)
"""Lengths for which the published models draw from the first 1,024 tokens in another way."""
_NEAR = 1024


class Text(NamedTuple):
    """Where a text stands in a batch."""

    row: int
    start: int
    length: int


class Texts(NamedTuple):
    """The texts of a batch; tokens attend to those of their own text."""

    starts: Tensor
    """Where the text of each token starts in its row. Shape (B, S), or (B, 1) where each row is one
    text."""
    lengths: Tensor
    """How long it is. The same shape."""
    each: tuple[Text, ...]
    """One after the other; empty while a model is exported, when they cannot be told."""
    plain: bool
    """Whether they can be told, and all tokens of one may attend to the same."""


def texts_of(mask: Tensor | None, tokens: Tensor) -> Texts:
    """Tell which texts stand in a batch.

    Args:
        mask: bool, True where a query may attend. Shape (B, 1, 1, S), or (B, 1, S, S): then the
            texts of a row may be kept apart, or else a row is one text. It may be in the host's
            memory where the tokens are on a device.
        tokens: ids or vectors. Shape (B, S, ...).
    """
    batch, size = tokens.shape[:2]
    device = torch.device("cpu") if mask is None else mask.device
    starts = torch.zeros(batch, 1, dtype=torch.int64, device=device)
    lengths = starts + size
    plain = not torch.compiler.is_compiling()
    if mask is not None and mask.shape[2] == 1:
        numbers = torch.arange(1, size + 1, device=device)
        lengths = (mask[:, 0, 0] * numbers).amax(1, keepdim=True)  # up to the last token
    elif mask is not None and plain:
        rows = mask[:, 0].byte()
        first = rows.argmax(2)  # (B, S)
        plain = not bool((mask[:, 0] & (first[:, :, None] != first[:, None])).any())
        if plain:
            starts = first
            lengths = (size - rows.flip(2).argmax(2) - first).gather(1, first)
    if torch.compiler.is_compiling():
        return Texts(starts.to(tokens.device), lengths.to(tokens.device), (), plain)
    each = [
        Text(row, start, max(length, 1))
        for row, pairs in enumerate(torch.stack([starts, lengths], 2).tolist())
        for start, length in dict.fromkeys(map(tuple, pairs))
    ]
    return Texts(send(starts, tokens.device), send(lengths, tokens.device), tuple(each), plain)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSparse:
    """How one block of a model reads long texts."""

    size: int
    """Tokens of a block of text."""
    num_random: int
    """R."""
    num_heads: int
    """H, those that were pruned included."""
    positions: int
    """The most tokens that the model takes, which some draws depend on."""
    number: int = 0
    """The number of the model's block; each draws otherwise, but always the same."""

    @property
    def longest_whole(self) -> int:
        """The most tokens of a text that is read as a whole."""
        return (5 + 2 * self.num_random) * self.size

    def applies(self, query: Tensor, key: Tensor) -> bool:
        """Tell whether a text may be too long to be read as a whole.

        A query that stands alone is the first of its text, which reads all of it.
        """
        if query.shape[2] == 1 or torch.compiler.is_compiling():
            return query.shape[2] != 1
        return self.longest_whole < key.shape[2] == query.shape[2]

    def blocks(self, length: int) -> int:
        """Return N for a text of some tokens; 0 if it is read as a whole."""
        return 0 if length <= self.longest_whole else -(-length // self.size)

    def drawn(self, blocks: int) -> NDArray[np.int64]:
        """Return which blocks each head of each inner block reads besides, in training.

        Args:
            blocks: N.

        Returns:
            Shape (H, N - 2, R).
        """
        return _drawn(self, blocks)

    def counts(self, texts: Texts, size: int, *, heads: Sequence[int], training: bool) -> Tensor:
        """Return how often each token reads each token. Shape (B, 1 or H, S, S), int64.

        Args:
            texts: of the batch.
            size: S.
            heads: the numbers of the heads that are left.
            training: whether blocks are drawn.
        """
        numbers = torch.arange(size, device=texts.starts.device)
        starts, lengths = texts.starts[..., None], texts.lengths[..., None]  # (B, 1 or S, 1)
        row = (numbers[:, None] - starts) // self.size  # (B, S, 1)
        column = (numbers - starts) // self.size  # (B, 1 or S, S)
        last = (lengths - 1) // self.size
        inner = (row > 0) & (row < last)
        near = ((row - column).abs() <= 1) | (column == 0) | (column == last)
        counts = (near | ~inner).long()[:, None]
        if not training:
            counts = counts + self.num_random * (inner & (column == 0)).long()[:, None]
        elif self.num_random:
            counts = counts.repeat(1, len(heads), 1, 1)
            for text in texts.each:
                if blocks := self.blocks(text.length):
                    inside = slice(text.start, text.start + text.length)
                    more = self._read_besides(blocks, heads).to(counts.device)
                    more = more.repeat_interleave(self.size, 1).repeat_interleave(self.size, 2)
                    counts[text.row, :, inside, inside] += more[:, : text.length, : text.length]
        return torch.where((lengths <= self.longest_whole)[:, None], 1, counts)

    def _read_besides(self, blocks: int, heads: Sequence[int]) -> Tensor:
        """Return how often each block reads each because it was drawn. Shape (H, N, N)."""
        drawn = torch.from_numpy(self.drawn(blocks))[list(heads)]  # (H, N - 2, R)
        counts = torch.zeros(len(heads), blocks, blocks, dtype=torch.int64)
        counts[:, 1:-1].scatter_add_(2, drawn, torch.ones_like(drawn))
        return counts

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        heads: Sequence[int],
        texts: Texts,
        mask: Tensor | None,
        dropout: float,
        training: bool,
        need_weights: bool,
    ) -> Mixed:
        """Mix values as ``attention.attend`` does, of what a token reads. Shape (B, H, S, K).

        As in the reference, dropout takes part in texts that are read as a whole, and in no others.

        Args:
            query: shape (B, H, S, K).
            key: the same.
            value: the same.
            heads: the numbers of these heads.
            texts: of the batch.
            mask: bool, broadcastable to (B, 1, S, S).
            dropout: probability with which a weight is dropped.
            training: whether blocks are drawn.
            need_weights: whether to return the weights.
        """
        if need_weights or not texts.plain:
            counts = self.counts(texts, query.shape[2], heads=heads, training=training)
            reads = counts > 0
            bias = counts.clamp(min=1).to(query.dtype).log()
            mask = reads if mask is None else mask & reads
            return attend(query, key, value, mask=mask, bias=bias, need_weights=need_weights)
        alike: dict[int, list[Text]] = {}
        for text in texts.each:
            alike.setdefault(self.blocks(text.length), []).append(text)
        results: dict[Text, Tensor] = {}
        for blocks, group in alike.items():
            size = blocks * self.size or max(text.length for text in group)
            parts = [_cut(states, group, size) for states in (query, key, value)]
            real = _cut_mask(mask, group, size, query.device)
            if blocks:
                mixed = self._by_blocks(*parts, heads=heads, mask=real, training=training)
            else:
                mixed = attend(*parts, mask=real, dropout=dropout).values
            if len(alike) == 1 and _are_rows(group, query):
                return Mixed(_fitted(mixed, query.shape[2]), None, "blocks")
            results |= zip(group, mixed, strict=True)
        return Mixed(_put_back(results, query), None, "blocks")

    def attend_alone(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Do the same outside training for texts of one length, without padding.

        Args:
            query: shape (B, H, S, K), S more than ``longest_whole``.
            key: the same.
            value: the same.

        Returns:
            The same shape.
        """
        length = query.shape[2]
        size = self.blocks(length) * self.size
        mask = None
        if size > length:
            mask = (torch.arange(size, device=query.device) < length)[None, None, None]
        parts = (_fitted(states, size) for states in (query, key, value))
        heads = range(query.shape[1])
        return self._by_blocks(*parts, heads=heads, mask=mask, training=False)[:, :, :length]

    def _by_blocks(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        heads: Sequence[int],
        mask: Tensor | None,
        training: bool,
    ) -> Tensor:
        if not training:
            first = 1 + self.num_random
            return attend_by_blocks(query, key, value, size=self.size, first=first, mask=mask)
        drawn = torch.from_numpy(self.drawn(query.shape[2] // self.size))[list(heads)]
        return attend_by_blocks(query, key, value, size=self.size, mask=mask, drawn=drawn)


def _are_rows(group: Sequence[Text], states: Tensor) -> bool:
    """Tell whether texts are the rows of a batch."""
    rows = [(text.row, text.start) for text in group]
    return rows == [(row, 0) for row in range(len(states))]


def _fitted(states: Tensor, size: int) -> Tensor:
    """Cut or fill up texts of shape (G, H, S, K) to a length."""
    more = size - states.shape[2]
    return states[:, :, :size] if more <= 0 else F.pad(states, (0, 0, 0, more))


def _cut(states: Tensor, group: Sequence[Text], size: int) -> Tensor:
    """Cut texts out of a batch, shape (B, H, S, K), and pad them. Shape (G, H, size, K)."""
    if _are_rows(group, states):
        return _fitted(states, size)
    texts = [states[row, :, start : start + length] for row, start, length in group]
    return torch.stack([F.pad(text, (0, 0, 0, size - text.shape[1])) for text in texts])


def _cut_mask(
    mask: Tensor | None, group: Sequence[Text], size: int, device: torch.device
) -> Tensor | None:
    """Return True for tokens, False for padding, (G, 1, 1, size); None if there is no padding."""
    lengths = torch.tensor([text.length for text in group])
    real = send(torch.arange(size) < lengths[:, None], device)
    if mask is not None:
        rows = [
            mask[row, 0, start if mask.shape[2] > 1 else 0, start : start + length]
            for row, start, length in group
        ]
        real = real & torch.stack([F.pad(row, (0, size - len(row))) for row in rows])
    return None if not waits(device) and real.all() else real[:, None, None]


def _put_back(results: Mapping[Text, Tensor], states: Tensor) -> Tensor:
    """Lay out what texts got, each of shape (H, ..., K), as their batch. Shape (B, H, S, K)."""
    rows = []
    for row in range(len(states)):
        of_row = sorted((text for text in results if text.row == row), key=lambda text: text.start)
        parts = [results[text][:, : text.length] for text in of_row]
        rows.append(_fitted(torch.cat(parts, 1)[None], states.shape[2]))
    return torch.cat(rows)


@lru_cache(maxsize=1024)
def _drawn(sparse: BlockSparse, blocks: int) -> NDArray[np.int64]:
    if blocks * sparse.size in _PUBLISHED:
        drawn = _near_the_start(sparse, blocks)
        if drawn is not None:
            return drawn
    return _anywhere(sparse, blocks)


def _anywhere(sparse: BlockSparse, blocks: int) -> NDArray[np.int64]:
    """Draw from the first 5 + 2R blocks, but those that are read anyway."""
    dice = np.random.RandomState(sparse.number)
    count, end = sparse.num_random, 5 + 2 * sparse.num_random
    drawn = np.zeros((sparse.num_heads, blocks - 2, count), dtype=np.int64)
    for row in range(1, blocks - 1):
        read = {0, end - 1, row - 1, row, row + 1}
        # The reference's ends of what is drawn from.
        read |= {1: {end - 2}, end - 2: {1}}.get(row, set())
        for head in range(sparse.num_heads):
            order = dice.permutation(np.arange(end, dtype=np.int32)).tolist()
            drawn[head, row - 1] = [block for block in order if block not in read][:count]
    return drawn


def _near_the_start(sparse: BlockSparse, blocks: int) -> NDArray[np.int64] | None:
    """Draw from the first 1,024 tokens as the published models do; None where they are too few."""
    dice = np.random.RandomState(sparse.number)
    size, count, rows = sparse.size, sparse.num_random, sparse.positions // sparse.size
    end = _NEAR // size - 1 if 2 * size < _NEAR else rows - 1
    middle = np.arange(1, rows - 1, dtype=np.int32)
    if rows < blocks:
        return None
    drawn = np.zeros((sparse.num_heads, rows - 2, count), dtype=np.int64)
    for head in range(sparse.num_heads):
        for row in range(1, rows - 1):
            if row <= 2:
                allowed = middle[row + 1 : end]
            elif row >= rows - 3 or row - 2 > end:
                allowed = middle[:end]
            elif row + 1 == end:
                allowed = middle[: row - 2]
            else:
                allowed = np.concatenate((middle[: row - 2], middle[row + 1 : end]))
            if len(allowed) < count:
                return None
            drawn[head, row - 1] = dice.permutation(allowed)[:count]
    return drawn[:, : blocks - 2]
