"""Read image records from folders, one folder per class. Images are opened later."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import UserError, did_you_mean
from heedful.files import sha256

_CLUTTER = ("Thumbs.db", "desktop.ini", "Icon\r")
"""Files that file managers leave in folders, besides names that begin with a dot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRecord:
    """One image."""

    content: Path | bytes
    """The image file, or its content."""
    source: str
    """The image's name in messages."""
    labels: tuple[str, ...] | None = None
    """The folder name; None if labels were not read."""

    @property
    def where(self) -> str:
        """The image's name in messages."""
        return self.source

    @property
    def file(self) -> str | None:
        """The file name; None if the image is not from a file."""
        return str(self.content) if isinstance(self.content, Path) else None

    @property
    def texts(self) -> dict[str, str]:
        """The fields that identify the image in a prediction's output."""
        return {"picture": self.source}


def read_images(paths: Sequence[Path], *, labelled: bool) -> Iterator[ImageRecord]:
    """Yield the images of folders, sorted by name.

    Only hidden files and the leftovers of file managers are skipped.

    Args:
        paths: with labels, folders with one subfolder per class. Without labels, images, and
            folders of any depth.
        labelled: whether to read labels.

    Raises:
        UserError: immediately for a path that does not exist or is not a folder; during iteration
            for a folder without images, or a file next to the class folders.
    """
    if not paths:
        raise UserError("no folder of images given")
    for path in paths:
        _check(path, labelled)
    return (image for path in paths for image in _read(path, labelled))


def fingerprint_of(folder: Path) -> tuple[int, str]:
    """Return the total bytes of a folder's images, and a hash of their names and contents."""
    total, digest = 0, hashlib.sha256()
    for path in _files(folder):
        total += path.stat().st_size
        digest.update(
            f"{path.relative_to(folder).as_posix()}\0{sha256(path)}\n".encode(
                errors="surrogateescape"
            )
        )
    return total, digest.hexdigest()


def _check(path: Path, labelled: bool) -> None:
    if path.is_dir():
        return
    if path.exists():
        if not labelled:
            return
        raise UserError(f"{path}: a file; give a folder with a folder of images for each class")
    siblings = [x.name for x in path.parent.iterdir()] if path.parent.is_dir() else []
    raise UserError(f"{path}: no such folder{did_you_mean(path.name, siblings)}")


def _read(path: Path, labelled: bool) -> Iterator[ImageRecord]:
    if not labelled:
        for file in _files(path) if path.is_dir() else [path]:
            yield ImageRecord(content=file, source=str(file))
        return
    classes = _entries(path)
    for folder in classes:
        if not folder.is_dir():
            raise UserError(f"{folder}: a file; {path} must hold only a folder for each class")
    if not classes:
        raise UserError(f"{path}: no folder in it; give one with a folder of images for each class")
    for folder in classes:
        images = list(_files(folder))
        if not images:
            raise UserError(f"{folder}: no images in it")
        for file in images:
            yield ImageRecord(content=file, source=str(file), labels=(folder.name,))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without following symlinks to folders."""
    for entry in _entries(folder):
        if entry.is_dir() and not entry.is_symlink():
            yield from _files(entry)
        else:
            yield entry


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None
    return [x for x in entries if not x.name.startswith(".") and x.name not in _CLUTTER]
