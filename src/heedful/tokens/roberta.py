"""The tokenizers of RoBERTa, DeBERTa and GPT-2: bytes joined to tokens."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from heedful.sources import resolve
from heedful.tokens.bpe import Pair
from heedful.tokens.bytelevel import ByteLevelEncoder
from heedful.tokens.bytelevel_folder import (
    DEBERTA_KIND,
    GPT2_KIND,
    ROBERTA_KIND,
    ByteLevelKind,
    ByteLevelSettings,
    read_settings,
    read_vocabulary,
    write_folder,
)
from heedful.tokens.folder import read_files
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.vocabulary import Vocabulary, read_ids, read_merges, tokens_in_order


class ByteLevelTokenizer(ModelTokenizer):
    """Text to token ids with exact offsets, and back, as the reference's compiled classes do it.

    See `ModelTokenizer` for the few differences, and one more: where a space is put before a text
    or behind an added token, slices are those of the text. The reference's are moved by that space,
    or lack a letter.

    Args:
        vocab_file: a ``vocab.json``, or a vocabulary.
        merges_file: a ``merges.txt``, or the pairs of tokens that become one, first learnt first.
        add_prefix_space: whether a text's first word has the tokens that it has behind a space.
        trim_offsets: whether spaces at the ends of a piece are left out of its slice; None does as
            the reference's class.
        model_max_length: the longest row the model takes, in tokens; None if not known.
        clean_up_tokenization_spaces: whether `decode` tidies English punctuation by default.

    Raises:
        UserError: a file is damaged, or the vocabulary lacks a special token or a byte.
    """

    kind: ClassVar[ByteLevelKind]

    def __init__(
        self,
        vocab_file: str | os.PathLike[str] | Vocabulary,
        merges_file: str | os.PathLike[str] | Sequence[Pair],
        *,
        add_prefix_space: bool = False,
        trim_offsets: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        if isinstance(vocab_file, Vocabulary):
            vocabulary = vocab_file
        else:
            path = Path(vocab_file)
            tokens = tokens_in_order(read_ids(path), source=str(path))
            vocabulary = Vocabulary(tokens, self.kind.special, source=str(path))
        if isinstance(merges_file, str | os.PathLike):
            merges_file = read_merges(Path(merges_file))
        self.merges = tuple(merges_file)
        self.add_prefix_space = add_prefix_space
        self.trim_offsets = self.kind.trim_offsets if trim_offsets is None else trim_offsets
        super().__init__(
            ByteLevelEncoder(
                vocabulary,
                self.merges,
                add_prefix_space=add_prefix_space,
                trim_offsets=self.trim_offsets,
            ),
            vocabulary,
            self.kind.layout(vocabulary),
            token_types=self.kind.token_types,
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
        trim_offsets: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Self:
        """Read the tokenizer of a model's folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            add_prefix_space: see the class. This and what follows wins over what the folder says.
            trim_offsets: see the class.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        files = read_files(resolve(name_or_folder, revision))
        overrides = ByteLevelSettings(
            add_prefix_space=add_prefix_space,
            trim_offsets=trim_offsets,
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        settings = read_settings(files, cls.kind, overrides)
        vocabulary, merges = read_vocabulary(files, cls.kind)
        tokenizer = cls(
            vocabulary,
            merges,
            add_prefix_space=bool(settings.add_prefix_space),
            trim_offsets=settings.trim_offsets,
            model_max_length=settings.model_max_length,
            clean_up_tokenization_spaces=bool(settings.clean_up_tokenization_spaces),
        )
        tokenizer._read_types(files)
        return tokenizer

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``vocab.json``, ``merges.txt`` and what says how they are used."""
        settings = ByteLevelSettings(
            add_prefix_space=self.add_prefix_space,
            trim_offsets=self.trim_offsets,
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        merges, told = list(self.merges), self.token_types
        write_folder(Path(folder), self.kind, self.vocabulary, merges, settings, told=told)

    def identity(self) -> list[Any]:
        """Return all that decides ids, as plain values for JSON."""
        special = self.vocabulary.special
        # Runs that have none of these are known by what was all of it before there were any.
        late = special.normalized & {*special.ordinary}
        rare = (special.ordinary, special.rstrip, special.single_word, late)
        return [
            [
                self.add_prefix_space,
                self.all_special_tokens,
                sorted(special.lstrip),
                *([*map(sorted, rare)] if any(rare) else []),
            ],
            list(self.vocabulary.tokens),
            list(self.merges),
        ]


class RobertaTokenizer(ByteLevelTokenizer):
    """RoBERTa's tokenizer."""

    kind = ROBERTA_KIND


class DebertaTokenizer(ByteLevelTokenizer):
    """DeBERTa's tokenizer: BERT's special tokens around GPT-2's, and slices hold the space before.

    That of versions 2 and 3 is `DebertaV2Tokenizer`.
    """

    kind = DEBERTA_KIND


class GPT2Tokenizer(ByteLevelTokenizer):
    """GPT-2's tokenizer: no special tokens stand around texts, and slices hold the space before.

    Rows are padded with the token that ends a text, where the reference wants to be told one.
    """

    kind = GPT2_KIND
