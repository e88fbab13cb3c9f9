"""``heedful tokenize``: texts in, what a model gets of them out."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from heedful.sources import resolve
from heedful.tokens import BertTokenizer, TextTokenizer, TranslationTokenizer
from heedful.tokens.translation import is_translation_folder


def tokenize(texts: Iterable[str], model: str, revision: str | None = None) -> Iterator[Any]:
    """Yield the pieces, the ids and, where they are slices of the text, the offsets of each text.

    Args:
        texts: the texts; of a translation, those to read.
        model: see ``heedful.sources.resolve``.
        revision: commit, tag or branch of a hub name.

    Raises:
        UserError: there is no such model, or its tokenizer cannot be read.
    """
    folder = resolve(model, revision)
    row = _of_translation if is_translation_folder(folder) else _of_bert
    return map(row(folder), texts)


def _of_bert(folder: Path) -> Callable[[str], dict[str, Any]]:
    tokenizer = BertTokenizer.from_pretrained(folder)

    def row(text: str) -> dict[str, Any]:
        found = tokenizer(text, return_offsets_mapping=True)
        return {
            "pieces": tokenizer.convert_ids_to_tokens(found["input_ids"]),
            "ids": found["input_ids"],
            "offsets": [list(span) for span in found["offset_mapping"]],
        }

    return row


def _of_translation(folder: Path) -> Callable[[str], dict[str, Any]]:
    side = TranslationTokenizer.from_pretrained(folder).source

    def row(text: str) -> dict[str, Any]:
        (ids,) = side.encode_batch([text])
        ids.append(side.eos_token_id)
        found: dict[str, Any] = {"pieces": side.pieces(ids), "ids": ids}
        if isinstance(side, TextTokenizer):  # others change a text before they cut it
            found["offsets"] = [list(span) for span in side.offsets(ids)]
        return found

    return row
