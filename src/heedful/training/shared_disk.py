"""Check that all machines share a disk: the other ranks read the files that the first writes."""

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
"""Seconds until a file must be visible on other machines."""


def check_shared(folder: Path) -> None:
    """Check that all ranks see the same existing folder.

    Raises:
        UserError: a rank does not see it; the error names the rank.
    """
    if ranks.size() == 1:
        return
    marker: list[str] = [f".shared.{uuid4().hex}.partial"]
    dist.broadcast_object_list(marker, 0)
    if ranks.is_first():
        (folder / marker[0]).touch()
    ranks.barrier()
    everyone: list[Any] = [None] * ranks.size()
    dist.all_gather_object(everyone, (platform.node(), _appears(folder / marker[0])))
    if ranks.is_first():
        (folder / marker[0]).unlink()
    for number, (node, seen) in enumerate(everyone):
        if not seen:
            raise ranks.SharedError(
                f"process {number} on {node} does not see {folder}, where process 0 on "
                f"{everyone[0][0]} writes: give a folder on a disk that all machines share"
            )


def _appears(path: Path) -> bool:
    """Return whether a file appears before a network disk's cached listing expires."""
    deadline = time.monotonic() + _PATIENCE
    while not path.is_file():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
        for folder in (path.parent.parent, path.parent):
            with suppress(OSError):
                os.listdir(folder)  # makes a network disk refresh its listing
    return True
