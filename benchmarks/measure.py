"""``heedful bench``: compare heedful with its peers on this machine."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import results
from benchmarks.results import Ceilings, Entry
from benchmarks.row import Row
from benchmarks.runner import ROOT, environment, run_arms
from benchmarks.table import headings, lines
from heedful.errors import UserError, unknown_name

MODULE, PEERS = "benchmarks.rows", "HEEDFUL_PEERS"
QUICK_LAPS, QUICK_SIZE = 3, 0.2


def measure(
    rows: Sequence[str] = (),
    *,
    quick: bool = False,
    laps: int | None = None,
    size: float | None = None,
    threads: int | None = None,
    arms: Sequence[str] = (),
    out: Path | None = None,
) -> list[str]:
    """Measure rows; print and store each result as soon as it is done.

    Args:
        rows: Names or patterns of rows; default: all.
        quick: Run fewer laps with less work.
        laps: Number of laps for each arm.
        size: Share of the usual work of a lap.
        threads: Number of threads for each arm; default: the number of cores.
        arms: Names or patterns of arms; default: all.
        out: Output file.

    Returns:
        The arms that failed, with their rows.

    Raises:
        UserError: Unknown row or arm, or the peers' environment is missing.
    """
    table: dict[str, Row] = import_module(MODULE).ROWS
    names = _select(rows, list(table), "row")
    every_arm = list(dict.fromkeys(arm for row in table.values() for arm in row.arms))
    wanted = set(_select(arms, every_arm, "arm"))
    python = peers_python()
    threads = threads or len(os.sched_getaffinity(0))
    laps, size = laps or (QUICK_LAPS if quick else 5), size or (QUICK_SIZE if quick else 1.0)
    console = Console(width=max(170, Console().width), highlight=False)
    ceilings = _ceilings(python, threads)
    machine = results.machine()
    console.print(f"{machine['cpu']}, threads: {threads}; peak GFLOP/s: {_best(ceilings)}")
    facts = {
        "threads": threads,
        "laps": laps,
        "size": size,
        "command": f"heedful {shlex.join(sys.argv[1:])}",
        "versions": _versions(python),
        "ceilings": ceilings,
    }
    path = out or results.path_of(machine["cpu"])
    failed = []
    for name in names:
        row = table[name]
        chosen = [arm for arm in row.arms if arm in wanted]
        entry = _measure_row(name, row, chosen, laps, size, threads, python, ceilings)
        console.print(_table(entry))
        results.add({**entry, **facts, "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}, path)
        failed += [f"{arm} in {name}" for arm, state in entry["arms"].items() if "failed" in state]
    console.print(f"Results written to {path}")
    return failed


def _select(patterns: Sequence[str], names: Sequence[str], kind: str) -> list[str]:
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise unknown_name(kind, pattern, names)
    return [n for n in names if not patterns or any(fnmatch(n, pattern) for pattern in patterns)]


def peers_python() -> str:
    """Return the Python interpreter of the peers' environment."""
    folder = Path(os.environ.get(PEERS, ROOT / "benchmarks/.venv"))
    python = folder / "bin/python"
    if not python.exists():
        raise UserError(f"no peers' environment in {folder}: 'make bench-peers' creates it")
    return str(python)


def _ceilings(python: str, threads: int) -> Ceilings:
    run = subprocess.run(
        [python, "-m", "benchmarks.ceiling", str(threads)],
        env=environment(threads, peer=True),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(run.stdout)


def _best(ceilings: Ceilings) -> str:
    best = {name: max(rates.items(), key=lambda item: item[1]) for name, rates in ceilings.items()}
    return ", ".join(f"{name} {rate:,.0f} ({kernel})" for name, (kernel, rate) in best.items())


def _versions(python: str) -> dict[str, dict[str, str]]:
    """Return the versions of the packages in both environments that do the computing."""
    program = (
        "import json; from importlib.metadata import distributions; "
        "print(json.dumps({d.name.lower(): d.version for d in distributions()}))"
    )
    names = {
        "heedful": ("heedful", "torch", "numpy"),
        "peers": (
            *("torch", "transformers", "sentence-transformers", "onnxruntime", "openvino"),
            *("ctranslate2", "tokenizers", "joeynmt"),
        ),
    }
    versions = {}
    for who, interpreter in (("heedful", sys.executable), ("peers", python)):
        run = subprocess.run(
            [interpreter, "-c", program], stdout=subprocess.PIPE, check=True, text=True
        )
        installed = json.loads(run.stdout)
        versions[who] = {name: installed[name] for name in names[who] if name in installed}
    return versions


def _measure_row(
    name: str,
    row: Row,
    arms: list[str],
    laps: int,
    size: float,
    threads: int,
    python: str,
    ceilings: Ceilings,
) -> Entry:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        plan = row.prepare(folder, laps, size)
        runners = run_arms(MODULE, name, arms, folder, laps=laps, threads=threads, peers=python)
        outputs = {one.name: one.read_outputs() for one in runners if one.failed is None}
        scores = row.score(folder, outputs)
    return results.entry_of(name, row, plan, runners, scores, ceilings)


def _table(entry: Entry) -> Table:
    table = Table(title=escape(f"{entry['row']}: {entry['title']}"), title_justify="left", box=None)
    for heading in headings(entry):
        table.add_column(heading, justify="left" if heading in ("", "quality") else "right")
    for line in lines(entry):
        table.add_row(*map(escape, line))
    return table
