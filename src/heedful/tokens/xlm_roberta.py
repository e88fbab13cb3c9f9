"""XLM-RoBERTa's tokenizer: the likeliest pieces of a text in any of 100 languages."""

import os
from typing import Self

from heedful.tokens.unigram_folder import XLM_ROBERTA, UnigramSettings
from heedful.tokens.unigram_tokenizer import UnigramTokenizer


class XLMRobertaTokenizer(UnigramTokenizer):
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
        overrides = UnigramSettings(
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        return cls._read(name_or_folder, revision, overrides)
