"""WordPiece tokenizers: BERT, DistilBERT, ELECTRA and MPNet."""

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

from heedful.arguments import suggest_arguments
from heedful.sources import resolve, takes_download_options
from heedful.tokens.additions import NewSpecialTokens
from heedful.tokens.compiled_file import check_layout
from heedful.tokens.conversion import NAMES_WITH_ENDS
from heedful.tokens.folder import no_files, read_files
from heedful.tokens.normalize import Normalizer
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.vocabulary import Vocabulary, read_tokens, write_tokens
from heedful.tokens.wordpiece import WordPieceEncoder
from heedful.tokens.wordpiece_folder import (
    BERT,
    DISTILBERT,
    ELECTRA,
    MPNET,
    VOCABULARY,
    WordPieceKind,
    WordPieceSettings,
    read_settings,
    read_vocabulary,
    write_folder,
)


class BertTokenizer(ModelTokenizer):
    """Converts text to token ids with exact offsets, and back, like ``BertTokenizerFast``.

    `ModelTokenizer` lists the few differences.

    Args:
        vocab_file: a ``vocab.txt`` with one token per line, or a vocabulary.
        do_lower_case: whether to lowercase text.
        strip_accents: whether to strip accents; None means the value of ``do_lower_case``.
        tokenize_chinese_chars: whether each ideograph is a separate word.
        never_split: words that are looked up whole when surrounded by spaces.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` removes spaces before English punctuation
            by default.

    Raises:
        UserError: the vocabulary is damaged or lacks a special token.
    """

    kind: ClassVar[WordPieceKind] = BERT

    @suggest_arguments
    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | Vocabulary,
        *,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        never_split: Collection[str] = (),
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool = True,
    ) -> None:
        if isinstance(vocab_file, Vocabulary):
            vocabulary = vocab_file
        else:
            path = Path(vocab_file)
            vocabulary = Vocabulary(read_tokens(path), self.kind.special, source=str(path))
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.never_split = tuple(never_split)
        normalizer = Normalizer(
            lower_case=do_lower_case,
            strip_accents=do_lower_case if strip_accents is None else strip_accents,
            split_ideographs=tokenize_chinese_chars,
            never_split=never_split,
        )
        super().__init__(
            vocabulary,
            encoder=partial(WordPieceEncoder, normalizer),
            layout=self.kind.layout,
            token_types=self.kind.token_types,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )

    @classmethod
    @takes_download_options
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        do_lower_case: bool | None = None,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool | None = None,
        never_split: Collection[str] | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        padding_side: str | None = None,
        **special_tokens: Unpack[NewSpecialTokens],
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package, a hub name, or a
                ``vocab.txt``, whatever its name.
            revision: commit, tag or branch of a hub name.
            do_lower_case: see the class. This and the following arguments override the folder's
                settings.
            strip_accents: see the class.
            tokenize_chinese_chars: see the class.
            never_split: see the class.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.
            padding_side: ``"left"`` or ``"right"``.
            special_tokens: special tokens to choose or add; see `add_special_tokens`.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        path = Path(name_or_folder)
        is_vocabulary = path.is_file()
        if is_vocabulary:
            files = no_files(path.parent)
        else:
            files = read_files(resolve(name_or_folder, revision))
        overrides = WordPieceSettings(
            do_lower_case=do_lower_case,
            strip_accents=strip_accents,
            tokenize_chinese_chars=tokenize_chinese_chars,
            never_split=None if never_split is None else tuple(never_split),
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        chosen = read_settings(files, cls.kind, overrides)
        tokenizer = cls(
            path if is_vocabulary else read_vocabulary(files, cls.kind),
            do_lower_case=True if chosen.do_lower_case is None else chosen.do_lower_case,
            strip_accents=chosen.strip_accents,
            tokenize_chinese_chars=chosen.tokenize_chinese_chars is not False,
            never_split=chosen.never_split or (),
            model_max_length=chosen.model_max_length,
            clean_up_tokenization_spaces=chosen.clean_up_tokenization_spaces is not False,
        )
        tokenizer.name_or_path = os.fspath(name_or_folder)
        tokenizer._apply_rows(files, padding_side)
        types = cls.kind.token_types
        check_layout(files, tokenizer.layout, tokenizer.vocabulary.ids, types=types)
        tokenizer._add_options(special_tokens, cls.from_pretrained)
        return tokenizer

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``vocab.txt``, ``tokenizer_config.json`` and ``special_tokens_map.json``."""
        settings = WordPieceSettings(
            do_lower_case=self.do_lower_case,
            strip_accents=self.strip_accents,
            tokenize_chinese_chars=self.tokenize_chinese_chars,
            never_split=self.never_split or None,
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        rows = self._row_entries(default=self.kind.token_types)
        write_folder(Path(folder), self.kind, self.vocabulary, settings, rows=rows)

    def _vocabulary_files(self) -> Mapping[str, Callable[[Path], object]]:
        return {VOCABULARY: lambda path: write_tokens(path, self.vocabulary.base_tokens())}

    def identity(self) -> list[Any]:
        """Return everything that affects token ids, as JSON-serializable values."""
        special = self.vocabulary.special
        # Omit these if they are all empty, so that the identity still matches older runs.
        rare = (special.ordinary, special.single_word, special.normalized & {*special.ordinary})
        return [
            [self.do_lower_case, self.strip_accents, self.tokenize_chinese_chars],
            [
                sorted(self.never_split),
                self.all_special_tokens,
                *([*map(sorted, rare)] if any(rare) else []),
            ],
            list(self.vocabulary.tokens),
            *([self.vocabulary.added] if self.vocabulary.added else []),
        ]


class DistilBertTokenizer(BertTokenizer):
    """DistilBERT's tokenizer: BERT's, but calls return no token types unless asked."""

    kind = DISTILBERT


class ElectraTokenizer(BertTokenizer):
    """ELECTRA's tokenizer: BERT's."""

    kind = ELECTRA


class MPNetTokenizer(BertTokenizer):
    """MPNet's tokenizer: BERT's word pieces with RoBERTa's special tokens.

    Rows are ``<s> text </s>`` and ``<s> first </s></s> second </s>``.
    """

    kind = MPNET
    _names = NAMES_WITH_ENDS
    bos_token: str
    bos_token_id: int
    eos_token: str
    eos_token_id: int


BertTokenizerFast = BertTokenizer
DistilBertTokenizerFast = DistilBertTokenizer
"""Names in code for ``transformers``, which has a slow and a compiled tokenizer of each kind."""
ElectraTokenizerFast = ElectraTokenizer
MPNetTokenizerFast = MPNetTokenizer
