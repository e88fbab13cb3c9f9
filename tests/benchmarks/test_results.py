"""Results are compared with the best peer, stored in files, and shown on the page."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks.row import Plan
from benchmarks.rows import ROWS
from benchmarks.runner import Runner
from tests.benchmarks import fakes

from benchmarks import page, results

CEILINGS = {"fp32": {"one": 8.0, "another": 20.0}}


def _runner(name: str, seconds: float, failed: str | None = None) -> Runner:
    laps = [{"seconds": seconds, "amount": None, "peak": 9}]
    path = Path(name)
    runner = Runner(name=name, process=None, log=path, outputs=path, laps=laps, failed=failed)  # type: ignore[arg-type]
    runner.peak = 1234
    return runner


def _entry(**changes: Any) -> results.Entry:
    runners = [_runner("a", 2.0), _runner("b", 4.0), _runner("broken", 1.0, "no kernel")]
    scores = {"a": {"accuracy": 0.5}, "b": {"accuracy": 0.25}}
    plan = Plan(amounts=[40.0], operations=5e8)
    entry = results.entry_of("count", fakes.ROWS["count"], plan, runners, scores, CEILINGS)
    facts = {
        "threads": 2,
        "laps": 1,
        "size": 0.5,
        "command": "heedful bench count",
        "versions": {"heedful": {"torch": "9"}, "peers": {"ctranslate2": "8"}},
        "ceilings": CEILINGS,
        "when": "2026-01-02 03:04",
    }
    return {**entry, **facts, **changes}


def test_arms_are_compared_with_the_best_peer_and_the_peak() -> None:
    arms = _entry()["arms"]
    assert arms["a"]["value"] == pytest.approx(20)
    assert arms["a"]["ratio"] == arms["a"]["ratio_in_format"] == pytest.approx(2)
    assert arms["a"]["share"] == pytest.approx(0.5)  # 20 a second at half a GFLOP each, of 20
    assert arms["b"]["ratio"] == pytest.approx(1)
    assert arms["broken"] == {"peer": True, "format": "int8", "failed": "no kernel"}


def test_the_ratio_is_inverted_if_less_is_better() -> None:
    arms = {
        "ours": {"value": 2.0, "peer": False, "format": "fp32"},
        "theirs": {"value": 6.0, "peer": True, "format": "fp32"},
    }
    results._add_ratios(arms, less_is_better=True)
    assert arms["ours"]["ratio"] == pytest.approx(3)


def test_a_row_replaces_only_its_own_older_result(tmp_path: Path) -> None:
    path = tmp_path / "results" / "day.json"
    results.add(_entry(threads=1), path)
    results.add(_entry(), path)
    results.add(_entry(command="again"), path)
    kept = [(row["threads"], row["command"]) for row in results.read(path)["rows"]]
    assert kept == [(1, "heedful bench count"), (2, "again")]


def test_the_page_shows_the_latest_result_of_each_row(tmp_path: Path) -> None:
    for day, command in (("2026-01-02", "the old"), ("2026-01-03", "the new")):
        entry = _entry(when=f"{day} 00:00", command=command)
        results.add(entry, tmp_path / f"{day}.json")
    text = page.text_of(tmp_path)
    assert "the new" in text
    assert "the old" not in text
    rows = [line for line in text.splitlines() if line.startswith("| a ")]
    assert rows == ["| a | 20 | 2.00 | 2.00 | 50% | 1,234 | accuracy 0.5 |"]
    assert "| broken |  |  |  |  |  | failed: no kernel |" in text


def test_the_page_matches_the_stored_results() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.fill(text, page.text_of(results.FOLDER)) == text, (
        "make it again: python -m benchmarks.page"
    )


def test_every_row_has_an_arm_of_heedful_and_a_peer() -> None:
    for name, row in ROWS.items():
        assert {arm.peer for arm in row.arms.values()} == {True, False}, name
