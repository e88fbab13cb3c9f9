"""Byte-level BPE tokenizers: RoBERTa, DeBERTa and GPT-2."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

from heedful.arguments import suggest_arguments
from heedful.files import write_json
from heedful.sources import resolve, takes_download_options
from heedful.tokens.additions import NewSpecialTokens
from heedful.tokens.bpe import Pair
from heedful.tokens.bytelevel import ByteLevelEncoder
from heedful.tokens.bytelevel_folder import (
    DEBERTA_KIND,
    GPT2_KIND,
    MERGES,
    ROBERTA_KIND,
    VOCABULARY,
    ByteLevelKind,
    ByteLevelSettings,
    read_settings,
    read_vocabulary,
    write_folder,
)
from heedful.tokens.conversion import NAMES_WITH_ENDS
from heedful.tokens.folder import read_files
from heedful.tokens.tokenizer import ModelTokenizer
from heedful.tokens.vocabulary import (
    Vocabulary,
    read_ids,
    read_merges,
    tokens_in_order,
    write_merges,
)

_AROUND = ("cls_token", "sep_token")


class ByteLevelTokenizer(ModelTokenizer):
    """Converts text to token ids with exact offsets, and back, like the reference's compiled class.

    `ModelTokenizer` lists the few differences. One more: if a space is inserted before a text or
    after an added token, offsets still refer to the text. The reference shifts them by that space,
    or drops a letter.

    Args:
        vocab_file: a ``vocab.json``, or a vocabulary.
        merges_file: a ``merges.txt``, or the pairs of tokens to merge, in the order learnt.
        add_prefix_space: whether the first word of a text gets the tokens of a word after a space.
        trim_offsets: whether offsets exclude spaces at both ends of a piece; None means the default
            of the reference's class.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` removes spaces before English punctuation
            by default.

    Raises:
        UserError: a file is damaged, or the vocabulary lacks a special token or a byte.
    """

    kind: ClassVar[ByteLevelKind]
    _names = NAMES_WITH_ENDS
    bos_token: str
    bos_token_id: int
    eos_token: str
    eos_token_id: int

    @suggest_arguments
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
            vocabulary,
            encoder=partial(
                ByteLevelEncoder,
                merges=self.merges,
                add_prefix_space=add_prefix_space,
                trim_offsets=self.trim_offsets,
            ),
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
        add_prefix_space: bool | None = None,
        trim_offsets: bool | None = None,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        padding_side: str | None = None,
        **special_tokens: Unpack[NewSpecialTokens],
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            add_prefix_space: see the class. This and the following arguments override the folder's
                settings.
            trim_offsets: see the class.
            model_max_length: see the class.
            clean_up_tokenization_spaces: see the class.
            padding_side: ``"left"`` or ``"right"``.
            special_tokens: special tokens to choose or add; see `add_special_tokens`.

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
        tokenizer.name_or_path = os.fspath(name_or_folder)
        tokenizer._apply_rows(files, padding_side)
        tokenizer._add_options(special_tokens, cls.from_pretrained)
        return tokenizer

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``vocab.json``, ``merges.txt`` and the files with the settings."""
        settings = ByteLevelSettings(
            add_prefix_space=self.add_prefix_space,
            trim_offsets=self.trim_offsets,
            model_max_length=self.model_max_length,
            clean_up_tokenization_spaces=self.clean_up_tokenization_spaces,
        )
        merges, rows = list(self.merges), self._row_entries(default=self.kind.token_types)
        write_folder(Path(folder), self.kind, self.vocabulary, merges, settings, rows=rows)

    def _vocabulary_files(self) -> Mapping[str, Callable[[Path], object]]:
        return {
            VOCABULARY: lambda path: write_json(path, self.vocabulary.base_ids()),
            MERGES: lambda path: write_merges(path, self.merges),
        }

    def identity(self) -> list[Any]:
        """Return everything that affects token ids, as JSON-serializable values."""
        special = self.vocabulary.special
        # Omit these if they are all empty, so that the identity still matches older runs.
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
    """DeBERTa's tokenizer: GPT-2's tokens between BERT's special tokens.

    Offsets include the space before a piece. DeBERTa v2 and v3 use `DebertaV2Tokenizer`.
    """

    kind = DEBERTA_KIND


class GPT2Tokenizer(ByteLevelTokenizer):
    """GPT-2's tokenizer: no special tokens around texts.

    Offsets include the space before a piece. The end-of-text token serves as padding, whereas the
    reference requires the user to choose a padding token.
    """

    kind = GPT2_KIND
    # The class has neither a class token nor a separator.
    _names = {  # noqa: RUF012
        name: field for name, field in NAMES_WITH_ENDS.items() if name not in _AROUND
    }


RobertaTokenizerFast = RobertaTokenizer
"""Name in code for ``transformers``, which has a slow and a compiled tokenizer of each kind."""
DebertaTokenizerFast = DebertaTokenizer
GPT2TokenizerFast = GPT2Tokenizer
