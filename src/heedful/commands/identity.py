"""What answers depend on: processes compare it, and so does one that goes on."""

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
from heedful.reading.elsewhere import is_elsewhere
from heedful.reading.shards import shard_prints
from heedful.sources import PACKAGES, resolve
from heedful.training import ranks

_FREE = ("device", "precision")
"""Settings that may differ from machine to machine; the precision is the one that is used."""


def identity(run: Path, predictor: Predictor, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what answers depend on beside the data, ready for JSON.

    Args:
        run: the run.
        predictor: of it.
        options: what decides the answers, beside the predictor's settings.
    """
    settings = {key: v for key, v in asdict(predictor.settings).items() if key not in _FREE}
    facts = {
        "version": __version__,
        "run": _print_of_run(resolve(run) if os.fspath(run) in PACKAGES else run),
        "settings": {**settings, "precision": predictor.precision.name, **options},
    }
    plain: dict[str, Any] = json.loads(json.dumps(facts))  # as it is read from a file
    return plain


def prints_beside(
    predictor: Predictor, data: Sequence[Path], others: Sequence[Path] = ()
) -> list[str]:
    """Return hashes of what answers depend on beside the records that are read of the data.

    Args:
        predictor: answers.
        data: the files, or folders, that records are read of.
        others: files that are read besides.
    """
    seen = data if "see" in predictor.task.abilities else ()  # records say where pictures are
    return [item.sha256 for item in fingerprint([*others, *seen], folders=True)]


def check_same(
    run: Path, predictor: Predictor, options: Mapping[str, Any], data: Sequence[Path]
) -> None:
    """Check that several processes answer for the same, each on its machine.

    Args:
        run: the run.
        predictor: of it.
        options: what decides the answers, beside the predictor's settings.
        data: the files that are read.

    Raises:
        UserError: naming what differs; or a file is missing, or cannot be read by all.
    """
    if ranks.size() > 1:
        with ranks.failing_together():
            prints = {str(path): _print(path) for path in data}
            facts = identity(run, predictor, options)
        ranks.check_same({**facts, **prints})


def check_identity(where: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with what was started otherwise.

    Args:
        where: what it is, for the message.
        before: its identity when it was started.
        now: its identity now.

    Raises:
        UserError: naming what differs.
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


def _print(path: Path) -> str:
    """Return a hash of a file, or of samples of a large one; or of all pictures of a folder.

    Raises:
        UserError: it is missing, or is a pipe, which is read once.
    """
    sampled = is_elsewhere(path) or path.is_file()
    (item,) = shard_prints([path]) if sampled else fingerprint([path], folders=True)
    return item.sha256


def _print_of_run(folder: Path) -> str:
    """Return a hash of what is in a run's manifest, or of all files of another library's folder."""
    if (folder / files.MANIFEST).is_file():
        return files.sha256(folder / files.MANIFEST)
    names = sorted(path for path in folder.iterdir() if path.is_file())
    digest = hashlib.sha256()
    for path in names:
        line = f"{path.name}\0{files.sha256(path)}\n"
        digest.update(line.encode(errors="surrogateescape"))  # a name may not be UTF-8
    return digest.hexdigest()
