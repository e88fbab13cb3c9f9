"""Tokenizers: text to ids with exact offsets; for translation, also back to the exact text."""

from heedful.tokens.additions import AddedToken
from heedful.tokens.bert import (
    BertTokenizer,
    BertTokenizerFast,
    DistilBertTokenizer,
    DistilBertTokenizerFast,
    ElectraTokenizer,
    ElectraTokenizerFast,
    MPNetTokenizer,
    MPNetTokenizerFast,
)
from heedful.tokens.encoding import Encoding
from heedful.tokens.layout import PairLayout
from heedful.tokens.loading import load_encoder_tokenizer, load_tokenizer
from heedful.tokens.pieces import Pieces
from heedful.tokens.protocol import Tokenizer
from heedful.tokens.roberta import (
    DebertaTokenizer,
    DebertaTokenizerFast,
    GPT2Tokenizer,
    GPT2TokenizerFast,
    RobertaTokenizer,
    RobertaTokenizerFast,
)
from heedful.tokens.text import TextTokenizer
from heedful.tokens.translation import TranslationTokenizer
from heedful.tokens.unigram_tokenizer import (
    AlbertTokenizer,
    AlbertTokenizerFast,
    BigBirdTokenizer,
    BigBirdTokenizerFast,
    DebertaV2Tokenizer,
    DebertaV2TokenizerFast,
    XLMRobertaTokenizer,
    XLMRobertaTokenizerFast,
    XLNetTokenizer,
    XLNetTokenizerFast,
)
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

__all__ = [
    "AddedToken",
    "AlbertTokenizer",
    "AlbertTokenizerFast",
    "BertTokenizer",
    "BertTokenizerFast",
    "BigBirdTokenizer",
    "BigBirdTokenizerFast",
    "DebertaTokenizer",
    "DebertaTokenizerFast",
    "DebertaV2Tokenizer",
    "DebertaV2TokenizerFast",
    "DistilBertTokenizer",
    "DistilBertTokenizerFast",
    "ElectraTokenizer",
    "ElectraTokenizerFast",
    "Encoding",
    "GPT2Tokenizer",
    "GPT2TokenizerFast",
    "MPNetTokenizer",
    "MPNetTokenizerFast",
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
    "XLMRobertaTokenizerFast",
    "XLNetTokenizer",
    "XLNetTokenizerFast",
    "load_encoder_tokenizer",
    "load_tokenizer",
]
