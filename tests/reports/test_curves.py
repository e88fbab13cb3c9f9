import json
from pathlib import Path

import pytest

from heedful.reports import charts
from heedful.reports.curves import curves, read_training


def run_with(folder: Path, *rows: dict | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "metrics.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def test_a_resumed_run_is_read_once(tmp_path: Path) -> None:
    rows = [{"step": n, "loss": 9.0 - n, "tokens": 10} for n in (1, 2, 3, 2, 3, 4)]
    rows[3]["loss"] = 5.5
    training = read_training(run_with(tmp_path, *rows, '{"step": 5, "lo'))
    assert list(training.steps) == [1, 2, 3, 4]
    assert training.steps[2]["loss"] == pytest.approx(5.5)
    assert training.tokens == 40


def test_what_is_odd_in_a_log_is_left_out(tmp_path: Path) -> None:
    rows = ["[]", "{}", '{"step": 1, "loss": NaN}', {"step": 2, "loss": None, "dev": "x"}]
    training = read_training(run_with(tmp_path, *rows))
    assert curves(training) == []
    rows = [{"step": 1, "tokens": "x"}, {"step": 2, "tokens": 7}, "[" * 10**5, "9" * 5000]
    log = run_with(tmp_path, *rows) / "metrics.jsonl"
    log.write_bytes(log.read_bytes() + b'\n{"step": 3, "no\xc3')  # cut within a character
    assert read_training(tmp_path).tokens == 7
    assert curves(read_training(tmp_path / "none")) == []


def test_a_long_training_is_drawn_by_few_points(tmp_path: Path) -> None:
    rows = [{"step": n, "loss": 1.0 + n % 2, "learning_rate": 0.1} for n in range(1, 8001)]
    (loss, rate) = curves(read_training(run_with(tmp_path, *rows)))
    (series,) = loss.series
    assert series.path.count("L") == 79
    assert series.band.count(",") == 160
    assert len(loss.rows) == 40
    assert loss.rows[-1] == ["8,000", "1.5"]
    assert "mean of about 100 steps" in loss.head[1]
    assert rate.title == "Learning rate"


def test_scores_of_one_scale_share_a_chart(tmp_path: Path) -> None:
    dev = [{"step": n, "dev": {"accuracy": 0.5, "bleu": 20.0 + n, "items": 9}} for n in (10, 20)]
    shares, bleu = curves(read_training(run_with(tmp_path, *dev)))
    assert shares.head == ["step", "accuracy"]
    assert bleu.head == ["step", "bleu"]
    assert [len(one.marks) for one in (*shares.series, *bleu.series)] == [2, 2]


def test_counts_and_scores_of_other_scales_are_no_shares(tmp_path: Path) -> None:
    names = ("bleu", "bleu_lowercase", "chrf", "perplexity", "log_likelihood", "mse")
    row = {"accuracy": 1.0, "pearson": 0.5, "misplaced_answers": 1, **dict.fromkeys(names, 0.5)}
    shares, *others = curves(read_training(run_with(tmp_path, {"step": 10, "dev": row})))
    assert shares.head == ["step", "accuracy", "pearson"]
    assert [chart.head for chart in others] == [["step", name] for name in names]


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 105, ["0", "20", "40", "60", "80", "100"]),
        (-3, 3, ["-3", "-2", "-1", "0", "1", "2", "3"]),
        (0, 7e-5, ["0", "2e-5", "4e-5", "6e-5"]),
        (0, 12_345, ["0", "5,000", "10,000"]),
    ],
)
def test_ticks_are_round(low: float, high: float, texts: list[str]) -> None:
    scale = charts.Scale(low=low, high=high, start=0, end=100)
    assert [text for _, text in scale.ticks()] == texts
    assert all(0 <= at <= 100 for at, _ in scale.ticks())


def test_one_point_stands_in_the_middle() -> None:
    chart = charts.lines("One", [charts.Series(name="a", points=[(5.0, 2.0)])], x_label="x")
    assert chart.about == "One: a from 2 to 2"
    assert chart.rows == [["5", "2"]]
