"""Recurrent layers: an encoder that reads both ways, and a decoder that attends at each step.

Shapes: B batch, E source length, S target length, I width of what comes in, H width of a state, D
width of what is attended to, G gates of the cell times H, A width of the comparison.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.layers.additive import AdditiveAttention, Memory
from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear
from heedful.layers.repeated import Repeated, repeated

CELLS = {"gru": 3, "lstm": 4}
"""The kinds of cells (Cho et al. 2014; Hochreiter and Schmidhuber 1997) and their gates: those of
``nn.GRU`` (reset, update, new) and ``nn.LSTM`` (input, forget, new, output), in that order."""


class Encoded(NamedTuple):
    """What an encoder returns."""

    states: Tensor
    """Of both directions side by side; zeros at padding. Shape (B, E, 2 H)."""
    last: Tensor
    """Of the backward direction at the first token, the last that it reads. Shape (B, H)."""


class Direction(nn.Module):
    """Reads sequences in one direction.

    Args:
        input_width: I.
        width: H.
        cell: a name in ``CELLS``.
        backwards: whether to start at the last token.
    """

    def __init__(self, input_width: int, width: int, cell: str, *, backwards: bool) -> None:
        super().__init__()
        self.cell = cell
        self.backwards = backwards
        self.input = Linear(input_width, CELLS[cell] * width)
        self.hidden = Linear(width, CELLS[cell] * width)

    def forward(self, vectors: Tensor, real: Tensor) -> list[Tensor]:
        """Return the state after each token, shape (B, H), in the order of the tokens.

        Args:
            vectors: shape (E, B, I).
            real: 1 for a token and 0 for padding after the last. Shape (E, B, 1).
        """
        steps, rows = vectors.shape[:2]
        pairs = list(zip(self.input(vectors).unbind(), real.unbind(), strict=True))
        from_state = repeated(self.hidden, steps, rows)
        hidden = vectors.new_zeros(rows, self.hidden.in_features)
        cell = None if self.cell == "gru" else hidden
        states = []
        for from_input, is_real in reversed(pairs) if self.backwards else pairs:
            hidden, cell = advance(from_input, from_state(hidden), hidden, cell)
            # Backwards, the padding comes first: the state stays zeros until it ends.
            hidden, cell = hidden * is_real, None if cell is None else cell * is_real
            states.append(hidden)
        return states[::-1] if self.backwards else states


class BidirectionalEncoder(nn.Module):
    """Reads forwards and backwards (Bahdanau et al. 2015, section 3.2).

    Args:
        input_width: I.
        width: H of each direction.
        cell: a name in ``CELLS``.
    """

    def __init__(self, input_width: int, width: int, cell: str) -> None:
        super().__init__()
        self.forwards = Direction(input_width, width, cell, backwards=False)
        self.backwards = Direction(input_width, width, cell, backwards=True)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Encoded:
        """Read sequences; padding changes nothing, the backward direction starts at the last token.

        Args:
            vectors: shape (B, E, I).
            lengths: how many of a sequence's vectors are no padding. Shape (B,).
        """
        vectors = vectors.transpose(0, 1)  # (E, B, I)
        positions = torch.arange(len(vectors), device=vectors.device)
        real = (positions[:, None] < lengths).to(vectors.dtype)[..., None]  # (E, B, 1)
        forwards, backwards = self.forwards(vectors, real), self.backwards(vectors, real)
        states = torch.cat([torch.stack(forwards, 1), torch.stack(backwards, 1)], 2)
        return Encoded(states, backwards[0])


class Carry(NamedTuple):
    """What a step of a decoder hands to the next."""

    hidden: Tensor
    """Shape (B, H)."""
    cell: Tensor | None
    """What an LSTM keeps to itself. Shape (B, H)."""
    context: Tensor
    """What the last step mixed of what it attended to. Shape (B, D)."""

    def select(self, rows: Tensor) -> "Carry":
        """Return the sequences of the given numbers, shape (N,), any of them several times."""
        cell = None if self.cell is None else self.cell.index_select(0, rows)
        return Carry(self.hidden.index_select(0, rows), cell, self.context.index_select(0, rows))


class Decoded(NamedTuple):
    """What the steps of a decoder return, from the first to the last."""

    hidden: Tensor
    """Shape (S, B, H)."""
    contexts: Tensor
    """Shape (S, B, D)."""
    weights: Tensor
    """How much each step attended to each state. Shape (S, B, E)."""
    carry: Carry
    """What the last of them hands on."""


class AttentiveDecoder(nn.Module):
    """Writes a word at a time, looking each time at what was read.

    A step reads the last word and what the last step attended to (input feeding, Luong et al. 2015,
    section 3.3, of the context), and its new state asks the additive attention what to look at. In
    Bahdanau et al. 2015 (appendix A.2.2) the state before that asks, which has not seen the last
    word yet.

    Args:
        input_width: I, of a word's vector.
        width: H.
        memory_width: D.
        cell: a name in ``CELLS``.
    """

    def __init__(self, input_width: int, width: int, memory_width: int, cell: str) -> None:
        super().__init__()
        gates = CELLS[cell] * width
        self.cell = cell
        self.initial = Linear(width, width if cell == "gru" else 2 * width)
        self.word = Linear(input_width, gates)
        self.context = Linear(memory_width, gates, bias=False)
        self.hidden = Linear(width, gates)
        self.attention = AdditiveAttention(width, memory_width, width)

    def start(self, last: Tensor, memory: Memory) -> Carry:
        """Return what the first step starts from (Bahdanau et al. 2015, appendix A.2.2).

        Args:
            last: the encoder's last backward state. Shape (B, H).
            memory: what is attended to.
        """
        hidden, *cell = torch.tanh(self.initial(last)).chunk(1 if self.cell == "gru" else 2, 1)
        context = memory.values.new_zeros(len(last), memory.values.shape[2])
        return Carry(hidden, cell[0] if cell else None, context)

    def forward(self, vectors: Tensor, carry: Carry, memory: Memory) -> Decoded:
        """Take a step for each word.

        Args:
            vectors: of the words. Shape (B, S, I).
            carry: ``start``, or what the step before handed on.
            memory: what is attended to.
        """
        rows, steps = vectors.shape[:2]
        from_input = Repeated(self.context.weight, self.word(vectors.transpose(0, 1)))
        from_state = repeated(self.hidden, steps, rows)
        query = repeated(self.attention.query, steps, rows)
        hidden, cell, context = carry
        outputs = []
        for _ in range(steps):
            hidden, cell = advance(from_input(context), from_state(hidden), hidden, cell)
            context, weights = self.attention(query(hidden), memory)
            outputs.append((hidden, context, weights))
        states, contexts, attended = (torch.stack(parts) for parts in zip(*outputs, strict=True))
        return Decoded(states, contexts, attended, Carry(hidden, cell, context))


class Readout(nn.Module):
    """What a word is scored with: maxout (Bahdanau et al. 2015, appendix A.2.2, equation 14).

    Args:
        hidden_width: H.
        context_width: of what was attended to.
        width: M.
        dropout: probability with which a value is dropped in training.
    """

    def __init__(self, hidden_width: int, context_width: int, width: int, dropout: float) -> None:
        super().__init__()
        self.hidden = Linear(hidden_width, 2 * width)
        self.context = Linear(context_width, 2 * width, bias=False)
        self.word = Linear(width, 2 * width, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, context: Tensor, word: Tensor) -> Tensor:
        """Return shape (N, M).

        Args:
            hidden: the decoder's state. Shape (N, H).
            context: what it attends to. Shape (N, 2 H).
            word: the vector of the last word. Shape (N, M).
        """
        pairs = self.hidden(hidden) + self.context(context) + self.word(word)  # (N, 2 M)
        first, second = pairs.chunk(2, 1)
        dropped: Tensor = self.dropout(torch.maximum(first, second))
        return dropped


def advance(
    from_input: Tensor, from_state: Tensor, hidden: Tensor, cell: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the next state and, of an LSTM, the next cell, each of shape (B, H).

    Args:
        from_input: what the input adds to the gates. Shape (B, G).
        from_state: what the state before adds to them. Shape (B, G).
        hidden: the state before. Shape (B, H).
        cell: the cell before of an LSTM; None makes it a GRU. Shape (B, H).
    """
    if cell is None:
        return _gru(from_input, from_state, hidden), None
    return _lstm(from_input + from_state, cell)


def _gru(from_input: Tensor, from_state: Tensor, hidden: Tensor) -> Tensor:
    """Return the new state, shape (B, H), as ``nn.GRU`` does: the reset follows the product."""
    width = hidden.shape[1]
    input_gates, input_new = torch.split(from_input, [2 * width, width], 1)
    state_gates, state_new = torch.split(from_state, [2 * width, width], 1)
    reset, update = (input_gates + state_gates).sigmoid_().chunk(2, 1)
    new = torch.addcmul(input_new, reset, state_new).tanh_()
    return torch.lerp(new, hidden, update)


def _lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the new state and the new cell, each of shape (B, H), as ``nn.LSTM`` does."""
    enter, forget, new, output = gates.chunk(4, 1)
    cell = torch.addcmul(forget.sigmoid() * cell, enter.sigmoid(), new.tanh())
    return output.sigmoid() * cell.tanh(), cell
