"""Texts that were decoded wrongly before we see them."""

from collections.abc import Iterable
from pathlib import Path

from heedful.reading.compressed import DamagedError, ending_of
from heedful.reading.lines import UTF8, open_bytes, source_name

REPLACEMENT = "\ufffd"


def count_damaged(paths: Iterable[Path], encoding: str = UTF8) -> str | None:
    """Say how many U+FFFD files of text hold, and where the first is; None if there is none.

    Each stands for a character that was lost when a text was decoded wrongly.
    """
    try:
        mark = REPLACEMENT.encode(encoding)
    except UnicodeEncodeError:  # the encoding cannot write it
        return None
    count, first = 0, ""
    for path in paths:
        if ending_of(path) == ".parquet" or path.is_dir():
            continue
        try:
            with open_bytes(path) as stream:
                for number, line in enumerate(stream, start=1):
                    if mark in line:
                        count += line.count(mark)
                        first = first or f"{source_name(path)}, line {number}"
        except (OSError, DamagedError):  # told with its place where the file is read
            continue
    if not count:
        return None
    return (
        f"the training data holds {count:,} U+FFFD, each in the place of a character that was lost "
        f"before; the first: {first}"
    )
