"""An arm's side of a race: a process that takes a lap each time that it is told to.

``python -m benchmarks.trial MODULE ROW ARM FOLDER LAPS THREADS`` runs an arm of the ROWS of a
module. It imports nothing but the standard library and what the arm imports, since peers live in an
environment of their own.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Message = dict[str, Any]


class Trial:
    """What an arm is given.

    Args:
        folder: what the row has prepared, and where answers go.
        laps: how many laps there are.
        threads: how many threads to compute with.
        report: sends a message to the race, and waits until the race goes on.
    """

    def __init__(
        self, folder: Path, laps: int, threads: int, report: Callable[[Message], None]
    ) -> None:
        self.folder, self.number_of_laps, self.threads = folder, laps, threads
        self.peak: int | None = None
        """MiB that the programs which the laps start have held; None where they start none."""
        self._report = report
        self._amount: float | None = None

    def laps(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield each part of the work when the race says so; what is done with it is a lap.

        The arm has set up and warmed up before it asks for the first.
        """
        self._report({"ready": True})
        for part in parts:
            self._amount = None
            started = time.perf_counter()
            yield part
            seconds = time.perf_counter() - started
            self._report({"seconds": seconds, "amount": self._amount})

    def count(self, amount: float) -> None:
        """Add to how much the lap has done, where that is not the same for all arms."""
        self._amount = (self._amount or 0) + amount

    def read(self, name: str) -> Any:
        """Read a JSON file that the row has prepared."""
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


def peak_memory() -> int:
    """Return the most memory this process ever held, in MiB (on Linux; elsewhere 0).

    The usual ``getrusage`` also counts what its parent held when it was started.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def save_answers(answers: Any, path: Path) -> None:
    """Write what an arm has answered, for scoring: arrays to .npy, all else to .json."""
    if hasattr(answers, "__array__"):
        import numpy as np

        np.save(path.with_suffix(".npy"), np.asarray(answers, dtype=np.float32))
    else:
        path.with_suffix(".json").write_text(json.dumps(answers), encoding="utf-8")


def main() -> None:
    """Run the arm that the command line names."""
    module, row, name, folder, laps, threads = sys.argv[1:]
    arms = import_module(module).ROWS[row].arms
    # What libraries print goes to the log, with what they complain about.
    race = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def report(message: Message) -> None:
        peak = peak_memory() if trial.peak is None else trial.peak
        print(json.dumps({**message, "peak": peak}), file=race, flush=True)
        if not sys.stdin.readline():
            sys.exit("the race was called off")

    trial = Trial(Path(folder), int(laps), int(threads), report)
    save_answers(arms[name].run(trial), trial.folder / f"answers-{list(arms).index(name)}")
    report({"done": True})


if __name__ == "__main__":
    main()
