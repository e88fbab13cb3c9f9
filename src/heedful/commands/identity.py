"""Fingerprint of all inputs that predictions depend on.

Processes compare it with each other, and a resumed command with its start.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from heedful import __version__, files
from heedful.errors import UserError, other_option
from heedful.predictor import Predictor
from heedful.reading import fingerprint
from heedful.reading.remote import is_remote
from heedful.reading.shards import shard_fingerprints
from heedful.sources import PACKAGES, resolve
from heedful.training import ranks

_MACHINE_SETTINGS = ("device", "precision")
"""Settings that may differ between machines; `identity` adds the precision that is used."""


def identity(run: Path, predictor: Predictor, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything but the data that predictions depend on, in JSON types.

    Args:
        run: the run.
        predictor: predictor of the run.
        options: options that affect predictions, besides the predictor's settings.
    """
    settings = {
        key: v for key, v in asdict(predictor.settings).items() if key not in _MACHINE_SETTINGS
    }
    facts = {
        "version": __version__,
        "run": _run_fingerprint(resolve(run) if os.fspath(run) in PACKAGES else run),
        "settings": {**settings, "precision": predictor.precision.name, **options},
    }
    as_read: dict[str, Any] = json.loads(json.dumps(facts))  # the types that a file gives
    return as_read


def file_fingerprints(
    predictor: Predictor, data: Sequence[Path], others: Sequence[Path] = ()
) -> list[str]:
    """Return hashes of the files that predictions depend on besides the records themselves.

    Args:
        predictor: the predictor.
        data: files or folders of the records.
        others: other files that are read.
    """
    images = data if "see" in predictor.task.abilities else ()  # records hold only image paths
    return [item.sha256 for item in fingerprint([*others, *images], folders=True)]


def check_same(
    run: Path, predictor: Predictor, options: Mapping[str, Any], data: Sequence[Path]
) -> None:
    """Check that all processes have the same run, settings and data, each on its machine.

    Args:
        run: the run.
        predictor: predictor of the run.
        options: options that affect predictions, besides the predictor's settings.
        data: the files that are read.

    Raises:
        UserError: something differs, or a file is missing or cannot be read by every process.
    """
    if ranks.size() > 1:
        with ranks.failing_together():
            prints = {str(path): _fingerprint_of(path) for path in data}
            facts = identity(run, predictor, options)
        ranks.check_same({**facts, **prints})


def check_identity(where: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Check that a resumed command has the same identity as at its start.

    Args:
        where: folder of the unfinished output, for the message.
        before: identity at the start.
        now: identity now.

    Raises:
        UserError: something differs; the message names it.
    """
    if before["version"] != now["version"]:
        raise UserError(
            f"{where} was started by heedful {before['version']}, this is {now['version']}"
        )
    if before["run"] != now["run"]:
        raise UserError(f"{where} was started with another run: its files have changed")
    for key in sorted(before["settings"].keys() | now["settings"].keys()):
        old, new = before["settings"].get(key), now["settings"].get(key)
        if old != new:
            raise other_option(where, key, old, new)
    for key in now:
        if before[key] != now[key]:
            raise UserError(f"{where} was started with other {key}")


def _fingerprint_of(path: Path) -> str:
    """Return a hash of a file, of samples of a large file, or of all images of a folder.

    Raises:
        UserError: the file is missing, or is a pipe, which can be read only once.
    """
    sampled = is_remote(path) or path.is_file()
    (item,) = shard_fingerprints([path]) if sampled else fingerprint([path], folders=True)
    return item.sha256


def _run_fingerprint(folder: Path) -> str:
    """Return a hash of a run's manifest, or of all files of another library's folder."""
    if (folder / files.MANIFEST).is_file():
        return files.sha256(folder / files.MANIFEST)
    names = sorted(path for path in folder.iterdir() if path.is_file())
    digest = hashlib.sha256()
    for path in names:
        line = f"{path.name}\0{files.sha256(path)}\n"
        digest.update(line.encode(errors="surrogateescape"))  # a name may not be UTF-8
    return digest.hexdigest()
