"""Text rewriting that tracks the source of each character.

A change is a new character with a number: 0 if it replaces the next character of the text, -n if it
replaces the next character and the n after it, or 1 if it has the same source as the previous
change. The compiled reference counts in the same way, so offsets match it exactly.
"""

from collections.abc import Callable

from heedful.tokens.characters import combining_class
from heedful.tokens.clusters import clusters, compose, decompose
from heedful.tokens.normalize import Sourced

Changes = list[tuple[str, int]]
_MAX_CLUSTER = 5
"""UTF-8 bytes of the longest cluster for which the reference looks up a rule."""


def apply_changes(changes: Changes, sources: list[int]) -> Sourced:
    """Return the text that changes produce, and the source of each of its characters.

    Args:
        changes: the changes to a text.
        sources: the source of each character of the original text.
    """
    new_sources: list[int] = []
    source_index = 0
    for _, change in changes:
        new_sources.append(sources[source_index - 1 if change > 0 else source_index])
        source_index += 1 - change
    return "".join(character for character, _ in changes), new_sources


def apply_rules(text: str, image: Callable[[str], str | None]) -> tuple[Changes, int]:
    """Apply normalisation rules like the compiled reference.

    SentencePiece looks up the longest string with a rule. The reference looks up each character
    with its marks, if the cluster has fewer than six bytes. Otherwise it looks up every character
    separately.

    Args:
        text: the text.
        image: returns a rule's replacement for a string, or None if no rule matches.

    Returns:
        The changes, and the number of characters dropped before the first change.
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
            # The reference ignores these, so all its later offsets are off by their number.
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


def to_normal_form(text: str, *, compatible: bool, composed: bool) -> Changes:
    """Decompose a text, order its marks canonically, and compose it if ``composed``."""
    changes: Changes = []
    marks: list[tuple[int, str, int]] = []
    for character in text:
        for part_index, part in enumerate(decompose(character, compatible=compatible)):
            mark_class = combining_class(part)
            if mark_class:
                marks.append((mark_class, part, min(part_index, 1)))
                continue
            changes += _sorted_marks(marks)
            marks.clear()
            changes.append((part, min(part_index, 1)))
    changes += _sorted_marks(marks)
    return _composed(changes) if composed else changes


def _sorted_marks(marks: list[tuple[int, str, int]]) -> Changes:
    ordered = sorted(marks, key=lambda mark: mark[0])
    return [(character, number) for _, character, number in ordered]


def _composed(changes: Changes) -> Changes:
    """Compose each base character with those of its marks with which it forms one character."""
    composed: Changes = []
    base = -1
    last_class = 0
    for character, number in changes:
        mark_class = combining_class(character)
        if base >= 0 and (mark_class > last_class or len(composed) == base + 1):
            combined = compose(composed[base][0], character)
            if combined:
                composed[base] = combined, composed[base][1] + number - 1
                continue
        if not mark_class:
            base, last_class = len(composed), 0
        else:
            last_class = mark_class
        composed.append((character, number))
    return composed
