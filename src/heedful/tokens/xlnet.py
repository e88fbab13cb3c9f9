"""XLNet's tokenizer: a unigram model, with the class token at the end of the row."""

from heedful.tokens.albert import AlbertTokenizer
from heedful.tokens.unigram_folder import XLNET


class XLNetTokenizer(AlbertTokenizer):
    """Converts text to token ids with exact offsets, and back, like ``XLNetTokenizerFast``.

    Rows are ``text <sep> <cls>`` and ``first <sep> second <sep> <cls>``, padded on the left. Token
    types are 0 and 1 for the texts, 2 for the class token and 3 for padding. Case is kept unless
    ``do_lower_case`` is true. See `AlbertTokenizer` for everything else.
    """

    kind = XLNET
