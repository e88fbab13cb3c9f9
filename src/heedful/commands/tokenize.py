"""``heedful tokenize``: texts in, what a model gets of them out."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from heedful.tokens import TextTokenizer, Tokenizer, TranslationTokenizer, load_tokenizer


def tokenize(texts: Iterable[str], model: str, revision: str | None = None) -> Iterator[Any]:
    """Yield the pieces, the ids and, where they are slices of the text, the offsets of each text.

    Args:
        texts: the texts; of a translation, those to read.
        model: see ``heedful.sources.resolve``.
        revision: commit, tag or branch of a hub name.

    Raises:
        UserError: there is no such model, or its tokenizer cannot be read.
    """
    tokenizer = load_tokenizer(model, revision)
    if isinstance(tokenizer, TranslationTokenizer):
        return map(_translation_row(tokenizer), texts)
    return map(_row(tokenizer), texts)


def _row(tokenizer: Tokenizer) -> Callable[[str], dict[str, Any]]:
    def row(text: str) -> dict[str, Any]:
        pieces = tokenizer.pieces(text)
        ids = tokenizer.layout.ids(pieces.ids)
        offsets = tokenizer.layout.values(pieces.offsets, special=(0, 0))
        return {
            "pieces": [tokenizer.vocabulary.token(token_id) for token_id in ids],
            "ids": ids,
            "offsets": [list(span) for span in offsets],
        }

    return row


def _translation_row(tokenizer: TranslationTokenizer) -> Callable[[str], dict[str, Any]]:
    side = tokenizer.source

    def row(text: str) -> dict[str, Any]:
        (ids,) = side.encode_batch([text])
        ids.append(side.eos_token_id)
        values: dict[str, Any] = {"pieces": side.pieces(ids), "ids": ids}
        if isinstance(side, TextTokenizer):  # others change a text before they cut it
            values["offsets"] = [list(span) for span in side.offsets(ids)]
        return values

    return row
