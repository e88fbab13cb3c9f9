"""Who is taken for gone, where it cannot be seen among the processes of this machine."""

import os
from datetime import timedelta

import pytest
import torch

from heedful.training import watch
from heedful.training.watch import Watch


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> torch.distributed.HashStore:
    """A store to which a process of another machine has written once."""
    monkeypatch.setattr(watch, "_PAUSE", 0.01)
    monkeypatch.setattr(watch, "_GRACE", timedelta(days=1))
    store = torch.distributed.HashStore()
    store.set("who/1", "123 away")
    store.set("count/1", "0")
    return store


def watched(store: torch.distributed.HashStore, rank: int = 0) -> Watch:
    return Watch(store, rank, 2, "start again")


def test_a_process_that_counts_no_more_is_gone(
    store: torch.distributed.HashStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SILENT", 3)
    one = watched(store)
    gone = one.gone(looks=3000)
    one._stop.set()
    assert gone is not None
    assert gone.speaks
    assert str(gone) == (
        "process 1 (pid 123, away) is gone: it stands still, or its machine is away; start again"
    )


def test_a_process_that_counts_slowly_is_there(store: torch.distributed.HashStore) -> None:
    one = watched(store)
    assert one.gone(looks=2) is None
    one.leave(failed=False)
    assert store.get("left/0") == b""
    assert not store.check(["end"])


def test_a_process_that_failed_speaks_for_itself(store: torch.distributed.HashStore) -> None:
    one = watched(store)
    one.leave(failed=True)
    store.set("who/0", f"{os.getpid()} here")
    other = watched(store, rank=1)
    gone = other.gone(looks=3000)
    other._stop.set()
    assert gone is not None
    assert (str(gone), gone.speaks) == ("", False)
