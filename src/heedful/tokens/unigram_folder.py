"""Read and write the folder of a unigram tokenizer, compatible with other libraries."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import write_json
from heedful.tokens.charsmap import Charsmap
from heedful.tokens.compiled_file import check_layout
from heedful.tokens.folder import (
    CONFIG,
    SPECIAL,
    TOKENIZER_JSON,
    TokenizerFiles,
    added_token_entries,
    check_config,
    checked_value,
    content_of,
    json_part,
    make_folder,
    read_files,
    read_max_length,
    read_special,
    special_entries,
)
from heedful.tokens.layout import PairLayout
from heedful.tokens.metaspace import UnigramEncoder
from heedful.tokens.plain_splitting import WORD_START
from heedful.tokens.rewriting import (
    DECOMPOSE_AND_STRIP,
    LOWERCASE,
    STRIP_ACCENTS,
    JoinSpaces,
    Precompiled,
    Replace,
    Step,
    Strip,
)
from heedful.tokens.sentencepiece_file import PieceKind, SentencePieceModel, read_model
from heedful.tokens.splitting import Rules
from heedful.tokens.unigram import Unigram
from heedful.tokens.unigram_json import as_compiled, read_rules, read_scores, unknown_token
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

_COMMA_PENALTY = 100.0
"""The reference lowers the score of tokens that end in a digit and a comma by this much."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnigramKind:
    """The differences between the reference's classes of unigram tokenizers."""

    name: str
    """The class name. Folders may add the suffix ``Fast``."""
    file: str
    """The name of its SentencePiece file."""
    special: SpecialTokens
    """The default special tokens of a folder."""
    separators: int
    """Number of special tokens between the texts of a pair."""
    second_type: int
    """Token type of a second text."""
    token_types: bool
    """Whether, by default, calls return token types and models receive them."""
    cleans: bool = False
    """Whether quotes, case and accents are normalized before SentencePiece's own rules."""
    lowers: bool | None = None
    """Whether text is lowercased by default; None if never."""
    fairseq: bool = False
    """Whether ids are those of fairseq, whose special tokens come before the pieces of the file."""
    bos_token: str | None = None
    """The ``bos_token`` in folders; None for the token that begins a row."""
    eos_token: str | None = None
    """The ``eos_token`` in folders; None for the token that ends a text."""
    adds_mask: bool = False
    """Whether a mask token is appended to the pieces of a file without one."""
    strips: bool = False
    """Whether white space is stripped from both ends before SentencePiece's own rules."""
    class_last: bool = False
    """Whether the class token ends rows, with padding on the left, instead of beginning them."""

    def layout(self, vocabulary: Vocabulary) -> PairLayout:
        """Return the special tokens around texts."""
        cls_id = vocabulary.ids[vocabulary.special.cls_token]
        sep_id = vocabulary.ids[vocabulary.special.sep_token]
        if self.class_last:
            return PairLayout(
                middle=(sep_id,) * self.separators,
                end=(sep_id, cls_id),
                second_type=self.second_type,
                closing_type=2,
                pads_left=True,
                padding_type=3,
            )
        return PairLayout(
            begin=(cls_id,),
            middle=(sep_id,) * self.separators,
            end=(sep_id,),
            second_type=self.second_type,
            uses_token_types=self.token_types,
        )

    def ends(self, vocabulary: Vocabulary) -> dict[str, str]:
        """Return the ``bos_token`` and the ``eos_token`` in folders."""
        named = vocabulary.special
        bos, eos = self.bos_token or named.cls_token, self.eos_token or named.sep_token
        return {"bos_token": bos, "eos_token": eos}


ALBERT = UnigramKind(
    name="AlbertTokenizer",
    file="spiece.model",
    special=SpecialTokens(unk_token="<unk>", pad_token="<pad>", lstrip=frozenset({"[MASK]"})),
    separators=1,
    second_type=1,
    token_types=True,
    cleans=True,
    lowers=True,
)
DEBERTA_V2 = UnigramKind(
    name="DebertaV2Tokenizer",
    file="spm.model",
    special=SpecialTokens(normalized=frozenset({"[UNK]"})),
    separators=1,
    second_type=1,
    token_types=True,
    lowers=False,
    adds_mask=True,
    strips=True,
)
XLNET = UnigramKind(
    name="XLNetTokenizer",
    file="spiece.model",
    special=SpecialTokens(
        unk_token="<unk>",
        sep_token="<sep>",
        pad_token="<pad>",
        cls_token="<cls>",
        mask_token="<mask>",
        lstrip=frozenset({"<mask>"}),
    ),
    separators=1,
    second_type=1,
    token_types=True,
    cleans=True,
    lowers=False,
    class_last=True,
    bos_token="<s>",
    eos_token="</s>",
)
XLM_ROBERTA = UnigramKind(
    name="XLMRobertaTokenizer",
    file="sentencepiece.bpe.model",
    special=SpecialTokens(
        unk_token="<unk>",
        sep_token="</s>",
        pad_token="<pad>",
        cls_token="<s>",
        mask_token="<mask>",
        lstrip=frozenset({"<mask>"}),
    ),
    separators=2,
    second_type=0,
    token_types=False,
    fairseq=True,
)
BIG_BIRD = UnigramKind(
    name="BigBirdTokenizer",
    file="spiece.model",
    special=SpecialTokens(
        unk_token="<unk>",
        pad_token="<pad>",
        lstrip=frozenset({"[MASK]"}),
        normalized=frozenset({"<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]"}),
    ),
    separators=1,
    second_type=1,
    token_types=False,
    bos_token="<s>",
    eos_token="</s>",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Everything that affects how a unigram tokenizer splits texts."""

    vocabulary: Vocabulary
    scores: tuple[float, ...]
    """The log-probability of each token. The added tokens at the end have none."""
    byte_fallback: bool
    """Whether a character that no token contains is written as bytes."""
    rules: Rules
    """The rules for splitting texts into words."""
    model: bytes = b""
    """The SentencePiece file that the recipe comes from; empty if it comes from ``compiled``."""
    compiled: dict[str, Any] = field(default_factory=dict)
    """The ``tokenizer.json`` that the recipe comes from, without the tokens; empty if none."""

    @property
    def lowers(self) -> bool:
        """Whether text is lowercased."""
        return LOWERCASE in self.rules.steps

    @property
    def keeps_accents(self) -> bool:
        """Whether accents are kept."""
        return DECOMPOSE_AND_STRIP not in self.rules.steps and STRIP_ACCENTS not in self.rules.steps

    def encoder(self, vocabulary: Vocabulary) -> UnigramEncoder:
        """Return what converts texts to ids, for this vocabulary with or without added tokens."""
        unigram = Unigram(
            vocabulary.tokens[: len(self.scores)],
            tuple(map(as_compiled, self.scores)) if self.compiled else self.scores,
            vocabulary.ids[vocabulary.special.unk_token],
            byte_fallback=self.byte_fallback,
        )
        return UnigramEncoder(unigram, self.rules, vocabulary)

    def identity(self) -> list[Any]:
        """Return everything that affects token ids, as JSON-serializable values."""
        special = self.vocabulary.special
        return [
            [repr(self.rules), self.byte_fallback],
            [special.named(), sorted(self.vocabulary.added_ids()), sorted(special.ordinary)],
            [sorted(special.lstrip), sorted(special.rstrip), sorted(special.single_word)],
            sorted(special.normalized),
            list(self.vocabulary.tokens),
            list(self.scores),
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnigramSettings:
    """Settings besides the vocabulary. ``None`` means unspecified."""

    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    model_max_length: int | None = None
    clean_up_tokenization_spaces: bool | None = None


def read_settings(
    files: TokenizerFiles, overrides: UnigramSettings, kind: UnigramKind
) -> UnigramSettings:
    """Read ``tokenizer_config.json``.

    Args:
        files: the contents of the folder's files.
        overrides: the user's settings, which override the files.
        kind: the expected kind of the folder.

    Raises:
        UserError: a value has the wrong type or is not supported.
    """
    fixed = {"remove_space": (True,), "add_prefix_space": (True,), "split_by_punct": (False,)}
    check_config(files, (kind.name,), fixed)
    values = asdict(overrides)
    keys = ["clean_up_tokenization_spaces", *([] if kind.lowers is None else ["do_lower_case"])]
    keys += ["keep_accents"] if kind.cleans else []
    for key in keys:
        if values[key] is None:
            values[key] = checked_value(files.config_path, files.config, key, (bool,))
    if values["model_max_length"] is None:
        values["model_max_length"] = read_max_length(files)
    return UnigramSettings(**values)


def read_recipe(files: TokenizerFiles, kind: UnigramKind, settings: UnigramSettings) -> Recipe:
    """Read a recipe, from ``tokenizer.json`` if present, like the reference.

    Raises:
        UserError: a file is missing or damaged, or has an unsupported setting.
    """
    if not json_part(files, "model", "Unigram"):
        return _of_model(files.folder / kind.file, files, kind, settings)
    recipe = _of_compiled(files, kind)
    for key, value in (("do_lower_case", recipe.lowers), ("keep_accents", recipe.keeps_accents)):
        if getattr(settings, key) not in (None, value):
            raise UserError(
                f"{files.compiled_path}: it is made with {key}={value}, which cannot be changed; "
                f"without that file, {kind.file} can be read with {key}={not value}"
            )
    return recipe


def recipe_of(path: Path, kind: UnigramKind, settings: UnigramSettings) -> Recipe:
    """Read a recipe from a SentencePiece file, without other files.

    Raises:
        UserError: see `read_model`; or the file lacks a special token.
    """
    files = TokenizerFiles(folder=path.parent, config={}, special={}, compiled={}, added={})
    return _of_model(path, files, kind, settings)


def holds(folder: Path, kind: UnigramKind) -> bool:
    """Return whether a folder's vocabulary contains the special tokens of a kind."""
    files = read_files(folder)
    if model := json_part(files, "model", "Unigram"):
        entries = checked_value(files.compiled_path, model, "vocab", (list,)) or []
        tokens = [str(entry[0]) for entry in entries if isinstance(entry, list) and entry]
        added = checked_value(files.compiled_path, files.compiled, "added_tokens", (list,)) or []
        tokens += map(str, map(content_of, added))  # where DeBERTa v2's has its mask token
    elif (folder / kind.file).is_file():
        tokens, _ = _laid_out(read_model(folder / kind.file), kind)
    else:
        return False
    return set(tokens) >= set(kind.special.named().values())


def _of_model(
    path: Path, files: TokenizerFiles, kind: UnigramKind, settings: UnigramSettings
) -> Recipe:
    model = read_model(path)
    tokens, scores = _laid_out(model, kind)
    # fairseq's tokens have the unknown one of the class, wherever the file has its own.
    unknown = kind.special.unk_token if kind.fairseq else model.pieces[model.unknown_id]
    vocabulary = _vocabulary(files, tokens, str(path), kind, unknown)
    special, added = vocabulary.special, vocabulary.added_ids()
    kinds = dict(zip(model.pieces, model.kinds, strict=True))
    control, ordinary = (
        [piece for piece, one in kinds.items() if one == wanted and piece in vocabulary.ids]
        for wanted in (PieceKind.CONTROL, PieceKind.USER_DEFINED)
    )
    whole = {*control, *ordinary}
    # The reference never treats the file's own pieces as normalized, whatever the folder says.
    special = replace(
        special,
        normalized=special.normalized - whole,
        additional_special_tokens=(
            *special.additional_special_tokens,
            *(token for token in control if token not in added),
        ),
        ordinary=(
            *special.ordinary,
            *(token for token in ordinary if token not in added),
        ),
    )
    charsmap = Charsmap(model.charsmap, source=str(path)) if model.charsmap else None
    return Recipe(
        vocabulary=Vocabulary(vocabulary.tokens, special, source=str(path), added=vocabulary.added),
        scores=scores,
        byte_fallback=False,  # like the reference, whatever the file says
        rules=Rules(steps=_steps(charsmap, kind, settings)),
        model=model.contents,
    )


def _of_compiled(files: TokenizerFiles, kind: UnigramKind) -> Recipe:
    path = files.compiled_path
    tokens, scores = read_scores(files)
    vocabulary = _vocabulary(files, tokens, str(path), kind, unknown_token(files))
    check_layout(files, kind.layout(vocabulary), vocabulary.ids)
    model = files.compiled["model"]
    return Recipe(
        vocabulary=vocabulary,
        scores=tuple(scores),
        byte_fallback=bool(checked_value(path, model, "byte_fallback", (bool,))),
        rules=read_rules(files),
        compiled={**files.compiled, "model": {**model, "vocab": []}},
    )


def _laid_out(model: SentencePieceModel, kind: UnigramKind) -> tuple[list[str], tuple[float, ...]]:
    """Return the tokens in the order of their ids, and their scores."""
    if kind.cleans:
        # ALBERT and XLNet split a token that ends in a digit and a comma again. Like the compiled
        # reference, lower the scores of such tokens instead.
        scores = (
            score - _COMMA_PENALTY if piece[-1:] == "," and piece[-2:-1].isdigit() else score
            for piece, score in zip(model.pieces, model.scores, strict=True)
        )
        return list(model.pieces), tuple(scores)
    special = kind.special
    if not kind.fairseq:
        adds = kind.adds_mask and special.mask_token not in model.pieces
        mask = [special.mask_token] if adds else []
        return [*model.pieces, *mask], (*model.scores, *([0.0] * len(mask)))
    # fairseq's own special tokens replace the first pieces.
    first = [special.cls_token, special.pad_token, special.sep_token, special.unk_token]
    tokens = [*first, *model.pieces[3:], special.mask_token]
    return tokens, (0.0, 0.0, 0.0, 0.0, *model.scores[3:], 0.0)


def _steps(
    charsmap: Charsmap | None, kind: UnigramKind, settings: UnigramSettings
) -> tuple[Step, ...]:
    """Return the reference's normalization steps for a folder with only a SentencePiece file."""
    rules = () if charsmap is None else (Precompiled(charsmap),)
    lowers = kind.lowers if settings.do_lower_case is None else settings.do_lower_case
    if not kind.cleans and not kind.strips:
        return (*rules, Strip(left=False, right=True), JoinSpaces(new=WORD_START))
    if kind.strips:
        start = (LOWERCASE,) if lowers else ()
        return (*start, Strip(left=True, right=True), *rules, JoinSpaces(new=" "))
    steps: list[Step] = [Replace(old="``", new='"'), Replace(old="''", new='"')]
    if not settings.keep_accents:
        steps.append(DECOMPOSE_AND_STRIP)
    if lowers:
        steps.append(LOWERCASE)
    return (*steps, *rules, JoinSpaces(new=" "))


def _vocabulary(
    files: TokenizerFiles, tokens: list[str], source: str, kind: UnigramKind, unknown: str
) -> Vocabulary:
    """Return the vocabulary, with added tokens at the end; check the unknown token."""
    vocabulary = read_special(files, tokens, source=source, defaults=kind.special)
    named = vocabulary.special.unk_token
    if named != unknown:
        raise UserError(f"{source}: its unknown token is {unknown!r}, not {named!r}")
    return vocabulary


def write_folder(
    folder: Path,
    recipe: Recipe,
    settings: UnigramSettings,
    kind: UnigramKind,
    rows: Mapping[str, Any],
) -> None:
    """Write a tokenizer's files, from which the reference loads the same tokenizer.

    Args:
        folder: the folder for the files.
        recipe: the recipe for splitting texts.
        settings: the other settings.
        kind: the class.
        rows: the settings of rows; see `row_entries`.
    """
    vocabulary = recipe.vocabulary
    special = special_entries(vocabulary) | kind.ends(vocabulary)
    described = added_token_entries(vocabulary)
    values = {key: value for key, value in asdict(settings).items() if value is not None}
    values |= {**rows, **special, "added_tokens_decoder": described}
    make_folder(folder)
    if recipe.model:
        (folder / kind.file).write_bytes(recipe.model)
    else:
        pairs = zip(vocabulary.tokens, recipe.scores, strict=False)  # excludes added tokens
        model = {**recipe.compiled["model"], "vocab": [list(pair) for pair in pairs]}
        added = [{"id": int(token_id), **entry} for token_id, entry in described.items()]
        compiled = recipe.compiled | {"added_tokens": added, "model": model}
        write_json(folder / TOKENIZER_JSON, compiled)
    write_json(folder / SPECIAL, special)
    write_json(folder / CONFIG, {"tokenizer_class": kind.name, **values})
