"""Shards: the files of a dataset that is too large to read in advance.

A pattern such as ``shards/*.txt`` names many shards. Only samples of each shard are hashed, so that
a run starts immediately.
"""

import glob
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.lines import check_file, open_raw
from heedful.reading.records import Fingerprint
from heedful.reading.remote import find_remote, is_remote, url_of

_SAMPLE_BYTES = 2**16
_SAMPLES = 16
"""Number of evenly spaced samples to hash, from start to end. A small file is hashed completely."""

_NUM_THREADS = 8
"""Files to hash concurrently. There may be thousands, and object stores have high latency."""


def find_shards(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the named files. The files of a pattern are sorted by name.

    Raises:
        UserError: a pattern matches no file, or a file is missing or named twice.
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
    """Return the files that match a pattern, sorted by name. A plain path is returned unchanged.

    Raises:
        UserError: no file matches the pattern.
    """
    if not glob.has_magic(str(pattern)) or pattern.is_file():  # the file name itself has a bracket
        return [pattern]
    if is_remote(pattern):
        matches = find_remote(pattern)
    else:
        matches = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
    if not matches:
        raise UserError(f"{url_of(pattern)}: no file matches this pattern")
    return matches


def shard_fingerprints(shards: Sequence[Path]) -> list[Fingerprint]:
    """Return each shard's size and a SHA-256 over the size and samples of the content.

    Raises:
        UserError: a shard is unreadable or empty.
    """
    with ThreadPoolExecutor(_NUM_THREADS) as threads:
        return list(threads.map(_fingerprint, shards))


def _fingerprint(shard: Path) -> Fingerprint:
    with open_raw(shard) as stream:
        size = stream.seek(0, 2)
        if size == 0:
            raise UserError(f"{url_of(shard)}: holds no text")
        last = max(size - _SAMPLE_BYTES, 0)
        digest = hashlib.sha256(str(size).encode())
        for start in sorted({last * index // (_SAMPLES - 1) for index in range(_SAMPLES)}):
            stream.seek(start)
            digest.update(stream.read(_SAMPLE_BYTES))
    return Fingerprint(file=url_of(shard), bytes=size, sha256=digest.hexdigest())
