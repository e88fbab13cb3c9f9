"""The tokenizer of DeBERTa v2 and v3: a unigram model."""

import os
from pathlib import Path
from typing import Self

from heedful.tokens.unigram_folder import DEBERTA_V2, Recipe, UnigramSettings, recipe_of
from heedful.tokens.unigram_tokenizer import UnigramTokenizer


class DebertaV2Tokenizer(UnigramTokenizer):
    """Converts text to token ids with exact offsets, and back, like ``DebertaV2TokenizerFast``.

    `ModelTokenizer` lists the few differences. One more: characters that are dropped at the start
    of a text do not shift offsets.

    Args:
        vocab_file: a ``spm.model``, or the recipe that `from_pretrained` reads.
        do_lower_case: whether to lowercase text. A recipe determines this itself.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` removes spaces before English punctuation
            by default.

    Raises:
        UserError: a file is damaged or lacks a special token.
    """

    kind = DEBERTA_V2

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | Recipe,
        *,
        do_lower_case: bool = False,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        if not isinstance(vocab_file, Recipe):
            settings = UnigramSettings(do_lower_case=do_lower_case)
            vocab_file = recipe_of(Path(vocab_file), self.kind, settings)
        super().__init__(
            vocab_file,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        self.do_lower_case = self.recipe.lowers

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        do_lower_case: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            do_lower_case: see the class. This and the following arguments override the folder's
                settings.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        overrides = UnigramSettings(
            do_lower_case=do_lower_case,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        return cls._read(name_or_folder, revision, overrides)
