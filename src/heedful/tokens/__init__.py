"""Tokenizers: text to ids with exact offsets; for translation, also back to the exact text."""

from heedful.tokens.additions import AddedToken
from heedful.tokens.bert import (
    BertTokenizer,
    BertTokenizerFast,
    DistilBertTokenizer,
    DistilBertTokenizerFast,
    ElectraTokenizer,
    MPNetTokenizer,
)
from heedful.tokens.encoding import Encoding
from heedful.tokens.layout import PairLayout
from heedful.tokens.loading import load_encoder_tokenizer, load_tokenizer
from heedful.tokens.pieces import Pieces
from heedful.tokens.protocol import Tokenizer
from heedful.tokens.roberta import (
    DebertaTokenizer,
    GPT2Tokenizer,
    RobertaTokenizer,
    RobertaTokenizerFast,
)
from heedful.tokens.text import TextTokenizer
from heedful.tokens.translation import TranslationTokenizer
from heedful.tokens.unigram_tokenizer import (
    AlbertTokenizer,
    BigBirdTokenizer,
    DebertaV2Tokenizer,
    XLMRobertaTokenizer,
    XLNetTokenizer,
)
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

__all__ = [
    "AddedToken",
    "AlbertTokenizer",
    "BertTokenizer",
    "BertTokenizerFast",
    "BigBirdTokenizer",
    "DebertaTokenizer",
    "DebertaV2Tokenizer",
    "DistilBertTokenizer",
    "DistilBertTokenizerFast",
    "ElectraTokenizer",
    "Encoding",
    "GPT2Tokenizer",
    "MPNetTokenizer",
    "PairLayout",
    "Pieces",
    "RobertaTokenizer",
    "RobertaTokenizerFast",
    "SpecialTokens",
    "TextTokenizer",
    "Tokenizer",
    "TranslationTokenizer",
    "Vocabulary",
    "XLMRobertaTokenizer",
    "XLNetTokenizer",
    "load_encoder_tokenizer",
    "load_tokenizer",
]
