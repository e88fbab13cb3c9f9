"""Render an explanation as one self-contained HTML file that works offline.

Attributions are plain HTML. Scripts draw the attention.
"""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from heedful.explanations.explanation import ATTENTION_NOTE, AttentionMap, Explanation, Side
from heedful.explanations.shading import running_text, shadings
from heedful.explanations.weights import Packed, pack
from heedful.pages.document import asset, document, fill
from heedful.pages.language import ENGLISH, Language, chinese

MAX_BYTES = 5_000_000
"""Maximum size of the file. Weights beyond it are left out, and the file lists them."""

KINDS = {
    "encoder": "the encoder, within the text",
    "decoder": "the decoder, within its own output",
    "cross": "the decoder, to the text",
    "alignment": "the decoder, to the text",
    "rollout": "rollout: all layers combined",
}
"""Description of each kind of map."""

_PACKAGE = "heedful.explanations"
_SCRIPTS = ("weights", "choices", "heads", "model", "tokens", "matrix", "views")
_STYLES = ("shading", "views")

# Reserve for the list of omitted layers and the names of included layers.
_RESERVED_BYTES = 4096


def render(explanation: Explanation) -> str:
    """Return the HTML of an explanation, with as many weights as the size limit allows."""
    smallest = _page(explanation, pack(explanation.attention, 0))
    room = MAX_BYTES - _RESERVED_BYTES - len(smallest.encode("utf-8"))
    return _page(explanation, pack(explanation.attention, room))


def code() -> list[str]:
    """Return the scripts and styles specific to explanations."""
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
    sentences = {*KINDS.values(), *names, *(part for name in names for part in name.split(" and "))}
    return {
        "explanation": _script_data(explanation, packed),
        "sentences": {sentence: chinese().sentence(sentence) for sentence in sorted(sentences)},
    }


def _script_data(explanation: Explanation, packed: Packed) -> dict[str, object]:
    """Return the data that the scripts draw."""
    return {
        "sides": [_side(side) for side in explanation.sides],
        "steps": packed.steps,
        "maps": [
            {
                "kind": attention_map.kind,
                "label": KINDS[attention_map.kind],
                "to": _attended_side(explanation, attention_map),
                "rows": attention_map.rows,
                "columns": attention_map.columns,
                "layers": attention_map.weights.shape[0],
                "heads": attention_map.weights.shape[1],
                "codes": codes,
            }
            for attention_map, codes in zip(explanation.attention, packed.codes, strict=True)
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
                running_text(side), side.tokens, side.display_tokens(), strict=True
            )
        ],
    }


def _attended_side(explanation: Explanation, attention_map: AttentionMap) -> str | None:
    """Return the attended side's name if several maps have the same kind, else None."""
    same_kind = [other for other in explanation.attention if other.kind == attention_map.kind]
    return explanation.sides[attention_map.columns].name if len(same_kind) > 1 else None


def _left_out(explanation: Explanation, packed: Packed, language: Language) -> Iterator[str]:
    """Yield a description of the omitted layers and heads of each map."""
    for attention_map, codes in zip(explanation.attention, packed.codes, strict=True):
        layers, heads = attention_map.weights.shape[:2]
        missing = {
            layer: [
                head
                for head in range(heads)
                if (layer, head) not in attention_map.gone and f"{layer}.{head}" not in codes
            ]
            for layer in range(layers)
        }
        present = {int(name.partition(".")[0]) for name in codes}
        whole_layers = [layer for layer, names in missing.items() if names and layer not in present]
        parts = (
            [language.phrase("layers {}", _ranges(whole_layers, language))] if whole_layers else []
        )
        parts += [
            language.phrase("heads {} of layer {}", _ranges(names, language), layer + 1)
            for layer, names in missing.items()
            if names and layer in present
        ]
        if parts:
            to = _attended_side(explanation, attention_map)
            where = [KINDS[attention_map.kind], *([to] if to is not None else [])]
            yield ": ".join([*map(language.sentence, where), ", ".join(parts)])


def _ranges(indices: Sequence[int], language: Language) -> str:
    """Return ascending indices as 1-based ranges: ``1 to 3, 7``."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(
        language.phrase("{} to {}", run[0] + 1, run[-1] + 1) if len(run) > 1 else str(run[0] + 1)
        for run in runs
    )
