"""Texts in which characters become others, in other number, and where each of these came from.

A change is a character with a number: 0 takes the place of the next character of the text, -n that
of the next and of the n behind it, and 1 comes from the character that the last change was of. That
is how the compiled reference counts, and so offsets are its own, to the letter.
"""

from collections.abc import Callable

from heedful.tokens.characters import combining_class
from heedful.tokens.clusters import clusters, composition, decomposed
from heedful.tokens.normalize import Sourced

Changes = list[tuple[str, int]]
_MAX_CLUSTER = 5
"""Bytes of the longest cluster for which the reference looks up a rule."""


def placed(changes: Changes, sources: list[int]) -> Sourced:
    """Return the text that changes make, and the source of each of its characters.

    Args:
        changes: what becomes of a text.
        sources: the source of each character of that text.
    """
    new_sources: list[int] = []
    at = 0
    for _, change in changes:
        new_sources.append(sources[at - 1 if change > 0 else at])
        at += 1 - change
    return "".join(character for character, _ in changes), new_sources


def with_rules(text: str, image: Callable[[str], str | None]) -> tuple[Changes, int]:
    """Apply rules for texts as the compiled reference does.

    SentencePiece looks for the longest text that has a rule. The reference looks for a rule for
    each character with the marks on it, if they have fewer than six bytes, else for each alone.

    Args:
        text: the text.
        image: returns what a rule makes of a text, or None where none is for it.

    Returns:
        The changes, and how many characters are dropped before the first.
    """
    changes: Changes = []
    dropped = 0

    def change(old: str, new: str) -> None:
        nonlocal dropped
        more = len(new) - len(old)
        changes.extend((character, 0) for character in new[: len(old)])
        changes.extend((character, 1) for character in new[len(old) :])
        if more < 0 and changes:
            character, number = changes[-1]
            changes[-1] = character, number + more
        elif more < 0:
            # The reference forgets these, and all offsets that follow are off by so many.
            dropped -= more

    for cluster in clusters(text):
        if len(cluster) > 1 and len(cluster.encode("utf-8")) <= _MAX_CLUSTER:
            new = image(cluster)
            if new is not None:
                change(cluster, new)
                continue
        for character in cluster:
            new = image(character)
            change(character, character if new is None else new)
    return changes, dropped


def in_normal_form(text: str, *, compatible: bool, composed: bool) -> Changes:
    """Decompose a text, put its marks in order, and compose it if ``composed``."""
    changes: Changes = []
    marks: list[tuple[int, str, int]] = []
    for character in text:
        for number, part in enumerate(decomposed(character, compatible=compatible)):
            rank = combining_class(part)
            if rank:
                marks.append((rank, part, min(number, 1)))
                continue
            changes += _in_order(marks)
            marks.clear()
            changes.append((part, min(number, 1)))
    changes += _in_order(marks)
    return _composed(changes) if composed else changes


def _in_order(marks: list[tuple[int, str, int]]) -> Changes:
    ordered = sorted(marks, key=lambda mark: mark[0])
    return [(character, number) for _, character, number in ordered]


def _composed(changes: Changes) -> Changes:
    """Join each character that others stand on with those of them with which it makes one."""
    composed: Changes = []
    base = -1
    last_rank = 0
    for character, number in changes:
        rank = combining_class(character)
        if base >= 0 and (rank > last_rank or len(composed) == base + 1):
            whole = composition(composed[base][0], character)
            if whole:
                composed[base] = whole, composed[base][1] + number - 1
                continue
        if not rank:
            base, last_rank = len(composed), 0
        else:
            last_rank = rank
        composed.append((character, number))
    return composed
