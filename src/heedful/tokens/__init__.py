"""Text to ids with exact character offsets."""

from heedful.tokens.encoding import Encoding, Pieces
from heedful.tokens.tokenizer import BertTokenizer
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

__all__ = ["BertTokenizer", "Encoding", "Pieces", "SpecialTokens", "Vocabulary"]
