"""Word segmentation of Chinese texts, which have no spaces (Cui et al. 2019).

"Pre-Training with Whole Word Masking for Chinese BERT": the model still reads characters, but all
characters of a word are masked together. ``jieba`` segments the words.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from heedful.extras import missing
from heedful.scripts import HAN, KANA

IN_WORD = 1 << 30
"""Bit of a stored token id: this token continues a word of the segmenter."""

Segmenter = Callable[[str], Sequence[int]]
"""Returns the start of each word of a text, in characters."""

_HAN, _KANA = re.compile(f"[{HAN}]"), re.compile(f"[{KANA}]")


def is_chinese(text: str) -> bool:
    """Return whether a Chinese segmenter applies to a sentence: Han characters and no kana."""
    return _HAN.search(text) is not None and _KANA.search(text) is None


def segmenter_name() -> str:
    """Return the segmenter's name and version, to identify a corpus."""
    try:
        return f"jieba {version('jieba')}"
    except PackageNotFoundError:
        return "none"


@cache
def load_segmenter() -> Segmenter:
    """Load jieba with its own dictionary.

    Raises:
        UserError: jieba is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about jieba's own source
            import jieba
    except ImportError:
        raise missing("chinese") from None
    tokenizer = jieba.Tokenizer()
    # By default, jieba caches its dictionary in a file that any user of the machine can write.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return lambda text: [start for _, start, _ in tokenizer.tokenize(text)]


def continuation_mask(
    text: str, offsets: Sequence[tuple[int, int]], starts: Sequence[int]
) -> NDArray[np.bool_]:
    """Return which pieces of a text continue a word.

    Args:
        text: the text.
        offsets: start and end of each piece.
        starts: start of each word.

    Shape:
        (N,) for N pieces.
    """
    begins = np.zeros(len(text) + 1, np.bool_)
    begins[list(starts)] = True
    # A piece with a space before the word's first character also begins the word.
    return np.array(
        [not begins[start : max(end, start + 1)].any() for start, end in offsets], np.bool_
    )
