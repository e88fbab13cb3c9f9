"""Read JSON objects with entities as spans of the text, in two formats.

``{"text": ..., "entities": [{"start", "end", "label"}]}``, and the format of CLUENER (Xu et al.
2020), ``{"text": ..., "label": {type: {text: [[first, last]]}}}``, where ``last`` is inclusive.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.fields import find_field, kind_of, read_text
from heedful.reading.json_objects import (
    get_int,
    get_value,
    read_objects,
    unit_of,
)
from heedful.reading.lines import UTF8, read_files, source_name
from heedful.reading.tagging import Entity, TaggedText


def read_spans(
    path: Path,
    *,
    text: str = "text",
    entities: str | None = None,
    encoding: str = UTF8,
) -> Iterator[TaggedText]:
    """Yield the texts of a file with their entities.

    Each entity is an object with ``start`` and ``end``, counted in characters (code points), and
    ``label``. An optional ``text`` must equal the text of the span. This check detects offsets in
    bytes or UTF-16 units. Other keys are ignored. If the entities are an object instead of a list,
    they are in CLUENER's format.

    Args:
        path: the file; ``-`` is stdin. See `heedful.reading.json_objects.read_objects`.
        text: key of the text.
        entities: key of the entities; by default ``entities``, or ``label`` if that is missing.
        encoding: the character encoding.

    Raises:
        UserError: immediately for a missing file; during iteration for a blank text, and for an
            entity that is outside its text, begins or ends with a space, or overlaps another.
    """
    read = partial(_read, text=text, entities=entities, encoding=encoding)
    return read_files([path], read, "texts")


def _read(path: Path, text: str, entities: str | None, encoding: str) -> Iterator[TaggedText]:
    source, unit = source_name(path), unit_of(path)
    for number, item in read_objects(path, encoding):
        where = f"{source}, {unit} {number}"
        names = list(item)
        field = find_field(text, where, names, 0)
        try:
            content = read_text(list(item.values()), [field], allow_empty=False)
        except UserError as error:
            raise UserError(f"{where}, {error}") from None
        key = entities or (
            "label" if item.get("entities") is None and "label" in item else "entities"
        )
        find_field(key, where, names, 0)
        entities_where = f"{where}, column {key!r}"
        items = item[key]
        if key != "entities" and isinstance(items, Mapping):
            items = list(_from_types(items, entities_where))
        yield TaggedText(
            text=content,
            words=None,
            entities=_entities(items, entities_where, content),
            source=source,
            line=number,
            unit=unit,
        )


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


def _from_types(types: Mapping[str, object], where: str) -> Iterator[dict[str, object]]:
    """Convert CLUENER's entities to our own format, with the text to check."""
    for label, texts in types.items():
        if not isinstance(texts, Mapping):
            raise UserError(
                f"{where}, {label!r}: expected an object {{text: [[first, last]]}}, "
                f"found {kind_of(texts)}"
            )
        for text, positions in texts.items():
            for position in positions if isinstance(positions, list) else [positions]:
                match position:
                    case [int(first), int(last)] if not {type(first), type(last)} - {int}:
                        yield {"start": first, "end": last + 1, "label": label, "text": text}
                    case _:
                        raise UserError(
                            f"{where}, {label!r}, {text!r}: expected [[first, last]], the numbers "
                            "of its first and last characters"
                        )


def _entity(item: object, where: str, text: str) -> Entity:
    start, end = (get_int(item, key, where) for key in ("start", "end"))
    label, slice_ = get_value(item, "label", where), text[start:end]
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
