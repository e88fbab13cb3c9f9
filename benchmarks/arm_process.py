"""The process of an arm: it runs one lap each time the runner tells it to.

``python -m benchmarks.arm_process MODULE ROW ARM FOLDER LAPS THREADS`` runs an arm of the ROWS of a
module. Peers have their own environment, so this module imports only the standard library.
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
    """The interface between an arm and the runner: the data, and the timed laps.

    Args:
        folder: Folder with the data that the row prepared; the outputs are written there, too.
        laps: Number of laps.
        threads: Number of threads to compute with.
        report: Sends a message to the runner, and waits until the runner lets the arm continue.
    """

    def __init__(
        self, folder: Path, laps: int, threads: int, report: Callable[[Message], None]
    ) -> None:
        self.folder, self.number_of_laps, self.threads = folder, laps, threads
        self.peak: int | None = None
        """Peak memory of the programs that the laps start, in MiB; None if they start none."""
        self._report = report
        self._amount: float | None = None

    def laps(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield the parts of the work one by one, and time what the caller does with each.

        Each part is a lap, which starts when the runner says so. The arm must set up and warm up
        before it asks for the first part.
        """
        self._report({"ready": True})
        for part in parts:
            self._amount = None
            started = time.perf_counter()
            yield part
            seconds = time.perf_counter() - started
            self._report({"seconds": seconds, "amount": self._amount})

    def count(self, amount: float) -> None:
        """Add to the lap's amount of work, for rows where it differs between arms."""
        self._amount = (self._amount or 0) + amount

    def read(self, name: str) -> Any:
        """Read a JSON file that the row prepared."""
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


def peak_memory() -> int:
    """Return the peak memory of this process in MiB, on Linux; 0 on other systems.

    The usual ``getrusage`` also counts the parent's memory at the time of the start.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def save_outputs(outputs: Any, path: Path) -> None:
    """Write the outputs of an arm for scoring: arrays to .npy, everything else to .json."""
    if hasattr(outputs, "__array__"):
        import numpy as np

        np.save(path.with_suffix(".npy"), np.asarray(outputs, dtype=np.float32))
    else:
        path.with_suffix(".json").write_text(json.dumps(outputs), encoding="utf-8")


def main() -> None:
    """Run the arm given on the command line."""
    module, row, name, folder, laps, threads = sys.argv[1:]
    arms = import_module(module).ROWS[row].arms
    # Send what libraries print to the log, like their warnings.
    to_runner = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def report(message: Message) -> None:
        peak = peak_memory() if trial.peak is None else trial.peak
        print(json.dumps({**message, "peak": peak}), file=to_runner, flush=True)
        if not sys.stdin.readline():
            sys.exit("the runner has stopped")

    trial = Trial(Path(folder), int(laps), int(threads), report)
    save_outputs(arms[name].run(trial), trial.folder / f"outputs-{list(arms).index(name)}")
    report({"done": True})


if __name__ == "__main__":
    main()
