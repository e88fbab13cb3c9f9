"""Detect texts that an earlier program decoded wrongly."""

from collections.abc import Iterable
from pathlib import Path

from heedful.reading.compressed import DamagedError, extension_of
from heedful.reading.lines import UTF8, is_utf8, open_bytes, source_name

REPLACEMENT = "\ufffd"


def count_damaged(paths: Iterable[Path], encoding: str = UTF8) -> str | None:
    """Return a message on the count of U+FFFD in text files and the first location, or None.

    Each U+FFFD replaces a character that was lost in an earlier wrong decoding.
    """
    try:
        # Python's utf-8-sig would write a byte order mark before it.
        mark = REPLACEMENT.encode(UTF8 if is_utf8(encoding) else encoding)
    except UnicodeEncodeError:  # the encoding does not have this character
        return None
    count, first = 0, ""
    for path in paths:
        if extension_of(path) == ".parquet" or path.is_dir():
            continue
        try:
            with open_bytes(path) as stream:
                for number, line in enumerate(stream, start=1):
                    if mark in line:
                        count += line.count(mark)
                        first = first or f"{source_name(path)}, line {number}"
        except (OSError, DamagedError):  # reported with its location when the file is read
            continue
    if not count:
        return None
    return (
        f"the training data has {count:,} U+FFFD, each in place of a character that was lost "
        f"earlier; the first: {first}"
    )
