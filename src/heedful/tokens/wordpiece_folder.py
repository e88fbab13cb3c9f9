"""The folder of a WordPiece tokenizer: read what others wrote, write what they read."""

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
    agreed,
    check_config,
    compiled_part,
    compiled_tokens,
    described_entries,
    input_names,
    read_max_length,
    read_special,
    special_entries,
    typed,
)
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
"""What `write_folder` writes."""


_SPECIAL = SpecialTokens()
_SWITCHES = ("lstrip", "rstrip", "single_word", "normalized")
"""What added tokens may ask for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordPieceKind:
    """What tells apart the reference's classes that cut words as BERT does."""

    name: str
    """The class, in folders also with ``Fast`` behind it."""
    token_types: bool = True
    """Whether calls return token types unless told otherwise."""
    special: SpecialTokens = _SPECIAL
    """The special tokens of a folder that does not say others."""
    separators: int = 1
    """How many special tokens stand between the texts of a pair."""
    second_type: int = 1
    """Token type of a second text."""
    refused: tuple[str, ...] = _SWITCHES
    """What an added token may not ask for."""


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
    refused=("rstrip", "single_word"),
)
_LIKE_BERT = (BERT.name, DISTILBERT.name, ELECTRA.name)
"""Each reads the folders of the others, since ids are the same."""

_FIXED: dict[str, tuple[Any, ...]] = {
    "do_basic_tokenize": (True,),
    "wordpieces_prefix": (PREFIX,),
    "clean_text": (True,),
}
"""Keys of the reference that change ids, and the values that are supported."""

_COMPILED_KEYS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""What the switches are called in ``tokenizer.json``."""

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
"""What ``tokenizer.json`` may say where it says anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordPieceSettings:
    """What besides the vocabulary decides ids and text. ``None`` where the folder does not say."""

    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    never_split: tuple[str, ...] | None = None
    model_max_length: int | None = None
    clean_up_tokenization_spaces: bool | None = None


def read_settings(
    files: TokenizerFiles, kind: WordPieceKind, overrides: WordPieceSettings
) -> WordPieceSettings:
    """Read ``tokenizer_config.json``, and check it against ``tokenizer.json`` where that is there.

    Args:
        files: what the folder's files say.
        kind: the class that reads them.
        overrides: what the user says, which wins over what the files say.

    Raises:
        UserError: a value is of the wrong type or is not supported, or the files differ
            in what decides ids.
    """
    check_config(files, _LIKE_BERT if kind.name in _LIKE_BERT else (kind.name,), _FIXED)
    check_parts(files, _FIXED_COMPILED)
    path, config = files.config_path, files.config
    values = asdict(overrides)
    if values["never_split"] is None:
        values["never_split"] = typed(path, config, "never_split", (list,))
    if values["model_max_length"] is None:
        values["model_max_length"] = read_max_length(files)
    if values["clean_up_tokenization_spaces"] is None:
        # What is not said means something else to the reference where it reads tokenizer.json.
        default = False if files.compiled else None
        said = typed(path, config, "clean_up_tokenization_spaces", (bool,))
        values["clean_up_tokenization_spaces"] = default if said is None else said
    compiled = compiled_part(files, "normalizer", "BertNormalizer")
    for key, compiled_key in _COMPILED_KEYS.items():
        if values[key] is None:
            values[key] = agreed(files, key, compiled, compiled_key)
    return WordPieceSettings(**values)


def read_vocabulary(files: TokenizerFiles, kind: WordPieceKind) -> Vocabulary:
    """Read ``vocab.txt`` and the special tokens; see `read_special`.

    Raises:
        UserError: a file is missing or damaged, or see there.
    """
    vocabulary = read_special(
        files,
        _tokens(files),
        source=str(files.folder / VOCABULARY),
        defaults=kind.special,
        refused=kind.refused,
    )
    path, unknown = files.compiled_path, vocabulary.special.unk_token
    told = typed(path, compiled_part(files, "model", "WordPiece"), "unk_token", (str,))
    if told not in (None, unknown):
        raise UserError(f"{path}: its unknown token is {told!r}, not {unknown!r}")
    return vocabulary


def _tokens(files: TokenizerFiles) -> list[str]:
    """Return the tokens of ``vocab.txt``, or of ``tokenizer.json``, which has to have the same."""
    path, model = files.compiled_path, compiled_part(files, "model", "WordPiece")
    ids = compiled_tokens(files, model)
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
    told: bool,
) -> None:
    """Write a tokenizer's files so that the reference reads the same tokenizer from them.

    Args:
        folder: where they go.
        kind: the class.
        vocabulary: the tokens.
        settings: what else decides ids and text.
        told: whether models are told token types.
    """
    special = special_entries(vocabulary)
    folder.mkdir(parents=True, exist_ok=True)
    write_tokens(folder / VOCABULARY, vocabulary.base_tokens())
    write_json(folder / SPECIAL, special)
    if vocabulary.added:
        special["added_tokens_decoder"] = described_entries(vocabulary)
    names = input_names(told=told, usual=kind.token_types)
    config = {"tokenizer_class": kind.name, **asdict(settings), **names, **special}
    write_json(folder / CONFIG, config)
