"""Recurrent layers: a bidirectional encoder, and a decoder with attention.

Shapes: B batch, E source length, S target length, I input width, H state width, D width of the
encoder states, G number of gates times H, A attention width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.layers.additive import AdditiveAttention, KeysAndValues
from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear
from heedful.layers.stepwise import StepwiseLinear, stepwise

CELLS = {"gru": 3, "lstm": 4}
"""The cells (Cho et al. 2014; Hochreiter and Schmidhuber 1997) and their numbers of gates. The
order is that of ``nn.GRU`` (reset, update, new) and ``nn.LSTM`` (input, forget, new, output)."""


class Encoded(NamedTuple):
    """Output of an encoder."""

    states: Tensor
    """The states of both directions, concatenated; zeros at padding. Shape (B, E, 2 H)."""
    last: Tensor
    """Final state of the backward direction, at the first token. Shape (B, H)."""


class Direction(nn.Module):
    """A recurrent layer in one direction.

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
            real: 1 for a token, 0 for padding after the last token. Shape (E, B, 1).
        """
        steps, rows = vectors.shape[:2]
        pairs = list(zip(self.input(vectors).unbind(), real.unbind(), strict=True))
        from_state = stepwise(self.hidden, steps, rows)
        hidden = vectors.new_zeros(rows, self.hidden.in_features)
        cell = None if self.cell == "gru" else hidden
        states = []
        for from_input, is_real in reversed(pairs) if self.backwards else pairs:
            hidden, cell = cell_step(from_input, from_state(hidden), hidden, cell)
            # In the backward direction, padding comes first. The state stays zero until it ends.
            hidden, cell = hidden * is_real, None if cell is None else cell * is_real
            states.append(hidden)
        return states[::-1] if self.backwards else states


class BidirectionalEncoder(nn.Module):
    """A bidirectional recurrent encoder (Bahdanau et al. 2015, section 3.2).

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
        """Encode sequences. Padding has no effect: the backward direction starts at the last token.

        Args:
            vectors: shape (B, E, I).
            lengths: length of each sequence without padding. Shape (B,).
        """
        vectors = vectors.transpose(0, 1)  # (E, B, I)
        positions = torch.arange(len(vectors), device=vectors.device)
        real = (positions[:, None] < lengths).to(vectors.dtype)[..., None]  # (E, B, 1)
        forwards, backwards = self.forwards(vectors, real), self.backwards(vectors, real)
        states = torch.cat([torch.stack(forwards, 1), torch.stack(backwards, 1)], 2)
        return Encoded(states, backwards[0])


class DecoderState(NamedTuple):
    """The recurrent state that a decoder step passes to the next."""

    hidden: Tensor
    """Shape (B, H)."""
    cell: Tensor | None
    """Cell state of an LSTM; None for a GRU. Shape (B, H)."""
    context: Tensor
    """Context vector of the last step. Shape (B, D)."""

    def select(self, rows: Tensor) -> "DecoderState":
        """Return the sequences with the given indices, shape (N,), with repetitions allowed."""
        cell = None if self.cell is None else self.cell.index_select(0, rows)
        return DecoderState(
            self.hidden.index_select(0, rows), cell, self.context.index_select(0, rows)
        )


class Decoded(NamedTuple):
    """Output of the decoder steps, from the first to the last."""

    hidden: Tensor
    """Shape (S, B, H)."""
    contexts: Tensor
    """Shape (S, B, D)."""
    weights: Tensor
    """Attention weights of each step. Shape (S, B, E)."""
    carry: DecoderState
    """Recurrent state after the last step."""


class AttentiveDecoder(nn.Module):
    """A recurrent decoder that attends to the encoder states at each step.

    A step reads the last word and the last context vector (input feeding of the context, Luong et
    al. 2015, section 3.3). Its new state is the query of additive attention. In Bahdanau et al.
    2015 (appendix A.2.2) the previous state is the query, which has not seen the last word yet.

    Args:
        input_width: I, the width of the word embeddings.
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

    def start(self, last: Tensor, memory: KeysAndValues) -> DecoderState:
        """Return the initial state (Bahdanau et al. 2015, appendix A.2.2).

        Args:
            last: the encoder's final backward state. Shape (B, H).
            memory: keys and values of the encoder states.
        """
        hidden, *cell = torch.tanh(self.initial(last)).chunk(1 if self.cell == "gru" else 2, 1)
        context = memory.values.new_zeros(len(last), memory.values.shape[2])
        return DecoderState(hidden, cell[0] if cell else None, context)

    def forward(self, vectors: Tensor, carry: DecoderState, memory: KeysAndValues) -> Decoded:
        """Compute one step per word.

        Args:
            vectors: word embeddings. Shape (B, S, I).
            carry: ``start``, or the state after the previous step.
            memory: keys and values of the encoder states.
        """
        rows, steps = vectors.shape[:2]
        from_input = StepwiseLinear(self.context.weight, self.word(vectors.transpose(0, 1)))
        from_state = stepwise(self.hidden, steps, rows)
        query = stepwise(self.attention.query, steps, rows)
        hidden, cell, context = carry
        outputs = []
        for _ in range(steps):
            hidden, cell = cell_step(from_input(context), from_state(hidden), hidden, cell)
            context, weights = self.attention(query(hidden), memory)
            outputs.append((hidden, context, weights))
        states, contexts, attended = (torch.stack(parts) for parts in zip(*outputs, strict=True))
        return Decoded(states, contexts, attended, DecoderState(hidden, cell, context))


class Readout(nn.Module):
    """The maxout layer before the logits (Bahdanau et al. 2015, appendix A.2.2, equation 14).

    Args:
        hidden_width: H.
        context_width: width of the context vectors.
        width: M.
        dropout: dropout probability in training.
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
            context: the context vector. Shape (N, 2 H).
            word: the embedding of the last word. Shape (N, M).
        """
        pairs = self.hidden(hidden) + self.context(context) + self.word(word)  # (N, 2 M)
        first, second = pairs.chunk(2, 1)
        dropped: Tensor = self.dropout(torch.maximum(first, second))
        return dropped


def cell_step(
    from_input: Tensor, from_state: Tensor, hidden: Tensor, cell: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the next hidden state and, for an LSTM, the next cell state, each of shape (B, H).

    Args:
        from_input: projection of the input to the gates. Shape (B, G).
        from_state: projection of the previous hidden state to the gates. Shape (B, G).
        hidden: previous hidden state. Shape (B, H).
        cell: previous cell state of an LSTM; None for a GRU. Shape (B, H).
    """
    if cell is None:
        return _gru(from_input, from_state, hidden), None
    return _lstm(from_input + from_state, cell)


def _gru(from_input: Tensor, from_state: Tensor, hidden: Tensor) -> Tensor:
    """Return the new state, shape (B, H), like ``nn.GRU``: the reset gate follows the product."""
    width = hidden.shape[1]
    input_gates, input_new = torch.split(from_input, [2 * width, width], 1)
    state_gates, state_new = torch.split(from_state, [2 * width, width], 1)
    reset, update = (input_gates + state_gates).sigmoid_().chunk(2, 1)
    new = torch.addcmul(input_new, reset, state_new).tanh_()
    return torch.lerp(new, hidden, update)


def _lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the new hidden and cell state, each of shape (B, H), like ``nn.LSTM``."""
    enter, forget, new, output = gates.chunk(4, 1)
    cell = torch.addcmul(forget.sigmoid() * cell, enter.sigmoid(), new.tanh())
    return output.sigmoid() * cell.tanh(), cell
