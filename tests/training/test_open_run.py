"""Which runs may go on in a folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from heedful.checkpoints.opening import check_run, make_run
from heedful.checkpoints.runs import RECORD, RunRecord, read_record
from heedful.errors import UserError
from heedful.settings import RunSettings


def record(task: str) -> RunRecord:
    return RunRecord(task=task, goal={}, max_length=8, settings={}, data=[], versions={})


def test_a_run_goes_on_with_its_own_task_only(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert check_run(RunSettings(out=run), record("regress"))
    assert not run.exists()
    make_run(RunSettings(out=run), record("regress"))
    assert check_run(RunSettings(out=run, resume=True), record("regress"))
    with pytest.raises(UserError, match="is a run of train regress, not of train generate"):
        check_run(RunSettings(out=run, resume=True), record("generate"))


@pytest.mark.parametrize(("key", "value"), [("task", 3), ("goal", []), ("max_length", "8")])
def test_a_record_of_other_kinds_is_damaged(key: str, value: Any, tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps(asdict(record("regress")) | {key: value}))
    with pytest.raises(UserError, match=f"heedful.json: '{key}' is "):
        read_record(tmp_path)
