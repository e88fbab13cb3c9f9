"""Bytes to lines of text, one at a time, from files and stdin.

Whatever can be wrong with a file of any format is reported here: it is missing, a folder, not
readable, damaged, named as if it were compressed, not UTF-8, binary, or has a line without an end.
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
from heedful.reading.compressed import DamagedError, inflated, looks_compressed
from heedful.reading.elsewhere import check_elsewhere, is_elsewhere, open_elsewhere, url_of

MAX_LINE_BYTES = 16 * 2**20
"""The longest line that is read: far above any text a model takes, far below any memory."""

STDIN = Path("-")
UTF8 = "utf-8"  # as Python itself names it

Item = TypeVar("Item")

_BUFFER_BYTES = 2**17


def is_utf8(encoding: str) -> bool:
    """Tell whether an encoding is UTF-8, which has several names, with or without its mark."""
    return codecs.lookup(encoding).name in (UTF8, "utf-8-sig")


def source_name(path: Path) -> str:
    """Return how a file is named in messages."""
    return "standard input" if path == STDIN else url_of(path)


def read_files(
    paths: Sequence[Path], read: Callable[[Path], Iterator[Item]], content: str
) -> Iterator[Item]:
    """Check that files exist, and stream what they hold, one file after another.

    Args:
        paths: the files; ``-`` is stdin.
        read: streams one file.
        content: what each file must hold, in the plural, for messages.

    Raises:
        UserError: at once for no file and for a missing one; during iteration for one that holds
            nothing.
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
    """Refuse what cannot be a data file before anything is read.

    Raises:
        UserError: there is no such file (the message suggests the nearest name in its folder), it
            is a folder, or it may not be read.
    """
    if path == STDIN:
        return
    if is_elsewhere(path):
        check_elsewhere(path)
        return
    try:
        if path.is_dir():
            raise UserError(f"{path}: a folder; give a file")
        if path.exists():
            return
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

    Only ``\n`` ends a line, so that no other character of the text is taken for a line end. A byte
    order mark at the start is dropped. A file is inflated as it is read if its name ends as that of
    a compressed one.

    Args:
        path: the file.
        max_bytes: the longest line that is read.
        encoding: Python's name of how characters are stored; its line ends must be those of ASCII.

    Raises:
        UserError: with file, line and byte, for whatever the top of this module lists.
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
                    hint = _foreign(start) or (_hint(raw) if number == 1 else "")
                    if encoding == UTF8 and not hint:
                        hint = _looks_like(raw + stream.read(_BUFFER_BYTES))
                    hint = hint or _wider(raw, encoding)
                    byte = f"byte {error.start + 1} is 0x{raw[error.start]:02x}"
                    raise UserError(
                        f"{source}, line {number}: not {encoding.upper()} ({byte}{hint})"
                    ) from None
                if number == 1:
                    if _has_returns_alone(raw):
                        raise UserError(
                            f"{source}: lines end in a carriage return alone; save it with LF or "
                            "CRLF"
                        )
                    line = line.removeprefix("\ufeff")
                    if not line:
                        continue
                if "\0" in line:
                    nul = raw.index(b"\0") + 1
                    raise UserError(
                        f"{source}, line {number}: byte {nul} is NUL; this is not a text file"
                        f"{_foreign(start)}"
                    )
                yield line
    except DamagedError as error:
        lines = f"{number:,} whole lines"
        raise UserError(f"{source}: {error.what} after {lines}{error.reason}") from None
    except OSError as error:
        raise UserError(f"{source}: cannot be read: {error.strerror}") from None


def _foreign(start: bytes) -> str:
    """Return what a file that is no text may be, by its first bytes, and what to do about it."""
    for mark, (kind, way_out) in _FOREIGN.items():
        if start.startswith(mark):
            return f"; it looks like {kind}: {way_out}"
    return ""


_FOREIGN = {
    b"PK\x03\x04": ("an Excel or Word file, or another zip archive", "save it as CSV or as text"),
    b"\xd0\xcf\x11\xe0": ("a file of an older Excel or Word", "save it as CSV or as text"),
    b"%PDF": ("a PDF file", "save it as text"),
    b"PAR1": ("a Parquet file", "its name must end in .parquet"),
    b"ARROW1": ("an Arrow file", "save it as Parquet"),
    b"SQLite": ("a database", "save a table of it as CSV"),
    b"\x89HDF": ("an HDF5 file", "save it as CSV"),
    b"\x93NUMPY": ("an array of numpy", "save it as CSV"),
}
_LONGEST_MARK = max(map(len, _FOREIGN))


def _hint(raw: bytes) -> str:
    """Return what a file that is not UTF-8 may be, by how it begins."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "; it looks like UTF-16: save it as UTF-8"
    return looks_compressed(raw)


def _looks_like(raw: bytes) -> str:
    """Return the encoding that a text seems to have, by how many of its characters are common."""
    shares = {}
    for encoding in ("gb18030", "big5"):
        text = raw[: raw.rfind(b"\n") + 1 or len(raw)].decode(encoding, errors="replace")
        others = [one for one in text if one > "\x7f"]
        shares[encoding] = sum(one in _COMMON for one in others) / max(len(others), 1)
    encoding = max(shares, key=lambda name: shares[name])
    if shares[encoding] < _ENOUGH:
        return "; if it is in another encoding, such as Excel's cp1252, give that by --encoding"
    return f"; it looks like {encoding.upper()}: give --encoding {encoding}"


def _has_returns_alone(raw: bytes) -> bool:
    """Tell whether a first line is a whole file, whose lines end as on old Macintoshes."""
    return not raw.endswith(b"\n") and b"\r" in raw.rstrip(b"\r")


def _wider(raw: bytes, encoding: str) -> str:
    """Return the encoding that holds more characters than the given one, if a line is in it."""
    wider = _WIDER.get(codecs.lookup(encoding).name)
    try:
        known = wider is not None and bool(raw.decode(wider))
    except UnicodeDecodeError:
        return ""
    return f"; give --encoding {wider}, which has more characters" if known else ""


_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "big5": "cp950"}
"""Python's own Big5 lacks characters that Windows writes, such as 裏."""
_COMMON = frozenset(
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可"
    "她里后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面起"
    "公同三已老从动两长知样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正"
    "這來國個說們為時會著過對裡後麼沒於還發當無開經頭從動兩長樣現將與進實點種聲話兒產東車業"
    "，。、！？：；“”「」《》（）"
)
"""The most frequent characters of Chinese, Simplified and Traditional, and its marks."""
_ENOUGH = 0.25
"""The least share of them in a Chinese text; of bytes that are read wrongly few are."""


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, or stdin for ``-``, inflated if its name ends as that of a compressed one.

    Raises:
        UserError: its name ends so, but it is not compressed; or stdin is closed.
    """
    if path == STDIN:
        if sys.stdin is None:
            raise UserError("standard input: closed")
        yield sys.stdin.buffer
    else:
        with (
            open_stored(path) as stored,
            inflated(stored, path, source_name(path)) as stream,
        ):
            yield stream


def open_stored(path: Path) -> AbstractContextManager[io.BufferedReader]:
    """Open a file as it is stored, wherever it is."""
    return open_elsewhere(path) if is_elsewhere(path) else path.open("rb")
