"""The JSON files of a tokenizer in a model's folder, which tokenizers of all kinds have."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import read_json_if_there
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
COMPILED = "tokenizer.json"
ADDED = "added_tokens.json"

ANY_CLASS = "PreTrainedTokenizer"
"""What folders name, also with ``Fast`` behind it, that have no class of their own."""

_FIXED: dict[str, tuple[Any, ...]] = {
    "split_special_tokens": (False,),
    "padding_side": ("right",),
    "truncation_side": ("right",),
}
"""Keys of the reference that change ids or rows, and the values that are supported."""

_LARGEST_LENGTH = 10**20
"""From here on the reference's ``model_max_length`` means that it is not known."""

_SWITCHES = ("lstrip", "rstrip", "single_word", "normalized")
"""What added tokens may ask for."""

TYPES = "token_type_ids"
"""What calls return them as, and files name them."""

MORE = "additional_special_tokens"
"""The key of special tokens without a name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerFiles:
    """The contents of the files; empty for a file that is missing."""

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
        return self.folder / COMPILED


def read_files(folder: Path) -> TokenizerFiles:
    """Read the files of a folder.

    Raises:
        UserError: one of them is damaged, or there but no file.
    """
    names = (CONFIG, SPECIAL, COMPILED, ADDED)
    config, special, compiled, added = (read_json_if_there(folder / name) for name in names)
    return TokenizerFiles(
        folder=folder, config=config, special=special, compiled=compiled, added=added
    )


def check_config(
    files: TokenizerFiles, classes: Collection[str], fixed: Mapping[str, tuple[Any, ...]]
) -> None:
    """Check the class of a folder's tokenizer, and settings that can have one value alone.

    Args:
        files: what the files say.
        classes: the reference's classes, each also with ``Fast`` behind it.
        fixed: keys of ``tokenizer_config.json``, and the values that are supported.

    Raises:
        UserError: it is of another class, or a value is none of these.
    """
    path, config = files.config_path, files.config
    for key, allowed in (_FIXED | dict(fixed)).items():
        if config.get(key) is not None and config[key] not in allowed:
            raise UserError(f"{path}: {key} {config[key]!r} is not supported, only {allowed[0]!r}")
    name = str(config.get("tokenizer_class") or ANY_CLASS)
    if name.removesuffix("Fast") not in (*classes, ANY_CLASS):
        raise UserError(f"{path}: tokenizer_class {name!r} is another kind than {min(classes)!r}")


def typed(path: Path, values: Mapping[str, Any], key: str, kinds: tuple[type, ...]) -> Any:
    """Return a value that a file holds, None where it holds none.

    Raises:
        UserError: it is of another type.
    """
    value = values.get(key)
    if value is not None and not isinstance(value, kinds):
        raise UserError(f"{path}: {key} {value!r} is a {type(value).__name__}")
    return value


def agreed(files: TokenizerFiles, key: str, compiled: Mapping[str, Any], compiled_key: str) -> Any:
    """Return the value of a switch that two files hold, and that has to be the same in both.

    Args:
        files: what the files say.
        key: its name in ``tokenizer_config.json``.
        compiled: the part of ``tokenizer.json`` that holds it.
        compiled_key: its name there.

    Raises:
        UserError: they differ, or one is neither true nor false.
    """
    value = typed(files.config_path, files.config, key, (bool,))
    other = typed(files.compiled_path, compiled, compiled_key, (bool,))
    if value is not None and other is not None and value != other:
        raise UserError(
            f"{files.config_path} says {key} {value}, {COMPILED} beside it says {compiled_key} "
            f"{other}; mend one of them"
        )
    return other if value is None else value


def read_max_length(files: TokenizerFiles) -> int | None:
    """Return the longest row the model takes, None where that is not known.

    Raises:
        UserError: it is no number of tokens.
    """
    # The first releases called it by another name.
    key = "model_max_length" if "model_max_length" in files.config else "max_len"
    length: float | None = typed(files.config_path, files.config, key, (int, float))
    if length is None or length >= _LARGEST_LENGTH:
        return None
    if not length >= 1 or length != int(length):  # NaN is neither more nor less
        raise UserError(f"{files.config_path}: {key} {length!r}: must be a whole number from 1")
    return int(length)


def tells_types(files: TokenizerFiles, *, usual: bool, second_type: int) -> bool:
    """Tell whether models are told token types, as the files say or as is usual for the class.

    Raises:
        UserError: the file says it in another way than by a list of names.
    """
    names = typed(files.config_path, files.config, "model_input_names", (list,))
    if names is not None:
        return TYPES in names
    # The reference's general class tells them wherever its rows have any.
    general = str(files.config.get("tokenizer_class")).removesuffix("Fast") == ANY_CLASS
    return usual or (general and second_type > 0)


def input_names(*, told: bool, usual: bool) -> dict[str, Any]:
    """Return what a file says of token types: nothing where they are as usual for the class."""
    names = ["input_ids", *([TYPES] if told else []), "attention_mask"]
    return {} if told == usual else {"model_input_names": names}


def compiled_part(files: TokenizerFiles, key: str, kind: str) -> dict[str, Any]:
    """Return a part of ``tokenizer.json``, empty where it is missing or of another kind."""
    part: dict[str, Any] = typed(files.compiled_path, files.compiled, key, (dict,)) or {}
    return part if _kind(part) == kind else {}


def compiled_kind(files: TokenizerFiles) -> str | None:
    """Return what cuts words by ``tokenizer.json``; None where it does not say."""
    return _kind(typed(files.compiled_path, files.compiled, "model", (dict,)) or {})


def _kind(part: Mapping[str, Any]) -> str | None:
    # The first releases did not say of what kind a model is; of theirs, one has merges.
    told: str | None = part.get("type", "BPE" if "merges" in part else None)
    return "Unigram" if told is None and isinstance(part.get("vocab"), list) else told


def compiled_tokens(files: TokenizerFiles, model: Mapping[str, Any]) -> dict[str, int]:
    """Return token -> id of the model of a ``tokenizer.json``; none where there is none."""
    path = files.compiled_path
    ids: dict[str, int] = typed(path, model, "vocab", (dict,)) or {}
    if set(map(type, ids.values())) - {int}:
        raise UserError(f"{path}: its vocabulary has ids that are not whole numbers")
    return ids


def read_special(
    files: TokenizerFiles,
    tokens: list[str],
    *,
    source: str,
    defaults: SpecialTokens,
    refused: Collection[str],
    ordinary: bool = False,
) -> Vocabulary:
    """Make a vocabulary of tokens and of the special tokens that the files name.

    Added tokens come behind the vocabulary.

    Args:
        files: what the files say.
        tokens: the tokens, with or without those that were added.
        source: where they are from, for messages.
        defaults: the special tokens where the files name none.
        refused: switches of added tokens that must be off: ``lstrip``, ``rstrip``,
            ``single_word`` and ``normalized``.
        ordinary: whether added tokens need not be special.

    Raises:
        UserError: files name different special tokens, or an added token is of a kind that is
            not supported.
    """
    folder, base, tokens = files.folder, len(tokens), list(tokens)
    special = replace(defaults, **_special_tokens(files))
    named, more = special.named(), list(special.additional_special_tokens)
    added, plain = _added_tokens(files, {*named.values(), *more}, refused, ordinary)
    for token_id, token in sorted(added.items()):
        if token_id == len(tokens):
            tokens.append(token)
        elif token_id > len(tokens) or tokens[token_id] != token:
            instead = repr(tokens[token_id]) if token_id < len(tokens) else "no token"
            raise UserError(
                f"{folder}: added token {token!r} has id {token_id}; its vocabulary of "
                f"{len(tokens)} tokens has {instead} there"
            )
        if token not in named.values() and token not in more and token not in plain:
            more.append(token)
    rest = tuple(token for token in plain if token not in named.values() and token not in more)
    kept = {*named.values(), *more, *rest}
    switches: dict[str, Any] = {
        switch: frozenset(token for token, on in _switched(files, switch).items() if on) & kept
        for switch in _SWITCHES
        if switch not in refused
    }
    described = _switched(files, "lstrip").keys()
    for switch in ("lstrip", "normalized"):
        on = {
            named[name]
            for name, token in defaults.named().items()
            if token in getattr(defaults, switch) and named[name] not in described
        }
        switches[switch] = switches.get(switch, frozenset()) | on
    # Of ordinary tokens that only the old file names, the reference normalizes the text before.
    switches["normalized"] |= {token for token in rest if token not in described}
    special = replace(special, additional_special_tokens=tuple(more), ordinary=rest, **switches)
    return Vocabulary(tokens, special, source=source, added=len(tokens) - base)


def _special_tokens(files: TokenizerFiles) -> dict[str, Any]:
    """Return the special tokens that the files name, by name."""
    chosen: dict[str, Any] = {}
    for name in [*SpecialTokens().named(), MORE]:
        ours, theirs = content_of(files.config.get(name)), content_of(files.special.get(name))
        if ours is not None and theirs is not None and ours != theirs:
            raise UserError(
                f"{files.config_path} says {name} {ours!r}, {SPECIAL} beside it says {theirs!r}"
            )
        value = theirs if ours is None else ours
        if value is None:
            continue
        if isinstance(value, tuple) != (name == MORE):
            raise UserError(f"{files.folder}: {name} {value!r} is a {type(value).__name__}")
        chosen[name] = value
    return chosen


def content_of(value: Any) -> Any:
    """Return the text of a token, or of a list of tokens: files hold texts or descriptions."""
    if isinstance(value, list):
        return tuple(content_of(item) for item in value)
    return value.get("content") if isinstance(value, dict) else value


def _entries(files: TokenizerFiles) -> list[tuple[Path, Any, Any]]:
    """Return the file, the id and the description of each token that the files describe."""
    config, compiled = files.config_path, files.compiled_path
    decoder = typed(config, files.config, "added_tokens_decoder", (dict,)) or {}
    entries = typed(compiled, files.compiled, "added_tokens", (list,)) or []
    ids = [entry.get("id") if isinstance(entry, dict) else None for entry in entries]
    return [
        *((config, token_id, entry) for token_id, entry in decoder.items()),
        *((compiled, token_id, entry) for token_id, entry in zip(ids, entries, strict=True)),
    ]


def _added_tokens(
    files: TokenizerFiles, special: Collection[str], refused: Collection[str], ordinary: bool
) -> tuple[dict[int, str], list[str]]:
    """Return id -> token of the tokens that were added to a vocabulary; those not special."""
    entries = _entries(files)
    added = dict(_added_token(*entry, refused, ordinary) for entry in entries)
    plain = [entry["content"] for _, _, entry in entries if not entry.get("special", False)]
    for token, token_id in files.added.items():
        is_told = token in special or added.get(token_id) == token
        if type(token_id) is not int or not (is_told or ordinary):
            path = files.folder / ADDED
            raise UserError(
                f"{path}: {token!r} ({token_id!r}) is not a special token: not supported"
            )
        added[token_id] = token
        plain += [] if is_told else [token]
    return added, list(dict.fromkeys(plain))


def _added_token(
    path: Path, token_id: Any, entry: Any, refused: Collection[str], ordinary: bool
) -> tuple[int, str]:
    """Return the id and the text of an added token; refuse one of a kind not supported."""
    token = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(token, str) or not str(token_id).isdecimal():
        raise UserError(f"{path}: added token {token_id!r} is {entry!r}")
    asks = [key for key in refused if entry.get(key)]
    if not entry.get("special", False) and not ordinary:
        asks.append("special=false")
    if asks:
        raise UserError(f"{path}: added token {token!r} has {', '.join(asks)}: not supported")
    return int(token_id), token


def _switched(files: TokenizerFiles, switch: str) -> dict[str, bool]:
    """Return token -> whether a switch of it is on, of tokens that the files describe.

    Of descriptions by name that of ``special_tokens_map.json`` counts, and before both one by id.
    """
    named = {**files.config, **files.special}
    entries = [named.get(name) for name in SpecialTokens().named()]
    entries += [*(files.config.get(MORE) or ()), *(files.special.get(MORE) or ())]
    entries += [entry for _, _, entry in reversed(_entries(files))]  # the last one counts
    return {
        entry["content"]: bool(entry.get(switch))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("content"), str)
    }


def special_entries(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the special tokens by name, as files hold them."""
    special: dict[str, Any] = {**vocabulary.special.named()}
    if vocabulary.special.mask_token not in vocabulary.ids:
        # The reference would add it to the vocabulary, beyond the model's embeddings.
        del special["mask_token"]
    if vocabulary.special.additional_special_tokens:
        special[MORE] = list(vocabulary.special.additional_special_tokens)
    return special


def described_entries(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what files say of each token that is never split, by its id.

    The reference guesses the switches of special tokens that are not described.
    """
    special = vocabulary.special
    return {
        str(token_id): {
            "content": token,
            "lstrip": token in special.lstrip,
            "normalized": token in special.normalized,
            "rstrip": token in special.rstrip,
            "single_word": token in special.single_word,
            "special": token not in special.ordinary,
        }
        for token, token_id in vocabulary.added_ids().items()
    }
