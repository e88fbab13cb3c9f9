"""Read and write the folder of a WordPiece tokenizer, compatible with other libraries."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import write_json
from heedful.tokens.compiled_file import check_parts
from heedful.tokens.folder import (
    CONFIG,
    SPECIAL,
    TokenizerFiles,
    added_token_entries,
    check_config,
    checked_value,
    consistent_value,
    json_part,
    json_tokens,
    make_folder,
    read_max_length,
    read_special,
    special_entries,
)
from heedful.tokens.layout import PairLayout
from heedful.tokens.vocabulary import (
    SpecialTokens,
    Vocabulary,
    read_tokens,
    tokens_in_order,
    write_tokens,
)
from heedful.tokens.wordpiece import MAX_WORD, PREFIX

VOCABULARY = "vocab.txt"
FILES = frozenset({VOCABULARY, CONFIG, SPECIAL})
"""The files that `write_folder` writes."""

_SPECIAL = SpecialTokens()


@dataclass(frozen=True, kw_only=True, slots=True)
class WordPieceKind:
    """The differences between the reference's classes of WordPiece tokenizers."""

    name: str
    """The class name. Folders may add the suffix ``Fast``."""
    token_types: bool = True
    """Whether calls return token types by default."""
    special: SpecialTokens = _SPECIAL
    """The default special tokens of a folder."""
    separators: int = 1
    """Number of special tokens between the texts of a pair."""
    second_type: int = 1
    """Token type of a second text."""

    def layout(self, vocabulary: Vocabulary) -> PairLayout:
        """Return the special tokens around texts."""
        special = vocabulary.special
        begin, end = (vocabulary.ids[token] for token in (special.cls_token, special.sep_token))
        return PairLayout(
            begin=(begin,),
            middle=(end,) * self.separators,
            end=(end,),
            second_type=self.second_type,
            uses_token_types=self.token_types,
        )


BERT = WordPieceKind(name="BertTokenizer")
DISTILBERT = WordPieceKind(name="DistilBertTokenizer", token_types=False)
ELECTRA = WordPieceKind(name="ElectraTokenizer")
MPNET = WordPieceKind(
    name="MPNetTokenizer",
    token_types=False,
    special=SpecialTokens(
        sep_token="</s>",
        pad_token="<pad>",
        cls_token="<s>",
        mask_token="<mask>",
        lstrip=frozenset({"<mask>"}),
    ),
    separators=2,
    second_type=0,
)
_LIKE_BERT = (BERT.name, DISTILBERT.name, ELECTRA.name)
"""Classes that read each other's folders, since their ids are the same."""

_FIXED: dict[str, tuple[Any, ...]] = {
    "do_basic_tokenize": (True,),
    "wordpieces_prefix": (PREFIX,),
    "clean_text": (True,),
}
"""Configuration keys of the reference that affect ids, with the supported values."""

_COMPILED_KEYS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Setting -> its name in ``tokenizer.json``."""

_FIXED_COMPILED: dict[str, dict[str, tuple[Any, ...]]] = {
    "model": {
        "type": ("WordPiece",),
        "continuing_subword_prefix": (PREFIX,),
        "max_input_chars_per_word": (MAX_WORD,),
    },
    "normalizer": {"type": ("BertNormalizer",), "clean_text": (True,)},
    "pre_tokenizer": {"type": ("BertPreTokenizer",)},
    "post_processor": {"type": ("TemplateProcessing", "BertProcessing", "RobertaProcessing")},
}
"""The supported values in ``tokenizer.json``, if present."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordPieceSettings:
    """Settings besides the vocabulary that affect ids and text. ``None`` means unspecified."""

    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    never_split: tuple[str, ...] | None = None
    model_max_length: int | None = None
    clean_up_tokenization_spaces: bool | None = None


def read_settings(
    files: TokenizerFiles, kind: WordPieceKind, overrides: WordPieceSettings
) -> WordPieceSettings:
    """Read ``tokenizer_config.json``, and check it against ``tokenizer.json``, if present.

    Args:
        files: the contents of the folder's files.
        kind: the class that reads the files.
        overrides: the user's settings, which override the files.

    Raises:
        UserError: a value has the wrong type or is not supported, or the files differ in a
            setting that affects ids.
    """
    check_config(files, _LIKE_BERT if kind.name in _LIKE_BERT else (kind.name,), _FIXED)
    check_parts(files, _FIXED_COMPILED)
    path, config = files.config_path, files.config
    values = asdict(overrides)
    if values["never_split"] is None:
        values["never_split"] = checked_value(path, config, "never_split", (list,))
    if values["model_max_length"] is None:
        values["model_max_length"] = read_max_length(files)
    if values["clean_up_tokenization_spaces"] is None:
        # The reference's default is different when it reads tokenizer.json.
        default = False if files.compiled else None
        value = checked_value(path, config, "clean_up_tokenization_spaces", (bool,))
        values["clean_up_tokenization_spaces"] = default if value is None else value
    compiled = json_part(files, "normalizer", "BertNormalizer")
    for key, compiled_key in _COMPILED_KEYS.items():
        if values[key] is None:
            values[key] = consistent_value(files, key, compiled, compiled_key)
    return WordPieceSettings(**values)


def read_vocabulary(files: TokenizerFiles, kind: WordPieceKind) -> Vocabulary:
    """Read ``vocab.txt`` and the special tokens.

    Raises:
        UserError: a file is missing or damaged; or see `read_special`.
    """
    vocabulary = read_special(
        files,
        _tokens(files),
        source=str(files.folder / VOCABULARY),
        defaults=kind.special,
    )
    path, unknown = files.compiled_path, vocabulary.special.unk_token
    compiled_unknown = checked_value(
        path, json_part(files, "model", "WordPiece"), "unk_token", (str,)
    )
    if compiled_unknown not in (None, unknown):
        raise UserError(f"{path}: its unknown token is {compiled_unknown!r}, not {unknown!r}")
    return vocabulary


def _tokens(files: TokenizerFiles) -> list[str]:
    """Return the tokens of ``vocab.txt`` or ``tokenizer.json``, which must agree."""
    path, model = files.compiled_path, json_part(files, "model", "WordPiece")
    ids = json_tokens(files, model)
    if not ids or (files.folder / VOCABULARY).is_file():
        tokens = read_tokens(files.folder / VOCABULARY)
        wrong = [
            token for token, token_id in ids.items() if tokens[token_id : token_id + 1] != [token]
        ]
        if wrong:
            raise UserError(
                f"{path}: its {wrong[0]!r} is not on that line of {VOCABULARY} beside it"
            )
        return tokens
    return tokens_in_order(ids, source=str(path))


def write_folder(
    folder: Path,
    kind: WordPieceKind,
    vocabulary: Vocabulary,
    settings: WordPieceSettings,
    *,
    rows: Mapping[str, Any],
) -> None:
    """Write a tokenizer's files, from which the reference loads the same tokenizer.

    Args:
        folder: the folder for the files.
        kind: the class.
        vocabulary: the tokens.
        settings: other settings that affect ids and text.
        rows: the settings of rows; see `row_entries`.
    """
    special = special_entries(vocabulary)
    make_folder(folder)
    write_tokens(folder / VOCABULARY, vocabulary.base_tokens())
    write_json(folder / SPECIAL, special)
    special["added_tokens_decoder"] = added_token_entries(vocabulary)
    config = {"tokenizer_class": kind.name, **asdict(settings), **rows, **special}
    write_json(folder / CONFIG, config)
