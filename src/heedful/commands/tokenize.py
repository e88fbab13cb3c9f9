"""``heedful tokenize``: show the tokens that a model receives for texts."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from heedful.tokens import TextTokenizer, Tokenizer, TranslationTokenizer, load_tokenizer


def tokenize(texts: Iterable[str], model: str, revision: str | None = None) -> Iterator[Any]:
    """Yield the tokens and token ids of each text, and offsets if tokens are slices of the text.

    Args:
        texts: the texts; source texts for a translation model.
        model: see ``heedful.sources.resolve``.
        revision: commit, tag or branch of a hub name.

    Raises:
        UserError: the model does not exist, or its tokenizer cannot be read.
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
        if isinstance(side, TextTokenizer):  # other tokenizers change the text before splitting it
            values["offsets"] = [list(span) for span in side.offsets(ids)]
        return values

    return row
