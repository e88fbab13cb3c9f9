"""Random strings: byte-level ids and offsets equal the reference's.

By default some thousands; a million with ``HEEDFUL_SWEEP`` (see ``test_sweep.py``), which takes
some minutes.
"""

import os
import random
import string
from typing import Any

from tests.tokens.reference import assert_same_batch

from heedful.tokens import RobertaTokenizer

COUNT = 1_000_000 if "HEEDFUL_SWEEP" in os.environ else 6_000
TOGETHER = 2_000

BLANKS = [*" \t\n\v\f\r\x1c\x85\u00a0\u2003\u3000", "  ", "   ", " \n", "\n\n"]
MARKS = [*"'.,!?-_()#@&;:\"/", "''", "...", "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S"]
PARTS = [
    *BLANKS,
    *MARKS,
    "<mask>",
    "<s>",
    "</s>",
    "<pad>",
    "<unk>",
    "<mas",
    "k>",
    "don't",
    "É",
    "e\u0301",
]
RANGES = [
    (0, 0x7F),
    (0x80, 0x24F),
    (0x370, 0x5FF),
    (0x600, 0x1FFF),
    (0x2000, 0x2BFF),
    (0x3000, 0xD7FF),
]
RANGES += [(0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x10FFFF)]


def _text(random_: random.Random) -> str:
    """Return a string of some kind: of words, of one script, or of anything."""
    kind, size = random_.randrange(4), random_.randrange(24)
    if kind == 0:
        letters = random_.choice([string.ascii_lowercase, string.ascii_letters + string.digits])
        words = ("".join(random_.choices(letters, k=random_.randrange(1, 9))) for _ in range(size))
        return "".join(word + random_.choice([" ", " ", " ", *PARTS]) for word in words)
    if kind == 1:
        low, high = random_.choice(RANGES)
        codes = [low + random_.randrange(min(high - low, 200)) for _ in range(6)]
        return "".join(random_.choices([*map(chr, codes), " "], k=size))
    parts = PARTS if kind == 2 else [*PARTS, *(chr(_code(random_)) for _ in range(20))]
    return "".join(random_.choices(parts, k=size))


def _code(random_: random.Random) -> int:
    low, high = random_.choice(RANGES)
    return random_.randrange(low, high + 1)


def test_random_strings(roberta: RobertaTokenizer, roberta_reference: Any) -> None:
    theirs = roberta_reference.backend_tokenizer
    for seed in range(COUNT // TOGETHER):
        random_ = random.Random(seed)
        texts = [_text(random_) for _ in range(TOGETHER)]
        expected = theirs.encode_batch(texts, add_special_tokens=False)
        pieces = roberta._encoder.batch(texts, located=True)
        assert_same_batch(texts, pieces, expected)
        plain = roberta._encoder._plain(texts[::8], True)
        assert_same_batch(texts[::8], plain, expected[::8])
        assert roberta.encode_batch(texts) == [one.ids for one in expected]
