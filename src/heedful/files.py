"""Read files that may be damaged or hostile, and write files atomically.

Only JSON, text and safetensors are read, never a pickle.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import struct
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from heedful.errors import MAX_NAME_LENGTH, UserError, shorten

if TYPE_CHECKING:
    from torch import Tensor

MAX_JSON_BYTES = 64 * 2**20
MAX_HEADER_BYTES = 100 * 2**20
RECORD, MANIFEST = "heedful.json", "manifest.json"

# First bytes of pickles of protocol 2 to 5, and of the zip files of pickles that `torch.save`
# writes. Read as the length of a safetensors header, each of these exceeds the size of any file.
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")

_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
"""Matches the number of an operating system error in a message of safetensors."""


def as_path(name: str, value: object) -> Path:
    """Convert an argument of a Python caller to a path.

    Args:
        name: name of the argument, for messages.
        value: value of the argument.

    Raises:
        UserError: the value has another type, or the system does not accept the path.
    """
    if not isinstance(value, str | os.PathLike):
        raise UserError(f"{name} is {shorten(repr(value), MAX_NAME_LENGTH)}: expected a path")
    if value == "":  # Path("") would be the current folder
        raise UserError(f"{name} is empty: expected a path")
    path = Path(os.path.expanduser(value))  # otherwise a folder named ~ would be created
    try:
        path.exists()
    except OSError as error:  # too long, or in a folder without access
        shown = shorten(str(path), MAX_NAME_LENGTH)
        raise UserError(f"{name} {shown!r}: {error.strerror}") from None
    return path


def replace_surrogates(text: str) -> str:
    """Return a text that UTF-8 can encode, with lone surrogates replaced by U+FFFD.

    JSON can contain lone surrogates.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def size_of(path: Path) -> int:
    """Return the size of a regular file.

    Call this before opening a file: a pipe would block, and a device has no end.

    Raises:
        UserError: the file is missing or not a regular file, or the system does not accept the
            name.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        why = " (a link to nowhere)" if path.is_symlink() else ""
        raise UserError(f"{path}: no such file{why}") from None
    except (OSError, ValueError) as error:  # a loop of symlinks, or a name with a NUL
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{str(path)!r}: cannot be read: {reason}") from None
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path}: no such file (it is a folder)")
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: not a regular file")
    return status.st_size


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file.

    Raises:
        UserError: the file holds no object; or see `read_json_value`.
    """
    value = read_json_value(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def read_json_value(path: Path) -> object:
    """Read a JSON value from a file of at most 64 MiB.

    Raises:
        UserError: the file is missing, too large, not UTF-8, or not JSON.
    """
    if (size := size_of(path)) > MAX_JSON_BYTES:
        raise UserError(f"{path}: {size:,} bytes of JSON; at most {MAX_JSON_BYTES:,} are read")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    return parse_json(text, str(path))


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file, or return {} if the path does not exist.

    Raises:
        UserError: see `read_json`; also for a broken symlink.
    """
    # `exists` would silently ignore a broken symlink.
    return read_json(path) if os.path.lexists(path) else {}


def read_fields(
    path: Path, kind: type, *, absent: Mapping[str, object] = MappingProxyType({})
) -> dict[str, Any]:
    """Read a JSON object whose keys are the fields of a dataclass.

    Args:
        path: the file.
        kind: the dataclass.
        absent: default values of keys that files of older versions lack.

    Raises:
        UserError: a key is missing or unknown; or see `read_json`.
    """
    contents = {**absent, **read_json(path)}
    wrong = sorted(contents.keys() ^ {field.name for field in fields(kind)})
    if wrong:
        raise UserError(f"{path}: key {wrong[0]!r} is missing or unknown")
    return contents


def parse_json(
    text: str,
    where: str,
    line: int | None = None,
    *,
    decode: Callable[[str], object] = json.loads,
) -> object:
    """Parse one JSON value.

    Args:
        text: the JSON text, on one or several lines.
        where: the file, for messages.
        line: line number of the start of the value, if the file holds many values.
        decode: the parser; may reject more than `json.loads` does by raising a ValueError.

    Raises:
        UserError: the text is not JSON, with line and column, or ``decode`` raises a UserError.
    """
    location = where if line is None else f"{where}, line {line}"
    try:
        return decode(text)
    except json.JSONDecodeError as error:
        location = f"{where}, line {(line or 1) + error.lineno - 1}"
        has_bom = text.startswith("\ufeff", error.pos)  # invisible in editors
        reason = "a byte order mark" if has_bom else error.msg
        raise UserError(f"{location}, column {error.colno}: not JSON: {reason}") from None
    except RecursionError:
        raise UserError(f"{location}: JSON nested too deeply") from None
    except UserError as error:
        raise UserError(f"{location}: {error}") from None
    except ValueError as error:  # a rejected constant, or a number with thousands of digits
        raise UserError(f"{location}: not JSON: {str(error).partition(';')[0]}") from None


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Reject duplicate keys of a JSON object; `json` alone would keep the last.

    Use it as an ``object_pairs_hook``.

    Raises:
        UserError: a key occurs more than once.
    """
    value = dict(pairs)
    if len(value) != len(pairs):
        ((name, count),) = Counter(name for name, _ in pairs).most_common(1)
        raise UserError(f"{count} keys of one object are named {shorten(name, MAX_NAME_LENGTH)!r}")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an indented JSON object; non-finite numbers raise a ValueError."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    # File names can contain bytes that are not UTF-8, as \udce9, which is also a JSON escape.
    with with_file_name(path):
        path.write_bytes((text + "\n").encode("utf-8", errors="backslashreplace"))


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """Read a safetensors file after checking its header against its size.

    Raises:
        UserError: the file is missing, truncated, or not a safetensors file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    _check_safetensors(path)
    try:
        return load_file(path)
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"{path}: damaged safetensors file: {error}") from None


def _check_safetensors(path: Path) -> None:
    """Reject a header that does not fit the file, before any memory is allocated for it."""
    size = size_of(path)
    with path.open("rb") as stream:
        start = stream.read(8)
    if len(start) < 8:
        raise UserError(f"{path}: {size} bytes, too short for a safetensors file")
    (header,) = struct.unpack("<Q", start)
    if header > MAX_HEADER_BYTES or header + 8 > size:
        if start.startswith(_PICKLES):
            raise UserError(f"{path}: holds a pickle, not safetensors; pickles are never loaded")
        raise UserError(
            f"{path}: its header claims {header:,} bytes of a file of {size:,}; "
            "the file is truncated or not a safetensors file"
        )


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> None:
    """Write tensors as a safetensors file that the reference libraries can read."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: _local(tensor.detach()).cpu().contiguous() for name, tensor in tensors.items()}
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(plain, path, metadata={"format": "pt"})
    except SafetensorError as error:
        if (number := _SYSTEM_ERROR.search(str(error))) is not None:
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
        raise OSError(f"{path}: could not be written: {error}") from None
    path.chmod(mode)  # the library makes its files readable only by the owner


def _local(tensor: "Tensor") -> "Tensor":
    """Return the local tensor of a tensor that is replicated on several ranks."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``path`` at the end; an error deletes it instead.

    The contents are synced to disk before the rename, so a killed process or a crash leaves either
    the old folder or the new one. A process killed between the two renames leaves the old folder
    under a hidden name beside it. If ``path`` is a symlink, its target is replaced.

    Raises:
        UserError: ``path`` exists and ``overwrite`` is false, or the disk is full.
    """
    if path.exists() and not overwrite:
        raise UserError(f"{path} exists; choose another folder or give --overwrite")
    path = path.resolve() if path.name in ("", "..") else symlink_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with with_file_name(path, partial):
        partial.mkdir()
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    try:
        with with_file_name(path, partial):
            yield partial
            sync_tree(partial)
        if path.exists():
            path.rename(old)
        partial.rename(path)
        _sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if old.exists() and not path.exists():  # stopped between the two renames
            old.rename(path)
        raise


def symlink_target(path: Path) -> Path:
    """Return the target of a symlink, so that writing to it keeps the link.

    Raises:
        UserError: the symlink leads back to itself.
    """
    try:
        return path.resolve() if path.is_symlink() else path
    except RuntimeError:
        raise UserError(f"{path}: a link that leads back to itself") from None


def check_new_file(path: Path, *, overwrite: bool = False) -> None:
    """Check that a file can be created.

    Raises:
        UserError: ``path`` exists and ``overwrite`` is false, or it is a folder, a device or a
            pipe, or its folder does not exist.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: not a regular file; choose another file")
    if path.exists() and not overwrite:
        raise UserError(f"{path} exists; choose another file or give --overwrite")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {str(path.parent)!r}")


def check_not_input(option: str, out: Path, read: Iterable[Path]) -> None:
    """Check that an output path does not overwrite an input.

    Args:
        option: the option that gives the output path, for messages.
        out: the file or folder to write.
        read: the files or folders that are read.

    Raises:
        UserError: ``out`` is an input or contains one.
    """
    for path in read:
        if out.resolve() in (path.resolve(), *path.resolve().parents):
            raise UserError(f"{option} {out}: {path} is read from there; choose another name")


@contextmanager
def new_file(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield the path of a temporary file that becomes ``path`` at the end; an error deletes it.

    If ``path`` is a symlink, its target is replaced. Several threads may write the same file
    concurrently.

    Raises:
        UserError: see `check_new_file`.
    """
    check_new_file(path, overwrite=overwrite)
    path = symlink_target(path)
    partial = path.with_name(f".{path.name}.{threading.get_native_id()}.partial")
    try:
        with with_file_name(path, partial):
            yield partial
            _sync(partial)
        partial.replace(path)
        _sync(path.parent)
    finally:
        with suppress(OSError):  # the file system may be read-only
            partial.unlink(missing_ok=True)


@contextmanager
def with_file_name(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Add the file name to operating system errors: it is missing if, say, the disk is full.

    Args:
        path: the file or folder that is written.
        partial: its temporary path until it is complete.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # otherwise the error is our own
            name = str(path if error.filename is None else error.filename)
            error.filename = name.replace(str(partial or path), str(path))
        raise


def sync_tree(folder: Path, *, deep: bool = True) -> None:
    """Sync a folder's entries to disk, and with ``deep`` all files and folders below it."""
    for path in sorted(folder.rglob("*"), reverse=True) if deep else []:
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_manifest(folder: Path) -> None:
    """Write the sizes and hashes of a folder's files; as the last file, it marks completeness."""
    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    write_json(folder / MANIFEST, {"files": files})


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return a folder's manifest entries by file name.

    Raises:
        UserError: the manifest is missing or damaged.
    """
    files = read_json(folder / MANIFEST).get("files")
    if not isinstance(files, dict):
        raise UserError(f"{folder / MANIFEST}: no 'files' in it")
    return files


def check_manifest(folder: Path, only: Container[str] | None = None) -> None:
    """Check the files of a folder against its manifest.

    Args:
        folder: the folder.
        only: names of the files to check; None checks all.

    Raises:
        UserError: the manifest or a file is missing, or a size or a hash differs.
    """
    for name, expected in read_manifest(folder).items():
        if not isinstance(expected, dict) or expected.keys() != {"bytes", "sha256"}:
            raise UserError(f"{folder / MANIFEST}: expected the bytes and the sha256 of {name!r}")
        if only is not None and name not in only:
            continue
        path = folder / name
        if not path.is_file():
            raise UserError(f"{path}: missing")
        if path.stat().st_size != expected["bytes"]:
            raise UserError(f"{path}: {path.stat().st_size} bytes, expected {expected['bytes']}")
        if sha256(path) != expected["sha256"]:
            raise UserError(f"{path}: damaged (its SHA-256 is not the one in {MANIFEST})")
