"""ALBERT's tokenizer: a unigram model on lowercase text."""

import os
from pathlib import Path
from typing import Self

from heedful.tokens.unigram_folder import ALBERT, Recipe, UnigramSettings, recipe_of
from heedful.tokens.unigram_tokenizer import UnigramTokenizer


class AlbertTokenizer(UnigramTokenizer):
    """Converts text to token ids with exact offsets, and back, like ``AlbertTokenizerFast``.

    `ModelTokenizer` lists the few differences. One more: characters that are dropped at the start
    of a text do not shift offsets.

    Args:
        vocab_file: a ``spiece.model``, or the recipe that `from_pretrained` reads.
        do_lower_case: whether to lowercase text; None means the default of the class. A recipe
            determines this and ``keep_accents`` itself.
        keep_accents: whether to keep accents.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` removes spaces before English punctuation
            by default.

    Raises:
        UserError: a file is damaged or lacks a special token.
    """

    kind = ALBERT

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | Recipe,
        *,
        do_lower_case: bool | None = None,
        keep_accents: bool = False,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        if not isinstance(vocab_file, Recipe):
            settings = UnigramSettings(do_lower_case=do_lower_case, keep_accents=keep_accents)
            vocab_file = recipe_of(Path(vocab_file), self.kind, settings)
        super().__init__(
            vocab_file,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        self.do_lower_case = self.recipe.lowers
        self.keep_accents = self.recipe.keeps_accents

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
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            do_lower_case: see the class. This and the following arguments override the folder's
                settings.
            keep_accents: see the class.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        overrides = UnigramSettings(
            do_lower_case=do_lower_case,
            keep_accents=keep_accents,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        return cls._read(name_or_folder, revision, overrides)
