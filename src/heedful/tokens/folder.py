"""The files of a tokenizer in a model's folder: read what others wrote, write what they read."""

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import read_json, write_json
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary, read_tokens, write_tokens
from heedful.tokens.wordpiece import MAX_WORD, PREFIX

VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
COMPILED = "tokenizer.json"
ADDED = "added_tokens.json"
FILES = frozenset({VOCABULARY, CONFIG, SPECIAL})
"""What `write_folder` writes."""

CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
"""Reference classes, each also with ``Fast`` behind it, that tokenize as BERT does."""

ANY_CLASS = "PreTrainedTokenizer"
"""What folders name, also with ``Fast`` behind it, that have no class of their own."""

_FIXED: dict[str, tuple[Any, ...]] = {
    "do_basic_tokenize": (True,),
    "wordpieces_prefix": ("##",),
    "clean_text": (True,),
    "split_special_tokens": (False,),
    "padding_side": ("right",),
    "truncation_side": ("right",),
}
"""Keys of the reference that change ids or rows, and the values we follow."""

_PLAIN_KEYS: dict[str, tuple[type, ...]] = {
    "never_split": (list,),
    "model_max_length": (int, float),
    "clean_up_tokenization_spaces": (bool,),
}

_COMPILED_KEYS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""What the switches are called in ``tokenizer.json``."""

_LARGEST_LENGTH = 10**20
"""From here on the reference's ``model_max_length`` means that it is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What besides the vocabulary decides ids and text. ``None`` where the folder does not say."""

    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    never_split: tuple[str, ...] | None = None
    model_max_length: int | None = None
    clean_up_tokenization_spaces: bool | None = None


def read_settings(folder: Path, given: Settings) -> Settings:
    """Read ``tokenizer_config.json``, and check it against ``tokenizer.json`` where that is there.

    Args:
        folder: a model's folder.
        given: what the user says, which wins over what the files say.

    Raises:
        UserError: a value is of the wrong type or asks for what we do not do, or the files differ
            in what decides ids.
    """
    path = folder / CONFIG
    config = _read(path)
    for key, allowed in _FIXED.items():
        if config.get(key) is not None and config[key] not in allowed:
            raise UserError(f"{path}: {key} {config[key]!r} is not supported, only {allowed[0]!r}")
    kind = config.get("tokenizer_class")
    if kind is not None and str(kind).removesuffix("Fast") not in (*CLASSES, ANY_CLASS):
        raise UserError(f"{path}: tokenizer_class {kind!r} is not a WordPiece tokenizer of BERT's")
    found = asdict(given)
    for key, kinds in _PLAIN_KEYS.items():
        if found[key] is None:
            found[key] = _typed(path, config, key, kinds)
    if (found["model_max_length"] or 0) >= _LARGEST_LENGTH:
        found["model_max_length"] = None
    if found["clean_up_tokenization_spaces"] is None and (folder / COMPILED).is_file():
        # What is not said means something else to the reference where it reads tokenizer.json.
        found["clean_up_tokenization_spaces"] = False
    compiled = _read(folder / COMPILED).get("normalizer")
    for key, compiled_key in _COMPILED_KEYS.items():
        if found[key] is None:
            found[key] = _agreed(path, config, key, compiled, compiled_key)
    return Settings(**found)


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _typed(path: Path, config: Mapping[str, Any], key: str, kinds: tuple[type, ...]) -> Any:
    value = config.get(key)
    if value is not None and not isinstance(value, kinds):
        raise UserError(f"{path}: {key} {value!r} is a {type(value).__name__}")
    return value


def _agreed(
    path: Path, config: Mapping[str, Any], key: str, compiled: Any, compiled_key: str
) -> bool | None:
    """Return what the files say about a switch, which has to be the same in both."""
    value: bool | None = _typed(path, config, key, (bool,))
    if not isinstance(compiled, dict) or compiled.get("type") != "BertNormalizer":
        return value
    other: bool | None = _typed(path.with_name(COMPILED), compiled, compiled_key, (bool,))
    if value is not None and other is not None and value != other:
        raise UserError(
            f"{path} says {key} {value}, {COMPILED} beside it says {compiled_key} {other}; "
            "mend one of them"
        )
    return other if value is None else value


def read_vocabulary(folder: Path) -> Vocabulary:
    """Read ``vocab.txt`` and the special tokens; added tokens come behind the vocabulary.

    Raises:
        UserError: a file is missing or damaged, files name different special tokens, or an added
            token is not one that is matched whole, as it stands, wherever it stands.
    """
    chosen = _special_tokens(folder)
    named: dict[str, str] = SpecialTokens().named() | {
        name: token for name, token in chosen.items() if isinstance(token, str)
    }
    more = list(chosen.pop("additional_special_tokens", ()))
    tokens = _tokens(folder)
    for at, token in sorted(_added_tokens(folder, {*named.values(), *more}).items()):
        if at == len(tokens):
            tokens.append(token)
        elif at > len(tokens) or tokens[at] != token:
            there = repr(tokens[at]) if at < len(tokens) else f"only {len(tokens)} tokens, none"
            raise UserError(
                f"{folder}: added token {token!r} has id {at}; its vocabulary has {there} there"
            )
        if token not in named.values() and token not in more:
            more.append(token)
    special = SpecialTokens(**chosen, additional_special_tokens=tuple(more))
    return Vocabulary(tokens, special, source=str(folder / VOCABULARY))


def _tokens(folder: Path) -> list[str]:
    """Return the tokens of ``vocab.txt``, or of ``tokenizer.json``, which has to have the same."""
    path = folder / COMPILED
    model = _typed(path, _read(path), "model", (dict,)) or {}
    ids: dict[str, int] = {}
    if model.get("type") == "WordPiece":
        ids = _typed(path, model, "vocab", (dict,)) or {}
    if not all(type(at) is int for at in ids.values()):
        raise UserError(f"{path}: its vocabulary has ids that are not whole numbers")
    if not ids or (folder / VOCABULARY).is_file():
        tokens = read_tokens(folder / VOCABULARY)
        wrong = [token for token, at in ids.items() if tokens[at : at + 1] != [token]]
        if wrong:
            raise UserError(
                f"{path}: its {wrong[0]!r} is not on that line of {VOCABULARY} beside it"
            )
        return tokens
    for key, value in (
        ("continuing_subword_prefix", PREFIX),
        ("max_input_chars_per_word", MAX_WORD),
    ):
        if model.get(key, value) != value:
            raise UserError(f"{path}: {key} {model[key]!r} is not supported, only {value!r}")
    if sorted(ids.values()) != list(range(len(ids))):
        raise UserError(f"{path}: the ids of its vocabulary are not 0 to {len(ids) - 1}")
    return sorted(ids, key=ids.__getitem__)


def _special_tokens(folder: Path) -> dict[str, Any]:
    """Return the special tokens that the files name, by the name of their meaning."""
    config, special = _read(folder / CONFIG), _read(folder / SPECIAL)
    chosen: dict[str, Any] = {}
    for name in [*SpecialTokens().named(), "additional_special_tokens"]:
        ours, theirs = _content(config.get(name)), _content(special.get(name))
        if ours is not None and theirs is not None and ours != theirs:
            raise UserError(
                f"{folder / CONFIG} says {name} {ours!r}, {SPECIAL} beside it says {theirs!r}"
            )
        value = theirs if ours is None else ours
        if value is None:
            continue
        if isinstance(value, tuple) != (name == "additional_special_tokens"):
            raise UserError(f"{folder}: {name} {value!r} is a {type(value).__name__}")
        chosen[name] = value
    return chosen


def _content(value: Any) -> Any:
    """Return the text of a token, or of a list of tokens, that the files write in two ways."""
    if isinstance(value, list):
        return tuple(_content(item) for item in value)
    return value.get("content") if isinstance(value, dict) else value


def _added_tokens(folder: Path, special: Container[str]) -> dict[int, str]:
    """Return id -> token of what was added to a vocabulary after it was made."""
    config, compiled, behind = folder / CONFIG, folder / COMPILED, folder / ADDED
    decoder = _typed(config, _read(config), "added_tokens_decoder", (dict,)) or {}
    entries = _typed(compiled, _read(compiled), "added_tokens", (list,)) or []
    added = dict(_added_token(config, at, entry) for at, entry in decoder.items())
    for entry in entries:
        at = entry.get("id") if isinstance(entry, dict) else None
        added.update([_added_token(compiled, at, entry)])
    for token, at in _read(behind).items():
        if type(at) is not int or (token not in special and added.get(at) != token):
            raise UserError(f"{behind}: {token!r} ({at!r}) is not a special token: not supported")
        added[at] = token
    return added


def _added_token(path: Path, at: Any, entry: Any) -> tuple[int, str]:
    """Return the id and the text of an added token, which has to be one that we match."""
    token = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(token, str) or not str(at).isdecimal():
        raise UserError(f"{path}: added token {at!r} is {entry!r}")
    asks = [key for key in ("lstrip", "rstrip", "single_word", "normalized") if entry.get(key)]
    if not entry.get("special", False):
        asks.append("special=false")
    if asks:
        raise UserError(f"{path}: added token {token!r} has {', '.join(asks)}: not supported")
    return int(at), token


def write_folder(folder: Path, vocabulary: Vocabulary, settings: Settings) -> None:
    """Write a tokenizer's files so that the reference reads the same tokenizer from them."""
    special: dict[str, Any] = {**vocabulary.special.named()}
    if vocabulary.special.mask_token not in vocabulary.ids:
        # The reference would add it to the vocabulary, beyond the model's embeddings.
        del special["mask_token"]
    if vocabulary.special.additional_special_tokens:
        special["additional_special_tokens"] = list(vocabulary.special.additional_special_tokens)
    folder.mkdir(parents=True, exist_ok=True)
    write_tokens(folder / VOCABULARY, vocabulary.tokens)
    write_json(folder / SPECIAL, special)
    write_json(folder / CONFIG, {"tokenizer_class": "BertTokenizer", **asdict(settings), **special})
