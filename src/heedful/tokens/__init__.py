"""Text to ids with exact character offsets, and for translation back to the exact text."""

from heedful.tokens.encoding import Encoding, Pieces
from heedful.tokens.loading import load_encoder_tokenizer, load_tokenizer
from heedful.tokens.text import TextTokenizer
from heedful.tokens.tokenizer import BertTokenizer
from heedful.tokens.translation import TranslationTokenizer
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

__all__ = [
    "BertTokenizer",
    "Encoding",
    "Pieces",
    "SpecialTokens",
    "TextTokenizer",
    "TranslationTokenizer",
    "Vocabulary",
    "load_encoder_tokenizer",
    "load_tokenizer",
]
