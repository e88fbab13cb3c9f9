"""Which processes count as gone if they are not among those of this machine."""

import os
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
import torch

from heedful.training import watchdog
from heedful.training.watchdog import Watch


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> torch.distributed.HashStore:
    """A store to which a process of another machine has written once."""
    monkeypatch.setattr(watchdog, "_PAUSE", 0.01)
    monkeypatch.setattr(watchdog, "_GRACE", timedelta(days=1))
    store = torch.distributed.HashStore()
    store.set("who/1", "123 away")
    store.set("count/1", "0")
    return store


def watched(store: torch.distributed.HashStore, rank: int = 0) -> Watch:
    return Watch(store, rank, 2, "start again")


def test_a_process_that_counts_no_more_is_gone(
    store: torch.distributed.HashStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_SILENT", 3)
    one = watched(store)
    gone = one.gone(looks=3000)
    one._stop.set()
    assert gone is not None
    assert gone.speaks
    assert str(gone) == (
        "process 1 (pid 123, away) is gone: it hangs, or its machine is down; start again"
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


class Silent(torch.distributed.HashStore):
    """A store that accepts values and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = threading.Event(), threading.Event()
        self.set("who/0", "123 away")

    def check(self, keys: list[str]) -> bool:
        """Wait as long as torch does if the other side of a connection is gone."""
        self.asked.set()
        self.answers.wait()
        return False


@pytest.fixture
def silent(store: torch.distributed.HashStore) -> Iterator[Silent]:
    silent = Silent()
    yield silent
    silent.answers.set()


def test_a_store_that_does_not_answer_ends_the_work(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is gone: torch then waits for an answer forever, despite its time-out."""
    monkeypatch.setattr(watchdog, "_SILENT", 3)
    monkeypatch.setattr(watchdog, "_SUSPICIOUS", 3)
    monkeypatch.setenv("LOCAL_RANK", "0")
    one = watched(silent, rank=1)
    gone = one.gone(looks=3000)
    one._stop.set()
    assert gone is not None
    assert gone.speaks
    assert str(gone) == (
        "the machine that the processes meet through is down or unreachable; start again"
    )


def test_who_leaves_does_not_wait_for_a_store_that_does_not_answer(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_ANSWERED", timedelta(seconds=0.1))
    one = watched(silent, rank=1)
    assert silent.asked.wait(60)
    one.leave(failed=True)
    assert one._thread.is_alive()
    assert not silent.answers.is_set()
