from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor, nn
from torch.func import functional_call
from torch.testing import assert_close

from heedful.layers.recurrent import AttentiveDecoder, BidirectionalEncoder, Readout

CELLS: dict[str, tuple[type[nn.RNNBase], type[nn.RNNCellBase]]] = {
    "gru": (nn.GRU, nn.GRUCell),
    "lstm": (nn.LSTM, nn.LSTMCell),
}


@pytest.fixture(params=["gru", "lstm"])
def cell(request: Any) -> str:
    torch.manual_seed(0)
    return str(request.param)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def fresh(module: nn.Module) -> None:
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.5)


def test_each_sequence_is_read_as_if_it_were_alone(cell: str) -> None:
    encoder = BidirectionalEncoder(3, 5, cell)
    fresh(encoder)
    alone: Any = CELLS[cell][0](3, 5, bidirectional=True).double()
    for direction, suffix in ((encoder.forwards, "_l0"), (encoder.backwards, "_l0_reverse")):
        for layer, kind in ((direction.input, "ih"), (direction.hidden, "hh")):
            getattr(alone, f"weight_{kind}{suffix}").data = layer.weight.data
            getattr(alone, f"bias_{kind}{suffix}").data = layer.bias.data
    vectors, lengths = normal(4, 6, 3), torch.tensor([2, 6, 1, 4])
    encoded = encoder(vectors, lengths)
    assert encoded.states.shape == (4, 6, 10)
    for row, length in enumerate(lengths):
        states, last = alone(vectors[row, :length])
        assert_close(encoded.states[row, :length], states)
        assert not encoded.states[row, length:].any()
        assert_close(encoded.last[row], (last if cell == "gru" else last[0])[1])


def test_padding_gets_no_gradient(cell: str) -> None:
    encoder = BidirectionalEncoder(3, 5, cell)
    fresh(encoder)
    vectors = normal(2, 4, 3).requires_grad_()
    encoder(vectors, torch.tensor([4, 2])).states.square().sum().backward()
    assert vectors.grad is not None
    assert not vectors.grad[1, 2:].any()
    assert vectors.grad[1, :2].all()


def test_a_step_is_that_of_torchs_cell(cell: str) -> None:
    decoder = AttentiveDecoder(3, 5, 6, cell)
    fresh(decoder)
    memory = decoder.attention.prepare(normal(2, 4, 6), None)
    carry = decoder.start(normal(2, 5), memory)._replace(context=normal(2, 6))
    words = normal(2, 3)
    decoded = decoder(words[:, None], carry, memory)
    after = decoded.carry
    weight = {
        "weight_ih": torch.cat([decoder.word.weight, decoder.context.weight], 1),
        "weight_hh": decoder.hidden.weight,
        "bias_ih": decoder.word.bias,
        "bias_hh": decoder.hidden.bias,
    }
    before = carry.hidden if carry.cell is None else (carry.hidden, carry.cell)
    given = (torch.cat([words, carry.context], 1), before)
    expected: Any = functional_call(CELLS[cell][1](9, 5).double(), weight, given)
    hidden, kept = (expected, None) if cell == "gru" else expected
    assert_close(after.hidden, hidden)
    if kept is not None:
        assert_close(after.cell, kept)
    mixed = decoder.attention(decoder.attention.query(hidden), memory)
    assert_close(after.context, mixed.values)
    assert_close(decoded.weights[0], mixed.weights)
    assert_close(decoded.hidden[0], hidden)
    assert_close(decoded.contexts[0], mixed.values)


def test_all_steps_are_one_after_the_other(cell: str) -> None:
    decoder = AttentiveDecoder(3, 5, 6, cell)
    fresh(decoder)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    memory = decoder.attention.prepare(normal(2, 4, 6), mask)
    start = decoder.start(normal(2, 5), memory)
    assert not start.context.any()
    vectors, carry = normal(2, 7, 3), start
    decoded = decoder(vectors, start, memory)
    for place in range(7):
        step = decoder(vectors[:, place : place + 1], carry, memory)
        carry = step.carry
        assert_close(decoded.hidden[place], step.hidden[0])
        assert_close(decoded.contexts[place], step.contexts[0])
        assert_close(decoded.weights[place], step.weights[0])
    assert_close(decoded.carry, carry)


def test_the_first_state_is_read_off_the_encoders_last(cell: str) -> None:
    decoder = AttentiveDecoder(3, 5, 6, cell)
    fresh(decoder)
    last = normal(2, 5)
    start = decoder.start(last, decoder.attention.prepare(normal(2, 4, 6), None))
    made = torch.tanh(last @ decoder.initial.weight.T + decoder.initial.bias)
    assert_close(start.hidden, made[:, :5])
    assert (start.cell is None) == (cell == "gru")
    if start.cell is not None:
        assert_close(start.cell, made[:, 5:])


def test_rows_of_what_is_handed_on_can_be_selected(cell: str) -> None:
    decoder = AttentiveDecoder(3, 5, 6, cell)
    fresh(decoder)
    start = decoder.start(normal(3, 5), decoder.attention.prepare(normal(3, 4, 6), None))
    carry = start._replace(context=normal(3, 6))
    rows = torch.tensor([2, 2, 0])
    for before, after in zip(carry, carry.select(rows), strict=True):
        assert (before is None) == (after is None)
        if before is not None:
            assert_same_bits(after, before[rows], "moved")


def test_the_readout_takes_the_larger_of_each_pair() -> None:
    torch.manual_seed(0)
    readout = Readout(5, 6, 3, dropout=0.5).eval()
    fresh(readout)
    hidden, context, word = normal(4, 5), normal(4, 6), normal(4, 3)
    pairs = (
        hidden @ readout.hidden.weight.T
        + readout.hidden.bias
        + context @ readout.context.weight.T
        + word @ readout.word.weight.T
    )
    assert_close(readout(hidden, context, word), pairs.view(4, 2, 3).amax(1))
    assert (readout.train()(hidden, context, word) == 0).any()
