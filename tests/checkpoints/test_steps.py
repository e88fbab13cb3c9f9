"""Deleting checkpoints: a half-deleted checkpoint never stops a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful import files
from heedful.checkpoints import runs, steps
from heedful.checkpoints.steps import TrainingState


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Make a run with checkpoints of four steps, the best of which is the second."""
    some = {"x": torch.zeros(1)}
    for step in range(1, 5):
        state = TrainingState(step=step, best=((0.5, 2),) if step > 1 else ())
        steps.save(tmp_path, state, model=some, average=None, optimizer=some, random=some)
    return tmp_path


def half_deleted(folder: Path) -> None:
    """Delete partly, as a process that is killed meanwhile."""
    for name in ("manifest.json", steps.STATE):
        (folder / name).unlink()
    raise MemoryError


def test_the_newest_and_the_best_are_kept(run: Path) -> None:
    steps.prune(run, keep=1)
    assert steps.steps(run) == [2, 4]


@pytest.mark.parametrize("later", [False, True])
def test_a_process_that_is_killed_leaves_no_half_checkpoint(
    run: Path, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", half_deleted)
        with pytest.raises(MemoryError):
            steps.drop_after(run, 3) if later else steps.prune(run, keep=2, needed=[4, 3])
    left = [2, 3, 4] if not later else [1, 2, 3]
    assert steps.steps(run) == left
    for step in left:
        steps.load(steps.folder_of(run, step))
    runs.clear_partial(run)
    assert len([*(run / "checkpoints").iterdir()]) == 3


def test_a_checkpoint_without_a_state_is_not_counted(run: Path) -> None:
    for step in (1, 3):  # as versions left them that deleted in place
        with pytest.raises(MemoryError):
            half_deleted(steps.folder_of(run, step))
    steps.prune(run, keep=3)
    assert steps.steps(run) == [2, 4]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("best", value) for value in (5, None, [3], [[0.5]], [["x", 1]], [[0.5, None]])),
        *(("step", value) for value in ("4", None, 4.0, True)),
        *(("alike", 1), ("loss_scale", "x"), ("stream", []), ("epoch", [])),
    ],
)
def test_a_state_of_other_kinds_is_skipped(run: Path, key: str, value: Any) -> None:
    folder = steps.folder_of(run, 4)
    state = json.loads((folder / steps.STATE).read_text())
    (folder / steps.STATE).write_text(json.dumps(state | {key: value}))
    (folder / files.MANIFEST).unlink()
    files.write_manifest(folder)
    found, (line,) = steps.newest(run)
    assert found is not None
    assert found.state.step == 3
    assert line.startswith(f"skipped {folder}: {folder / steps.STATE}: {key!r} is ")
    steps.prune(run, keep=1)
    assert steps.steps(run) == [2, 3]


@pytest.mark.parametrize("kind", ["a folder", "nothing named", "not all named"])
def test_a_manifest_that_says_too_little_is_skipped(run: Path, kind: str) -> None:
    path = steps.folder_of(run, 4) / files.MANIFEST
    named = json.loads(path.read_text())["files"]
    path.unlink()
    if kind == "a folder":
        path.mkdir()
    else:
        del named[steps.OPTIMIZER]
        files.write_json(path, {"files": named if kind == "not all named" else {}})
    found, (line,) = steps.newest(run)
    assert found is not None
    assert found.state.step == 3
    assert str(path) in line
