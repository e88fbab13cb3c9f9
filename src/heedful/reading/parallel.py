"""Read parallel texts: two files that are aligned line by line, or a table with both columns.

A record's ``text`` is the source and its ``text_pair`` the target, the translation.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.delimited import without_line_end
from heedful.reading.lines import STDIN, check_file, read_lines, source_name
from heedful.reading.records import Record, format_of_extension, read_records
from heedful.settings import ColumnSettings

_NUM_LETTERS = 64
"""Number of most frequent letters to compare per language."""
_MIN_LETTERS = 500
"""Minimum letters for a language comparison. Shorter texts are inconclusive."""
_MIN_GAIN = 0.05
"""Minimum gain in letter overlap for the sides to count as swapped."""
_EMPTY = "empty on a side"


def read_pairs(paths: Sequence[Path], columns: ColumnSettings) -> Iterator[Record]:
    """Stream texts with their translations; either may be empty.

    Args:
        paths: tables, or plain files in pairs. Each line of the second plain file translates the
            same line of the first. A file without a table extension is plain.
        columns: the columns of tables. ``label`` names the translation column.

    Raises:
        UserError: plain files do not come in pairs, are the same file, or differ in their number of
            lines; or see `heedful.reading.records.read_records`.
    """
    if columns.text_pair is not None or columns.label_separator is not None:
        raise UserError(
            "translate reads --text and writes --label: leave out --text-pair and --label-separator"
        )
    plain = [_is_plain(path, columns.format) for path in paths]
    if not any(plain):
        table = replace(columns, text_pair=columns.label, label=None)
        yield from read_records(paths, table, allow_empty=True)
        return
    if not all(plain):
        raise UserError("give either tables or plain files in pairs, not both at once")
    if columns != ColumnSettings(format=columns.format, encoding=columns.encoding):
        raise UserError("plain files have no columns: leave out --text, --label and --no-header")
    for path in paths:
        check_file(path)
    if len(paths) % 2:
        raise UserError(
            f"{source_name(paths[-1])}: plain files come in pairs, a text and its translation on "
            "the same line of each: give the other file, too"
        )
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        yield from _aligned(source, target, columns.encoding)


def read_sources(paths: Sequence[Path], columns: ColumnSettings) -> Iterator[Record]:
    """Stream texts to translate from tables or plain files; a text may be empty.

    Raises:
        UserError: see `heedful.reading.records.read_records`.
    """
    for path in paths:
        kind = "text" if _is_plain(path, columns.format) else columns.format
        yield from read_records([path], replace(columns, label=None, format=kind), allow_empty=True)


def _is_plain(path: Path, format: str | None) -> bool:
    return (format or format_of_extension(path) or "text") == "text"


def _aligned(source: Path, target: Path, encoding: str) -> Iterator[Record]:
    if source == target or (STDIN not in (source, target) and source.samefile(target)):
        raise UserError(f"{source_name(source)}: given as the texts and as their translations")
    number, longer = 0, None
    lines = zip_longest(*(read_lines(path, encoding=encoding) for path in (source, target)))
    for number, (text, translation) in enumerate(lines, start=1):
        if text is None or translation is None:
            longer = source if translation is None else target
            break
        yield Record(
            text=without_line_end(text),
            text_pair=without_line_end(translation),
            labels=None,
            source=f"{source_name(source)} and {source_name(target)}",
            line=number,
        )
    if longer is not None:
        counts = {longer: number + sum(1 for _ in lines)}
        first, second = (f"{counts.get(path, number - 1):,}" for path in (source, target))
        raise UserError(
            f"{source_name(source)} has {first} lines and {source_name(target)} {second}: "
            "line by line they must be translations of each other"
        )
    if number == 0:
        raise UserError(f"{source_name(source)}: holds no records")


@dataclass(kw_only=True, slots=True)
class PairFilter:
    """Filters training pairs, and counts the dropped pairs."""

    max_tokens: int
    """Maximum tokens of a text, and of its translation, end token included."""
    max_ratio: float
    """Maximum ratio of the token counts of the longer and the shorter side."""
    pairs: int = 0
    """Number of pairs so far."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Number of dropped pairs, by reason."""
    _first: dict[str, str] = field(default_factory=dict)

    def keeps(self, record: Record, source_tokens: int, target_tokens: int) -> bool:
        """Return whether to train on a pair."""
        self.pairs += 1
        blank = not (record.text.strip() and (record.text_pair or "").strip())
        reason = _EMPTY if blank else self._reason(source_tokens, target_tokens)
        if reason is None:
            return True
        self.dropped[reason] += 1
        self._first.setdefault(reason, record.where)
        return False

    def _reason(self, source_tokens: int, target_tokens: int) -> str | None:
        shorter, longer = sorted((source_tokens, target_tokens))
        if not shorter:
            return _EMPTY
        if longer >= self.max_tokens:
            return f"longer than {self.max_tokens} tokens"
        if longer > self.max_ratio * shorter:
            return f"with more than {self.max_ratio:g} times the tokens on a side"
        return None

    def report(self) -> str:
        """Return a message on the dropped pairs, by reason, with each first one; empty if none."""
        if not self.dropped:
            return ""
        reasons = ", ".join(
            f"{count:,} {reason} (the first: {self._first[reason]})"
            for reason, count in self.dropped.items()
        )
        return f"dropped {self.dropped.total():,} of {self.pairs:,} pairs: {reasons}"


def letter_shares(texts: Iterable[str]) -> dict[str, float]:
    """Return the shares of a language's most frequent letters, to distinguish languages."""
    letters = _letters(texts)
    total = letters.total()
    frequent = sorted(letters.items(), key=lambda item: (-item[1], item[0]))[:_NUM_LETTERS]
    return {letter: round(count / total, 6) for letter, count in frequent}


def sides_look_swapped(
    records: Iterable[Record], source: Mapping[str, float], target: Mapping[str, float]
) -> bool:
    """Return whether texts and translations look swapped, from their letter frequencies.

    Args:
        records: sample pairs.
        source: letter shares of the source language, from `letter_shares`.
        target: letter shares of the target language.
    """
    pairs = [(record.text, record.text_pair or "") for record in records]
    sides = [[text for text, _ in pairs], [text for _, text in pairs]]
    if min(_letters(side).total() for side in sides) < _MIN_LETTERS:
        return False
    first, second = map(letter_shares, sides)
    as_is = _overlap(first, source) + _overlap(second, target)
    return _overlap(first, target) + _overlap(second, source) > as_is + _MIN_GAIN


def _letters(texts: Iterable[str]) -> Counter[str]:
    counts = Counter("".join(texts).lower())
    return Counter({letter: count for letter, count in counts.items() if letter.isalpha()})


def _overlap(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Return the overlap of two letter distributions, from 0 to 1."""
    return sum(min(share, second.get(letter, 0.0)) for letter, share in first.items())
