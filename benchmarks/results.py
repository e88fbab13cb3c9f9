"""The stored results: one file per day and type of CPU."""

import json
import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.row import Plan, Row, Scores
from benchmarks.runner import Runner, result_of

FOLDER = Path(__file__).parent / "results"
Entry = dict[str, Any]
Ceilings = dict[str, dict[str, float]]


def entry_of(
    name: str, row: Row, plan: Plan, runners: list[Runner], scores: Scores, ceilings: Ceilings
) -> Entry:
    """Build the entry of a row: the result of each arm, and its ratio to the best peer."""
    arms: dict[str, Entry] = {}
    for runner in runners:
        arm: Entry = {"peer": row.arms[runner.name].peer, "format": row.arms[runner.name].format}
        if runner.failed is not None:
            arms[runner.name] = {**arm, "failed": runner.failed}
            continue
        value = result_of(row, plan, runner)
        arm |= {
            "value": value,
            "seconds": [round(lap["seconds"], 4) for lap in runner.laps],
            "peak": runner.peak,
            "quality": scores.get(runner.name, {}),
        }
        if plan.operations is not None and row.measure == "rate" and arm["format"] in ceilings:
            ceiling = max(ceilings[arm["format"]].values())
            arm["share"] = value * plan.operations / 1e9 / ceiling
        arms[runner.name] = arm
    _add_ratios(arms, less_is_better=row.measure != "rate")
    return {"row": name, "title": row.title, "unit": row.unit, "measure": row.measure, "arms": arms}


def _add_ratios(arms: dict[str, Entry], *, less_is_better: bool) -> None:
    """Add each arm's ratio to the best peer, and to the best peer in the same format."""
    done = [arm for arm in arms.values() if "value" in arm]
    best = min if less_is_better else max
    for arm in done:
        for key, rivals in (
            ("ratio", [peer for peer in done if peer["peer"]]),
            ("ratio_in_format", [p for p in done if p["peer"] and p["format"] == arm["format"]]),
        ):
            if not rivals:
                continue
            rival = best(peer["value"] for peer in rivals)
            pair = (rival, arm["value"]) if less_is_better else (arm["value"], rival)
            arm[key] = pair[0] / pair[1] if pair[1] else None


def machine() -> dict[str, Any]:
    """Describe this machine."""
    return {"cpu": _cpu(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform()}


def _cpu() -> str:
    """Return the name of the CPU with its family, model and instruction sets."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts: dict[str, str] = dict(
        re.split(r"\s*:\s*", line, maxsplit=1) for line in lines if ":" in line
    )
    flags = facts.get("flags", "").split()
    features = [
        text
        for flag, text in (
            *(("amx_tile", "AMX"), ("avx512_bf16", "AVX-512 bf16")),
            *(("avx512_vnni", "VNNI"), ("avx_vnni", "VNNI")),
        )
        if flag in flags
    ]
    name = facts.get("model name") or platform.machine()
    family = f"family {facts['cpu family']} model {facts['model']}" if "model" in facts else ""
    return ", ".join(part for part in (name.strip(), family, *dict.fromkeys(features)) if part)


def path_of(cpu: str) -> Path:
    """Return the path of today's results for a CPU."""
    slug = re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-")
    return FOLDER / f"{datetime.now(UTC):%Y-%m-%d}-{slug}.json"


def add(entry: Entry, path: Path) -> None:
    """Write a row to a file; it replaces the same row with the same number of threads."""
    kept: Entry = read(path) if path.exists() else {"machine": machine(), "rows": []}
    key = (entry["row"], entry["threads"])
    rows = [row for row in kept["rows"] if (row["row"], row["threads"]) != key]
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**kept, "rows": [*rows, entry]}, indent=1) + "\n", "utf-8")
    partial.replace(path)


def read(path: Path) -> Entry:
    """Read a file of results."""
    return json.loads(path.read_text(encoding="utf-8"))
