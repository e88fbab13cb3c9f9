"""SentencePiece unigram tokenizers: ALBERT, XLNet, DeBERTa v2, XLM-RoBERTa and BigBird."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

from heedful.arguments import suggest_arguments
from heedful.errors import UserError
from heedful.sources import resolve, takes_download_options
from heedful.tokens.additions import NewSpecialTokens
from heedful.tokens.conversion import NAMES, NAMES_WITH_ENDS
from heedful.tokens.folder import read_files
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.unigram_folder import (
    ALBERT,
    BIG_BIRD,
    DEBERTA_V2,
    XLM_ROBERTA,
    XLNET,
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
    _names: ClassVar[Mapping[str, str]] = NAMES_WITH_ENDS
    bos_token: str
    bos_token_id: int | None
    eos_token: str
    eos_token_id: int | None
    words_at_spaces = True

    @suggest_arguments
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
            self.recipe.vocabulary,
            encoder=self.recipe.encoder,
            layout=self.kind.layout,
            token_types=self.kind.token_types,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        if "bos_token" not in self._names:
            for name, token in self.kind.ends(self.vocabulary).items():
                vars(self)[name], vars(self)[f"{name}_id"] = token, self.vocabulary.ids.get(token)

    @classmethod
    def _read(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None,
        overrides: UnigramSettings,
        padding_side: str | None,
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            overrides: settings that override the folder's settings.
            padding_side: the side of rows that is padded; None is the folder's setting.

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
        tokenizer.name_or_path = os.fspath(name_or_folder)
        tokenizer._apply_rows(files, padding_side)
        return tokenizer

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the original model file unchanged, and the files with the settings."""
        settings = UnigramSettings(
            do_lower_case=None if self.kind.lowers is None else self.recipe.lowers,
            keep_accents=self.recipe.keeps_accents if self.kind.cleans else None,
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        recipe = replace(self.recipe, vocabulary=self.vocabulary)
        rows = self._row_entries(default=self.kind.token_types)
        write_folder(Path(folder), recipe, settings, self.kind, rows)

    def _vocabulary_files(self) -> Mapping[str, Callable[[Path], object]]:
        if not (model := self.recipe.model):
            raise UserError(
                f"this tokenizer was read from a tokenizer.json, so there is no {self.kind.file} "
                "to write; save_pretrained writes the tokenizer.json"
            )
        return {self.kind.file: lambda path: path.write_bytes(model)}

    def identity(self) -> list[Any]:
        """Return everything that affects token ids, as JSON-serializable values."""
        return replace(self.recipe, vocabulary=self.vocabulary).identity()


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

    @suggest_arguments
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
    @takes_download_options
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        do_lower_case: bool | None = None,
        keep_accents: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        padding_side: str | None = None,
        **special_tokens: Unpack[NewSpecialTokens],
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
            padding_side: ``"left"`` or ``"right"``.
            special_tokens: special tokens to choose or add; see `add_special_tokens`.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        overrides = UnigramSettings(
            do_lower_case=do_lower_case,
            keep_accents=keep_accents,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        tokenizer = cls._read(name_or_folder, revision, overrides, padding_side)
        tokenizer._add_options(special_tokens, cls.from_pretrained)
        return tokenizer


class XLNetTokenizer(AlbertTokenizer):
    """Converts text to token ids with exact offsets, and back, like ``XLNetTokenizerFast``.

    Rows are ``text <sep> <cls>`` and ``first <sep> second <sep> <cls>``, padded on the left. Token
    types are 0 and 1 for the texts, 2 for the class token and 3 for padding. Case is kept unless
    ``do_lower_case`` is true. See `AlbertTokenizer` for everything else.
    """

    kind = XLNET
    _names = NAMES


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

    @suggest_arguments
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
    @takes_download_options
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        do_lower_case: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        padding_side: str | None = None,
        **special_tokens: Unpack[NewSpecialTokens],
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            do_lower_case: see the class. This and the following arguments override the folder's
                settings.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.
            padding_side: ``"left"`` or ``"right"``.
            special_tokens: special tokens to choose or add; see `add_special_tokens`.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        overrides = UnigramSettings(
            do_lower_case=do_lower_case,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        tokenizer = cls._read(name_or_folder, revision, overrides, padding_side)
        tokenizer._add_options(special_tokens, cls.from_pretrained)
        return tokenizer


class XLMRobertaTokenizer(UnigramTokenizer):
    """Converts text to token ids with exact offsets, and back, like ``XLMRobertaTokenizerFast``.

    The ids are those of fairseq: ``<s>``, ``<pad>``, ``</s>`` and ``<unk>`` come first, then the
    SentencePiece pieces from the fourth on, then ``<mask>``. `ModelTokenizer` lists the few
    differences. One more: characters that are dropped at the start of a text do not shift offsets.

    Args:
        vocab_file: a ``sentencepiece.bpe.model``, or the recipe that `from_pretrained` reads.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` removes spaces before English punctuation
            by default.

    Raises:
        UserError: a file is damaged or lacks a special token.
    """

    kind = XLM_ROBERTA

    @classmethod
    @takes_download_options
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        padding_side: str | None = None,
        **special_tokens: Unpack[NewSpecialTokens],
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            model_max_length: see the class. This and the following argument override the folder's
                settings.
            clean_up_tokenization_spaces: see the class.
            padding_side: ``"left"`` or ``"right"``.
            special_tokens: special tokens to choose or add; see `add_special_tokens`.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        overrides = UnigramSettings(
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        tokenizer = cls._read(name_or_folder, revision, overrides, padding_side)
        tokenizer._add_options(special_tokens, cls.from_pretrained)
        return tokenizer


class BigBirdTokenizer(XLMRobertaTokenizer):
    """Converts text to token ids with exact offsets, and back, like ``BigBirdTokenizerFast``.

    The ids are those of the file. Like BERT's, rows begin with ``[CLS]`` and end with ``[SEP]``.
    Models receive no token types. See `XLMRobertaTokenizer` for everything else.

    Args:
        vocab_file: a ``spiece.model``, or the recipe that `from_pretrained` reads.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` removes spaces before English punctuation
            by default.

    Raises:
        UserError: a file is damaged or lacks a special token.
    """

    kind = BIG_BIRD
    _names = NAMES


AlbertTokenizerFast = AlbertTokenizer
BigBirdTokenizerFast = BigBirdTokenizer
DebertaV2TokenizerFast = DebertaV2Tokenizer
XLMRobertaTokenizerFast = XLMRobertaTokenizer
XLNetTokenizerFast = XLNetTokenizer
