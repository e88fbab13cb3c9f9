"""Learn vocabularies: WordPiece, byte-level BPE, unigram, and pieces for translation.

The trainer of the ``tokenizers`` library repeatedly merges the most frequent pair of pieces. By
default, it numbers the letters inside words in hash-table order, so it breaks ties differently in
each run (huggingface/tokenizers#1794). Here every letter gets its number in advance, so equal
counts give equal vocabularies.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from heedful.errors import UserError
from heedful.extras import missing
from heedful.tokens.bpe import ALPHABET, Pair
from heedful.tokens.bytelevel_folder import GPT2_KIND, ROBERTA
from heedful.tokens.normalize import Normalizer
from heedful.tokens.plain_splitting import WORD_START
from heedful.tokens.text import BYTES, EOS, MAX_PIECE, PAD, SPACE, UNKNOWN, TextTokenizer
from heedful.tokens.translation import TranslationTokenizer
from heedful.tokens.vocabulary import SpecialTokens
from heedful.tokens.wordpiece import MAX_WORD, PREFIX

MIN_FREQUENCY = 2
"""Minimum frequency of a pair of pieces to be merged."""

_RARE_STEP = 1e-4
"""Difference between the scores that the unigram trainer assigns to successive rare characters."""
_SAME_STEP = 1e-5
"""Tolerance, in such steps, for a whole number of steps."""
_DIGITS = 6
"""Decimal places of a score. Further digits vary between runs of the trainer."""

_SPECIAL = SpecialTokens()
_FIRST = (
    _SPECIAL.pad_token,  # id 0, as in the reference's vocabularies and configurations
    _SPECIAL.unk_token,
    _SPECIAL.cls_token,
    _SPECIAL.sep_token,
    _SPECIAL.mask_token,
)

_ROBERTA_FIRST = (ROBERTA.cls_token, ROBERTA.pad_token, ROBERTA.sep_token, ROBERTA.unk_token)
"""The first tokens of RoBERTa's vocabularies, and of XLM-RoBERTa's."""


BYTE_LEVEL_FRAMINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "roberta": (_ROBERTA_FIRST, ROBERTA.mask_token),
    "gpt2": ((), GPT2_KIND.special.sep_token),
    "deberta": (("[PAD]", "[CLS]", "[SEP]", "[UNK]"), "[MASK]"),
}
"""The first tokens and the last token of byte-level vocabularies, by family."""


class Framing(NamedTuple):
    """The special tokens of a unigram vocabulary, and their layout in rows."""

    tokenizer: str
    """The class that reads the vocabulary."""
    first: tuple[str, ...]
    """The first tokens, in the order of their ids."""
    unknown: str
    mask: str
    """The last token, unless it is among the first."""
    single: str
    """The template for single texts, in the compiled reference's notation."""
    pair: str
    """The template for pairs."""


FRAMINGS = {
    "xlm-roberta": Framing(
        tokenizer="XLMRobertaTokenizer",
        first=_ROBERTA_FIRST,
        unknown=ROBERTA.unk_token,
        mask=ROBERTA.mask_token,
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
    ),
    "albert": Framing(
        tokenizer="AlbertTokenizer",
        first=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        unknown="<unk>",
        mask="[MASK]",
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
    ),
    "big_bird": Framing(
        tokenizer="BigBirdTokenizer",
        first=("<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]"),
        unknown="<unk>",
        mask="[MASK]",
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
    ),
    "deberta-v2": Framing(
        tokenizer="DebertaV2Tokenizer",
        first=("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
        unknown="[UNK]",
        mask="[MASK]",
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
    ),
    "xlnet": Framing(
        tokenizer="XLNetTokenizer",
        first=("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"),
        unknown="<unk>",
        mask="<mask>",
        single="$A:0 <sep>:0 <cls>:2",
        pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
    ),
}
"""The framings of unigram vocabularies, by family."""

_AS_BYTES = ("Cc", "Cs")
"""Categories of characters that are always written as bytes: controls and surrogates."""

_BLOCK_REPEATS = 2**12
"""Repetitions of a word per string for the trainer, which accepts text, not counts."""


def count_words(texts: Iterable[str], normalizer: Normalizer) -> Counter[str]:
    """Count the words that WordPiece receives. Memory grows only with the distinct words."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.words(text))
    return counts


def learn_vocabulary(words: Mapping[str, int], *, size: int, alphabet: int = 1000) -> list[str]:
    """Learn a WordPiece vocabulary, and return its tokens in the order of their ids.

    The order is: special tokens, letters, letters inside words, and learnt pieces in the order of
    merging.

    Args:
        words: word, normalized by `Normalizer` -> its count.
        size: number of tokens; fewer if no pair of pieces is left to merge.
        alphabet: maximum number of characters. The most frequent are kept; words with other
            characters become unknown.

    Raises:
        UserError: there are no words, ``size`` has no room for the characters, or the
            ``tokenizers`` library is not installed.
    """
    counts = {word: count for word, count in words.items() if len(word) <= MAX_WORD}
    if not counts:
        raise UserError("no words to learn a vocabulary from")
    letters = _letters(counts, alphabet)
    tails = sorted({letter for word in counts for letter in word[1:]} & set(letters))
    first = [*_FIRST, *letters, *(PREFIX + letter for letter in tails)]
    if size < len(first):
        raise UserError(
            f"--size {size}: the text's characters alone make {len(first):,} tokens; give at least "
            "that many, or a smaller --alphabet"
        )
    return _trained(counts, first, letters, size, PREFIX)


def learn_bytes(
    texts: Iterable[str], *, size: int, arch: str = "roberta"
) -> tuple[list[str], list[Pair]]:
    """Learn byte-level BPE: return the tokens in the order of their ids, and the merges.

    The family's first special tokens keep its ids. Then come the 256 bytes and the learnt tokens,
    in the order of merging. The last token is the mask, or the end-of-text token for GPT-2.

    Args:
        texts: the texts.
        size: number of tokens; fewer if no pair is left to merge.
        arch: a family in ``BYTE_LEVEL_FRAMINGS``.

    Raises:
        UserError: ``size`` has no room for the bytes, or the ``tokenizers`` library is not
            installed.
    """
    special, last = BYTE_LEVEL_FRAMINGS[arch]
    floor = len(special) + len(ALPHABET) + 1
    if size < floor:
        raise UserError(
            f"--size {size}: the special tokens and the 256 bytes alone make {floor} tokens; give "
            "at least that many"
        )
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise missing("vocabulary") from None
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1,
        min_frequency=MIN_FREQUENCY,
        special_tokens=list(special),
        initial_alphabet=sorted(ALPHABET),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    ids: dict[str, int] = model["vocab"]
    tokens = [*sorted(ids, key=ids.__getitem__), last]
    return tokens, [(left, right) for left, right in model["merges"]]


def _unigram_floor(characters: set[str], num_special: int) -> int:
    """Return the minimum size: the trainer exceeds one with room for the characters alone."""
    return len({*characters, WORD_START} - {" "}) + 1 + num_special


def learn_unigram(texts: Iterable[str], *, size: int, arch: str = "xlm-roberta") -> dict[str, Any]:
    """Learn a unigram vocabulary (Kudo 2018), and return it as the contents of ``tokenizer.json``.

    The special tokens depend on the family; for XLM-RoBERTa, they keep its ids. Texts are
    normalized to NFKC, and a space is part of the word after it, as in SentencePiece. Equal texts
    give equal pieces in the same order, which the trainer itself does not guarantee.

    Args:
        texts: the texts.
        size: number of tokens; fewer if the texts have no more.
        arch: the family, one of ``FRAMINGS``.

    Raises:
        UserError: ``size`` has no room for the characters, or the ``tokenizers`` library is not
            installed.
    """
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
        from tokenizers.processors import TemplateProcessing
    except ImportError:
        raise missing("vocabulary") from None
    framing = FRAMINGS[arch]
    special = framing.first
    ends_in_mask = framing.mask not in special
    characters: set[str] = set()
    learner = Tokenizer(models.Unigram())
    normalizer = learner.normalizer = _normalizer()
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size - ends_in_mask,
        special_tokens=list(special),
        unk_token=framing.unknown,
        show_progress=False,
    )

    def seen() -> Iterator[str]:
        for text in texts:
            characters.update(normalizer.normalize_str(text))
            yield text

    num_special = len(special) + ends_in_mask
    try:
        learner.train_from_iterator(seen(), trainer)
    except Exception as error:
        if isinstance(error, UserError) or size >= _unigram_floor(characters, num_special):
            raise
        raise _too_small(size, _unigram_floor(characters, num_special)) from error
    if learner.get_vocab_size() + ends_in_mask > size:
        raise _too_small(size, _unigram_floor(characters, num_special))
    learner.post_processor = TemplateProcessing(
        single=framing.single,
        pair=framing.pair,
        special_tokens=[(token, number) for number, token in enumerate(special)],
    )
    compiled: dict[str, Any] = json.loads(learner.to_str())
    tokens, added = compiled["model"]["vocab"], compiled["added_tokens"]
    # A learnt piece that equals a special token would have two ids.
    spelt = {*special, framing.mask}
    tokens[len(special) :] = _by_score(one for one in tokens[len(special) :] if one[0] not in spelt)
    if ends_in_mask:
        added.append({**added[0], "id": len(tokens), "content": framing.mask})
        tokens.append([framing.mask, 0.0])
    for token in added:
        token["lstrip"] = token["content"] == framing.mask
    return compiled


def _too_small(size: int, floor: int) -> UserError:
    return UserError(
        f"--size {size}: the text's characters alone make {floor:,} tokens; give at least that many"
    )


def _by_score(pieces: Iterable[tuple[str, float]]) -> list[list[Any]]:
    """Sort pieces by descending score, reproducibly.

    The trainer sums scores in a varying order. Characters that are too rare for a score of their
    own get the lowest score, plus one more step for each, in hash-table order.
    """
    scores = dict(pieces)
    lowest = min(scores.values(), default=0.0)
    steps = {
        piece: (score - lowest) / _RARE_STEP for piece, score in scores.items() if len(piece) == 1
    }
    taken = {round(step) for step in steps.values() if abs(step - round(step)) < _SAME_STEP}
    first_free = min({*range(len(taken) + 1)} - taken)
    rare = sorted(piece for piece, step in steps.items() if step < first_free - 0.5)
    scores |= zip(rare, sorted((scores[piece] for piece in rare), reverse=True), strict=True)
    rounded = [[piece, round(score, _DIGITS)] for piece, score in scores.items()]
    return sorted(rounded, key=lambda entry: (-entry[1], entry[0]))


def _normalizer() -> Any:
    """Return the normalizer for unigram learning."""
    from tokenizers import Regex, normalizers

    return normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.NFKC(),
            normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), WORD_START),
        ]
    )


def count_strings_between_spaces(texts: Iterable[str]) -> Counter[str]:
    """Count the strings between spaces, from which the pieces for translation are learnt."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split(" "))
    return counts


def learn_pieces(words: Mapping[str, int], *, size: int, alphabet: int = 1000) -> list[str]:
    """Learn the tokens of a `TextTokenizer`, in the order of their ids.

    The order is: end-of-text and unknown token, the 256 bytes, the space, characters, characters
    with a space before them, learnt pieces in the order of merging, and the padding token. Letters,
    digits and punctuation never merge with each other. Line ends and other controls are not pieces,
    so they are written as bytes.

    Args:
        words: string between two spaces -> its count.
        size: number of tokens; fewer if no pair of pieces is left to merge.
        alphabet: maximum number of characters, the most frequent; others are written as bytes.

    Raises:
        UserError: there are no words, ``size`` has no room for the characters, or the
            ``tokenizers`` library is not installed.
    """
    if not any(words):
        raise UserError("no words to learn a vocabulary from")
    letters = _letters(
        words, alphabet, never=lambda one: one == SPACE or unicodedata.category(one) in _AS_BYTES
    )
    heads = sorted({SPACE + word[0] for word in words if word and word[0] in letters})
    first = [EOS, UNKNOWN, *BYTES, SPACE, *letters, *heads]
    if size <= len(first):
        raise UserError(
            f"--vocab-size {size}: the bytes and the text's characters alone make "
            f"{len(first) + 1:,} tokens; give at least that many"
        )
    counts: Counter[str] = Counter()
    known = frozenset(letters)
    for word, count in words.items():
        for run in _runs(word, known):
            counts[run] += count
    return [*_trained(counts, first, [SPACE, *letters], size - 1, prefix=""), PAD]


def learn_translation(
    source: Counter[str],
    target: Counter[str],
    *,
    size: int,
    separate: bool = False,
) -> TranslationTokenizer:
    """Learn the tokenizers of a translation model from the word counts of both sides.

    Args:
        source: word counts of the source texts, from `count_strings_between_spaces`.
        target: word counts of the target texts.
        size: number of tokens of the vocabulary, or of each one with ``separate``.
        separate: whether each side has a separate vocabulary.

    Raises:
        UserError: see `learn_pieces`.
    """
    if not separate:
        both = TextTokenizer(learn_pieces(source + target, size=size))
        return TranslationTokenizer(both, both)
    sides = [learn_pieces(words, size=size) for words in (source, target)]
    # Both sides share one padding id, so the larger vocabulary cannot have it at the end.
    pad = min(map(len, sides)) - 1
    read, write = (TextTokenizer([*side[:pad], PAD, *side[pad:-1]]) for side in sides)
    return TranslationTokenizer(read, write)


def _letters(
    counts: Mapping[str, int], limit: int, *, never: Callable[[str], bool] = lambda letter: False
) -> list[str]:
    """Return the most frequent characters, sorted by code point."""
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    known = [letter for letter in letters if not never(letter)]
    return sorted(sorted(known, key=lambda letter: (-letters[letter], letter))[:limit])


def _kind(character: str) -> str:
    """Return the class of characters that may merge: L, N, P, or C and Z for all others."""
    return {"M": "L", "S": "P"}.get(kind := unicodedata.category(character)[0], kind)


def _runs(word: str, letters: Container[str]) -> Iterator[str]:
    """Split a word, with the space before it, into runs within which pieces may merge."""
    start = SPACE
    for kind, run in groupby(word, lambda one: _kind(one) if one in letters else ""):
        text = start + "".join(run)
        start = ""
        if kind:
            yield from (text[i : i + MAX_PIECE] for i in range(0, len(text), MAX_PIECE))


def _trained(
    counts: Mapping[str, int], first: list[str], letters: list[str], size: int, prefix: str
) -> list[str]:
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise missing("vocabulary") from None
    learner = Tokenizer(models.WordPiece(unk_token=_SPECIAL.unk_token))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=first,  # they get the first ids, in this order
        initial_alphabet=letters,
        limit_alphabet=len(letters),  # excludes all other characters
        continuing_subword_prefix=prefix,
        show_progress=False,
    )
    learner.train_from_iterator(_repeated(counts), trainer)
    ids: dict[str, int] = learner.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _repeated(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield text in which each word occurs as often as it was counted."""
    for word, count in counts.items():
        num_blocks, remainder = divmod(count, _BLOCK_REPEATS)
        block = f"{word} " * _BLOCK_REPEATS if num_blocks else ""
        for _ in range(num_blocks):
            yield block
        yield f"{word} " * remainder
