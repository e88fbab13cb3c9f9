"""The script that compares the training of two versions runs, and detects tiny differences."""

import copy
import math
from typing import Any

import numpy as np
import pytest
from tests.golden import curves
from tests.golden.curves import ROOT, compare, main

RUN: dict[str, Any] = {
    "rows": [
        {"step": 1, "loss": 0.5, "gradient_norm": 2.0, "tokens_per_second": 7.0},
        {"step": 2, "loss": 0.25, "gradient_norm": 1.0, "tokens_per_second": 8.0},
        {"step": 2, "dev": {"accuracy": 0.75}},
    ],
    "weights": {"weight": np.ones((2, 3), dtype=np.float32)},
}


def test_the_same_sources_train_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(curves, "STEPS", 3)
    monkeypatch.setattr("sys.argv", ["curves", str(ROOT), str(ROOT), "--only", "choose-fresh"])
    assert main() == 0
    assert capsys.readouterr().out.split() == ["choose-fresh", "same:", "bit-identical"]


def test_timings_are_not_compared() -> None:
    other = copy.deepcopy(RUN)
    other["rows"][0]["tokens_per_second"] = 1.0
    assert compare(RUN, other, tolerance=0) == "same: bit-identical"


def test_differences_are_told() -> None:
    other = copy.deepcopy(RUN)
    other["rows"][1]["loss"] = math.nextafter(0.25, 1)
    assert compare(RUN, other, tolerance=0).startswith("DIFFERS from step 2 on")
    assert compare(RUN, other, tolerance=1e-10).startswith("same: to ")
    other = copy.deepcopy(RUN)
    other["rows"][2]["dev"]["accuracy"] = 0.5
    assert compare(RUN, other, tolerance=1e-10).startswith("DIFFERS from step 2 on")
    other = copy.deepcopy(RUN)
    other["weights"]["weight"][1, 2] = 2
    assert compare(RUN, other, tolerance=0).startswith("DIFFERS in the final weights alone")
    other["rows"].pop()
    assert compare(RUN, other, tolerance=0) == "DIFFERS: the steps are not the same"
    assert "new has not finished" in compare(RUN, None, tolerance=0)
    assert "other names, such as bias" in compare(
        RUN, {**RUN, "weights": RUN["weights"] | {"bias": np.ones(1)}}, tolerance=0
    )


@pytest.mark.parametrize("odd", [math.nan, None])
def test_a_number_that_is_none_differs(odd: float | None) -> None:
    other = copy.deepcopy(RUN)
    other["rows"][0]["loss"] = odd
    assert compare(RUN, other, tolerance=1e-10).startswith("DIFFERS from step 1 on")
