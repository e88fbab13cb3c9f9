"""The base class of the tokenizers with SentencePiece unigram models."""

import os
from pathlib import Path
from typing import Any, ClassVar, Self

from heedful.sources import resolve
from heedful.tokens.folder import read_files
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.unigram_folder import (
    Recipe,
    UnigramKind,
    UnigramSettings,
    read_recipe,
    read_settings,
    recipe_of,
    write_folder,
)


class UnigramTokenizer(ModelTokenizer):
    """A tokenizer that finds the most probable pieces of a text.

    Args:
        vocab_file: a SentencePiece file, or the recipe that `from_pretrained` reads.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` removes spaces before English punctuation
            by default.

    Raises:
        UserError: a file is damaged or lacks a special token.
    """

    kind: ClassVar[UnigramKind]
    words_at_spaces = True

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | Recipe,
        *,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        if not isinstance(vocab_file, Recipe):
            vocab_file = recipe_of(Path(vocab_file), self.kind, UnigramSettings())
        self.recipe = vocab_file
        super().__init__(
            self.recipe.encoder(),
            self.recipe.vocabulary,
            self.kind.layout(self.recipe.vocabulary),
            token_types=self.kind.token_types,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        self.bos_token, self.eos_token = self.kind.ends(self.vocabulary)
        self.bos_token_id = self.vocabulary.ids.get(self.bos_token)
        self.eos_token_id = self.vocabulary.ids.get(self.eos_token)

    @classmethod
    def _read(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None,
        overrides: UnigramSettings,
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            overrides: settings that override the folder's settings.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        files = read_files(resolve(name_or_folder, revision))
        settings = read_settings(files, overrides, cls.kind)
        tokenizer = cls(
            read_recipe(files, cls.kind, settings),
            model_max_length=settings.model_max_length,
            clean_up_tokenization_spaces=bool(settings.clean_up_tokenization_spaces),
        )
        tokenizer._apply_token_types(files)
        return tokenizer

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the original model file unchanged, and the files with the settings."""
        settings = UnigramSettings(
            do_lower_case=None if self.kind.lowers is None else self.recipe.lowers,
            keep_accents=self.recipe.keeps_accents if self.kind.cleans else None,
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        write_folder(Path(folder), self.recipe, settings, self.kind, told=self.token_types)

    def identity(self) -> list[Any]:
        """Return everything that affects token ids, as JSON-serializable values."""
        return self.recipe.identity()
