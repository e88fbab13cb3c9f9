"""JSON lines with entities as spans of the text: ``{"text": ..., "entities": [...]}``."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.fields import find_field, kind_of, read_text
from heedful.reading.json_objects import number_of, read_objects, value_of
from heedful.reading.lines import read_files, source_name
from heedful.reading.tagging import Entity, TaggedText


def read_spans(
    path: Path, *, text: str = "text", entities: str = "entities"
) -> Iterator[TaggedText]:
    """Yield the texts of a file with their entities.

    Each entity is an object with ``start`` and ``end``, counted in characters (code points), and
    ``label``. If it has a ``text`` too, that must be the text between them: this shows offsets that
    were counted in bytes or UTF-16 units. Other keys are ignored.

    Args:
        path: the file; ``-`` is stdin.
        text: key of the text.
        entities: key of the entities.

    Raises:
        UserError: at once for a missing file; during iteration for a blank text, and for an entity
            that is outside its text, begins or ends with a space, or overlaps another.
    """
    return read_files([path], partial(_read, text=text, entities=entities), "texts")


def _read(path: Path, text: str, entities: str) -> Iterator[TaggedText]:
    source = source_name(path)
    for number, item in read_objects(path):
        where = f"{source}, line {number}"
        fields = [find_field(name, where, list(item), 0) for name in (text, entities)]
        try:
            content = read_text(list(item.values()), fields[:1], allow_empty=False)
        except UserError as error:
            raise UserError(f"{where}, {error}") from None
        spans = _entities(item[entities], f"{where}, column {entities!r}", content)
        yield TaggedText(text=content, words=None, entities=spans, source=source, line=number)


def _entities(items: object, where: str, text: str) -> tuple[Entity, ...]:
    if not isinstance(items, list):
        raise UserError(f"{where}: expected a list, found {kind_of(items)}")
    entities = sorted(
        _entity(item, f"{where}, entity {number}", text)
        for number, item in enumerate(items, start=1)
    )
    for entity, next_ in pairwise(entities):
        if next_.start < entity.end:
            first, second = (
                f"{label} {start}–{end} {text[start:end]!r}"
                for start, end, label in (entity, next_)
            )
            raise UserError(f"{where}: {first} overlaps {second}; entities may not overlap")
    return tuple(entities)


def _entity(item: object, where: str, text: str) -> Entity:
    start, end = (number_of(item, key, where) for key in ("start", "end"))
    label, slice_ = value_of(item, "label", where), text[start:end]
    if not isinstance(label, str):
        raise UserError(f"{where}: 'label': expected the name of a type, found {kind_of(label)}")
    if not label.isprintable() or not label or label != label.strip():
        raise UserError(f"{where}: 'label': {label!r} cannot name a type")
    if end <= start:
        raise UserError(f"{where}: {start}–{end} is empty; an entity must end after its start")
    if start < 0 or end > len(text):
        raise UserError(f"{where}: {start}–{end} is outside the text of {len(text)} characters")
    if slice_ != slice_.strip():
        raise UserError(
            f"{where}: {start}–{end} {slice_!r} begins or ends with a space; leave it out"
        )
    assert isinstance(item, Mapping)
    if item.get("text", slice_) != slice_:
        raise UserError(
            f"{where}: {start}–{end} is {slice_!r}, not {item['text']!r}; offsets count characters"
        )
    return Entity(start, end, label)
