"""Texts and their translations: two files that are aligned line by line, or a table of both.

A record's ``text`` is the source and its ``text_pair`` the target, its translation.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.delimited import without_line_end
from heedful.reading.lines import STDIN, check_file, read_lines, source_name
from heedful.reading.records import Record, ending_format, read_records
from heedful.settings import ColumnSettings

_LETTERS = 64
"""How many letters of a language are compared, the most frequent ones."""
_LEAST_LETTERS = 500
"""A text with fewer letters says too little about its language."""
_CLEARLY = 0.05
"""How much better the letters must match when the sides are swapped."""
_EMPTY = "empty on a side"


def read_pairs(paths: Sequence[Path], columns: ColumnSettings) -> Iterator[Record]:
    """Stream texts with their translations; either may be empty.

    Args:
        paths: tables; or plain files in pairs, where each line of the second file translates that
            line of the first. A file without a table's ending is plain.
        columns: of tables: ``label`` names the column of the translations.

    Raises:
        UserError: plain files do not come in pairs, are the same, or differ in their number of
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
    return (format or ending_format(path) or "text") == "text"


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
class Cleaning:
    """Decides which pairs to learn from, and counts the others."""

    max_tokens: int
    """The most tokens of a text, and of its translation, with the one that ends it."""
    max_ratio: float
    """The most tokens of one for each token of the other."""
    pairs: int = 0
    """Pairs so far."""
    dropped: Counter[str] = field(default_factory=Counter)
    """How many were dropped, by reason."""
    _first: dict[str, str] = field(default_factory=dict)

    def keeps(self, record: Record, source_tokens: int, target_tokens: int) -> bool:
        """Tell whether to learn from a pair."""
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
        """Return how many pairs were dropped, why, and the first of each kind; empty if none."""
        if not self.dropped:
            return ""
        reasons = ", ".join(
            f"{count:,} {reason} (the first: {self._first[reason]})"
            for reason, count in self.dropped.items()
        )
        return f"dropped {self.dropped.total():,} of {self.pairs:,} pairs: {reasons}"


def letter_shares(texts: Iterable[str]) -> dict[str, float]:
    """Return the shares of a language's most frequent letters, which tell it from others."""
    letters = _letters(texts)
    total = letters.total()
    frequent = sorted(letters.items(), key=lambda item: (-item[1], item[0]))[:_LETTERS]
    return {letter: round(count / total, 6) for letter, count in frequent}


def look_swapped(
    records: Iterable[Record], source: Mapping[str, float], target: Mapping[str, float]
) -> bool:
    """Tell whether texts and translations look swapped, by the letters of a run's languages.

    Args:
        records: some pairs.
        source: shares of the letters of the source language, from `letter_shares`.
        target: shares of the letters of the target language.
    """
    pairs = [(record.text, record.text_pair or "") for record in records]
    sides = [[text for text, _ in pairs], [text for _, text in pairs]]
    if min(_letters(side).total() for side in sides) < _LEAST_LETTERS:
        return False
    first, second = map(letter_shares, sides)
    as_is = _overlap(first, source) + _overlap(second, target)
    return _overlap(first, target) + _overlap(second, source) > as_is + _CLEARLY


def _letters(texts: Iterable[str]) -> Counter[str]:
    counts = Counter("".join(texts).lower())
    return Counter({letter: count for letter, count in counts.items() if letter.isalpha()})


def _overlap(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Return the share that two languages' letters have in common, from 0 to 1."""
    return sum(min(share, second.get(letter, 0.0)) for letter, share in first.items())
