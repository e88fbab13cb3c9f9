"""Decode bytes into lines of text, one at a time, from files and stdin.

This module reports the errors of files of any format: a file is missing, a folder, unreadable,
damaged, not compressed despite its extension, not UTF-8, binary, or has an endless line.
"""

import codecs
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, TypeVar

from heedful.errors import UserError, did_you_mean
from heedful.reading.compressed import DamagedError, compression_hint, decompressed
from heedful.reading.remote import check_remote, is_remote, open_remote, url_of

MAX_LINE_BYTES = 16 * 2**20
"""Maximum length of a line: far above any model input, far below any memory size."""

STDIN = Path("-")
UTF8 = "utf-8"  # Python's canonical name

Item = TypeVar("Item")

_BUFFER_BYTES = 2**17


def is_utf8(encoding: str) -> bool:
    """Return whether an encoding is UTF-8 under any name, with or without byte order mark."""
    return codecs.lookup(encoding).name in (UTF8, "utf-8-sig")


def source_name(path: Path) -> str:
    """Return a file's name in messages."""
    return "standard input" if path == STDIN else url_of(path)


def read_files(
    paths: Sequence[Path], read: Callable[[Path], Iterator[Item]], content: str
) -> Iterator[Item]:
    """Check that files exist, then stream their items in sequence.

    Args:
        paths: the files; ``-`` is stdin.
        read: streams the items of one file.
        content: the plural name of the items, for messages.

    Raises:
        UserError: immediately for an empty list and for a missing file; during iteration for a file
            without items.
    """
    if not paths:
        raise UserError("no data file given")
    for path in paths:
        check_file(path)
    return chain.from_iterable(_not_empty(path, read, content) for path in paths)


def _not_empty(path: Path, read: Callable[[Path], Iterator[Item]], content: str) -> Iterator[Item]:
    items = read(path)
    first = next(items, None)
    if first is None:
        raise UserError(f"{source_name(path)}: holds no {content}")
    yield first
    yield from items


def check_file(path: Path) -> None:
    """Refuse a path that cannot be a data file, before anything is read.

    Raises:
        UserError: the file does not exist (the message suggests the nearest name in its folder), is
            a folder, or is not readable.
    """
    if path == STDIN:
        return
    if is_remote(path):
        check_remote(path)
        return
    try:
        if path.is_dir():
            raise UserError(f"{path}: a folder; give a file")
        if path.exists():
            return
        if path.is_symlink():
            raise UserError(f"{path}: no such file (a link to nowhere)")
        if not path.parent.is_dir():
            raise UserError(f"{path}: no such file (there is no folder {str(path.parent)!r})")
        siblings = [sibling.name for sibling in islice(path.parent.iterdir(), 10_000)]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    raise UserError(f"{path}: no such file{did_you_mean(path.name, siblings)}")


def read_lines(
    path: Path, max_bytes: int = MAX_LINE_BYTES, *, encoding: str = UTF8
) -> Iterator[str]:
    r"""Yield the lines of a text file, or of stdin for ``-``, with their line ends.

    Only ``\n`` ends a line, so that no other character of the text counts as a line end. A byte
    order mark at the start is dropped. A file with a compression extension is decompressed while
    reading.

    Args:
        path: the file.
        max_bytes: maximum length of a line.
        encoding: Python's name of the character encoding. Its line ends must be those of ASCII.

    Raises:
        UserError: any error listed in the module docstring, with file, line and byte.
    """
    source = source_name(path)
    number, start = 0, b""
    encoding = UTF8 if is_utf8(encoding) else encoding
    try:
        with open_bytes(path) as stream:
            while raw := stream.readline(max_bytes + 1):
                number += 1
                start = start or raw[:_LONGEST_MARK]
                if len(raw) > max_bytes:
                    raise UserError(f"{source}, line {number}: longer than {max_bytes:,} bytes")
                try:
                    line = raw.decode(encoding)
                except UnicodeDecodeError as error:
                    hint = _format_hint(start) or (_utf8_hint(raw) if number == 1 else "")
                    if encoding == UTF8 and not hint:
                        hint = _encoding_hint(raw + stream.read(_BUFFER_BYTES))
                    hint = hint or _superset_hint(raw, encoding)
                    byte = f"byte {error.start + 1} is 0x{raw[error.start]:02x}"
                    raise UserError(
                        f"{source}, line {number}: not {encoding.upper()} ({byte}{hint})"
                    ) from None
                if number == 1:
                    if _has_bare_returns(raw):
                        raise UserError(
                            f"{source}: lines end in a carriage return alone; save it with LF or "
                            "CRLF"
                        )
                    line = line.removeprefix("\ufeff")
                    if not line:
                        continue
                if "\0" in line:
                    nul = raw.find(b"\0") + 1  # 0 in UTF-7, which writes it in ASCII
                    place = f"byte {nul}" if nul else "a character"
                    raise UserError(
                        f"{source}, line {number}: {place} is NUL; this is not a text file"
                        f"{_format_hint(start)}"
                    )
                yield line
    except DamagedError as error:
        lines = f"{number:,} whole lines"
        raise UserError(f"{source}: {error.problem} after {lines}{error.reason}") from None
    except OSError as error:
        raise UserError(f"{source}: cannot be read: {error.strerror}") from None


def _format_hint(start: bytes) -> str:
    """Return a hint on the format of a non-text file, from its first bytes, with advice."""
    for mark, (kind, advice) in _FORMATS.items():
        if start.startswith(mark):
            return f"; it looks like {kind}: {advice}"
    return ""


_FORMATS = {
    b"PK\x03\x04": ("an Excel or Word file, or another zip archive", "save it as CSV or as text"),
    b"\xd0\xcf\x11\xe0": ("a file of an older Excel or Word", "save it as CSV or as text"),
    b"%PDF": ("a PDF file", "save it as text"),
    b"PAR1": ("a Parquet file", "its name must end in .parquet"),
    b"ARROW1": ("an Arrow file", "save it as Parquet"),
    b"SQLite": ("a database", "save a table of it as CSV"),
    b"\x89HDF": ("an HDF5 file", "save it as CSV"),
    b"\x93NUMPY": ("an array of numpy", "save it as CSV"),
}
_LONGEST_MARK = max(map(len, _FORMATS))


def _utf8_hint(raw: bytes) -> str:
    """Return a hint on the format of a file that is not UTF-8, from its first bytes."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "; it looks like UTF-16: save it as UTF-8"
    return compression_hint(raw)


def _encoding_hint(raw: bytes) -> str:
    """Return a hint on the likely encoding of a text, from its share of common characters."""
    shares = {}
    for encoding in ("gb18030", "big5"):
        text = raw[: raw.rfind(b"\n") + 1 or len(raw)].decode(encoding, errors="replace")
        non_ascii = [char for char in text if char > "\x7f"]
        shares[encoding] = sum(char in _COMMON_CHARS for char in non_ascii) / max(len(non_ascii), 1)
    encoding = max(shares, key=lambda name: shares[name])
    if shares[encoding] < _MIN_COMMON_SHARE:
        return "; if it is in another encoding, such as Excel's cp1252, give that by --encoding"
    return f"; it looks like {encoding.upper()}: give --encoding {encoding}"


def _has_bare_returns(raw: bytes) -> bool:
    """Return whether the first line is a whole file with bare CR line ends (classic Mac OS)."""
    return not raw.endswith(b"\n") and b"\r" in raw.rstrip(b"\r")


def _superset_hint(raw: bytes, encoding: str) -> str:
    """Return a hint to use a superset of the given encoding, if the line decodes with it."""
    superset = _SUPERSETS.get(codecs.lookup(encoding).name)
    try:
        decodes = superset is not None and bool(raw.decode(superset))
    except UnicodeDecodeError:
        return ""
    return f"; give --encoding {superset}, which has more characters" if decodes else ""


_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "big5": "cp950"}
"""Supersets of encodings. Python's Big5 lacks characters that Windows writes, such as 裏."""
_COMMON_CHARS = frozenset(
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可"
    "她里后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面起"
    "公同三已老从动两长知样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正"
    "這來國個說們為時會著過對裡後麼沒於還發當無開經頭從動兩長樣現將與進實點種聲話兒產東車業"
    "，。、！？：；“”「」《》（）"
)
"""Most frequent Chinese characters, Simplified and Traditional, and punctuation."""
_MIN_COMMON_SHARE = 0.25
"""Minimum share of common characters in Chinese text. Wrongly decoded bytes have few of them."""


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, or stdin for ``-``. A file with a compression extension is decompressed.

    Raises:
        UserError: a file with a compression extension is not compressed, or stdin is closed.
    """
    if path == STDIN:
        # A name of its own: Python would crash if it closed it at exit, while a thread reads.
        stdin = sys.stdin
        if stdin is None:
            raise UserError("standard input: closed")
        yield stdin.buffer
    else:
        with (
            open_raw(path) as stored,
            decompressed(stored, path, source_name(path)) as stream,
        ):
            yield stream


def open_raw(path: Path) -> AbstractContextManager[io.BufferedReader]:
    """Open a local or remote file without decompression."""
    return open_remote(path) if is_remote(path) else path.open("rb")
