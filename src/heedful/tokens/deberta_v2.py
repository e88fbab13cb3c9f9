"""The tokenizer of DeBERTa v2 and v3: the likeliest pieces of a text."""

import os
from pathlib import Path
from typing import Self

from heedful.tokens.unigram_folder import DEBERTA_V2, Recipe, UnigramSettings, recipe_of
from heedful.tokens.unigram_tokenizer import UnigramTokenizer


class DebertaV2Tokenizer(UnigramTokenizer):
    """Text to token ids with exact offsets, and back, as ``DebertaV2TokenizerFast`` does it.

    See `ModelTokenizer` for the few differences, and one more: characters that are dropped at the
    start of a text move no offsets.

    Args:
        vocab_file: a ``spm.model``, or what `from_pretrained` reads.
        do_lower_case: whether text is put in lower case. What was read says this.
        model_max_length: the longest row the model takes, in tokens; None if not known.
        clean_up_tokenization_spaces: whether `decode` tidies English punctuation by default.

    Raises:
        UserError: a file is damaged, or lacks a special token.
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
        """Read the tokenizer of a model's folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            do_lower_case: see the class. This and what follows wins over what the folder says.
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
