"""XLM-RoBERTa's tokenizer: the likeliest pieces of a text in any of 100 languages."""

import os
from pathlib import Path
from typing import Any, Self

from heedful.sources import resolve
from heedful.tokens.folder import read_files
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.unigram_folder import (
    XLM_ROBERTA,
    Recipe,
    UnigramSettings,
    read_recipe,
    read_settings,
    recipe_of,
    write_folder,
)


class XLMRobertaTokenizer(ModelTokenizer):
    """Text to token ids with exact offsets, and back, as ``XLMRobertaTokenizerFast`` does it.

    Its ids are those of fairseq: ``<s>``, ``<pad>``, ``</s>`` and ``<unk>`` come first, then the
    pieces of SentencePiece from the fourth on, and ``<mask>`` last. See `ModelTokenizer` for the
    few differences, and one more: characters that are dropped at the start of a text move no
    offsets.

    Args:
        vocab_file: a ``sentencepiece.bpe.model``, or what `from_pretrained` reads.
        model_max_length: the longest row the model takes, in tokens; None if not known.
        clean_up_tokenization_spaces: whether `decode` tidies English punctuation by default.

    Raises:
        UserError: a file is damaged, or lacks a special token.
    """

    kind = XLM_ROBERTA
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
        self.bos_token, self.eos_token = self.kind.ends(self.recipe.vocabulary)
        ids = self.recipe.vocabulary.ids
        self.bos_token_id, self.eos_token_id = ids.get(self.bos_token), ids.get(self.eos_token)

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Self:
        """Read the tokenizer of a model's folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            model_max_length: see the class. This and what follows wins over what the folder says.
            clean_up_tokenization_spaces: see the class.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        files = read_files(resolve(name_or_folder, revision))
        overrides = UnigramSettings(
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        settings = read_settings(files, overrides, cls.kind)
        tokenizer = cls(
            read_recipe(files, cls.kind, settings),
            model_max_length=settings.model_max_length,
            clean_up_tokenization_spaces=bool(settings.clean_up_tokenization_spaces),
        )
        tokenizer._read_types(files)
        return tokenizer

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the file that it was read from, as it was, and what says how it is used."""
        settings = UnigramSettings(
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        write_folder(Path(folder), self.recipe, settings, self.kind, told=self.token_types)

    def identity(self) -> list[Any]:
        """Return all that decides ids, as plain values for JSON."""
        return self.recipe.identity()
