"""The public names are a promise: a change to them changes the stored list."""

from pathlib import Path

import pytest

import heedful

STORED = Path(__file__).with_name("public_names.txt")


@pytest.mark.skipif(not STORED.exists(), reason="the public names are not settled yet")
def test_public_names_are_those_that_are_stored() -> None:
    assert sorted(heedful.__all__) == STORED.read_text(encoding="utf-8").split()


def test_every_public_name_can_be_imported() -> None:
    missing = [name for name in getattr(heedful, "__all__", []) if not hasattr(heedful, name)]
    assert missing == []
