"""What a ``tokenizer.json`` may say of what is not read from it: its parts, and special tokens."""

from collections.abc import Iterator, Mapping
from typing import Any

from heedful.errors import UserError
from heedful.tokens.folder import TokenizerFiles, typed
from heedful.tokens.layout import PairLayout


def check_parts(files: TokenizerFiles, fixed: Mapping[str, Mapping[str, tuple[Any, ...]]]) -> None:
    """Check parts of a ``tokenizer.json`` that can be of one kind alone.

    Args:
        files: what the folder's files say.
        fixed: the parts, the keys of each and the values that are supported, of which the first is
            meant where a part does not say. None as a ``type`` stands for a part that is null.

    Raises:
        UserError: a value is none of these.
    """
    path = files.compiled_path
    for name, keys in fixed.items():
        part = typed(path, files.compiled, name, (dict,))
        if part is None:
            kinds = keys["type"]
            if name in files.compiled and None not in kinds:
                raise UserError(f"{path}: {name} null is not supported, only {kinds[0]!r}")
            continue
        for key, allowed in keys.items():
            # The first releases did not say of what type a model is.
            value = part.get(key, allowed[0])
            if value not in allowed:
                raise UserError(
                    f"{path}: {name}: {key} {value!r} is not supported, only {allowed[0]!r}"
                )


def check_layout(
    files: TokenizerFiles, layout: PairLayout, ids: Mapping[str, int], *, types: bool = True
) -> None:
    """Check where a ``tokenizer.json`` puts special tokens, if it says.

    Args:
        files: what the folder's files say.
        layout: where they have to stand.
        ids: of all tokens.
        types: whether token types have to be the same, too.

    Raises:
        UserError: not where ``layout`` does.
    """
    if "post_processor" not in files.compiled:
        return
    path = files.compiled_path
    part = typed(path, files.compiled, "post_processor", (dict,)) or {}
    match part.get("type"):
        case "RobertaProcessing" | "BertProcessing" as kind:
            separators = 2 if kind == "RobertaProcessing" else 1
            around = [part.get(name) for name in ("cls", "sep")]
            ids_around = [one[-1] if isinstance(one, list) and one else None for one in around]
            agrees = separators == len(layout.middle) and ids_around == [*layout.begin, *layout.end]
        case "TemplateProcessing":
            rows = [[*_template(part.get(name), ids)] for name in ("single", "pair")]
            agrees = rows == _rows(layout) if types else _bare(rows) == _bare(_rows(layout))
        case _:
            agrees = False
    if not agrees:
        raise UserError(
            f"{path}: post_processor: it does not put special tokens where this class does: not "
            "supported"
        )


def _rows(layout: PairLayout) -> list[list[tuple[Any, int]]]:
    """Return what stands in a row of a text and of a pair, each with its token type."""
    begin, middle = ([(each, 0) for each in side] for side in (layout.begin, layout.middle))
    alone = [(each, 0) for each in layout.end]
    end = [(each, layout.second_type) for each in layout.end]
    if layout.closing_type is not None:
        end[-1], alone[-1] = ((one[-1][0], layout.closing_type) for one in (end, alone))
    first, second = [("A", 0)], [("B", layout.second_type)]
    return [[*begin, *first, *alone], [*begin, *first, *middle, *second, *end]]


def _bare(rows: list[list[tuple[Any, Any]]]) -> list[list[Any]]:
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
