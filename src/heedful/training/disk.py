"""Whether several machines share a disk: what one of them writes, the others go on from."""

import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch.distributed as dist

from heedful.training import ranks

_PATIENCE = 30.0
"""Seconds that a file may take to appear on other machines."""


def check_shared(folder: Path) -> None:
    """Check that all processes see the same folder, which is there.

    Raises:
        UserError: naming one that does not see it.
    """
    if ranks.size() == 1:
        return
    mark: list[str] = [f".shared.{uuid4().hex}.partial"]
    dist.broadcast_object_list(mark, 0)
    if ranks.is_first():
        (folder / mark[0]).touch()
    ranks.barrier()
    everyone: list[Any] = [None] * ranks.size()
    dist.all_gather_object(everyone, (platform.node(), _appears(folder / mark[0])))
    if ranks.is_first():
        (folder / mark[0]).unlink()
    for number, (node, seen) in enumerate(everyone):
        if not seen:
            raise ranks.SharedError(
                f"process {number} on {node} does not see {folder}, where process 0 on "
                f"{everyone[0][0]} writes: give a folder on a disk that all machines share"
            )


def _appears(path: Path) -> bool:
    """Tell whether a file is there within the time that a network's disk may keep an old list."""
    end = time.monotonic() + _PATIENCE
    while not path.is_file():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
        for folder in (path.parent.parent, path.parent):
            with suppress(OSError):
                os.listdir(folder)  # has a network's disk look again
    return True
