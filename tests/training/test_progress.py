"""Progress is shown in a terminal or a notebook, and nowhere else."""

import builtins
import re

import pytest

from heedful.training.loop import StepResult
from heedful.training.progress import counted, training_bar

STEP = StepResult(
    step=1,
    epoch=0,
    loss=0.5,
    learning_rate=1e-3,
    gradient_norm=1.0,
    num_items=8,
    tokens=100,
    padded_tokens=120,
    seconds=0.1,
)


class ZMQInteractiveShell:
    """What tells rich that this is a notebook."""


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setenv("TERM", "xterm-color")  # as its kernel has it


@pytest.mark.usefixtures("notebook")
@pytest.mark.filterwarnings("error")  # without ipywidgets rich's own way there only warns
def test_a_notebook_shows_progress_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with training_bar(20_000, 0) as show:
        show(STEP)
    assert list(counted("abc", "texts")) == ["a", "b", "c"]
    seen = capsys.readouterr()
    assert not seen.out
    assert re.search(r"1/20000 .*loss +0\.5000", seen.err)
    assert re.search("texts.* 3 ", seen.err)
    assert "\x1b[1A" not in seen.err  # a notebook cannot go up a line
    lines = [re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", line) for line in seen.err.split("\r")]
    assert (
        len({len(line.strip("\n")) for line in lines if "loss" in line}) == 1
    )  # none shows through


def test_what_nobody_watches_stays_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with training_bar(20, 0) as show:
        show(STEP)
    assert list(counted("abc", "texts")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")
