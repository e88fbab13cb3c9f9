"""An explanation as one HTML file that works without a network.

Attributions are plain HTML. Attention is drawn by scripts.
"""

from collections.abc import Iterator, Sequence

from heedful.explanations.explanation import ATTENTION_NOTE, AttentionMap, Explanation, Side
from heedful.explanations.shading import running_text, shadings
from heedful.explanations.weights import Packed, pack
from heedful.pages.document import asset, document, fill

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
    body = fill(
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
            "left_out": list(_left_out(explanation, packed)),
        },
    )
    drawn = bool(explanation.attention)
    return document(
        title=f"What {explanation.model} looked at",
        body=body,
        data={"explanation": _drawn(explanation, packed)} if drawn else None,
        scripts=_assets(_SCRIPTS, "js") if drawn else (),
        styles=_assets(_STYLES, "css"),
    )


def _drawn(explanation: Explanation, packed: Packed) -> dict[str, object]:
    """Return what the scripts draw."""
    return {
        "sides": [_side(side) for side in explanation.sides],
        "steps": packed.steps,
        "maps": [
            {
                "kind": one.kind,
                "label": _label(explanation, one),
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
                "shown": piece.shown,
                "before": piece.before,
                "after": piece.after,
                "special": piece.special,
                "text": token.text,
            }
            for piece, token in zip(running_text(side), side.tokens, strict=True)
        ],
    }


def _label(explanation: Explanation, one: AttentionMap) -> str:
    """Return what a reader chooses a map by."""
    alike = [other for other in explanation.attention if other.kind == one.kind]
    side = f": {explanation.sides[one.columns].name}" if len(alike) > 1 else ""
    return KINDS[one.kind] + side


def _left_out(explanation: Explanation, packed: Packed) -> Iterator[str]:
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
        parts = [f"layers {_ranges(whole)}"] if whole else []
        parts += [
            f"heads {_ranges(names)} of layer {layer + 1}"
            for layer, names in missing.items()
            if names and layer in there
        ]
        if parts:
            yield f"{_label(explanation, one)}: {', '.join(parts)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers as people count them: ``1 to 3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0] + 1} to {run[-1] + 1}" if len(run) > 1 else f"{run[0] + 1}" for run in runs
    )
