"""Run several command lines, in one process or in several that share each, and keep what they say.

The argument is JSON: for each command line its name and words. All processes of one whose name is
``stopped`` or ``stopped-scores`` stop at the third shard; of ``killed`` one kills itself there.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

torch.set_num_threads(1)

from heedful import evaluation  # noqa: E402
from heedful.cli import run  # noqa: E402
from heedful.training import ranks  # noqa: E402

to_first = ranks.to_first
fates = {"stopped": [0], "stopped-scores": [0], "killed": [0]}
name = ""


def dying(items: list[Any]) -> list[Any] | None:
    """Share the rows of a shard, or stop as `fates` says."""
    if name in fates:
        fates[name][0] += 1
        if fates[name][0] == 3:
            if name != "killed":
                raise KeyboardInterrupt
            if ranks.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    return to_first(items)


def code_of(words: list[str]) -> int:
    try:
        return run(words)
    except SystemExit as end:  # of all processes but the first
        return int(end.code or 0)


ranks.to_first = dying
evaluation.RECORDS_PER_STEP = 5
with ranks.together():
    folder = Path(f"said/{ranks.size()}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in json.loads(sys.argv[1]).items():
        log = folder / f"{name}-{ranks.rank()}"
        with (
            log.with_suffix(".out").open("w", encoding="utf-8") as out,
            log.with_suffix(".err").open("w", encoding="utf-8") as err,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = code_of(words)
        log.with_suffix(".code").write_text(str(code))
