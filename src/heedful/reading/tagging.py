"""Entities, their word tags, and decoding of the most likely valid tag sequence.

A tagging scheme marks each word's role in an entity by a prefix before the entity's type:

=====  ==================================================================================
BIO    ``B-`` begins an entity, ``I-`` continues it (also called IOB2)
IOB1   all words have ``I-``; only an entity right after another of its type begins with
       ``B-`` (Ramshaw and Marcus 1995, "Text Chunking using Transformation-Based Learning")
IOBES  ``B-`` begins, ``I-`` continues, ``E-`` ends, ``S-`` is a single-word entity; BILOU
       and BMES are the same with other letters, which are also read
any    BIO or IOB1, for a model whose scheme is unknown: any tag may follow any other, and
       ``I-`` continues an open entity of its type, else begins one
=====  ==================================================================================

and ``O`` for a word outside all entities. Shapes: W words, L labels (the model's tags).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError

Scheme = Literal["BIO", "IOB1", "IOBES", "any"]

_PREFIXES: dict[Scheme, str] = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "any": "BI"}
_READ_AS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "M": "I"}


class Entity(NamedTuple):
    """An entity from ``start`` to ``end`` (exclusive), in characters or in words."""

    start: int
    end: int
    label: str


Word = tuple[int, int]
"""The span of a word in its text: start and end, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedText:
    """One text and the entities in it."""

    text: str
    words: tuple[Word, ...] | None
    """Word spans, in order; None if the data does not split the text into words."""
    entities: tuple[Entity, ...] | None
    """In characters, in order, without overlap; None if entities were not read."""
    source: str
    """The file's name in messages."""
    line: int
    """Line of the text, from 1; if each word has a line, the line of the first word."""
    unit: str = "line"
    """The unit of ``line``, such as ``row`` if a file has no lines."""

    @property
    def where(self) -> str:
        """The text's location, for messages."""
        return f"{self.source}, {self.unit} {self.line}"

    def where_of(self, entity: Entity) -> str:
        """Return the location of an entity, for messages: of its first word if each has a line."""
        if self.words is None:
            return self.where
        line = self.line + [start for start, _ in self.words].index(entity.start)
        return f"{self.source}, {self.unit} {line}"


class Tag(NamedTuple):
    """A tag, split into prefix and type. ``OUTSIDE`` also stands before and after a sentence."""

    prefix: str
    """One of O, B, I, E and S."""
    type: str


OUTSIDE = Tag("O", "")


@lru_cache(maxsize=4096)
def parse_tag(tag: str) -> Tag:
    """Split a tag into its prefix and its type.

    Raises:
        UserError: the tag is neither ``O`` nor a prefix and a type.
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
    """Return the scheme inferred from a sentence's tags; None if it has no entity.

    Only IOBES has the prefixes ``E-`` and ``S-``. Of the other two schemes, only in IOB1 does the
    first entity of a sentence begin with ``I-``.
    """
    prefixes = [tag.prefix for tag in tags if tag != OUTSIDE]
    if not prefixes:
        return None
    if "E" in prefixes or "S" in prefixes:
        return "IOBES"
    return "IOB1" if prefixes[0] == "I" else "BIO"


def may_follow(before: Tag, tag: Tag, scheme: Scheme) -> bool:
    """Return whether a scheme allows ``tag`` after ``before``."""
    if tag != OUTSIDE and tag.prefix not in _PREFIXES[scheme]:
        return False
    if scheme == "IOBES":
        is_open, continues = before.prefix in "BI", tag.prefix in "IE"
        return is_open == continues and (before.type == tag.type or not is_open)
    if scheme == "any":
        return True
    after_its_type = "I" if scheme == "BIO" else "B"
    return tag.prefix != after_its_type or before.type == tag.type


def first_invalid(tags: Sequence[Tag], scheme: Scheme) -> int | None:
    """Return the index of the first tag that cannot follow its predecessor.

    Returns:
        The index; the number of tags if the last tag cannot end a sentence; None if all are valid.
    """
    neighbours = enumerate(pairwise([OUTSIDE, *tags, OUTSIDE]))
    return next((i for i, (before, tag) in neighbours if not may_follow(before, tag, scheme)), None)


def entities_of(tags: Sequence[Tag]) -> list[Entity]:
    """Return the entities, in word indices, of a tag sequence that is valid in its scheme."""
    entities: list[Entity] = []
    for position, (before, tag) in enumerate(pairwise([OUTSIDE, *tags])):
        if tag == OUTSIDE:
            continue
        if tag.prefix in "BS" or tag.type != before.type:
            entities.append(Entity(position, position + 1, tag.type))
        else:
            entities[-1] = entities[-1]._replace(end=position + 1)
    return entities


def tags_of(entities: Iterable[Entity], count: int, scheme: Scheme) -> list[str]:
    """Return the tags of ``count`` words with these entities, in IOBES or else in BIO."""
    tags = ["O"] * count
    for start, end, label in entities:
        prefixes = "B" + "I" * (end - start - 1)
        if scheme == "IOBES":
            prefixes = "S" if len(prefixes) == 1 else prefixes[:-1] + "E"
        tags[start:end] = [f"{prefix}-{label}" for prefix in prefixes]
    return tags


def as_labels(tags: Iterable[str], labels: tuple[str, ...]) -> list[str]:
    """Convert tags to the equivalent labels of a model.

    A model may use BILOU or BMES, which have other letters. An IOB1 model may lack a ``B-`` label;
    its ``I-`` label then replaces it.

    Args:
        tags: BIO or IOBES tags, with the model's entity types.
        labels: the model's labels.
    """
    names = _names(labels)
    return [names[parse_tag(tag)] for tag in tags]


@lru_cache(maxsize=64)
def _names(labels: tuple[str, ...]) -> dict[Tag, str]:
    """Return the label of each tag of the model's entity types, or of the nearest existing tag."""
    names = {parse_tag(label): label for label in labels}
    for type_ in {tag.type for tag in names} - {""}:
        present = [Tag(prefix, type_) for prefix in "BIES" if Tag(prefix, type_) in names]
        for prefix in "BIES":
            names.setdefault(Tag(prefix, type_), names[present[0]])
    return names


def labels_of(types: Iterable[str], scheme: Scheme) -> list[str]:
    """Return all tags of a scheme: ``O``, then the tags of each entity type."""
    return ["O", *(f"{prefix}-{type_}" for type_ in types for prefix in _PREFIXES[scheme])]


@lru_cache(maxsize=64)
def transitions(labels: tuple[str, ...], scheme: Scheme) -> NDArray[np.bool_]:
    """Return the matrix of allowed tag transitions.

    Shape:
        (L + 1, L + 1), from row to column. The last row and column are the sentence boundary.
    """
    tags = [*map(parse_tag, labels), OUTSIDE]
    return np.array([[may_follow(before, tag, scheme) for tag in tags] for before in tags])


def viterbi(probabilities: NDArray[np.floating], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the valid tag sequence with the largest product of probabilities.

    Viterbi decoding (Viterbi 1967). Words are independent except for forbidden transitions.

    Args:
        probabilities: tag probabilities of each word. Shape (W, L).
        allowed: see `transitions`. At least one tag, such as ``O``, must be allowed everywhere.

    Shape:
        (W,) tag indices.
    """
    count, edge = probabilities.shape
    best: NDArray[np.int64] = probabilities.argmax(axis=1)  # (W,)
    path = np.concatenate([[edge], best, [edge]])
    if allowed[path[:-1], path[1:]].all():
        return best  # the most likely tag of each word is already a valid sequence
    log_allowed = np.where(allowed, 0.0, -np.inf)  # (L + 1, L + 1)
    # A probability that underflowed to 0 is unlikely, not forbidden.
    scores = np.log(np.maximum(probabilities.astype(np.float64), np.finfo(np.float64).tiny))
    backpointers = np.zeros((count, edge), dtype=np.int64)
    total = scores[0] + log_allowed[edge, :edge]  # (L,)
    for word in range(1, count):
        candidates = total[:, None] + log_allowed[:edge, :edge]  # (L before, L)
        backpointers[word] = candidates.argmax(axis=0)
        total = candidates.max(axis=0) + scores[word]
    best[-1] = (total + log_allowed[:edge, edge]).argmax()
    for word in range(count - 1, 0, -1):
        best[word - 1] = backpointers[word, best[word]]
    return best
