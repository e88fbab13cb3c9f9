"""BigBird's tokenizer: a unigram model on unchanged text."""

from heedful.tokens.unigram_folder import BIG_BIRD
from heedful.tokens.xlm_roberta import XLMRobertaTokenizer


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
