"""The JSON files that every tokenizer has in a model folder."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import read_json_or_empty
from heedful.tokens.additions import ADDITIONAL, SWITCHES, described
from heedful.tokens.layout import PairLayout
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
TOKENIZER_JSON = "tokenizer.json"
ADDED = "added_tokens.json"

ANY_CLASS = "PreTrainedTokenizer"
"""The class of folders without a class of their own, also with the suffix ``Fast``."""

_FIXED: dict[str, tuple[Any, ...]] = {
    "split_special_tokens": (False,),
    "truncation_side": ("right",),
}
"""Configuration keys of the reference that affect ids or rows, with the supported values."""

_LARGEST_LENGTH = 10**20
"""From this value on, the reference's ``model_max_length`` means unknown."""

TYPES = "token_type_ids"
"""The name of token types in the results of calls and in files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerFiles:
    """The contents of the files; empty for a missing file."""

    folder: Path
    config: dict[str, Any]
    special: dict[str, Any]
    compiled: dict[str, Any]
    added: dict[str, Any]

    @property
    def config_path(self) -> Path:
        """The path of ``tokenizer_config.json``, for messages."""
        return self.folder / CONFIG

    @property
    def compiled_path(self) -> Path:
        """The path of ``tokenizer.json``, for messages."""
        return self.folder / TOKENIZER_JSON


def no_files(folder: Path) -> TokenizerFiles:
    """Return the contents of a folder from which only the vocabulary is read."""
    return TokenizerFiles(folder=folder, config={}, special={}, compiled={}, added={})


def read_files(folder: Path) -> TokenizerFiles:
    """Read the tokenizer files of a folder.

    Raises:
        UserError: a file is damaged, or its path exists but is not a file.
    """
    names = (CONFIG, SPECIAL, TOKENIZER_JSON, ADDED)
    config, special, compiled, added = (read_json_or_empty(folder / name) for name in names)
    return TokenizerFiles(
        folder=folder, config=config, special=special, compiled=compiled, added=added
    )


def make_folder(folder: Path) -> None:
    """Create the folder of a tokenizer, without the files of an earlier one.

    Only the two files that not every tokenizer has are removed. They would be read with the others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (TOKENIZER_JSON, ADDED):
        (folder / name).unlink(missing_ok=True)


def check_config(
    files: TokenizerFiles, classes: Collection[str], fixed: Mapping[str, tuple[Any, ...]]
) -> None:
    """Check the class of a folder's tokenizer, and the settings with a fixed set of values.

    Args:
        files: the contents of the files.
        classes: the reference's classes, each also with the suffix ``Fast``.
        fixed: keys of ``tokenizer_config.json``, with the supported values.

    Raises:
        UserError: the class is another one, or a value is not supported.
    """
    path, config = files.config_path, files.config
    for key, allowed in (_FIXED | dict(fixed)).items():
        if config.get(key) is not None and config[key] not in allowed:
            raise UserError(f"{path}: {key} {config[key]!r} is not supported, only {allowed[0]!r}")
    name = str(config.get("tokenizer_class") or ANY_CLASS)
    if name.removesuffix("Fast") not in (*classes, ANY_CLASS):
        raise UserError(f"{path}: tokenizer_class {name!r} is another kind than {min(classes)!r}")


def checked_value(path: Path, values: Mapping[str, Any], key: str, kinds: tuple[type, ...]) -> Any:
    """Return the value of a key in a file, or None if it is missing.

    Raises:
        UserError: the value has another type.
    """
    value = values.get(key)
    if value is not None and not isinstance(value, kinds):
        raise UserError(f"{path}: {key} {value!r} is a {type(value).__name__}")
    return value


def consistent_value(
    files: TokenizerFiles, key: str, compiled: Mapping[str, Any], compiled_key: str
) -> Any:
    """Return the value of a Boolean setting that must be the same in two files.

    Args:
        files: the contents of the files.
        key: name of the setting in ``tokenizer_config.json``.
        compiled: the part of ``tokenizer.json`` with the setting.
        compiled_key: name of the setting in that part.

    Raises:
        UserError: the values differ, or one is not a Boolean.
    """
    value = checked_value(files.config_path, files.config, key, (bool,))
    other = checked_value(files.compiled_path, compiled, compiled_key, (bool,))
    if value is not None and other is not None and value != other:
        raise UserError(
            f"{files.config_path} says {key} {value}, {TOKENIZER_JSON} beside it says "
            f"{compiled_key} {other}; correct one of them"
        )
    return other if value is None else value


def read_max_length(files: TokenizerFiles) -> int | None:
    """Return the model's maximum sequence length in tokens, or None if unknown.

    Raises:
        UserError: the value is not a valid number of tokens.
    """
    # The first releases used another name.
    key = "model_max_length" if "model_max_length" in files.config else "max_len"
    length: float | None = checked_value(files.config_path, files.config, key, (int, float))
    if length is None or length >= _LARGEST_LENGTH:
        return None
    if not length >= 1 or length != int(length):  # NaN fails every comparison
        raise UserError(f"{files.config_path}: {key} {length!r}: must be a whole number from 1")
    return int(length)


def reads_token_types(files: TokenizerFiles, *, default: bool, second_type: int) -> bool:
    """Return whether models receive token types: as the files say, or as the class's default.

    Raises:
        UserError: the file does not contain a list of names.
    """
    names = checked_value(files.config_path, files.config, "model_input_names", (list,))
    if names is not None:
        return TYPES in names
    # The reference's generic class passes token types if its rows have more than one.
    is_generic = str(files.config.get("tokenizer_class")).removesuffix("Fast") == ANY_CLASS
    return default or (is_generic and second_type > 0)


def row_entries(
    layout: PairLayout, default_layout: PairLayout, *, types: bool, default: bool
) -> dict[str, Any]:
    """Return the entries of a file for token types and padding, without the class's defaults.

    Args:
        layout: the special tokens of rows.
        default_layout: the default of the class.
        types: whether models receive token types.
        default: the default of the class.
    """
    entries: dict[str, Any] = {}
    if types != default:
        names = ["input_ids", *([TYPES] if types else []), "attention_mask"]
        entries["model_input_names"] = names
    if layout.pads_left != default_layout.pads_left:
        entries["padding_side"] = "left" if layout.pads_left else "right"
    return entries


def json_part(files: TokenizerFiles, key: str, kind: str) -> dict[str, Any]:
    """Return a part of ``tokenizer.json``; empty if it is missing or of another kind."""
    part: dict[str, Any] = checked_value(files.compiled_path, files.compiled, key, (dict,)) or {}
    return part if _kind(part) == kind else {}


def json_model_type(files: TokenizerFiles) -> str | None:
    """Return the kind of model that splits words in ``tokenizer.json``, or None if unspecified."""
    return _kind(checked_value(files.compiled_path, files.compiled, "model", (dict,)) or {})


def _kind(part: Mapping[str, Any]) -> str | None:
    # The first releases did not store the kind of a model. Of their models, only BPE has merges.
    kind: str | None = part.get("type", "BPE" if "merges" in part else None)
    return "Unigram" if kind is None and isinstance(part.get("vocab"), list) else kind


def json_tokens(files: TokenizerFiles, model: Mapping[str, Any]) -> dict[str, int]:
    """Return token -> id of the model in a ``tokenizer.json``; empty without a model."""
    path = files.compiled_path
    ids: dict[str, int] = checked_value(path, model, "vocab", (dict,)) or {}
    if set(map(type, ids.values())) - {int}:
        raise UserError(f"{path}: its vocabulary has ids that are not whole numbers")
    return ids


def read_special(
    files: TokenizerFiles,
    tokens: list[str],
    *,
    source: str,
    defaults: SpecialTokens,
) -> Vocabulary:
    """Build a vocabulary from tokens and the special tokens that the files name.

    Added tokens follow the other tokens.

    Args:
        files: the contents of the files.
        tokens: the tokens, with or without added tokens.
        source: where the tokens come from, for messages.
        defaults: the special tokens that apply if the files name none.

    Raises:
        UserError: files name different special tokens, or an added token is damaged.
    """
    folder, base, tokens = files.folder, len(tokens), list(tokens)
    special = replace(defaults, **_special_tokens(files))
    named, additional = special.named(), list(special.additional_special_tokens)
    added, non_special = _added_tokens(files, {*named.values(), *additional})
    for token_id, token in sorted(added.items()):
        if token_id == len(tokens):
            tokens.append(token)
        elif token_id > len(tokens) or tokens[token_id] != token:
            instead = repr(tokens[token_id]) if token_id < len(tokens) else "no token"
            raise UserError(
                f"{folder}: added token {token!r} has id {token_id}; its vocabulary of "
                f"{len(tokens)} tokens has {instead} there"
            )
        if token not in named.values() and token not in additional and token not in non_special:
            additional.append(token)
    ordinary_tokens = tuple(
        token for token in non_special if token not in named.values() and token not in additional
    )
    all_added = {*named.values(), *additional, *ordinary_tokens}
    switches: dict[str, Any] = {
        switch: frozenset(token for token, on in _switched(files, switch).items() if on) & all_added
        for switch in SWITCHES
    }
    described = _switched(files, "lstrip").keys()
    for switch in ("lstrip", "normalized"):
        on = {
            named[name]
            for name, token in defaults.named().items()
            if token in getattr(defaults, switch) and named[name] not in described
        }
        switches[switch] |= on
    # If only the old file names an ordinary token, the reference matches it in normalized text.
    switches["normalized"] |= {token for token in ordinary_tokens if token not in described}
    special = replace(
        special, additional_special_tokens=tuple(additional), ordinary=ordinary_tokens, **switches
    )
    return Vocabulary(tokens, special, source=source, added=len(tokens) - base)


def _special_tokens(files: TokenizerFiles) -> dict[str, Any]:
    """Return the special tokens in the files: name -> token."""
    chosen: dict[str, Any] = {}
    for name in [*SpecialTokens().named(), ADDITIONAL]:
        ours, theirs = content_of(files.config.get(name)), content_of(files.special.get(name))
        if ours is not None and theirs is not None and ours != theirs:
            raise UserError(
                f"{files.config_path} says {name} {ours!r}, {SPECIAL} beside it says {theirs!r}"
            )
        value = theirs if ours is None else ours
        if value is None:
            continue
        if isinstance(value, tuple) != (name == ADDITIONAL):
            raise UserError(f"{files.folder}: {name} {value!r} is a {type(value).__name__}")
        chosen[name] = value
    return chosen


def content_of(value: Any) -> Any:
    """Return the text of a token or of a list of tokens, given as strings or descriptions."""
    if isinstance(value, list):
        return tuple(content_of(item) for item in value)
    return value.get("content") if isinstance(value, dict) else value


def _entries(files: TokenizerFiles) -> list[tuple[Path, Any, Any]]:
    """Return the file, the id and the description of each token that the files describe."""
    config, compiled = files.config_path, files.compiled_path
    decoder = checked_value(config, files.config, "added_tokens_decoder", (dict,)) or {}
    entries = checked_value(compiled, files.compiled, "added_tokens", (list,)) or []
    ids = [entry.get("id") if isinstance(entry, dict) else None for entry in entries]
    return [
        *((config, token_id, entry) for token_id, entry in decoder.items()),
        *((compiled, token_id, entry) for token_id, entry in zip(ids, entries, strict=True)),
    ]


def _added_tokens(
    files: TokenizerFiles, special: Collection[str]
) -> tuple[dict[int, str], list[str]]:
    """Return id -> token of all added tokens, and the tokens that are not special."""
    entries = _entries(files)
    added = dict(_added_token(*entry) for entry in entries)
    non_special = [entry["content"] for _, _, entry in entries if not entry.get("special", False)]
    for token, token_id in files.added.items():
        if type(token_id) is not int:
            raise UserError(f"{files.folder / ADDED}: {token!r} has the id {token_id!r}")
        is_known = token in special or added.get(token_id) == token
        added[token_id] = token
        non_special += [] if is_known else [token]
    return added, list(dict.fromkeys(non_special))


def _added_token(path: Path, token_id: Any, entry: Any) -> tuple[int, str]:
    """Return the id and the text of an added token; raise an error for a damaged one."""
    token = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(token, str) or not str(token_id).isdecimal():
        raise UserError(f"{path}: added token {token_id!r} is {entry!r}")
    return int(token_id), token


def _switched(files: TokenizerFiles, switch: str) -> dict[str, bool]:
    """Return token -> whether an option is on, for all tokens that the files describe.

    A description by id takes precedence over a description by name. Of descriptions by name,
    ``special_tokens_map.json`` takes precedence.
    """
    named = {**files.config, **files.special}
    entries = [named.get(name) for name in SpecialTokens().named()]
    entries += [*(files.config.get(ADDITIONAL) or ()), *(files.special.get(ADDITIONAL) or ())]
    entries += [entry for _, _, entry in reversed(_entries(files))]  # the last one wins
    return {
        entry["content"]: bool(entry.get(switch))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("content"), str)
    }


def special_entries(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the special tokens by name, in the format of the files."""
    special: dict[str, Any] = {**vocabulary.special.named()}
    if vocabulary.special.mask_token not in vocabulary.ids:
        # The reference would add the mask to the vocabulary, beyond the model's embeddings.
        del special["mask_token"]
    if vocabulary.special.additional_special_tokens:
        special[ADDITIONAL] = list(vocabulary.special.additional_special_tokens)
    return special


def added_token_entries(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the descriptions of all tokens that are never split, by id.

    Without descriptions, the reference guesses the options of special tokens.
    """
    return {
        str(vocabulary.ids[content]): {
            "content": content,
            "lstrip": token.lstrip,
            "normalized": token.normalized,
            "rstrip": token.rstrip,
            "single_word": token.single_word,
            "special": token.special,
        }
        for content, token in sorted(
            described(vocabulary).items(), key=lambda item: vocabulary.ids[item[0]]
        )
    }
