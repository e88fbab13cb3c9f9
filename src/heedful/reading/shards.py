"""Shards: the files of a text that is too large to be read beforehand.

A pattern such as ``shards/*.txt`` names many. What is hashed of each are samples, so that a run
begins at once.
"""

import glob
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.elsewhere import find_elsewhere, is_elsewhere, url_of
from heedful.reading.lines import check_file, open_stored
from heedful.reading.records import Fingerprint

_SAMPLE_BYTES = 2**16
_SAMPLES = 16
"""What is hashed of a file: all of a small one; of others its beginning, its end, and between."""

_AT_ONCE = 8
"""Files that are hashed side by side: there may be thousands, and an object store lets one wait."""


def find_shards(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files that are named, those of a pattern in the order of their names.

    Raises:
        UserError: a pattern fits no file, or a file is missing or named twice.
    """
    shards: dict[Path, None] = {}
    for path in paths:
        for shard in matching(path):
            check_file(shard)
            if shard in shards:
                raise UserError(f"{url_of(shard)}: named twice, so an epoch would read it twice")
            shards[shard] = None
    return tuple(shards)


def matching(pattern: Path) -> list[Path]:
    """Return the files that fit a pattern, in the order of their names; or what is no pattern.

    Raises:
        UserError: no file fits it.
    """
    if not glob.has_magic(str(pattern)) or pattern.is_file():  # its very name has a bracket
        return [pattern]
    if is_elsewhere(pattern):
        matches = find_elsewhere(pattern)
    else:
        matches = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
    if not matches:
        raise UserError(f"{url_of(pattern)}: no file matches this pattern")
    return matches


def shard_prints(shards: Sequence[Path]) -> list[Fingerprint]:
    """Return the size of each shard, and a SHA-256 of it and of samples from all of the file.

    Raises:
        UserError: one cannot be read, or holds nothing.
    """
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(_print, shards))


def _print(shard: Path) -> Fingerprint:
    with open_stored(shard) as stream:
        size = stream.seek(0, 2)
        if size == 0:
            raise UserError(f"{url_of(shard)}: holds no text")
        last = max(size - _SAMPLE_BYTES, 0)
        digest = hashlib.sha256(str(size).encode())
        for start in sorted({last * number // (_SAMPLES - 1) for number in range(_SAMPLES)}):
            stream.seek(start)
            digest.update(stream.read(_SAMPLE_BYTES))
    return Fingerprint(file=url_of(shard), bytes=size, sha256=digest.hexdigest())
