"""Arms take turns, each in its own process."""

import sys
from pathlib import Path

import pytest
from benchmarks.row import Plan
from benchmarks.runner import Runner, result_of, run_arms
from tests.benchmarks.fakes import ROWS, prepare

MODULE = "tests.benchmarks.fakes"


def _run(folder: Path, row: str, names: list[str]) -> dict[str, Runner]:
    prepare(folder, 3, 1.0)
    runners = run_arms(MODULE, row, names, folder, laps=3, threads=1, peers=sys.executable)
    return {runner.name: runner for runner in runners}


def test_arms_take_turns_and_a_failed_arm_stops_no_other(tmp_path: Path) -> None:
    runners = _run(tmp_path, "count", ["a", "broken", "b"])
    assert (tmp_path / "order").read_text() == "ababab"
    assert runners["a"].read_outputs() == runners["b"].read_outputs() == [11, 12, 13]
    assert len(runners["a"].laps) == 3
    assert runners["a"].failed is None
    assert runners["broken"].failed == "ValueError: no such kernel"


def test_arms_may_count_their_own_work(tmp_path: Path) -> None:
    runner = _run(tmp_path, "alone", ["itself"])["itself"]
    assert [lap["amount"] for lap in runner.laps] == [20, 22, 24]


@pytest.mark.parametrize(("row", "expected"), [("rate", 10.0), ("seconds", 2.0), ("memory", 30.0)])
def test_the_result_is_the_median(tmp_path: Path, row: str, expected: float) -> None:
    from dataclasses import replace

    laps = [{"seconds": seconds, "amount": None} for seconds in (1.0, 2.0, 100.0)]
    runner = Runner(name="a", process=None, log=tmp_path, outputs=tmp_path, laps=laps)  # type: ignore[arg-type]
    runner.start_peak, runner.peak = 70, 100
    plan = Plan(amounts=[20.0, 20.0, 20.0])
    assert result_of(replace(ROWS["count"], measure=row), plan, runner) == pytest.approx(expected)  # type: ignore[arg-type]
