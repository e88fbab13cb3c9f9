"""Detects that a process of a distributed job is gone, so that all others end too.

The other processes cannot go on without it. They may wait for it forever inside the framework,
where no signal reaches them. So each process has a watch thread that checks every half second:
whether the processes of its machine are alive, whether the other heartbeats go on, and whether
another process has reported an end.
"""

import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.errors import EXIT_USER_ERROR, UserError
from heedful.training.interrupt import Terminated, ignore_signals, interrupted_by_signals
from heedful.training.rendezvous import Meeting, meet

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_PAUSE = 0.5
"""Seconds between two checks."""

_SILENT, _SUSPICIOUS = 240, 6
"""Checks without a heartbeat after which a process of another machine counts as gone. The first is
two minutes, because Python sends no heartbeat while it sorts a large list. The second holds after a
collective operation has failed."""

_GRACE = timedelta(seconds=5)
"""Time for this process to end by itself."""

_ANSWERED = timedelta(seconds=10)
"""Timeout of the store."""

_END = "end"
"""Store key with the reason why the job ended."""


class GoneError(UserError):
    """Another process is gone, and this one cannot go on without it."""

    def __init__(self, message: str, *, speaks: bool) -> None:
        super().__init__(message)
        self.speaks = speaks
        """Whether this process reports the error to the user."""


class Watch:
    """Checks the other processes every half second in a separate thread.

    Args:
        store: the store of all processes. No other thread uses this connection.
        rank: rank of this process.
        size: world size.
        advice: what the user can do next, for the error message.
    """

    def __init__(self, store: "Store", rank: int, size: int, advice: str) -> None:
        self._store, self._rank, self._size, self._advice = store, rank, size, advice
        self._looks = 0
        self._limit = _SILENT
        self._counts: dict[int, tuple[bytes, int]] = {}
        self._gone: GoneError | None = None
        self._noticed, self._stop = threading.Event(), threading.Event()
        store.set(f"who/{rank}", f"{os.getpid()} {platform.node()}")
        store.set(f"count/{rank}", "0")
        everyone = store.multi_get([f"who/{number}" for number in range(size)])
        store.set_timeout(_ANSWERED)
        processes = [each.decode().split(" ", 1) for each in everyone]
        self._names = [
            f"{number} (pid {pid}, {node})" for number, (pid, node) in enumerate(processes)
        ]
        # Containers may share a host name but not see each other's processes.
        self._near = {
            number: int(pid)
            for number, (pid, node) in enumerate(processes)
            if number != rank and node == platform.node() and lives(int(pid))
        }
        self._thread = threading.Thread(target=self._watch, daemon=True, name="heedful watch")
        self._thread.start()
        threading.Thread(target=self._guard, daemon=True, name="heedful guard").start()

    def gone(self, looks: int = _SUSPICIOUS + 4) -> GoneError | None:
        """Return the error for a process that is gone, if any, after a failed operation."""
        self._limit = _SUSPICIOUS
        self._noticed.wait(looks * _PAUSE)
        return self._gone

    def leave(self, *, failed: bool) -> None:
        """Tell the other processes that this one leaves and, if it failed, to end too."""
        if self._gone is not None:  # the watch thread will end this process
            return
        self._stop.set()
        self._thread.join(_ANSWERED.total_seconds())
        if self._thread.is_alive():  # the store does not answer, so no message can be sent
            return
        with suppress(RuntimeError):  # the store is gone, so no message can be sent
            self._store.set(f"left/{self._rank}", "")
            if failed:
                self._end("")

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE):
            try:
                end = self._look()
                speaks = bool(end) and self._speaks()
            except RuntimeError:
                if self._stop.wait(2 * _PAUSE):
                    return
                end, speaks = self._without_store(), self._first_here()
            if end is not None:
                self._end_by(GoneError(end, speaks=speaks))

    def _guard(self) -> None:
        """End the job if the store's machine is unreachable: store calls would hang forever."""
        looks = stalled = 0
        while not self._stop.wait(_PAUSE) and self._gone is None:
            stalled = stalled + 1 if self._looks == looks else 0
            looks = self._looks
            if stalled >= self._limit:
                end = (
                    "the machine that the processes meet through is down or unreachable; "
                    f"{self._advice}"
                )
                self._end_by(GoneError(end, speaks=self._first_here()))

    def _look(self) -> str | None:
        """Run one check; return the reason why the job ended, or None."""
        self._looks += 1
        self._store.set(f"count/{self._rank}", str(self._looks))
        if self._store.check([_END]):
            return self._store.get(_END).decode().strip()
        for number, pid in self._near.items():
            if not lives(pid) and not self._store.check([f"left/{number}"]):
                return self._end(self._sentence(number, "it was killed"))
        # Rank 0 watches all others, as there may be many. Rank 1 watches rank 0.
        watched = range(1, self._size) if self._rank == 0 else [0] if self._rank == 1 else []
        counts = self._store.multi_get([f"count/{number}" for number in watched]) if watched else []
        for number, count in zip(watched, counts, strict=True):
            last_count, last_change = self._counts.get(number, (b"", 0))
            if count != last_count:
                self._counts[number] = count, self._looks
            elif self._looks - last_change >= self._limit:
                return self._end(self._sentence(number, "it hangs, or its machine is down"))
        return None

    def _sentence(self, number: int, why: str) -> str:
        return f"process {self._names[number]} is gone: {why}; {self._advice}"

    def _end(self, sentence: str) -> str:
        """Store the reason why the job ended, unless there is one; return the stored reason.

        It is empty if a process failed: that process reports its own error.
        """
        return self._store.compare_set(_END, "", f" {sentence}").decode().strip()

    def _speaks(self) -> bool:
        """Return whether this process is the first to claim the report to the user."""
        return self._store.compare_set("speaker", "", str(self._rank)).decode() == str(self._rank)

    def _without_store(self) -> str:
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            return f"torchrun, which connects the processes, is gone; {self._advice}"
        return self._sentence(0, "the others were connected through it")

    def _first_here(self) -> bool:
        """Return whether this is the first process of its machine, without asking the store."""
        return os.environ.get("LOCAL_RANK", "0") == "0"

    def _end_by(self, gone: GoneError) -> None:
        self._gone = gone
        self._noticed.set()
        self._end_this_process(gone)

    def _end_this_process(self, gone: GoneError) -> None:
        """End this process if it does not end by itself, such as while it waits for a lost one."""
        if self._stop.wait(_GRACE.total_seconds()):
            return
        if gone.speaks:
            print(f"heedful: {gone}", file=sys.stderr, flush=True)
        os._exit(EXIT_USER_ERROR)


_watch: Watch | None = None
"""The watch of this process during a distributed job."""


@contextmanager
def watching(advice: str) -> Iterator[Meeting]:
    """Rendezvous with the other processes of ``torchrun`` and watch them inside the context.

    Args:
        advice: what the user can do if a process is killed.

    Raises:
        UserError: the rendezvous failed.
        GoneError: a process was killed.
    """
    global _watch
    try:
        meeting = meet()
    except UserError:
        raise
    except (ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but the processes cannot connect: "
            f"{reason}; start them with torchrun, or unset WORLD_SIZE"
        ) from None
    _watch = Watch(meeting.second, meeting.rank, meeting.size, advice)
    failed = True
    try:
        with interrupted_by_signals(), noticing_who_is_gone():
            yield meeting
        failed = False
    finally:
        _watch.leave(failed=failed)
        _watch = None


@contextmanager
def noticing_who_is_gone() -> Iterator[None]:
    """Replace the error of a failed collective operation with the loss of a process, if any.

    Raises:
        GoneError: a process is gone; the error names it.
    """
    try:
        yield
    except (RuntimeError, Terminated) as error:
        if _watch is None:
            raise
        ignore_signals()
        # torchrun terminates all processes when one is gone, but a user may do so too.
        terminated = isinstance(error, Terminated)
        gone = _watch.gone(looks=3) if terminated else _watch.gone()
        if gone is None or (terminated and not gone.speaks):
            raise
        raise gone from None


def lives(pid: int) -> bool:
    """Return whether a process of this machine is alive."""
    if os.name == "nt":  # on Windows, os.kill would end the process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    # A zombie process stays in the table until its parent reaps it. Not all systems have /proc.
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state not in (b"Z", b"X")
    return True
