"""Compressed files, which are inflated while they are read: gzip, bzip2, xz and Zstandard."""

import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from heedful.errors import UserError


class DamagedError(Exception):
    """Compressed data cannot be inflated any further.

    Args:
        what: the kind of data, and what is wrong with it.
        reason: more about that, in brackets; or nothing.
    """

    def __init__(self, what: str, reason: str = "") -> None:
        super().__init__(f"{what}{reason}")
        self.what, self.reason = what, reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Compression:
    """A kind of compression."""

    name: str
    magic: tuple[bytes, ...]
    """What its data begins with."""
    module: str
    """What reads it. A Python that was built without some libraries lacks some of these."""
    inflate: Callable[[Any, io.BufferedReader], Any]
    """Takes the module and a stream, and returns the stream that is inflated."""
    errors: Callable[[Any], tuple[type[Exception], ...]]
    """Takes the module, and returns what it raises if data is damaged."""


# Files of several threads begin with a frame to skip, of one of 16 numbers.
_SKIPPED = tuple(bytes([number, 0x2A, 0x4D, 0x18]) for number in range(0x50, 0x60))

_MEMORY = 2**30
"""Bytes that data of xz may ask for; what `xz -9` writes asks for 65 MiB."""

COMPRESSIONS = {
    ".gz": Compression(
        name="gzip",
        magic=(b"\x1f\x8b",),
        module="gzip",
        inflate=lambda gzip, packed: gzip.open(packed),
        errors=lambda gzip: (zlib.error, gzip.BadGzipFile),
    ),
    ".bz2": Compression(
        name="bzip2",
        magic=(b"BZh",),
        module="bz2",
        inflate=lambda bz2, packed: _Streams(packed, bz2.BZ2Decompressor),
        errors=lambda bz2: (OSError,),
    ),
    ".xz": Compression(
        name="xz",
        magic=(b"\xfd7zXZ\x00",),
        module="lzma",
        inflate=lambda lzma, packed: _Streams(
            packed, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_MEMORY)
        ),
        errors=lambda lzma: (lzma.LZMAError,),
    ),
    ".zst": Compression(
        name="Zstandard",
        magic=(b"\x28\xb5\x2f\xfd", *_SKIPPED),
        module="pyarrow",
        inflate=lambda pyarrow, packed: pyarrow.input_stream(packed, compression="zstd"),
        errors=lambda pyarrow: (OSError,),
    ),
}
"""The kinds that are read, by how names end."""

_CUT_SHORT = "Truncated compressed stream"
"""What pyarrow says where others raise EOFError."""
_LONGEST_MAGIC = 6


def compression_of(path: Path) -> Compression | None:
    """Return how a file is compressed, by the ending of its name; None if it is not."""
    return COMPRESSIONS.get(path.suffix.lower())


def without_compression(path: Path) -> Path:
    """Return a file's name without the ending that says how it is compressed."""
    return path if compression_of(path) is None else path.with_suffix("")


def ending_of(path: Path) -> str:
    """Return the ending of a file's name in small letters, without that of its compression."""
    return without_compression(path).suffix.lower()


def looks_compressed(start: bytes) -> str:
    """Return a hint where the start of a file is that of compressed data, else nothing."""
    for ending, kind in COMPRESSIONS.items():
        if start.startswith(kind.magic):
            return f"; it looks like {kind.name}: its name must end in {ending}"
    return ""


def inflated(packed: io.BufferedReader, path: Path, source: str) -> IO[bytes]:
    """Return the content of a stream, inflated as the ending of a file's name says.

    Reading it raises a `DamagedError` where the data ends too early or is damaged.

    Args:
        packed: the stream; one that is not compressed is returned as it is.
        path: the file.
        source: how the file is named in messages.

    Raises:
        UserError: its name ends as if it were compressed, but it is not; or this Python cannot
            inflate it.
    """
    kind = compression_of(path)
    if kind is None:
        return packed
    start = packed.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
    if not start:  # an empty file holds nothing, whatever its name
        return packed
    if not start.startswith(kind.magic):
        raise UserError(f"{source}: not {kind.name} data, though its name ends in {path.suffix}")
    try:
        module = import_module(kind.module)
    except ImportError:
        raise UserError(
            f"{source}: {kind.name} data, which this Python cannot read: it was built without "
            f"the module {kind.module}"
        ) from None
    # The outer buffer finds lines in C; readers of their own go through Python for each.
    return io.BufferedReader(_Inflated(packed, kind, module), _BUFFER_BYTES)


_BUFFER_BYTES = 2**17


class _Streams(io.RawIOBase):
    """Streams of bzip2 or xz one after the other, as their tools write them.

    The files of Python's own modules stop in silence where what follows a stream is none.
    """

    def __init__(self, packed: io.BufferedReader, decompressor: Callable[[], Any]) -> None:
        self._packed, self._new = packed, decompressor
        self._now, self._rest = decompressor(), b""

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer.

        Raises:
            EOFError: a stream does not end.
        """
        while not self._now.eof or self._follows():
            packed, self._rest = self._rest, b""
            if not packed and self._now.needs_input:
                packed = self._packed.read1(_BUFFER_BYTES)
                if not packed:
                    raise EOFError
            content = self._now.decompress(packed, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)
        return 0

    def _follows(self) -> bool:
        """Begin with what follows a stream, past the zeros that may fill up a file."""
        self._rest = self._now.unused_data.lstrip(b"\0")
        while not self._rest:
            packed = self._packed.read1(_BUFFER_BYTES)
            if not packed:
                return False
            self._rest = packed.lstrip(b"\0")
        self._now = self._new()
        return True


class _Inflated(io.RawIOBase):
    """A stream that is inflated, whatever its kind."""

    def __init__(self, packed: io.BufferedReader, kind: Compression, module: Any) -> None:
        self._name, self._errors = kind.name, kind.errors(module)
        self._stream = kind.inflate(module, packed)

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        try:
            return int(self._stream.readinto(buffer))
        except EOFError:
            raise DamagedError(f"{self._name} data cut short") from None
        except self._errors as error:
            if getattr(error, "errno", None) is not None:  # the disk's, not the data's
                raise
            if str(error) == _CUT_SHORT:
                raise DamagedError(f"{self._name} data cut short") from None
            raise DamagedError(f"{self._name} data damaged", f" ({error})") from None

    def close(self) -> None:
        """Let go of the stream."""
        if not self.closed:
            self._stream.close()
        super().close()
