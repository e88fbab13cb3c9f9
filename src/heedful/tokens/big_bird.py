"""BigBird's tokenizer: the likeliest pieces of a text as it is written."""

from heedful.tokens.unigram_folder import BIG_BIRD
from heedful.tokens.xlm_roberta import XLMRobertaTokenizer


class BigBirdTokenizer(XLMRobertaTokenizer):
    """Text to token ids with exact offsets, and back, as ``BigBirdTokenizerFast`` does it.

    Its ids are those of its file. Rows stand between ``[CLS]`` and ``[SEP]``, as BERT's do; models
    are told no token types. See `XLMRobertaTokenizer` for the rest.

    Args:
        vocab_file: a ``spiece.model``, or what `from_pretrained` reads.
        model_max_length: the longest row the model takes, in tokens; None if not known.
        clean_up_tokenization_spaces: whether `decode` tidies English punctuation by default.

    Raises:
        UserError: a file is damaged, or lacks a special token.
    """

    kind = BIG_BIRD
