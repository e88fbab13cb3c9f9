"""XLNet's tokenizer: the likeliest pieces of a text, whose class token ends the row."""

from heedful.tokens.albert import AlbertTokenizer
from heedful.tokens.unigram_folder import XLNET


class XLNetTokenizer(AlbertTokenizer):
    """Text to token ids with exact offsets, and back, as ``XLNetTokenizerFast`` does it.

    Rows are ``text <sep> <cls>`` and ``first <sep> second <sep> <cls>``, padded on the left. Token
    types are 0 and 1 of the texts, 2 of the class token and 3 of padding. Case is kept unless
    ``do_lower_case`` says otherwise. See `AlbertTokenizer` for the rest.
    """

    kind = XLNET
