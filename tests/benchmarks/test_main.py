"""A benchmark takes minutes: each row is there as soon as it is measured."""

import sys
from collections.abc import Iterator

import pytest

from benchmarks import __main__ as bench

ROW = {"name": "a", "ours": 1234.0, "peer": 2.0, "unit": "x/s", "ratio": 617.0, "quality": "[0.9]"}


def test_a_row_is_printed_before_the_next_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []

    def rows() -> Iterator[dict[str, object]]:
        yield ROW
        printed.append(capsys.readouterr().out)
        yield {**ROW, "name": "the second row " * 10, "memory": "1 / 2"}

    monkeypatch.setattr(bench, "BENCHMARKS", {"some": rows})
    monkeypatch.setattr(bench, "ceiling", lambda: {"fp32": 100.0})
    monkeypatch.setattr(sys, "argv", ["benchmarks", "some"])
    bench.main()
    heading, first = printed[0].splitlines()[-2:]
    assert first.split() == ["a", "1,234", "2", "x/s", "617.00", "[0.9]"]
    second, *wrapped = capsys.readouterr().out.splitlines()
    assert wrapped  # a long name goes on below itself
    # The columns line up although each row is laid out alone.
    assert second.index("x/s") == first.index("x/s") == heading.index("unit")
    assert second.index("[0.9]") == first.index("[0.9]") == heading.index("quality")


def test_an_unknown_benchmark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "tokeniser"])
    with pytest.raises(SystemExit, match="no benchmark 'tokeniser'; there are: tokenizer, "):
        bench.main()
