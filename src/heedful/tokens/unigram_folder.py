"""The folder of a unigram tokenizer: read what others wrote, write what they read."""

from dataclasses import asdict, dataclass
from pathlib import Path

from heedful.files import write_json
from heedful.tokens.charsmap import Charsmap
from heedful.tokens.folder import (
    CONFIG,
    SPECIAL,
    TokenizerFiles,
    check_config,
    read_max_length,
    special_entries,
    typed,
)
from heedful.tokens.metaspace import AddedTokens, UnigramEncoder
from heedful.tokens.rewriting import (
    JoinSpaces,
    Lowercase,
    Precompiled,
    Replace,
    Rewriting,
    Step,
    StripAccents,
)
from heedful.tokens.sentencepiece_file import PieceKind, SentencePieceModel
from heedful.tokens.unigram import Unigram
from heedful.tokens.vocabulary import Vocabulary

_AVOIDED = 100.0
"""How much less likely the reference makes tokens that end in a digit and a comma."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """All that decides how a unigram tokenizer cuts texts."""

    vocabulary: Vocabulary
    scores: tuple[float, ...]
    """The logarithm of each token's probability."""
    byte_fallback: bool
    """Whether a character of no token is written in bytes."""
    steps: tuple[Step, ...]
    """What becomes of a text before it is split into words."""
    added: AddedTokens
    """What is matched whole, special tokens among it."""
    model: bytes
    """The file of SentencePiece that all this is from."""

    def encoder(self) -> UnigramEncoder:
        """Return what turns texts into ids."""
        vocabulary = self.vocabulary
        unigram = Unigram(
            vocabulary.tokens,
            self.scores,
            vocabulary.ids[vocabulary.special.unk_token],
            byte_fallback=self.byte_fallback,
            source=vocabulary.source,
        )
        return UnigramEncoder(unigram, Rewriting(self.steps), vocabulary.tokens, self.added)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnigramSettings:
    """What besides the vocabulary decides ids and text. ``None`` where the folder does not say."""

    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    model_max_length: int | None = None
    clean_up_tokenization_spaces: bool | None = None


def read_settings(
    files: TokenizerFiles, overrides: UnigramSettings, classes: tuple[str, ...]
) -> UnigramSettings:
    """Read ``tokenizer_config.json``.

    Args:
        files: what the folder's files say.
        overrides: what the user says, which wins over what the files say.
        classes: the reference's classes that the folder may name.

    Raises:
        UserError: a value is of the wrong type or is not supported.
    """
    check_config(files, classes, {"remove_space": (True,), "add_prefix_space": (True,)})
    values = asdict(overrides)
    for key in ("do_lower_case", "keep_accents", "clean_up_tokenization_spaces"):
        if values[key] is None:
            values[key] = typed(files.config_path, files.config, key, (bool,))
    if values["model_max_length"] is None:
        values["model_max_length"] = read_max_length(files)
    return UnigramSettings(**values)


def bare_steps(model: SentencePieceModel, *, lower: bool, keep_accents: bool) -> tuple[Step, ...]:
    """Return what ALBERT and XLNet do to a text before SentencePiece does its part."""
    steps: list[Step] = [Replace(old="``", new='"'), Replace(old="''", new='"')]
    if not keep_accents:
        steps.append(StripAccents())
    if lower:
        steps.append(Lowercase())
    return (*steps, *charsmap_steps(model), JoinSpaces(new=" "))


def charsmap_steps(model: SentencePieceModel) -> tuple[Step, ...]:
    """Return how a file of SentencePiece normalises texts."""
    return (Precompiled(Charsmap(model.charsmap, source="its file")),) if model.charsmap else ()


def careful_scores(model: SentencePieceModel) -> tuple[float, ...]:
    """Return scores by which numbers are cut before a comma.

    ALBERT and XLNet cut a token that ends in a digit and a comma once more. The compiled reference
    makes such tokens unlikely instead, and so do we.
    """
    return tuple(
        score - _AVOIDED if piece[-1:] == "," and piece[-2:-1].isdigit() else score
        for piece, score in zip(model.pieces, model.scores, strict=True)
    )


def added_tokens(
    model: SentencePieceModel, vocabulary: Vocabulary, lstrip: frozenset[str]
) -> AddedTokens:
    """Return the tokens that are matched whole: special ones, and those that a user defined."""
    whole = (PieceKind.CONTROL, PieceKind.USER_DEFINED)
    ids = {
        piece: vocabulary.ids[piece]
        for piece, kind in zip(model.pieces, model.kinds, strict=True)
        if kind in whole
    }
    return AddedTokens(ids={**ids, **vocabulary.special_ids()}, lstrip=lstrip)


def write_folder(
    folder: Path, name: str, recipe: Recipe, settings: UnigramSettings, kind: str
) -> None:
    """Write a tokenizer's files so that the reference reads the same tokenizer from them."""
    special = special_entries(recipe.vocabulary)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(recipe.model)
    write_json(folder / SPECIAL, special)
    values = {key: value for key, value in asdict(settings).items() if value is not None}
    write_json(folder / CONFIG, {"tokenizer_class": kind, **values, **special})
