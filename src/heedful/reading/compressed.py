"""Decompress files while reading them: gzip, bzip2, xz and Zstandard."""

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
    """Compressed data is damaged or truncated.

    Args:
        what: the kind of data and the problem.
        reason: details in parentheses, or empty.
    """

    def __init__(self, what: str, reason: str = "") -> None:
        super().__init__(f"{what}{reason}")
        self.problem, self.reason = what, reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Compression:
    """A compression format."""

    name: str
    magic: tuple[bytes, ...]
    """Possible magic numbers at the start of the data."""
    module: str
    """The module that reads the format. Python builds without some libraries lack some modules."""
    inflate: Callable[[Any, io.BufferedReader], Any]
    """Takes the module and a stream, and returns the decompressed stream."""
    errors: Callable[[Any], tuple[type[Exception], ...]]
    """Takes the module, and returns the exceptions it raises for damaged data."""


# Multi-threaded compressors write a skippable frame first, with one of 16 magic numbers.
_SKIPPABLE_FRAMES = tuple(bytes([number, 0x2A, 0x4D, 0x18]) for number in range(0x50, 0x60))

_MEMORY_LIMIT = 2**30
"""Memory limit in bytes for xz decompression. The output of `xz -9` needs 65 MiB."""

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
        inflate=lambda bz2, packed: _ConcatenatedStreams(packed, bz2.BZ2Decompressor),
        errors=lambda bz2: (OSError,),
    ),
    ".xz": Compression(
        name="xz",
        magic=(b"\xfd7zXZ\x00",),
        module="lzma",
        inflate=lambda lzma, packed: _ConcatenatedStreams(
            packed, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
        ),
        errors=lambda lzma: (lzma.LZMAError,),
    ),
    ".zst": Compression(
        name="Zstandard",
        magic=(b"\x28\xb5\x2f\xfd", *_SKIPPABLE_FRAMES),
        module="pyarrow",
        inflate=lambda pyarrow, packed: pyarrow.input_stream(packed, compression="zstd"),
        errors=lambda pyarrow: (OSError,),
    ),
}
"""The supported compression formats, by file extension."""

_TRUNCATED_MESSAGE = "Truncated compressed stream"
"""The message of pyarrow where other modules raise EOFError."""
_LONGEST_MAGIC = 6


def compression_of(path: Path) -> Compression | None:
    """Return a file's compression format by its extension; None if it is not compressed."""
    return COMPRESSIONS.get(path.suffix.lower())


def without_compression(path: Path) -> Path:
    """Return a file's path without its compression extension."""
    return path if compression_of(path) is None else path.with_suffix("")


def extension_of(path: Path) -> str:
    """Return a file's extension in lowercase, ignoring a compression extension."""
    return without_compression(path).suffix.lower()


def compression_hint(start: bytes) -> str:
    """Return a hint if a file's first bytes look like compressed data, else an empty string."""
    for ending, kind in COMPRESSIONS.items():
        if start.startswith(kind.magic):
            return f"; it looks like {kind.name}: decompress it, or let its name end in {ending}"
    return ""


def decompressed(packed: io.BufferedReader, path: Path, source: str) -> IO[bytes]:
    """Return a decompressed stream, in the format of the file's extension.

    Reading the stream raises a `DamagedError` if the data is truncated or damaged.

    Args:
        packed: the stream. An uncompressed stream is returned unchanged.
        path: the file.
        source: the file's name in messages.

    Raises:
        UserError: the extension names a compression format that the data does not have, or this
            Python cannot decompress it.
    """
    kind = compression_of(path)
    if kind is None:
        return packed
    start = packed.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
    if not start:  # an empty file has no content, whatever its extension
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
    # The outer buffer splits lines in C. The modules' own readers call Python code for each line.
    return io.BufferedReader(_Inflated(packed, kind, module), _BUFFER_BYTES)


_BUFFER_BYTES = 2**17


class _ConcatenatedStreams(io.RawIOBase):
    """Reader of concatenated bzip2 or xz streams, as their command-line tools write them.

    The file objects of Python's own modules silently stop at invalid data after a stream.
    """

    def __init__(self, packed: io.BufferedReader, decompressor: Callable[[], Any]) -> None:
        self._packed, self._new_decompressor = packed, decompressor
        self._decompressor, self._unused = decompressor(), b""

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read decompressed bytes into a buffer.

        Raises:
            EOFError: the last stream is truncated.
        """
        while not self._decompressor.eof or self._start_next():
            packed, self._unused = self._unused, b""
            if not packed and self._decompressor.needs_input:
                packed = self._packed.read1(_BUFFER_BYTES)
                if not packed:
                    raise EOFError
            content = self._decompressor.decompress(packed, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)
        return 0

    def _start_next(self) -> bool:
        """Start the next stream, after any zero padding; return whether there is one."""
        self._unused = self._decompressor.unused_data.lstrip(b"\0")
        while not self._unused:
            packed = self._packed.read1(_BUFFER_BYTES)
            if not packed:
                return False
            self._unused = packed.lstrip(b"\0")
        self._decompressor = self._new_decompressor()
        return True


class _Inflated(io.RawIOBase):
    """A decompressed stream of any format."""

    def __init__(self, packed: io.BufferedReader, kind: Compression, module: Any) -> None:
        self._name, self._errors = kind.name, kind.errors(module)
        self._stream = kind.inflate(module, packed)

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read decompressed bytes into a buffer."""
        try:
            return int(self._stream.readinto(buffer))
        except EOFError:
            raise DamagedError(f"{self._name} data cut short") from None
        except self._errors as error:
            if getattr(error, "errno", None) is not None:  # an I/O error, not damaged data
                raise
            if str(error) == _TRUNCATED_MESSAGE:
                raise DamagedError(f"{self._name} data cut short") from None
            raise DamagedError(f"{self._name} data damaged", f" ({error})") from None

    def close(self) -> None:
        """Close the decompressed stream."""
        if not self.closed:
            self._stream.close()
        super().close()
