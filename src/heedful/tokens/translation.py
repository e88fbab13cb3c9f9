"""The two tokenizers of a translation, and their files in a model's folder.

The folder is laid out as the reference's Marian folders are: ``vocab.json`` with the pieces and
their ids, ``target_vocab.json`` where the side that is written has its own, and
``tokenizer_config.json``. It says there how texts are cut, so no ``.spm`` file is needed.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from heedful.errors import UserError
from heedful.files import read_json, write_json
from heedful.sources import resolve
from heedful.tokens.text import EOS, PAD, UNKNOWN, TextTokenizer

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
CONFIG = "tokenizer_config.json"
FILES = frozenset({VOCABULARY, TARGET_VOCABULARY, CONFIG})
"""What `TranslationTokenizer.save_pretrained` writes at most."""
_SEGMENTATION, _LONGEST = "segmentation", "longest-match"
"""The key that tells our folders from those of others, and its value."""


@dataclass(frozen=True, slots=True)
class TranslationTokenizer:
    """What texts are read with and what they are written with; often the same.

    Raises:
        UserError: the two differ in the id of a special token, of which a model has but one.
    """

    source: TextTokenizer
    target: TextTokenizer

    def __post_init__(self) -> None:
        for name in ("eos_token_id", "pad_token_id"):
            ours, theirs = getattr(self.source, name), getattr(self.target, name)
            if ours != theirs:
                raise UserError(f"{name} is {ours} on one side and {theirs} on the other")

    @property
    def eos_token_id(self) -> int:
        """Ends each text, read or written."""
        return self.source.eos_token_id

    @property
    def pad_token_id(self) -> int:
        """Fills rows up; what is written starts with it, too."""
        return self.source.pad_token_id

    @property
    def joint(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source is self.target

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the files into a folder, which is made if it is not there."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / VOCABULARY, self.source.ids)
        if not self.joint:
            write_json(path / TARGET_VOCABULARY, self.target.ids)
        write_json(
            path / CONFIG,
            {
                "tokenizer_class": "MarianTokenizer",
                _SEGMENTATION: _LONGEST,
                "separate_vocabs": not self.joint,
                "eos_token": EOS,
                "unk_token": UNKNOWN,
                "pad_token": PAD,
                "clean_up_tokenization_spaces": False,
            },
        )

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str], *, revision: str | None = None) -> Self:
        """Read the tokenizers of a run, a folder or a hub name.

        Raises:
            UserError: a file is missing, damaged, or of a tokenizer of another kind.
        """
        folder = resolve(name, revision)
        config = read_json(folder / CONFIG)
        if config.get(_SEGMENTATION) != _LONGEST:
            raise UserError(f"{folder / CONFIG}: not the tokenizer of a translation")
        source = _read_side(folder / VOCABULARY)
        if not config.get("separate_vocabs", False):
            return cls(source, source)
        return cls(source, _read_side(folder / TARGET_VOCABULARY))


def _read_side(path: Path) -> TextTokenizer:
    ids = read_ids(path)
    return TextTokenizer(sorted(ids, key=ids.__getitem__), source=str(path))


def read_ids(path: Path) -> dict[str, Any]:
    """Read a ``vocab.json``.

    Raises:
        UserError: the file is missing or damaged, or its ids are not 0, 1 and so on, each once.
    """
    ids = read_json(path)
    if not all(type(at) is int for at in ids.values()) or sorted(ids.values()) != [
        *range(len(ids))
    ]:
        raise UserError(f"{path}: expected the ids 0 to {len(ids) - 1}, each of one piece")
    return ids
