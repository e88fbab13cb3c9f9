"""``heedful bench``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from heedful.cli.options import say
from heedful.errors import UserError


def bench(
    *rows: str,
    quick: Annotated[bool, Parameter(negative="")] = False,
    laps: int | None = None,
    size: float | None = None,
    threads: int | None = None,
    arms: list[str] | None = None,
    results: Path | None = None,
) -> None:
    """Benchmark heedful against its peers on this machine; only from a clone of the repository.

    heedful prints each row of the table when it is done, and writes it to benchmarks/results:

        heedful bench --quick encode "translate-small-*"

    Parameters
    ----------
    rows
        Rows to measure, or patterns; default: all.
    quick
        Run three laps with a fifth of the work.
    laps
        Number of laps for each arm; default: 5.
    size
        Share of the usual work of a lap; default: 1.
    threads
        Number of threads for each arm; default: the number of cores.
    arms
        Arms to run, or patterns; default: all.
    results
        Output file.
    """
    from heedful.commands.bench import load_benchmark

    for option, number in (("laps", laps), ("size", size), ("threads", threads)):
        if number is not None and number <= 0:
            raise UserError(f"--{option} {number}: must be above 0")
    failed = load_benchmark()(
        rows, quick=quick, laps=laps, size=size, threads=threads, arms=arms or (), out=results
    )
    if failed:
        say(f"failed: {', '.join(failed)}")
        raise SystemExit(1)
