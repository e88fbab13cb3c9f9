"""Arrays of pieces: conversion to lists, and added words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.tokens.arrays import Indices, as_list
from heedful.tokens.lexicon import Entries


@pytest.mark.parametrize("largest", [0, 2**16 - 1, 2**16, 2**17, 2**18 - 1, 2**18, 2**40])
def test_lists_hold_numbers_of_any_size(largest: int) -> None:
    numbers = as_list(np.array([largest, 0, largest // 2], np.int64))
    assert numbers == [largest, 0, largest // 2]
    assert {type(number) for number in numbers} == {int}


def columns(counts: list[int], first: int) -> tuple[Indices, Indices, Indices, Indices]:
    numbers = np.arange(first, first + sum(counts))
    return np.array(counts, np.int64), numbers, numbers + 1, numbers + 2


words = st.lists(st.integers(0, 4), max_size=6)


@given(words, st.lists(st.tuples(words, words), max_size=8))
def test_words_that_are_added(known: list[int], added: list[tuple[list[int], list[int]]]) -> None:
    """Words that are added temporarily leave no trace."""
    counts, ids, begins, ends = columns(known, 0)
    firsts = np.cumsum([0, *known])[:-1].astype(np.int64)
    entries = Entries(firsts=firsts, counts=counts, ids=ids, begins=begins, ends=ends)
    before = [column.copy() for column in (firsts, counts, ids, begins, ends)]
    expected = list(known)
    for kept, passing in added:
        entries = entries.extended(*columns(kept, sum(expected)))
        expected += kept
        for_now = entries.extended(*columns(passing, 1000))
        assert for_now.counts.tolist() == expected + passing
        assert entries.counts.tolist() == expected
        assert entries.firsts.tolist() == np.cumsum([0, *expected])[:-1].tolist()
        assert entries.ids.tolist() == list(range(sum(expected)))
        assert (entries.begins - entries.ids == 1).all()
        assert (entries.ends - entries.ids == 2).all()
        assert len(entries) == len(expected)
    for column, old in zip((firsts, counts, ids, begins, ends), before, strict=True):
        assert column.tolist() == old.tolist(), "what they were made of has changed"
