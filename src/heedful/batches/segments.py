"""The words of Chinese texts, which have no spaces between them (Cui et al. 2019).

"Pre-Training with Whole Word Masking for Chinese BERT": a model still reads characters, but the
characters of a word are hidden together. The words are those of ``jieba``.
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
"""The bit of a stored token id that says: this token goes on with a word of the segmenter."""

Segmenter = Callable[[str], Sequence[int]]
"""Returns where the words of a text start, in characters."""

_HAN, _KANA = re.compile(f"[{HAN}]"), re.compile(f"[{KANA}]")


def is_chinese(text: str) -> bool:
    """Tell whether a sentence has words that a segmenter of Chinese can tell."""
    return _HAN.search(text) is not None and _KANA.search(text) is None


def segmenter_name() -> str:
    """Return what cuts texts into words, with its version, for the identity of a corpus."""
    try:
        return f"jieba {version('jieba')}"
    except PackageNotFoundError:
        return "none"


@cache
def load_segmenter() -> Segmenter:
    """Load jieba with its own dictionary.

    Raises:
        UserError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own source
            import jieba
    except ImportError:
        raise missing("chinese") from None
    tokenizer = jieba.Tokenizer()
    # By itself it would read its dictionary from a file that any user of the machine can write.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return lambda text: [start for _, start, _ in tokenizer.tokenize(text)]


def go_on(
    text: str, offsets: Sequence[tuple[int, int]], starts: Sequence[int]
) -> NDArray[np.bool_]:
    """Tell which pieces of a text go on with a word.

    Args:
        text: the text.
        offsets: the slice of each piece.
        starts: where its words start.

    Shape:
        (N,) for N pieces.
    """
    begins = np.zeros(len(text) + 1, np.bool_)
    begins[list(starts)] = True
    # A piece that starts before a word's first character, with a space, begins it, too.
    return np.array(
        [not begins[start : max(end, start + 1)].any() for start, end in offsets], np.bool_
    )
