"""Handmade explanations with the shapes that models produce."""

import re

import numpy as np
from numpy.typing import NDArray

from heedful.explanations.explanation import (
    AttentionMap,
    Attribution,
    Completeness,
    Explanation,
    Side,
    Token,
)

SENTENCE = "My card was charged twice for the same flight, and nobody answers the telephone!"


def side(*texts: str, name: str = "text", special: bool = True) -> Side:
    """Return words and punctuation as tokens, long words as two, between BERT's special tokens."""
    tokens = [_special("[CLS]")] if special else []
    for number, text in enumerate(texts):
        for word, match in enumerate(re.finditer(r"\w+|[^\w\s]", text)):
            start, end = match.span()
            middle = start + 5 if end - start > 7 else end
            for cut in ((start, middle), (middle, end)):
                if cut[0] < cut[1]:
                    piece = ("##" if cut[0] > start else "") + text[slice(*cut)]
                    tokens.append(
                        Token(piece=piece, text=number, start=cut[0], end=cut[1], word=word)
                    )
        if special:
            tokens.append(_special("[SEP]"))
    return Side(name=name, texts=texts, tokens=tuple(tokens))


def _special(piece: str) -> Token:
    return Token(piece=piece, text=None, start=None, end=None, word=None)


def weights(layers: int, heads: int, rows: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    """Return weights near the diagonal, on the first token, or everywhere."""
    rng = np.random.default_rng(seed)
    away = np.arange(rows)[:, None] * columns / rows - np.arange(columns)
    logits = rng.normal(size=(layers, heads, rows, columns))
    for layer in range(layers):
        for head in range(heads):
            kind = (layer + head) % 4
            if kind < 2:
                logits[layer, head] -= np.abs(away - kind) * 1.5
            elif kind == 2:
                logits[layer, head, :, 0] += 5
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


def classified(
    *texts: str, layers: int = 4, heads: int = 6, gone: tuple[tuple[int, int], ...] = ()
) -> Explanation:
    """Return an explanation of a label, with two attributions."""
    read = side(*(texts or (SENTENCE,)), name="question and context" if texts[1:] else "text")
    count = len(read.tokens)
    maps = weights(layers, heads, count, count)
    for layer, head in gone:
        maps[layer, head] = 0
    rng = np.random.default_rng(1)
    scores = [tuple(map(float, rng.normal(size=count) ** 3)) for _ in range(2)]
    return Explanation(
        task="classify",
        model="tickets",
        answer={
            "label": "billing",
            "score": 0.981204,
            "scores": {"billing": 0.981204, "delivery": 0.011, "account": 0.007796},
            "tokens_total": count,
            "tokens_used": count,
        },
        sides=(read,),
        attention=(AttentionMap(kind="encoder", rows=0, columns=0, weights=maps, gone=gone),),
        attributions=(
            Attribution(
                method="integrated gradients",
                target="the label billing",
                scores=(scores[0],),
                completeness=Completeness(total=4.21, difference=4.22, steps=64, held=True),
            ),
            Attribution(method="gradient x input", target="the label billing", scores=(scores[1],)),
        ),
        notes=("All 17 tokens were read.",),
    )


def translated(layers: int = 3, heads: int = 4) -> Explanation:
    """Return an explanation of a translation by a Transformer, or by an RNN with one head."""
    read = side("The agreement on the European Economic Area was signed in August 1992 .")
    wrote = side(
        "L' accord sur la zone économique européenne a été signé en août 1992 .",
        name="translation",
        special=False,
    )
    rows, columns = len(wrote.tokens), len(read.tokens)
    cross = AttentionMap(
        kind="cross" if heads > 1 else "alignment",
        rows=1,
        columns=0,
        weights=weights(layers, heads, rows, columns),
    )
    encoder = AttentionMap(
        kind="encoder", rows=0, columns=0, weights=weights(layers, heads, columns, columns, 1)
    )
    return Explanation(
        task="translate",
        model="en-fr",
        answer={"translation": wrote.texts[0], "score": -0.31},
        sides=(read, wrote),
        attention=(cross, encoder) if heads > 1 else (cross,),
    )
