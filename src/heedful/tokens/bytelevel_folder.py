"""The folder of a byte-level tokenizer: read what others wrote, write what they read."""

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
    agreed,
    check_config,
    compiled_part,
    compiled_tokens,
    content_of,
    described_entries,
    input_names,
    read_files,
    read_max_length,
    read_special,
    special_entries,
    typed,
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
"""What `write_folder` writes."""

ROBERTA = SpecialTokens(
    unk_token="<unk>",
    sep_token="</s>",
    pad_token="<pad>",
    cls_token="<s>",
    mask_token="<mask>",
    lstrip=frozenset({"<mask>"}),
)
"""The special tokens of a folder of RoBERTa's that does not say others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteLevelKind:
    """What tells apart the reference's classes that join bytes."""

    name: str
    """The class, in folders also with ``Fast`` behind it."""
    special: SpecialTokens
    """The special tokens of a folder that does not say others."""
    around: bool
    """Whether special tokens stand around texts."""
    separators: int = 2
    """How many of them stand between the texts of a pair."""
    second_type: int = 0
    """Token type of a second text."""
    token_types: bool = False
    """Whether calls return token types unless told otherwise."""
    trim_offsets: bool
    """Whether spaces are left out of slices where that is not said."""
    processor: str
    """What ``tokenizer.json`` calls what comes last."""

    def layout(self, vocabulary: Vocabulary) -> PairLayout:
        """Return the special tokens around texts."""
        if not self.around:
            return PairLayout()
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
    trim_offsets=False,
    processor="ByteLevel",
)

_FIXED: dict[str, tuple[Any, ...]] = {"errors": ("replace",), "add_bos_token": (False,)}
"""Keys of the reference that change ids or texts, and the values that are supported."""

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
"""What ``tokenizer.json`` may say where it says anything; it normalizes nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteLevelSettings:
    """What besides the vocabulary decides ids and text. ``None`` where the folder does not say."""

    add_prefix_space: bool | None = None
    trim_offsets: bool | None = None
    model_max_length: int | None = None
    clean_up_tokenization_spaces: bool | None = None


def read_settings(
    files: TokenizerFiles, kind: ByteLevelKind, overrides: ByteLevelSettings
) -> ByteLevelSettings:
    """Read ``tokenizer_config.json``, and check it against ``tokenizer.json`` where that is there.

    Args:
        files: what the folder's files say.
        kind: the class that reads it.
        overrides: what the user says, which wins over what the files say.

    Raises:
        UserError: a value is of the wrong type or is not supported, or the files differ
            in what decides ids.
    """
    check_config(files, (kind.name,), _FIXED)
    _check_compiled(files, kind)
    values = asdict(overrides)
    for key, part, name in (
        ("add_prefix_space", "pre_tokenizer", "ByteLevel"),
        ("trim_offsets", "post_processor", kind.processor),
    ):
        if values[key] is None:
            values[key] = agreed(files, key, compiled_part(files, part, name), key)
    if values["model_max_length"] is None:
        values["model_max_length"] = read_max_length(files)
    key = "clean_up_tokenization_spaces"
    if values[key] is None:
        values[key] = typed(files.config_path, files.config, key, (bool,))
    return ByteLevelSettings(**values)


def _check_compiled(files: TokenizerFiles, kind: ByteLevelKind) -> None:
    if files.compiled.get("normalizer") is not None:
        raise UserError(f"{files.compiled_path}: a normalizer is not supported, only null")
    # Without special tokens around texts, nothing has to come last.
    last = (kind.processor,) if kind.around else (kind.processor, None)
    check_parts(files, {**_FIXED_COMPILED, "post_processor": {"type": last}})


def read_vocabulary(files: TokenizerFiles, kind: ByteLevelKind) -> tuple[Vocabulary, list[Pair]]:
    """Read the tokens, special ones among them, and the pairs of which they were made.

    They stand in ``vocab.json`` and ``merges.txt``, or in ``tokenizer.json``, which has to have the
    same; see `read_special`.

    Raises:
        UserError: a file is missing or damaged, the files differ, or see there.
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
                same: dict[str, Any] = {theirs: one}
                if ours == "eos_token":
                    same["pad_token"] = one
                defaults = replace(defaults, **same)
    tokens, merges, path = _tokens_and_merges(files)
    vocabulary = read_special(
        files, tokens, source=str(path), defaults=defaults, refused=(), ordinary=True
    )
    if kind.around:
        check_layout(files, kind.layout(vocabulary), vocabulary.ids)
    return vocabulary, merges


def _tokens_and_merges(files: TokenizerFiles) -> tuple[list[str], list[Pair], Path]:
    """Return the tokens in their order, the merges, and the file that the tokens are from."""
    path, model = files.compiled_path, compiled_part(files, "model", "BPE")
    ids = compiled_tokens(files, model)
    merges = _compiled_merges(path, typed(path, model, "merges", (list,)) or [])
    vocabulary, pairs = files.folder / VOCABULARY, files.folder / MERGES
    if ids and not (vocabulary.is_file() and pairs.is_file()):
        return tokens_in_order(ids, source=str(path)), merges, path
    tokens = tokens_in_order(read_ids(vocabulary), source=str(vocabulary))
    wrong = [token for token, token_id in ids.items() if tokens[token_id : token_id + 1] != [token]]
    if wrong:
        raise UserError(f"{path}: its {wrong[0]!r} has another id in {VOCABULARY} beside it")
    read = read_merges(pairs)
    if ids and merges != read:
        raise UserError(f"{path}: its merges are not those of {MERGES} beside it")
    return tokens, read, vocabulary


def holds(folder: Path, kind: ByteLevelKind) -> bool:
    """Tell whether a folder has the tokens that stand around the texts of a kind."""
    files = read_files(folder)
    ids = compiled_tokens(files, compiled_part(files, "model", "BPE"))
    if not ids and (folder / VOCABULARY).is_file() and (folder / MERGES).is_file():
        ids = read_ids(folder / VOCABULARY)
    return {kind.special.cls_token, kind.special.sep_token} <= ids.keys()


def _compiled_merges(path: Path, merges: list[Any]) -> list[Pair]:
    """Return merges that a ``tokenizer.json`` writes in two ways: as texts, or as pairs."""
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
    told: bool,
) -> None:
    """Write a tokenizer's files so that the reference reads the same tokenizer from them.

    Args:
        folder: where they go.
        kind: the class.
        vocabulary: the tokens.
        merges: the pairs of which they were made.
        settings: what else decides ids and text.
        told: whether models are told token types.
    """
    tokens = vocabulary.special
    special = special_entries(vocabulary)
    special |= {"bos_token": special["cls_token"], "eos_token": special["sep_token"]}
    if not kind.around:
        # The reference has no such tokens; padding it has where a user names one.
        del special["cls_token"], special["sep_token"]
        if tokens.pad_token == tokens.sep_token:
            del special["pad_token"]
    described = described_entries(vocabulary)
    names = input_names(told=told, usual=kind.token_types)
    config = {**asdict(settings), **names, **special, "added_tokens_decoder": described}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / VOCABULARY, vocabulary.ids)
    write_merges(folder / MERGES, merges)
    write_json(folder / SPECIAL, special)
    write_json(folder / CONFIG, {"tokenizer_class": kind.name, **config})
