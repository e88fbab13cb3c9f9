"""Notices that one of the processes that work together is gone, so that the others end, too.

The rest of a job cannot go on without it, and may wait for it for good, in the framework, where no
signal reaches it. So a thread beside each of them looks every half second: whether the processes of
its machine are there, whether the others still count, and what the others noticed.
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
from heedful.training.meeting import Meeting, meet

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_PAUSE = 0.5
"""Seconds between two looks."""

_SILENT, _SUSPICIOUS = 240, 6
"""Looks at which a process of another machine has not counted on, before it is taken for gone: two
minutes, for Python counts nothing while it sorts something large; less when work with it failed."""

_GRACE = timedelta(seconds=5)
"""How long this process is left to end by itself."""

_ANSWERED = timedelta(seconds=10)
"""How long the store may take to answer."""

_END = "end"
"""Key of what ended the work."""


class GoneError(UserError):
    """A process is gone without which this one cannot go on."""

    def __init__(self, message: str, *, speaks: bool) -> None:
        super().__init__(message)
        self.speaks = speaks
        """Whether it is this process that tells the user."""


class Watch:
    """A look at the other processes, every half second, from a thread of its own.

    Args:
        store: what all processes write to; no other thread uses this connection.
        rank: the number of this process.
        size: how many there are.
        advice: how the user goes on, for the line that tells of the end.
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
        who = [each.decode().split(" ", 1) for each in everyone]
        self._names = [f"{number} (pid {pid}, {node})" for number, (pid, node) in enumerate(who)]
        # Containers may share a name and not see each other's processes.
        self._near = {
            number: int(pid)
            for number, (pid, node) in enumerate(who)
            if number != rank and node == platform.node() and lives(int(pid))
        }
        self._thread = threading.Thread(target=self._watch, daemon=True, name="heedful watch")
        self._thread.start()
        threading.Thread(target=self._guard, daemon=True, name="heedful guard").start()

    def gone(self, looks: int = _SUSPICIOUS + 4) -> GoneError | None:
        """Return who is gone, if anybody is, once work with the others has failed."""
        self._limit = _SUSPICIOUS
        self._noticed.wait(looks * _PAUSE)
        return self._gone

    def leave(self, *, failed: bool) -> None:
        """Tell the others that this process leaves, and whether they have to do so, too."""
        if self._gone is not None:  # the thread sees to it that this process does leave
            return
        self._stop.set()
        self._thread.join(_ANSWERED.total_seconds())
        if self._thread.is_alive():  # the store does not answer, so nobody can be told
            return
        with suppress(RuntimeError):  # without the store there is nobody to tell
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
        """End the work where the store's machine is away: its calls then wait for good."""
        looks = still = 0
        while not self._stop.wait(_PAUSE) and self._gone is None:
            still = still + 1 if self._looks == looks else 0
            looks = self._looks
            if still >= self._limit:
                end = f"the machine by which the processes meet is away, or cut off; {self._advice}"
                self._end_by(GoneError(end, speaks=self._first_here()))

    def _look(self) -> str | None:
        """Return the sentence that tells what ended the work, if anything did."""
        self._looks += 1
        self._store.set(f"count/{self._rank}", str(self._looks))
        if self._store.check([_END]):
            return self._store.get(_END).decode().strip()
        for number, pid in self._near.items():
            if not lives(pid) and not self._store.check([f"left/{number}"]):
                return self._end(self._sentence(number, "it was killed"))
        # One looks at all, for there may be many, and another at that one.
        watched = range(1, self._size) if self._rank == 0 else [0] if self._rank == 1 else []
        counts = self._store.multi_get([f"count/{number}" for number in watched]) if watched else []
        for number, count in zip(watched, counts, strict=True):
            before, look = self._counts.get(number, (b"", 0))
            if count != before:
                self._counts[number] = count, self._looks
            elif self._looks - look >= self._limit:
                return self._end(self._sentence(number, "it stands still, or its machine is away"))
        return None

    def _sentence(self, number: int, why: str) -> str:
        return f"process {self._names[number]} is gone: {why}; {self._advice}"

    def _end(self, sentence: str) -> str:
        """Say what ended the work, unless somebody has said it; return what holds.

        It is nothing where a process failed: that one tells the user.
        """
        return self._store.compare_set(_END, "", f" {sentence}").decode().strip()

    def _speaks(self) -> bool:
        """Tell whether this process is the first that is ready to tell the user."""
        return self._store.compare_set("speaker", "", str(self._rank)).decode() == str(self._rank)

    def _without_store(self) -> str:
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            return f"torchrun is gone, by which the processes meet; {self._advice}"
        return self._sentence(0, "the others met by it")

    def _first_here(self) -> bool:
        """Tell whether this is the first process of its machine, where those cannot be asked."""
        return os.environ.get("LOCAL_RANK", "0") == "0"

    def _end_by(self, gone: GoneError) -> None:
        self._gone = gone
        self._noticed.set()
        self._end_this_process(gone)

    def _end_this_process(self, gone: GoneError) -> None:
        """End it where it does not do so by itself, such as waiting for one that is gone."""
        if self._stop.wait(_GRACE.total_seconds()):
            return
        if gone.speaks:
            print(f"heedful: {gone}", file=sys.stderr, flush=True)
        os._exit(EXIT_USER_ERROR)


_watch: Watch | None = None
"""The one of this process, while it works together with others."""


@contextmanager
def watching(advice: str) -> Iterator[Meeting]:
    """Meet the processes that ``torchrun`` started beside this one, and look after them.

    Args:
        advice: what the user does if one of them is killed.

    Raises:
        UserError: they do not meet.
        GoneError: one of them was killed.
    """
    global _watch
    try:
        meeting = meet()
    except UserError:
        raise
    except (ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but the processes do not meet: {reason}; "
            "start them by torchrun, or unset WORLD_SIZE"
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
    """Say who is gone where work with the others failed for that.

    Raises:
        GoneError: naming the process.
    """
    try:
        yield
    except (RuntimeError, Terminated) as error:
        if _watch is None:
            raise
        ignore_signals()
        # torchrun ends the others when one is gone; so may a user end them.
        ended = isinstance(error, Terminated)
        gone = _watch.gone(looks=3) if ended else _watch.gone()
        if gone is None or (ended and not gone.speaks):
            raise
        raise gone from None


def lives(pid: int) -> bool:
    """Tell whether a process of this machine is there and has not ended."""
    if os.name == "nt":  # which ends a process by what asks for it elsewhere
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    # One that has ended stays in the list until its parent asks for it. Not all systems have one.
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state not in (b"Z", b"X")
    return True
