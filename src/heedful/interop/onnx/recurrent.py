"""Graphs of a recurrent translation model, with loops of any number of steps.

Outside a graph, ``layers/recurrent.py`` runs the steps in Python.

Shapes: B batch, E source length, S target length, H hidden size, I input size.
"""

import torch
from torch import Tensor

# The only way to export a loop. It has no public name yet.
from torch._higher_order_ops.scan import scan

from heedful.layers.additive import KeysAndValues, attend_additively
from heedful.layers.recurrent import Direction, cell_step
from heedful.models import RnnSearch


def encode(model: RnnSearch, ids: Tensor, mask: Tensor) -> Tensor:
    """Encode texts in both directions.

    Returns:
        The hidden states of both directions, zeros at padding. Shape (B, E, 2 H).
    """
    vectors = model.embeddings(ids).transpose(0, 1)  # (E, B, I)
    real = mask.to(vectors.dtype).T[..., None]  # (E, B, 1)
    directions = (model.encoder.forwards, model.encoder.backwards)
    outputs = [_run(direction, vectors, real) for direction in directions]
    return torch.cat(outputs, -1).transpose(0, 1)


def _run(direction: Direction, vectors: Tensor, real: Tensor) -> Tensor:
    """Return the hidden state after each token. Shape (E, B, H)."""

    def step(
        carry: tuple[Tensor, ...], inputs: tuple[Tensor, Tensor]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        from_input, is_real = inputs
        hidden, *cell = carry
        states = cell_step(from_input, direction.hidden(hidden), hidden, cell[0] if cell else None)
        # In the backward direction, padding comes first. The state stays zero until it ends.
        new = tuple(state * is_real for state in states if state is not None)
        return new, new[0].clone()

    zeros = vectors.new_zeros(vectors.shape[1], direction.hidden.in_features)
    start = (zeros,) if direction.cell == "gru" else (zeros, zeros.clone())
    inputs = (direction.input(vectors), real)
    states: Tensor = scan(step, start, inputs, dim=0, reverse=direction.backwards)[1]
    return states


def decode_first(
    model: RnnSearch, ids: Tensor, mask: Tensor, encoded: Tensor
) -> tuple[Tensor, ...]:
    """Decode the first tokens.

    Returns:
        Logits, shape (B, S, V), the states to continue from, and the attention keys and values.
    """
    decoder = model.decoder
    memory = decoder.attention.prepare(encoded, mask.bool())
    last = encoded[:, 0, encoded.shape[2] // 2 :]  # the backward direction
    states = decoder.start(last, memory)
    first = tuple(state.contiguous() for state in states if state is not None)

    def step(
        carry: tuple[Tensor, ...], word: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, Tensor]]:
        new = _step(model, carry, word, memory)
        return new, (new[0].clone(), new[-1].clone())

    vectors = model.embed_target(ids).transpose(0, 1)  # (S, B, I)
    carry, (hidden, contexts) = scan(step, first, decoder.word(vectors), dim=0)
    parts = (part.flatten(0, 1) for part in (hidden, contexts, vectors))
    logits = model.score(model.readout(*parts))  # (S * B, V)
    return logits.view(*vectors.shape[:2], -1).transpose(0, 1), *carry, memory.keys, memory.values


def decode_next(model: RnnSearch, ids: Tensor, mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
    """Decode the next token.

    Returns:
        Logits, shape (B, 1, V), and the states to continue from.
    """
    *states, keys, values = past
    memory = KeysAndValues(keys, values, mask.bool())
    vectors = model.embed_target(ids)  # (B, 1, I)
    word = model.decoder.word(vectors[:, 0])
    carry = _step(model, tuple(states), word, memory)
    logits = model.score(model.readout(carry[0], carry[-1], vectors[:, 0]))
    return logits[:, None], *carry


def _step(
    model: RnnSearch, carry: tuple[Tensor, ...], word: Tensor, memory: KeysAndValues
) -> tuple[Tensor, ...]:
    """Return the next hidden state, the cell state of an LSTM, and the attention context.

    Args:
        model: the model.
        carry: the result of the previous step.
        word: the last word's contribution to the gates. Shape (B, G).
        memory: the attention keys and values.
    """
    decoder = model.decoder
    hidden, *cell, context = carry
    gates = word + decoder.context(context)
    new, new_cell = cell_step(gates, decoder.hidden(hidden), hidden, cell[0] if cell else None)
    mixed = attend_additively(decoder.attention.query(new), memory, decoder.attention.score).values
    return (new, mixed) if new_cell is None else (new, new_cell, mixed)
