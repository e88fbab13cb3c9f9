"""RoBERTa's tokenizer: bytes joined to tokens."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from heedful.sources import resolve
from heedful.tokens.bpe import Pair
from heedful.tokens.bytelevel import ByteLevelEncoder
from heedful.tokens.bytelevel_folder import (
    ROBERTA,
    ByteLevelSettings,
    read_settings,
    read_vocabulary,
    write_folder,
)
from heedful.tokens.folder import read_files
from heedful.tokens.layout import PairLayout
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.vocabulary import Vocabulary, read_ids, read_merges, tokens_in_order


class RobertaTokenizer(ModelTokenizer):
    """Text to token ids with exact offsets, and back, as ``RobertaTokenizerFast`` does it.

    See `ModelTokenizer` for the few differences, and one more: a piece that is nothing but spaces
    has their slice, of which the reference gives the end alone.

    Args:
        vocab_file: a ``vocab.json``, or a vocabulary.
        merges_file: a ``merges.txt``, or the pairs of tokens that become one, first learnt first.
        add_prefix_space: whether a text's first word has the tokens that it has behind a space.
        model_max_length: the longest row the model takes, in tokens; None if not known.
        clean_up_tokenization_spaces: whether `decode` tidies English punctuation by default.

    Raises:
        UserError: a file is damaged, or the vocabulary lacks a special token or a byte.
    """

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | Vocabulary,
        merges_file: str | os.PathLike[str] | Sequence[Pair],
        *,
        add_prefix_space: bool = False,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        if isinstance(vocab_file, Vocabulary):
            vocabulary = vocab_file
        else:
            path = Path(vocab_file)
            tokens = tokens_in_order(read_ids(path), source=str(path))
            vocabulary = Vocabulary(tokens, ROBERTA, source=str(path))
        if isinstance(merges_file, str | os.PathLike):
            merges_file = read_merges(Path(merges_file))
        self.merges = tuple(merges_file)
        self.add_prefix_space = add_prefix_space
        cls_id = vocabulary.ids[vocabulary.special.cls_token]
        sep_id = vocabulary.ids[vocabulary.special.sep_token]
        super().__init__(
            ByteLevelEncoder(vocabulary, self.merges, add_prefix_space=add_prefix_space),
            vocabulary,
            PairLayout(begin=(cls_id,), middle=(sep_id, sep_id), end=(sep_id,)),
            token_types=False,
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
        add_prefix_space: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Self:
        """Read the tokenizer of a model's folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            add_prefix_space: see the class. This and what follows wins over what the folder says.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        files = read_files(resolve(name_or_folder, revision))
        overrides = ByteLevelSettings(
            add_prefix_space=add_prefix_space,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        settings = read_settings(files, overrides)
        vocabulary, merges = read_vocabulary(files)
        return cls(
            vocabulary,
            merges,
            add_prefix_space=bool(settings.add_prefix_space),
            model_max_length=settings.model_max_length,
            clean_up_tokenization_spaces=bool(settings.clean_up_tokenization_spaces),
        )

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``vocab.json``, ``merges.txt`` and what says how they are used."""
        settings = ByteLevelSettings(
            add_prefix_space=self.add_prefix_space,
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        write_folder(Path(folder), self.vocabulary, list(self.merges), settings)

    def identity(self) -> list[Any]:
        """Return all that decides ids, as plain values for JSON."""
        return [
            [
                self.add_prefix_space,
                self.all_special_tokens,
                sorted(self.vocabulary.special.lstrip),
            ],
            list(self.vocabulary.tokens),
            list(self.merges),
        ]
