"""Entities and the tags of words that say them: schemes, what they allow, the likeliest allowed.

A scheme writes each word's part in an entity as a prefix before the entity's type:

=====  ==================================================================================
BIO    ``B-`` begins an entity, ``I-`` goes on with it (also called IOB2)
IOB1   all words have ``I-``; only an entity that follows one of its own type begins with
       ``B-`` (Ramshaw and Marcus 1995, "Text Chunking using Transformation-Based Learning")
IOBES  ``B-`` begins, ``I-`` goes on, ``E-`` ends, ``S-`` is a whole entity; BILOU and BMES
       write the same with other letters, which are read too
=====  ==================================================================================

and ``O`` for a word outside all entities. Shapes: W words, L labels (tags that a model gives).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError

Scheme = Literal["BIO", "IOB1", "IOBES"]

_PREFIXES: dict[Scheme, str] = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES"}
_READ_AS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "M": "I"}


class Entity(NamedTuple):
    """What stands from ``start`` to before ``end``, in characters or in words."""

    start: int
    end: int
    label: str


Word = tuple[int, int]
"""Where a word stands in its text: start and end, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedText:
    """One text and the entities in it."""

    text: str
    words: tuple[Word, ...] | None
    """Where the words stand, one after the other; None where the text was not given as words."""
    entities: tuple[Entity, ...] | None
    """In the order of the text, without overlap, in characters; None where none were read."""
    source: str
    """The file, as it is named in messages."""
    line: int
    """Its line from 1; where each word has a line, that of the first."""

    def line_of(self, entity: Entity) -> int:
        """Return the line on which an entity begins."""
        if self.words is None:
            return self.line
        return self.line + [start for start, _ in self.words].index(entity.start)


class Tag(NamedTuple):
    """A tag taken apart; ``OUTSIDE`` also stands for what is beyond a sentence's ends."""

    prefix: str
    """One of O, B, I, E and S."""
    type: str


OUTSIDE = Tag("O", "")


@lru_cache(maxsize=4096)
def parse_tag(tag: str) -> Tag:
    """Take a tag apart.

    Raises:
        UserError: it is neither ``O`` nor a prefix and a type.
    """
    if tag == "O":
        return OUTSIDE
    letter, _, type_ = tag.partition("-")
    if letter not in _READ_AS or not type_:
        raise UserError(
            f"tag {tag!r}: must be O, or a prefix and a type such as B-PER; prefixes: "
            f"{', '.join(_READ_AS)}"
        )
    return Tag(_READ_AS[letter], type_)


def scheme_of(tags: Sequence[Tag]) -> Scheme | None:
    """Return the scheme that a sentence shows by its first entity; None if it has no entity.

    An entity tells them apart: only in IOBES does one end in ``E-`` or ``S-``, and of the other
    two only in IOB1 does the first of a sentence begin with ``I-``.
    """
    prefixes = [tag.prefix for tag in tags if tag != OUTSIDE]
    if not prefixes:
        return None
    if "E" in prefixes or "S" in prefixes:
        return "IOBES"
    return "IOB1" if prefixes[0] == "I" else "BIO"


def may_follow(before: Tag, tag: Tag, scheme: Scheme) -> bool:
    """Say whether a scheme allows a tag after another."""
    if tag != OUTSIDE and tag.prefix not in _PREFIXES[scheme]:
        return False
    if scheme == "IOBES":
        is_open, goes_on = before.prefix in "BI", tag.prefix in "IE"
        return is_open == goes_on and (before.type == tag.type or not is_open)
    after_its_type = "I" if scheme == "BIO" else "B"
    return tag.prefix != after_its_type or before.type == tag.type


def first_fault(tags: Sequence[Tag], scheme: Scheme) -> int | None:
    """Return the place of the first tag that cannot stand where it does.

    Returns:
        Its index; the number of tags where the last one cannot be the last; None if all can be.
    """
    for place, (before, tag) in enumerate(pairwise([OUTSIDE, *tags, OUTSIDE])):
        if not may_follow(before, tag, scheme):
            return place
    return None


def entities_of(tags: Sequence[Tag]) -> list[Entity]:
    """Return the entities, in words, of tags without a fault in any scheme."""
    found: list[Entity] = []
    for place, (before, tag) in enumerate(pairwise([OUTSIDE, *tags])):
        if tag == OUTSIDE:
            continue
        if tag.prefix in "BS" or tag.type != before.type:
            found.append(Entity(place, place + 1, tag.type))
        else:
            found[-1] = found[-1]._replace(end=place + 1)
    return found


def tags_of(entities: Iterable[Entity], count: int, scheme: Literal["BIO", "IOBES"]) -> list[str]:
    """Write entities, in words, as the tags of ``count`` words."""
    tags = ["O"] * count
    for start, end, label in entities:
        prefixes = "B" + "I" * (end - start - 1)
        if scheme == "IOBES":
            prefixes = "S" if len(prefixes) == 1 else prefixes[:-1] + "E"
        tags[start:end] = [f"{prefix}-{label}" for prefix in prefixes]
    return tags


def labels_of(types: Iterable[str], scheme: Scheme) -> list[str]:
    """Return all tags of a scheme for some types of entity: ``O``, then type by type."""
    return ["O", *(f"{prefix}-{type_}" for type_ in types for prefix in _PREFIXES[scheme])]


@lru_cache(maxsize=64)
def transitions(labels: tuple[str, ...], scheme: Scheme) -> NDArray[np.bool_]:
    """Say which tag may follow which.

    Shape:
        (L + 1, L + 1): row before, column after; the last of either is a sentence's end.
    """
    tags = [*map(parse_tag, labels), OUTSIDE]
    return np.array([[may_follow(before, tag, scheme) for tag in tags] for before in tags])


def likeliest_tags(
    probabilities: NDArray[np.floating], allowed: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the sequence of tags whose probabilities have the largest product of all allowed.

    Viterbi 1967, over words that are taken as independent of each other but for what is forbidden.

    Args:
        probabilities: of each tag. Shape (W, L).
        allowed: see `transitions`. At least one tag may stand anywhere, as ``O`` may.

    Shape:
        (W,) numbers of the tags.
    """
    count, edge = probabilities.shape
    best: NDArray[np.int64] = probabilities.argmax(axis=1)  # (W,)
    path = np.concatenate([[edge], best, [edge]])
    if allowed[path[:-1], path[1:]].all():
        return best  # nothing is likelier than each word's likeliest
    barrier = np.where(allowed, 0.0, -np.inf)  # (L + 1, L + 1)
    # A probability that has underflowed to 0 is unlikely, not forbidden.
    scores = np.log(np.maximum(probabilities.astype(np.float64), np.finfo(np.float64).tiny))
    origin = np.zeros((count, edge), dtype=np.int64)
    total = scores[0] + barrier[edge, :edge]  # (L,)
    for place in range(1, count):
        steps = total[:, None] + barrier[:edge, :edge]  # (L before, L)
        origin[place] = steps.argmax(axis=0)
        total = steps.max(axis=0) + scores[place]
    best[-1] = (total + barrier[:edge, edge]).argmax()
    for place in range(count - 1, 0, -1):
        best[place - 1] = origin[place, best[place]]
    return best
