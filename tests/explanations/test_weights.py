"""Weights are stored to the documented precision; what exceeds the size is left out in order."""

import base64
import zlib

import numpy as np
import pytest
from tests.explanations.examples import classified, translated

from heedful.explanations import weights
from heedful.explanations.weights import STEPS, Packed, pack, rounded

ENOUGH = 10**9


def unpacked(packed: Packed, name: str) -> np.ndarray:
    code = zlib.decompress(base64.b64decode(packed.codes[0][name]))
    return (np.frombuffer(code, np.uint8) / packed.steps) ** 2


def size(packed: Packed, *names: str) -> int:
    """Return the number of characters of some heads of the first map."""
    return sum(len(packed.codes[0][name]) + len(f'"{name}":"",') for name in names)


def test_all_weights_are_packed_where_there_is_room() -> None:
    (one,) = classified(layers=3, heads=11).attention
    packed = pack([one], ENOUGH)
    assert packed.steps == 255
    assert len(packed.codes[0]) == 3 * 11
    read = unpacked(packed, "2.10").reshape(one.weights.shape[2:])
    np.testing.assert_allclose(read, one.weights[2, 10], atol=0.004, rtol=0)


@pytest.mark.parametrize(
    ("steps", "weight", "precision"), [(255, 0.001, 0.13), (255, 0.1, 0.013), (31, 0.1, 0.11)]
)
def test_weights_are_read_back_as_closely_as_it_says(
    steps: int, weight: float, precision: float
) -> None:
    near = np.linspace(weight / 2, weight, 1000, dtype=np.float32)
    read = (rounded(near, steps) / steps) ** 2
    assert weight * precision / 3 < np.abs(read - near).max() < weight * precision


def test_less_room_makes_the_steps_coarser_before_anything_is_left_out() -> None:
    maps = classified("so many words " * 60, layers=2, heads=2).attention
    room = size(pack(maps, ENOUGH), "0.0", "0.1", "1.0", "1.1")
    packed = pack(maps, int(room * 0.8))
    assert packed.steps == STEPS[1]
    assert len(packed.codes[0]) == 4
    assert size(packed, *packed.codes[0]) <= room * 0.8


def test_layers_are_left_out_whole_and_the_first_ones_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "STEPS", (255,))
    maps = classified(layers=4, heads=3, gone=((3, 0), (2, 1))).attention
    whole = pack(maps, ENOUGH)
    names = {f"{layer}.{head}" for layer in range(4) for head in range(3)}
    assert set(whole.codes[0]) == names - {"3.0", "2.1"}
    two_layers = ("3.1", "3.2", "2.0", "2.2")
    packed = pack(maps, size(whole, *two_layers, "1.0"))
    assert set(packed.codes[0]) == set(two_layers)


def test_a_part_of_the_last_layer_is_better_than_nothing() -> None:
    maps = classified(layers=2, heads=3).attention
    coarse = pack(maps, 1)
    assert coarse == Packed(steps=STEPS[-1], codes=({},))
    (code,) = pack(classified(layers=1, heads=1).attention, ENOUGH).codes
    assert set(pack(maps, len(code["0.0"]) + 10).codes[0]) == {"1.0"}


def test_the_last_layers_of_all_maps_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "STEPS", (255,))
    maps = translated(layers=3, heads=2).attention
    whole = pack(maps, ENOUGH).codes
    last = sum(len(codes[f"2.{head}"]) + 10 for codes in whole for head in range(2))
    assert [set(codes) for codes in pack(maps, last).codes] == [{"2.0", "2.1"}] * 2
