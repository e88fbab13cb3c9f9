"""Checks of the parts and the special tokens of a ``tokenizer.json`` that are not read from it."""

from collections.abc import Iterator, Mapping
from typing import Any

from heedful.errors import UserError
from heedful.tokens.folder import TokenizerFiles, checked_value
from heedful.tokens.layout import PairLayout


def check_parts(files: TokenizerFiles, fixed: Mapping[str, Mapping[str, tuple[Any, ...]]]) -> None:
    """Check the parts of a ``tokenizer.json`` that support only fixed values.

    Args:
        files: the contents of the folder's files.
        fixed: part -> key -> the supported values. The first value is the default for a missing
            key. None as a ``type`` allows a null part.

    Raises:
        UserError: a value is not supported.
    """
    path = files.compiled_path
    for name, keys in fixed.items():
        part = checked_value(path, files.compiled, name, (dict,))
        if part is None:
            kinds = keys["type"]
            if name in files.compiled and None not in kinds:
                raise UserError(f"{path}: {name} null is not supported, only {kinds[0]!r}")
            continue
        for key, allowed in keys.items():
            # The first releases did not store the type of a model.
            value = part.get(key, allowed[0])
            if value not in allowed:
                raise UserError(
                    f"{path}: {name}: {key} {value!r} is not supported, only {allowed[0]!r}"
                )


def check_layout(
    files: TokenizerFiles, layout: PairLayout, ids: Mapping[str, int], *, types: bool = True
) -> None:
    """Check the layout of special tokens in a ``tokenizer.json``, if specified.

    Args:
        files: the contents of the folder's files.
        layout: the expected layout.
        ids: token -> id, for all tokens.
        types: whether token types must also be the same.

    Raises:
        UserError: the layout differs from ``layout``.
    """
    if "post_processor" not in files.compiled:
        return
    path = files.compiled_path
    part = checked_value(path, files.compiled, "post_processor", (dict,)) or {}
    match part.get("type"):
        case "RobertaProcessing" | "BertProcessing" as kind:
            separators = 2 if kind == "RobertaProcessing" else 1
            around = [part.get(name) for name in ("cls", "sep")]
            ids_around = [one[-1] if isinstance(one, list) and one else None for one in around]
            agrees = separators == len(layout.middle) and ids_around == [*layout.begin, *layout.end]
        case "TemplateProcessing":
            rows = [[*_template(part.get(name), ids)] for name in ("single", "pair")]
            agrees = rows == _rows(layout) if types else _untyped(rows) == _untyped(_rows(layout))
        case _:
            agrees = False
    if not agrees:
        raise UserError(
            f"{path}: post_processor: it does not put special tokens where this class does: not "
            "supported"
        )


def _rows(layout: PairLayout) -> list[list[tuple[Any, int]]]:
    """Return the tokens of a row of a text and of a pair, each with its token type."""
    begin, middle = ([(each, 0) for each in side] for side in (layout.begin, layout.middle))
    single_end = [(each, 0) for each in layout.end]
    end = [(each, layout.second_type) for each in layout.end]
    if layout.closing_type is not None:
        end[-1], single_end[-1] = ((one[-1][0], layout.closing_type) for one in (end, single_end))
    first, second = [("A", 0)], [("B", layout.second_type)]
    return [[*begin, *first, *single_end], [*begin, *first, *middle, *second, *end]]


def _untyped(rows: list[list[tuple[Any, Any]]]) -> list[list[Any]]:
    return [[each for each, _ in row] for row in rows]


def _template(entries: Any, ids: Mapping[str, int]) -> Iterator[tuple[Any, Any]]:
    for entry in entries if isinstance(entries, list) else []:
        match entry:
            case {"Sequence": {"id": name, "type_id": number}}:
                yield name, number
            case {"SpecialToken": {"id": str(name), "type_id": number}}:
                yield ids.get(name), number
            case _:
                yield None, None
