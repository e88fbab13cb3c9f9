"""JSON lines with entities as places in the text: ``{"text": ..., "entities": [...]}``."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from heedful.errors import UserError
from heedful.reading.fields import Field, find_field, kind_of, read_text
from heedful.reading.json_objects import read_objects
from heedful.reading.lines import check_file, source_name
from heedful.reading.tagging import Entity, TaggedText


def read_spans(
    path: Path, *, text: str = "text", entities: str = "entities"
) -> Iterator[TaggedText]:
    """Yield the texts of a file with their entities.

    Each entity is an object with ``start`` and ``end``, counted in characters (code points), and
    ``label``. If it has ``text`` too, that must be what stands there: offsets that were counted in
    bytes or UTF-16 units are noticed so. Other keys are left to whoever wrote them.

    Args:
        path: the file; ``-`` is stdin.
        text: key of the text.
        entities: key of the entities.

    Raises:
        UserError: at once for a file that is missing, during iteration for a text that is blank,
            and for an entity that is not in its text, is blank at an end, or overlaps another.
    """
    check_file(path)
    return _read(path, text, entities)


def _read(path: Path, text: str, entities: str) -> Iterator[TaggedText]:
    source = source_name(path)
    number = 0
    for number, value in read_objects(path):
        where = f"{source}, line {number}"
        names = list(value)
        fields = [find_field(name, where, names, 0) for name in (text, entities)]
        values = list(value.values())
        try:
            content = read_text(values, fields[:1], allow_empty=False)
            found = _entities(values[fields[1].place], fields[1], content)
        except UserError as error:
            raise UserError(f"{where}, {error}") from None
        yield TaggedText(text=content, words=None, entities=found, source=source, line=number)
    if not number:
        raise UserError(f"{source}: holds no texts")


def _entities(value: object, field: Field, text: str) -> tuple[Entity, ...]:
    if not isinstance(value, list):
        raise UserError(f"column {field.name!r}: expected a list, found {kind_of(value)}")
    found = []
    for number, item in enumerate(value, start=1):
        try:
            found.append(_entity(item, text))
        except UserError as error:
            raise UserError(f"column {field.name!r}, entity {number}: {error}") from None
    found.sort()
    for one, other in pairwise(found):
        if other.start < one.end:
            raise UserError(
                f"{one.label} {one.start}–{one.end} {text[one.start : one.end]!r} overlaps "
                f"{other.label} {other.start}–{other.end} {text[other.start : other.end]!r}; "
                "entities stand side by side"
            )
    return tuple(found)


def _entity(item: object, text: str) -> Entity:
    if not isinstance(item, Mapping):
        raise UserError(f"expected an object, found {kind_of(item)}")
    start, end = (_integer(item, key) for key in ("start", "end"))
    label = item.get("label")
    if not isinstance(label, str):
        found = kind_of(label) if "label" in item else "none"
        raise UserError(f"'label': expected the name of a type, found {found}")
    if not label.isprintable() or not label or label != label.strip():
        raise UserError(f"'label': {label!r} is no name of a type")
    if end <= start:
        raise UserError(f"{start}–{end}: ends where it begins, or before")
    if start < 0 or end > len(text):
        raise UserError(f"{start}–{end} is outside the text, which has {len(text)} characters")
    slice_ = text[start:end]
    if slice_ != slice_.strip():
        raise UserError(f"{start}–{end} {slice_!r} begins or ends with a space; leave it out")
    if item.get("text", slice_) != slice_:
        raise UserError(
            f"{start}–{end} is {slice_!r}, not {item['text']!r}; places count characters"
        )
    return Entity(start, end, label)


def _integer(item: Mapping[str, object], key: str) -> int:
    value = item.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        found = kind_of(value) if key in item else "none"
        raise UserError(f"{key!r}: expected a whole number, found {found}")
    return value
