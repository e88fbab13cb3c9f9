"""Read and write the folder of a byte-level tokenizer, compatible with other libraries."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import write_json
from heedful.tokens.bpe import Pair
from heedful.tokens.compiled_file import check_layout, check_parts
from heedful.tokens.folder import (
    CONFIG,
    SPECIAL,
    TokenizerFiles,
    added_token_entries,
    check_config,
    checked_value,
    consistent_value,
    content_of,
    json_part,
    json_tokens,
    make_folder,
    read_files,
    read_max_length,
    read_special,
    special_entries,
)
from heedful.tokens.layout import PairLayout
from heedful.tokens.vocabulary import (
    SpecialTokens,
    Vocabulary,
    read_ids,
    read_merges,
    tokens_in_order,
    write_merges,
)

VOCABULARY, MERGES = "vocab.json", "merges.txt"
FILES = frozenset({VOCABULARY, MERGES, CONFIG, SPECIAL})
"""The files that `write_folder` writes."""

ROBERTA = SpecialTokens(
    unk_token="<unk>",
    sep_token="</s>",
    pad_token="<pad>",
    cls_token="<s>",
    mask_token="<mask>",
    lstrip=frozenset({"<mask>"}),
)
"""The default special tokens of a RoBERTa folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteLevelKind:
    """The differences between the reference's classes of byte-level tokenizers."""

    name: str
    """The class name. Folders may add the suffix ``Fast``."""
    special: SpecialTokens
    """The default special tokens of a folder."""
    around: bool
    """Whether texts are surrounded by special tokens."""
    separators: int = 2
    """Number of special tokens between the texts of a pair."""
    second_type: int = 0
    """Token type of a second text."""
    token_types: bool = False
    """Whether calls return token types by default."""
    trim_offsets: bool
    """Whether offsets exclude spaces by default."""
    processor: str
    """The type of its post-processor in ``tokenizer.json``."""

    def layout(self, vocabulary: Vocabulary) -> PairLayout:
        """Return the special tokens around texts."""
        if not self.around:
            return PairLayout(second_type=self.second_type, uses_token_types=self.token_types)
        cls_id = vocabulary.ids[vocabulary.special.cls_token]
        sep_id = vocabulary.ids[vocabulary.special.sep_token]
        return PairLayout(
            begin=(cls_id,),
            middle=(sep_id,) * self.separators,
            end=(sep_id,),
            second_type=self.second_type,
        )


ROBERTA_KIND = ByteLevelKind(
    name="RobertaTokenizer",
    special=ROBERTA,
    around=True,
    trim_offsets=True,
    processor="RobertaProcessing",
)
DEBERTA_KIND = ByteLevelKind(
    name="DebertaTokenizer",
    special=SpecialTokens(lstrip=frozenset({"[MASK]"})),
    around=True,
    separators=1,
    second_type=1,
    token_types=True,
    trim_offsets=False,
    processor="TemplateProcessing",
)
GPT2_KIND = ByteLevelKind(
    name="GPT2Tokenizer",
    special=SpecialTokens(
        unk_token=(_END := "<|endoftext|>"), sep_token=_END, pad_token=_END, cls_token=_END
    ),
    around=False,
    second_type=1,
    trim_offsets=False,
    processor="ByteLevel",
)

_FIXED: dict[str, tuple[Any, ...]] = {"errors": ("replace",), "add_bos_token": (False,)}
"""Configuration keys of the reference that affect ids or texts, with the supported values."""

_FIXED_COMPILED: dict[str, dict[str, tuple[Any, ...]]] = {
    "model": {
        "type": ("BPE",),
        "dropout": (None, 0.0),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (None, ""),
        "byte_fallback": (None, False),
        "ignore_merges": (None, False),
    },
    "pre_tokenizer": {"type": ("ByteLevel",), "use_regex": (None, True)},
}
"""The supported values in ``tokenizer.json``, if present. A normalizer is not supported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteLevelSettings:
    """Settings besides the vocabulary that affect ids and text. ``None`` means unspecified."""

    add_prefix_space: bool | None = None
    trim_offsets: bool | None = None
    model_max_length: int | None = None
    clean_up_tokenization_spaces: bool | None = None


def read_settings(
    files: TokenizerFiles, kind: ByteLevelKind, overrides: ByteLevelSettings
) -> ByteLevelSettings:
    """Read ``tokenizer_config.json``, and check it against ``tokenizer.json``, if present.

    Args:
        files: the contents of the folder's files.
        kind: the class that reads the files.
        overrides: the user's settings, which override the files.

    Raises:
        UserError: a value has the wrong type or is not supported, or the files differ in a
            setting that affects ids.
    """
    check_config(files, (kind.name,), _FIXED)
    _check_compiled(files, kind)
    values = asdict(overrides)
    for key, part, name in (
        ("add_prefix_space", "pre_tokenizer", "ByteLevel"),
        ("trim_offsets", "post_processor", kind.processor),
    ):
        if values[key] is None:
            values[key] = consistent_value(files, key, json_part(files, part, name), key)
    if values["model_max_length"] is None:
        values["model_max_length"] = read_max_length(files)
    key = "clean_up_tokenization_spaces"
    if values[key] is None:
        values[key] = checked_value(files.config_path, files.config, key, (bool,))
    return ByteLevelSettings(**values)


def _check_compiled(files: TokenizerFiles, kind: ByteLevelKind) -> None:
    if files.compiled.get("normalizer") is not None:
        raise UserError(f"{files.compiled_path}: a normalizer is not supported, only null")
    # Without special tokens around texts, no post-processor is required.
    last = (kind.processor,) if kind.around else (kind.processor, None)
    check_parts(files, {**_FIXED_COMPILED, "post_processor": {"type": last}})


def read_vocabulary(files: TokenizerFiles, kind: ByteLevelKind) -> tuple[Vocabulary, list[Pair]]:
    """Read the tokens, including special tokens, and the merges.

    The files are ``vocab.json`` and ``merges.txt``, or ``tokenizer.json``. If all exist, they must
    agree.

    Raises:
        UserError: a file is missing or damaged, or the files differ; or see `read_special`.
    """
    defaults = kind.special
    for ours, theirs in (("bos_token", "cls_token"), ("eos_token", "sep_token")):
        for values in (files.config, files.special):
            one, other = content_of(values.get(ours)), content_of(values.get(theirs))
            if one is not None and other is not None and one != other:
                raise UserError(
                    f"{files.folder}: {ours} {one!r} and {theirs} {other!r} differ: not supported"
                )
            if not kind.around and isinstance(one, str):
                overrides: dict[str, Any] = {theirs: one}
                if ours == "eos_token":
                    overrides["pad_token"] = one
                defaults = replace(defaults, **overrides)
    tokens, merges, path = _tokens_and_merges(files)
    vocabulary = read_special(files, tokens, source=str(path), defaults=defaults)
    if kind.around:
        check_layout(files, kind.layout(vocabulary), vocabulary.ids)
    return vocabulary, merges


def _tokens_and_merges(files: TokenizerFiles) -> tuple[list[str], list[Pair], Path]:
    """Return the tokens in the order of their ids, the merges, and the file of the tokens."""
    path, model = files.compiled_path, json_part(files, "model", "BPE")
    ids = json_tokens(files, model)
    merges = _compiled_merges(path, checked_value(path, model, "merges", (list,)) or [])
    vocabulary, pairs = files.folder / VOCABULARY, files.folder / MERGES
    if ids and not (vocabulary.is_file() and pairs.is_file()):
        return tokens_in_order(ids, source=str(path)), merges, path
    tokens = tokens_in_order(read_ids(vocabulary), source=str(vocabulary))
    wrong = [token for token, token_id in ids.items() if tokens[token_id : token_id + 1] != [token]]
    if wrong:
        raise UserError(f"{path}: its {wrong[0]!r} has another id in {VOCABULARY} beside it")
    file_merges = read_merges(pairs)
    if ids and merges != file_merges:
        raise UserError(f"{path}: its merges are not those of {MERGES} beside it")
    return tokens, file_merges, vocabulary


def holds(folder: Path, kind: ByteLevelKind) -> bool:
    """Return whether a folder's vocabulary contains the tokens that surround a kind's texts."""
    files = read_files(folder)
    ids = json_tokens(files, json_part(files, "model", "BPE"))
    if not ids and (folder / VOCABULARY).is_file() and (folder / MERGES).is_file():
        ids = read_ids(folder / VOCABULARY)
    return {kind.special.cls_token, kind.special.sep_token} <= ids.keys()


def _compiled_merges(path: Path, merges: list[Any]) -> list[Pair]:
    """Return the merges of a ``tokenizer.json``, which are stored as strings or as pairs."""
    pairs: list[Pair] = []
    for merge in merges:
        match merge.split(" ") if isinstance(merge, str) else merge:
            case [str(left), str(right)]:
                pairs.append((left, right))
            case _:
                raise UserError(f"{path}: the merge {merge!r:.80} is not of two tokens")
    return pairs


def write_folder(
    folder: Path,
    kind: ByteLevelKind,
    vocabulary: Vocabulary,
    merges: list[Pair],
    settings: ByteLevelSettings,
    *,
    rows: Mapping[str, Any],
) -> None:
    """Write a tokenizer's files, from which the reference loads the same tokenizer.

    Args:
        folder: the folder for the files.
        kind: the class.
        vocabulary: the tokens.
        merges: the pairs of tokens to merge.
        settings: other settings that affect ids and text.
        rows: the settings of rows; see `row_entries`.
    """
    tokens = vocabulary.special
    special = special_entries(vocabulary)
    special |= {"bos_token": special["cls_token"], "eos_token": special["sep_token"]}
    if not kind.around:
        # The reference has no such tokens, and padding only if a user chose a token for it.
        del special["cls_token"], special["sep_token"]
        if tokens.pad_token == tokens.sep_token:
            del special["pad_token"]
    described = added_token_entries(vocabulary)
    config = {**asdict(settings), **rows, **special, "added_tokens_decoder": described}
    make_folder(folder)
    write_json(folder / VOCABULARY, vocabulary.ids)
    write_merges(folder / MERGES, merges)
    write_json(folder / SPECIAL, special)
    write_json(folder / CONFIG, {"tokenizer_class": kind.name, **config})
