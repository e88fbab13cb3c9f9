"""Which runs may go on in a folder."""

from pathlib import Path

import pytest

from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError
from heedful.training.fit import open_run


def record(task: str) -> RunRecord:
    return RunRecord(task=task, goal={}, max_length=8, settings={}, data=[], versions={})


def test_a_run_goes_on_with_its_own_task_only(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert open_run(run, record("regress"), resume=False, overwrite=False)
    assert open_run(run, record("regress"), resume=True, overwrite=False)
    with pytest.raises(UserError, match="is a run of train regress, not of train generate"):
        open_run(run, record("generate"), resume=True, overwrite=False)
