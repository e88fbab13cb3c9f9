"""Arms take turns, each in its own process."""

import sys
from pathlib import Path

import pytest
from benchmarks.race import Runner, figure, race
from benchmarks.row import Plan
from tests.benchmarks.fakes import ROWS, prepare

MODULE = "tests.benchmarks.fakes"


def _race(folder: Path, row: str, names: list[str]) -> dict[str, Runner]:
    prepare(folder, 3, 1.0)
    runners = race(MODULE, row, names, folder, laps=3, threads=1, peers=sys.executable)
    return {runner.name: runner for runner in runners}


def test_laps_are_taken_in_turn_and_a_failure_stops_nobody_else(tmp_path: Path) -> None:
    runners = _race(tmp_path, "count", ["a", "broken", "b"])
    assert (tmp_path / "order").read_text() == "ababab"
    assert runners["a"].read_answers() == runners["b"].read_answers() == [11, 12, 13]
    assert len(runners["a"].laps) == 3
    assert runners["a"].failed is None
    assert runners["broken"].failed == "ValueError: no such kernel"


def test_arms_may_count_what_they_have_done(tmp_path: Path) -> None:
    runner = _race(tmp_path, "alone", ["itself"])["itself"]
    assert [lap["amount"] for lap in runner.laps] == [20, 22, 24]


@pytest.mark.parametrize(("row", "expected"), [("rate", 10.0), ("seconds", 2.0), ("memory", 30.0)])
def test_what_counts_is_the_median(tmp_path: Path, row: str, expected: float) -> None:
    from dataclasses import replace

    laps = [{"seconds": seconds, "amount": None} for seconds in (1.0, 2.0, 100.0)]
    runner = Runner(name="a", process=None, log=tmp_path, answers=tmp_path, laps=laps)  # type: ignore[arg-type]
    runner.start_peak, runner.peak = 70, 100
    plan = Plan(amounts=[20.0, 20.0, 20.0])
    assert figure(replace(ROWS["count"], measure=row), plan, runner) == pytest.approx(expected)  # type: ignore[arg-type]
