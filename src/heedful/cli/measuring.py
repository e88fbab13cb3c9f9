"""The command that measures heedful beside its peers."""

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
    """Measure heedful beside its peers on this machine; from a clone of its repository alone.

    Each row of the table is printed and written to benchmarks/results when it is done:

        heedful bench --quick encode "translate-small-*"

    Parameters
    ----------
    rows
        Rows to measure, or patterns; without any, all.
    quick
        Take three laps of a fifth of the work.
    laps
        Laps that each arm takes; default: 5.
    size
        Share of the usual work of a lap; default: 1.
    threads
        Threads that each arm computes with; default: as many as there are cores.
    arms
        Arms to run, or patterns; without it, all.
    results
        File to write to.
    """
    from heedful.commands.bench import measuring

    for option, number in (("laps", laps), ("size", size), ("threads", threads)):
        if number is not None and number <= 0:
            raise UserError(f"--{option} {number}: must be above 0")
    failed = measuring()(
        rows, quick=quick, laps=laps, size=size, threads=threads, arms=arms or (), out=results
    )
    if failed:
        say(f"failed: {', '.join(failed)}")
        raise SystemExit(1)
