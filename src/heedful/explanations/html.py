"""An explanation as one HTML file that works without a network.

Attributions are plain HTML. Attention is drawn by scripts.
"""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from heedful.explanations.explanation import ATTENTION_NOTE, AttentionMap, Explanation, Side
from heedful.explanations.shading import running_text, shadings
from heedful.explanations.weights import Packed, pack
from heedful.pages.document import asset, document, fill
from heedful.pages.language import ENGLISH, Language, chinese

MAX_BYTES = 5_000_000
"""Of the whole file. Weights that would make it larger are left out, and it says which."""

KINDS = {
    "encoder": "the encoder, within the text",
    "decoder": "the decoder, within what it has written",
    "cross": "the decoder, to the text",
    "alignment": "the decoder, to the text",
    "rollout": "rollout: the layers put together",
}
"""Who attends to what, for each kind of map."""

_PACKAGE = "heedful.explanations"
_SCRIPTS = ("weights", "choices", "heads", "model", "tokens", "matrix", "views")
_STYLES = ("shading", "views")

# Which layers are left out takes some more room, and so do the names of those that are in.
_SPARE = 4096


def render(explanation: Explanation) -> str:
    """Return the HTML of an explanation, with as many weights as there is room for."""
    smallest = _page(explanation, pack(explanation.attention, 0))
    room = MAX_BYTES - _SPARE - len(smallest.encode("utf-8"))
    return _page(explanation, pack(explanation.attention, room))


def code() -> list[str]:
    """Return the scripts and styles that every explanation has of its own."""
    return [*_assets(_SCRIPTS, "js"), *_assets(_STYLES, "css")]


def _assets(names: Sequence[str], ending: str) -> list[str]:
    return [asset(_PACKAGE, f"views/{name}.{ending}") for name in names]


def _page(explanation: Explanation, packed: Packed) -> str:
    drawn = bool(explanation.attention)
    return document(
        title=f"What {explanation.model} looked at",
        body=_body(explanation, packed, ENGLISH),
        chinese_body=_body(explanation, packed, chinese()),
        data=_data(explanation, packed) if drawn else None,
        scripts=_assets(_SCRIPTS, "js") if drawn else (),
        styles=_assets(_STYLES, "css"),
    )


def _body(explanation: Explanation, packed: Packed, language: Language) -> Markup:
    return fill(
        _PACKAGE,
        "views/explanation.html",
        {
            "explanation": explanation,
            "attributions": [
                (attribution, shadings(explanation.sides, attribution))
                for attribution in explanation.attributions
            ],
            "notes": [note for note in explanation.notes if note != ATTENTION_NOTE],
            "attention_note": ATTENTION_NOTE,
            "steps": packed.steps,
            "left_out": list(_left_out(explanation, packed, language)),
        },
        language,
    )


def _data(explanation: Explanation, packed: Packed) -> dict[str, object]:
    names = [side.name for side in explanation.sides]
    said = {*KINDS.values(), *names, *(part for name in names for part in name.split(" and "))}
    return {
        "explanation": _drawn(explanation, packed),
        "sentences": {one: chinese().sentence(one) for one in sorted(said)},
    }


def _drawn(explanation: Explanation, packed: Packed) -> dict[str, object]:
    """Return what the scripts draw."""
    return {
        "sides": [_side(side) for side in explanation.sides],
        "steps": packed.steps,
        "maps": [
            {
                "kind": one.kind,
                "label": KINDS[one.kind],
                "to": _to(explanation, one),
                "rows": one.rows,
                "columns": one.columns,
                "layers": one.weights.shape[0],
                "heads": one.weights.shape[1],
                "codes": codes,
            }
            for one, codes in zip(explanation.attention, packed.codes, strict=True)
        ],
    }


def _side(side: Side) -> dict[str, object]:
    return {
        "name": side.name,
        "texts": len(side.texts),
        "tokens": [
            {
                "shown": shown,
                "slice": piece.shown,
                "before": piece.before,
                "after": piece.after,
                "special": piece.special,
                "text": token.text,
            }
            for piece, token, shown in zip(
                running_text(side), side.tokens, side.shown(), strict=True
            )
        ],
    }


def _to(explanation: Explanation, one: AttentionMap) -> str | None:
    """Return what is attended to, where that tells a map from another of its kind."""
    alike = [other for other in explanation.attention if other.kind == one.kind]
    return explanation.sides[one.columns].name if len(alike) > 1 else None


def _left_out(explanation: Explanation, packed: Packed, language: Language) -> Iterator[str]:
    """Yield which layers and heads of each map are not in the file."""
    for one, codes in zip(explanation.attention, packed.codes, strict=True):
        layers, heads = one.weights.shape[:2]
        missing = {
            layer: [
                head
                for head in range(heads)
                if (layer, head) not in one.gone and f"{layer}.{head}" not in codes
            ]
            for layer in range(layers)
        }
        there = {int(name.partition(".")[0]) for name in codes}
        whole = [layer for layer, names in missing.items() if names and layer not in there]
        parts = [language.phrase("layers {}", _ranges(whole, language))] if whole else []
        parts += [
            language.phrase("heads {} of layer {}", _ranges(names, language), layer + 1)
            for layer, names in missing.items()
            if names and layer in there
        ]
        if parts:
            to = _to(explanation, one)
            where = [KINDS[one.kind], *([to] if to is not None else [])]
            yield ": ".join([*map(language.sentence, where), ", ".join(parts)])


def _ranges(numbers: Sequence[int], language: Language) -> str:
    """Return rising numbers as people count them: ``1 to 3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        language.phrase("{} to {}", run[0] + 1, run[-1] + 1) if len(run) > 1 else str(run[0] + 1)
        for run in runs
    )
