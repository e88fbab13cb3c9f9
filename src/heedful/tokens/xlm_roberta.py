"""XLM-RoBERTa's tokenizer: a unigram model for text in 100 languages."""

import os
from typing import Self

from heedful.tokens.unigram_folder import XLM_ROBERTA, UnigramSettings
from heedful.tokens.unigram_tokenizer import UnigramTokenizer


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
    def from_pretrained(
        cls,
        name_or_folder: str | os.PathLike[str],
        revision: str | None = None,
        *,
        model_max_length: int | None = None,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Self:
        """Load the tokenizer of a model folder.

        Args:
            name_or_folder: a folder, a run, an installed model package or a hub name.
            revision: commit, tag or branch of a hub name.
            model_max_length: see the class. This and the following argument override the folder's
                settings.
            clean_up_tokenization_spaces: see the class.

        Raises:
            UserError: there is no such folder, a file is missing or damaged, or files disagree.
        """
        overrides = UnigramSettings(
            model_max_length=model_max_length,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )
        return cls._read(name_or_folder, revision, overrides)
