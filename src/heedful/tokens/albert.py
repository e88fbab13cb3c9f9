"""ALBERT's tokenizer: the likeliest pieces of a text in lower case."""

import os
from pathlib import Path
from typing import Any, Self

from heedful.errors import UserError
from heedful.sources import resolve
from heedful.tokens.folder import TokenizerFiles, read_files, read_special
from heedful.tokens.layout import PairLayout
from heedful.tokens.sentencepiece_file import read_model
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.unigram_folder import (
    Recipe,
    UnigramSettings,
    added_tokens,
    bare_steps,
    careful_scores,
    read_settings,
    write_folder,
)
from heedful.tokens.vocabulary import SpecialTokens

CLASSES = ("AlbertTokenizer",)
"""Reference classes, each also with ``Fast`` behind it, that tokenize as ALBERT does."""

MODEL = "spiece.model"

SPECIAL = SpecialTokens(
    unk_token="<unk>",
    sep_token="[SEP]",
    pad_token="<pad>",
    cls_token="[CLS]",
    mask_token="[MASK]",
    lstrip=frozenset({"[MASK]"}),
)
"""The special tokens of a folder that does not say others."""


class AlbertTokenizer(ModelTokenizer):
    """Text to token ids with exact offsets, and back, as ``AlbertTokenizerFast`` does it.

    See `ModelTokenizer` for the few differences.

    Args:
        vocab_file: a ``spiece.model``, or what was read from a folder.
        do_lower_case: whether text is put in lower case.
        keep_accents: whether accents are kept.
        model_max_length: the longest row the model takes, in tokens; None if not known.
        clean_up_tokenization_spaces: whether `decode` tidies English punctuation by default.

    Raises:
        UserError: a file is damaged, or lacks a special token.
    """

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | Recipe,
        *,
        do_lower_case: bool = True,
        keep_accents: bool = False,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        if isinstance(vocab_file, Recipe):
            recipe = vocab_file
        else:
            files = read_files(Path(vocab_file).parent)
            recipe = _recipe(Path(vocab_file), files, do_lower_case, keep_accents)
        self.recipe = recipe
        self.do_lower_case = do_lower_case
        self.keep_accents = keep_accents
        vocabulary = recipe.vocabulary
        cls_id = vocabulary.ids[vocabulary.special.cls_token]
        sep_id = vocabulary.ids[vocabulary.special.sep_token]
        super().__init__(
            recipe.encoder(),
            vocabulary,
            PairLayout(begin=(cls_id,), middle=(sep_id,), end=(sep_id,), second_type=1),
            token_types=True,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        self.bos_token, self.bos_token_id = self.cls_token, self.cls_token_id
        self.eos_token, self.eos_token_id = self.sep_token, self.sep_token_id

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        do_lower_case: bool | None = None,
        keep_accents: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Self:
        """Read the tokenizer of a model's folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            do_lower_case: see the class. This and what follows wins over what the folder says.
            keep_accents: see the class.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        files = read_files(resolve(name_or_folder, revision))
        overrides = UnigramSettings(
            do_lower_case=do_lower_case,
            keep_accents=keep_accents,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        settings = read_settings(files, overrides, CLASSES)
        lower, accents = settings.do_lower_case is not False, bool(settings.keep_accents)
        return cls(
            _recipe(files.folder / MODEL, files, lower, accents),
            do_lower_case=lower,
            keep_accents=accents,
            model_max_length=settings.model_max_length,
            clean_up_tokenization_spaces=bool(settings.clean_up_tokenization_spaces),
        )

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``spiece.model`` and what says how it is used."""
        settings = UnigramSettings(
            do_lower_case=self.do_lower_case,
            keep_accents=self.keep_accents,
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        write_folder(Path(folder), MODEL, self.recipe, settings, CLASSES[0])

    def identity(self) -> list[Any]:
        """Return all that decides ids, as plain values for JSON."""
        return [
            [self.do_lower_case, self.keep_accents, self.all_special_tokens],
            sorted(self.recipe.added.ids),
            list(self.vocabulary.tokens),
            list(self.recipe.scores),
        ]


def _recipe(path: Path, files: TokenizerFiles, lower: bool, keep_accents: bool) -> Recipe:
    if files.compiled:
        raise UserError(f"{files.compiled_path}: not yet supported for ALBERT")
    model = read_model(path)
    vocabulary = read_special(
        files,
        list(model.pieces),
        source=str(path),
        defaults=SPECIAL,
        refused=("rstrip", "single_word"),
    )
    return Recipe(
        vocabulary=vocabulary,
        scores=careful_scores(model),
        byte_fallback=False,
        steps=bare_steps(model, lower=lower, keep_accents=keep_accents),
        added=added_tokens(model, vocabulary, vocabulary.special.lstrip),
        model=model.contents,
    )
