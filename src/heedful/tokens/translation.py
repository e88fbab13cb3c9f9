"""The source and target tokenizers of a translation model, and their files in its folder.

The layout of the folder follows the reference's Marian folders: ``vocab.json`` with the pieces and
their ids, ``target_vocab.json`` if the target has a separate vocabulary, and
``tokenizer_config.json``. Our longest-match tokenizers need no more files. The tokenizers of other
folders are read from ``.spm`` files.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from heedful.arguments import suggest_arguments
from heedful.errors import UserError
from heedful.files import MANIFEST, check_manifest, read_json_or_empty, write_json
from heedful.sources import resolve, takes_download_options
from heedful.tokens.additions import ADDITIONAL
from heedful.tokens.bytelevel_folder import MERGES
from heedful.tokens.folder import SPECIAL as SPECIAL_FILE
from heedful.tokens.folder import checked_value, content_of, read_files
from heedful.tokens.marian import SOURCE_MODEL, TARGET_MODEL, MarianText, is_code, read_side
from heedful.tokens.text import EOS, PAD, SPECIAL, UNKNOWN, TextTokenizer
from heedful.tokens.vocabulary import read_ids

Side = TextTokenizer | MarianText
"""The tokenizer of one side, source or target."""

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
CONFIG, MODEL_CONFIG = "tokenizer_config.json", "config.json"
FILES = frozenset({VOCABULARY, TARGET_VOCABULARY, CONFIG, SOURCE_MODEL, TARGET_MODEL})
"""All files that `TranslationTokenizer.save_pretrained` may write."""
CLASSES = ("MarianTokenizer",)
"""Reference classes with this folder layout."""
_SEGMENTATION, _LONGEST = "segmentation", "longest-match"
"""The key that identifies our own folders, and its value."""


@dataclass(frozen=True, slots=True)
class TranslationTokenizer:
    """The tokenizers of the source and the target, which are often the same.

    Raises:
        UserError: the sides differ in the id of a special token, which must be the same for a
            model.
    """

    source: Side
    target: Side

    def __post_init__(self) -> None:
        for name in ("eos_token_id", "pad_token_id"):
            ours, theirs = getattr(self.source, name), getattr(self.target, name)
            if ours != theirs:
                raise UserError(f"{name} is {ours} on one side and {theirs} on the other")

    @property
    def eos_token_id(self) -> int:
        """Id of the token that ends each text on both sides."""
        return self.source.eos_token_id

    @property
    def pad_token_id(self) -> int:
        """Id of the padding token, with which a decoder also starts."""
        return self.source.pad_token_id

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source.ids is self.target.ids

    def identity(self) -> list[Any]:
        """Return everything that affects token ids, as JSON-serializable values."""
        sides = (self.source, self.target)
        models = [side.model.hex() if isinstance(side, MarianText) else "" for side in sides]
        return [[dict(side.ids) for side in sides], models]

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the files into a folder, which is created if missing."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / VOCABULARY, self.source.ids)
        if not self.joint:
            write_json(path / TARGET_VOCABULARY, self.target.ids)
        config: dict[str, Any] = {
            "tokenizer_class": CLASSES[0],
            "separate_vocabs": not self.joint,
            "eos_token": EOS,
            "unk_token": UNKNOWN,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": False,
        }
        if isinstance(self.source, MarianText) and isinstance(self.target, MarianText):
            (path / SOURCE_MODEL).write_bytes(self.source.model)
            (path / TARGET_MODEL).write_bytes(self.target.model)
        else:
            config[_SEGMENTATION] = _LONGEST
        write_json(path / CONFIG, config)

    @classmethod
    @takes_download_options
    @suggest_arguments
    def from_pretrained(cls, name: str | os.PathLike[str], *, revision: str | None = None) -> Self:
        """Load the tokenizers of a run, a folder or a hub name.

        Raises:
            UserError: a file is missing or damaged, belongs to another kind of tokenizer, or does
                not match the model beside it.
        """
        folder = resolve(name, revision)
        if (folder / MANIFEST).is_file():
            check_manifest(folder, only=FILES)
        if not (folder / VOCABULARY).is_file():
            raise UserError(f"{folder}: holds no translator (there is no {VOCABULARY})")
        if (folder / MERGES).is_file() and not is_translation_folder(folder):
            raise UserError(f"{folder}: holds no translator, but a model with a {MERGES}")
        config = read_json_or_empty(folder / CONFIG)
        source = read_ids(folder / VOCABULARY)
        separate = config.get("separate_vocabs", False)
        target = read_ids(folder / TARGET_VOCABULARY) if separate else source
        if config.get(_SEGMENTATION) == _LONGEST:
            source_side = _longest_match(source, folder / VOCABULARY)
            tokenizer = cls(
                source_side,
                _longest_match(target, folder / TARGET_VOCABULARY) if separate else source_side,
            )
        else:
            _check_added(folder, source)
            tokenizer = cls(
                read_side(folder / SOURCE_MODEL, source), read_side(folder / TARGET_MODEL, target)
            )
        _check_model(tokenizer, folder / MODEL_CONFIG)
        return tokenizer


def is_translation_folder(folder: Path) -> bool:
    """Return whether a folder contains the tokenizers of a translation model."""
    return (folder / VOCABULARY).is_file() and (
        (folder / SOURCE_MODEL).is_file() or _SEGMENTATION in read_json_or_empty(folder / CONFIG)
    )


def _check_added(folder: Path, ids: Mapping[str, int]) -> None:
    """Check for unsupported added tokens, which the reference matches before splitting a text.

    Raises:
        UserError: an added token is neither special nor a language code.
    """
    files = read_files(folder)
    decoder = checked_value(files.config_path, files.config, "added_tokens_decoder", (dict,)) or {}
    entries = [*decoder.values(), *files.added]
    for path, values in (
        (files.config_path, files.config),
        (folder / SPECIAL_FILE, files.special),
    ):
        entries += checked_value(path, values, ADDITIONAL, (list, dict)) or []
    for token in map(content_of, entries):
        if token not in SPECIAL and not (token in ids and is_code(token)):
            raise UserError(f"{folder}: added token {token!r}: not supported in a Marian folder")


def _check_model(tokenizer: TranslationTokenizer, path: Path) -> None:
    """Check the vocabularies against the model beside them, if any."""
    config = read_json_or_empty(path)
    source, target = tokenizer.source, tokenizer.target
    checks = {
        "eos_token_id": config.get("eos_token_id") in (None, source.eos_token_id),
        "pad_token_id": config.get("pad_token_id") in (None, source.pad_token_id),
        "vocab_size": _holds(config.get("vocab_size"), source.vocab_size),
        "decoder_vocab_size": _holds(config.get("decoder_vocab_size"), target.vocab_size),
    }
    for key, fits in checks.items():
        if not fits:
            raise UserError(
                f"{path}: {key} is {config[key]!r}; the vocabulary beside it is that of another "
                f"model, with {source.vocab_size} pieces to read and {target.vocab_size} to write"
            )


def _holds(size: object, pieces: int) -> bool:
    """Return whether a model's vocabulary of a size, if it has one, holds all pieces."""
    return not size or (isinstance(size, int) and size >= pieces)


def _longest_match(ids: dict[str, int], path: Path) -> TextTokenizer:
    return TextTokenizer(sorted(ids, key=ids.__getitem__), source=str(path))
