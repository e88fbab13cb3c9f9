"""The command writes each row as soon as it is measured."""

import sys
from pathlib import Path

import pytest

from benchmarks import measure, results
from heedful.cli import run
from heedful.commands import bench


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Measure the fake rows, and use this interpreter for the peers, too."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.setenv(measure.PEERS, str(tmp_path))
    monkeypatch.setattr(measure, "MODULE", "tests.benchmarks.fakes")
    monkeypatch.setattr(measure, "_ceilings", lambda python, threads: {"fp32": {"x": 10.0}})
    return tmp_path / "results.json"


def test_a_row_is_printed_and_written_before_the_next_is_measured(
    fake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    measured = measure._measure_row

    def watched(*arguments: object) -> results.Entry:
        rows = results.read(fake)["rows"] if fake.exists() else []
        seen.append(([row["row"] for row in rows], capsys.readouterr().out))
        return measured(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(measure, "_measure_row", watched)
    failed = measure.measure(laps=2, threads=1, out=fake)
    assert failed == ["broken in count"]
    (none, _), (one, printed) = seen
    assert (none, one) == ([], ["count"])
    assert "count: counting [up]" in printed
    assert "ValueError: no such kernel" in printed
    row = results.read(fake)["rows"][0]
    assert (row["threads"], row["laps"], row["size"]) == (1, 2, 1.0)
    assert row["arms"]["a"]["quality"] == {"sum": 11 + 12}


def test_rows_and_arms_are_chosen_by_patterns(fake: Path) -> None:
    assert measure.measure(["co*"], arms=["b"], quick=True, out=fake) == []
    (row,) = results.read(fake)["rows"]
    assert list(row["arms"]) == ["b"]
    assert row["arms"]["b"]["quality"] == {"sum": 3 + 4 + 5}  # a fifth of 10, three laps


def test_the_command_measures_and_reports_failures(
    fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "count", "--laps", "1", "--threads", "1", "--results", str(fake)]
    with pytest.raises(SystemExit, match="1"):
        run(words)
    assert "failed: broken in count" in capsys.readouterr().err
    assert run([*words, "--arms", "a", "b"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cuont"], "unknown row 'cuont' (did you mean 'count'?)"),
        (["--arms", "c"], "unknown arm 'c'"),
        (["--laps", "0"], "--laps 0: must be above 0"),
    ],
)
def test_unknown_rows_and_arms_are_reported(
    fake: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(["bench", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_error_says_how_to_create_the_environment_of_the_peers(
    fake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(measure.PEERS, str(fake.parent / "nowhere"))
    assert run(["bench"]) == 2
    assert "'make bench-peers' creates it" in capsys.readouterr().err


def test_an_error_says_that_it_needs_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "CLONE", tmp_path)
    assert run(["bench"]) == 2
    assert "clone it" in capsys.readouterr().err
