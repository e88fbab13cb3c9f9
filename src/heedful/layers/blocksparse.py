"""Block-sparse attention, whose cost is linear in the text length (Zaheer et al. 2020, BigBird).

The first and the last block of a text are global: they attend to all blocks, and all blocks attend
to them. Every other block also attends to itself and its two neighbours, and in training to R
random blocks (section 2, figure 1). Outside training the first block replaces the random blocks: it
counts once more for each of them, as in the reference. Short texts use full attention.

A text's result does not depend on the length of the other texts in its batch.

Shapes: B batch, H heads, S length, K head width, N blocks of a text, R random blocks, G texts with
the same number of blocks, C blocks that a block attends to.
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

from heedful.device_transfer import blocks_host, copy_to_device
from heedful.layers.attention import AttentionOutput, attend
from heedful.layers.blockwise import attend_by_blocks

_PUBLISHED = (1024, 3072, 4096)
"""Lengths at which the published models use another rule to draw from the first 1,024 tokens."""
_NEAR = 1024


class Text(NamedTuple):
    """Location of a text in a batch."""

    row: int
    start: int
    length: int


class Texts(NamedTuple):
    """The texts of a batch. Tokens attend within their own text."""

    starts: Tensor
    """Start of each token's text in its row. Shape (B, S), or (B, 1) if each row is one text."""
    lengths: Tensor
    """Length of each token's text. The same shape as ``starts``."""
    each: tuple[Text, ...]
    """All texts in order; empty during an export, which cannot determine them."""
    block_diagonal: bool
    """Whether the texts are known, and all tokens of a text may attend to the same keys."""


def texts_of(mask: Tensor | None, tokens: Tensor) -> Texts:
    """Return the texts of a batch.

    Args:
        mask: bool, True where a query may attend. Shape (B, 1, 1, S) if each row is one text, or
            (B, 1, S, S), which may separate several texts in a row. The mask may be on the host
            while the tokens are on a device.
        tokens: token ids or embeddings. Shape (B, S, ...).
    """
    batch, size = tokens.shape[:2]
    device = torch.device("cpu") if mask is None else mask.device
    starts = torch.zeros(batch, 1, dtype=torch.int64, device=device)
    lengths = starts + size
    plain = not torch.compiler.is_compiling()
    if mask is not None and mask.shape[2] == 1:
        numbers = torch.arange(1, size + 1, device=device)
        lengths = (mask[:, 0, 0] * numbers).amax(1, keepdim=True)  # including the last token
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
    return Texts(
        copy_to_device(starts, tokens.device),
        copy_to_device(lengths, tokens.device),
        tuple(each),
        plain,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSparse:
    """Block-sparse attention of one block of a model."""

    block_size: int
    """Tokens per block of text."""
    num_random: int
    """R."""
    num_heads: int
    """H, including pruned heads."""
    positions: int
    """The maximum length of the model, which some random draws depend on."""
    number: int = 0
    """Index of the model's block. It seeds the random blocks, which are fixed for each index."""

    @property
    def max_full_length(self) -> int:
        """The longest text that uses full attention, in tokens."""
        return (5 + 2 * self.num_random) * self.block_size

    def applies(self, query: Tensor, key: Tensor) -> bool:
        """Return whether a text may be too long for full attention.

        A single query is the first token of its text, which attends to all tokens.
        """
        if query.shape[2] == 1 or torch.compiler.is_compiling():
            return query.shape[2] != 1
        return self.max_full_length < key.shape[2] == query.shape[2]

    def blocks(self, length: int) -> int:
        """Return N for a text of the given length; 0 if it uses full attention."""
        return 0 if length <= self.max_full_length else -(-length // self.block_size)

    def drawn(self, blocks: int) -> NDArray[np.int64]:
        """Return the random blocks that each head of each inner block attends to in training.

        Args:
            blocks: N.

        Returns:
            Shape (H, N - 2, R).
        """
        return _drawn(self, blocks)

    def counts(self, texts: Texts, size: int, *, heads: Sequence[int], training: bool) -> Tensor:
        """Return how often each query counts each key. Shape (B, 1 or H, S, S), int64.

        Args:
            texts: the texts of the batch.
            size: S.
            heads: indices of the remaining heads.
            training: whether to use random blocks.
        """
        numbers = torch.arange(size, device=texts.starts.device)
        starts, lengths = texts.starts[..., None], texts.lengths[..., None]  # (B, 1 or S, 1)
        row = (numbers[:, None] - starts) // self.block_size  # (B, S, 1)
        column = (numbers - starts) // self.block_size  # (B, 1 or S, S)
        last = (lengths - 1) // self.block_size
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
                    extra = self._random_counts(blocks, heads).to(counts.device)
                    extra = extra.repeat_interleave(self.block_size, 1).repeat_interleave(
                        self.block_size, 2
                    )
                    counts[text.row, :, inside, inside] += extra[:, : text.length, : text.length]
        return torch.where((lengths <= self.max_full_length)[:, None], 1, counts)

    def _random_counts(self, blocks: int, heads: Sequence[int]) -> Tensor:
        """Return how often each block counts each block as a random one. Shape (H, N, N)."""
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
    ) -> AttentionOutput:
        """Compute block-sparse attention; see ``attention.attend``. Shape (B, H, S, K).

        As in the reference, dropout only applies to texts with full attention.

        Args:
            query: shape (B, H, S, K).
            key: shape (B, H, S, K).
            value: shape (B, H, S, K).
            heads: indices of the H heads.
            texts: the texts of the batch.
            mask: bool, broadcastable to (B, 1, S, S).
            dropout: dropout probability of the weights.
            training: whether to use random blocks.
            need_weights: whether to return the weights.
        """
        if need_weights or not texts.block_diagonal:
            counts = self.counts(texts, query.shape[2], heads=heads, training=training)
            allowed = counts > 0
            bias = counts.clamp(min=1).to(query.dtype).log()
            mask = allowed if mask is None else mask & allowed
            return attend(query, key, value, mask=mask, bias=bias, need_weights=need_weights)
        groups: dict[int, list[Text]] = {}
        for text in texts.each:
            groups.setdefault(self.blocks(text.length), []).append(text)
        results: dict[Text, Tensor] = {}
        for blocks, group in groups.items():
            size = blocks * self.block_size or max(text.length for text in group)
            parts = [_extract(states, group, size) for states in (query, key, value)]
            token_mask = _extract_mask(mask, group, size, query.device)
            if blocks:
                mixed = self._by_blocks(*parts, heads=heads, mask=token_mask, training=training)
            else:
                mixed = attend(*parts, mask=token_mask, dropout=dropout).values
            if len(groups) == 1 and _are_rows(group, query):
                return AttentionOutput(_resize(mixed, query.shape[2]), None, "blocks")
            results |= zip(group, mixed, strict=True)
        return AttentionOutput(_assemble(results, query), None, "blocks")

    def attend_alone(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Compute block-sparse attention outside training, for texts of one length, unpadded.

        Args:
            query: shape (B, H, S, K), S greater than ``max_full_length``.
            key: shape (B, H, S, K).
            value: shape (B, H, S, K).

        Returns:
            Shape (B, H, S, K).
        """
        length = query.shape[2]
        size = self.blocks(length) * self.block_size
        mask = None
        if size > length:
            mask = (torch.arange(size, device=query.device) < length)[None, None, None]
        parts = (_resize(states, size) for states in (query, key, value))
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
            return attend_by_blocks(query, key, value, size=self.block_size, first=first, mask=mask)
        drawn = torch.from_numpy(self.drawn(query.shape[2] // self.block_size))[list(heads)]
        return attend_by_blocks(query, key, value, size=self.block_size, mask=mask, drawn=drawn)


def _are_rows(group: Sequence[Text], states: Tensor) -> bool:
    """Return whether the texts are exactly the rows of the batch."""
    rows = [(text.row, text.start) for text in group]
    return rows == [(row, 0) for row in range(len(states))]


def _resize(states: Tensor, size: int) -> Tensor:
    """Truncate or pad texts of shape (G, H, S, K) to a length."""
    extra = size - states.shape[2]
    return states[:, :, :size] if extra <= 0 else F.pad(states, (0, 0, 0, extra))


def _extract(states: Tensor, group: Sequence[Text], size: int) -> Tensor:
    """Extract texts from a batch, shape (B, H, S, K), and pad them. Shape (G, H, size, K)."""
    if _are_rows(group, states):
        return _resize(states, size)
    texts = [states[row, :, start : start + length] for row, start, length in group]
    return torch.stack([F.pad(text, (0, 0, 0, size - text.shape[1])) for text in texts])


def _extract_mask(
    mask: Tensor | None, group: Sequence[Text], size: int, device: torch.device
) -> Tensor | None:
    """Return the padding mask, True for tokens, (G, 1, 1, size); None without padding."""
    lengths = torch.tensor([text.length for text in group])
    token_mask = copy_to_device(torch.arange(size) < lengths[:, None], device)
    if mask is not None:
        rows = [
            mask[row, 0, start if mask.shape[2] > 1 else 0, start : start + length]
            for row, start, length in group
        ]
        token_mask = token_mask & torch.stack([F.pad(row, (0, size - len(row))) for row in rows])
    return None if not blocks_host(device) and token_mask.all() else token_mask[:, None, None]


def _assemble(results: Mapping[Text, Tensor], states: Tensor) -> Tensor:
    """Assemble the texts' results, each of shape (H, ..., K), into a batch. Shape (B, H, S, K)."""
    rows = []
    for row in range(len(states)):
        row_texts = sorted(
            (text for text in results if text.row == row), key=lambda text: text.start
        )
        parts = [results[text][:, : text.length] for text in row_texts]
        rows.append(_resize(torch.cat(parts, 1)[None], states.shape[2]))
    return torch.cat(rows)


@lru_cache(maxsize=1024)
def _drawn(sparse: BlockSparse, blocks: int) -> NDArray[np.int64]:
    if blocks * sparse.block_size in _PUBLISHED:
        drawn = _draw_near_start(sparse, blocks)
        if drawn is not None:
            return drawn
    return _draw_anywhere(sparse, blocks)


def _draw_anywhere(sparse: BlockSparse, blocks: int) -> NDArray[np.int64]:
    """Draw from the first 5 + 2R blocks, without those that the block attends to anyway."""
    rng = np.random.RandomState(sparse.number)
    count, end = sparse.num_random, 5 + 2 * sparse.num_random
    drawn = np.zeros((sparse.num_heads, blocks - 2, count), dtype=np.int64)
    for row in range(1, blocks - 1):
        excluded = {0, end - 1, row - 1, row, row + 1}
        # As in the reference, blocks 1 and end - 2 do not attend to each other.
        excluded |= {1: {end - 2}, end - 2: {1}}.get(row, set())
        for head in range(sparse.num_heads):
            order = rng.permutation(np.arange(end, dtype=np.int32)).tolist()
            drawn[head, row - 1] = [block for block in order if block not in excluded][:count]
    return drawn


def _draw_near_start(sparse: BlockSparse, blocks: int) -> NDArray[np.int64] | None:
    """Draw from the first 1,024 tokens like the published models; None if they are too few."""
    rng = np.random.RandomState(sparse.number)
    size, count, rows = sparse.block_size, sparse.num_random, sparse.positions // sparse.block_size
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
            drawn[head, row - 1] = rng.permutation(allowed)[:count]
    return drawn[:, : blocks - 2]
