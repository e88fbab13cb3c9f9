"""Learning a WordPiece vocabulary from counted words.

The ``tokenizers`` library's trainer joins the most frequent pair of pieces again and again. Left to
itself it numbers the letters inside words in the order of a hash table, and so breaks ties in
another way each time (huggingface/tokenizers#1794). Here every letter gets its number beforehand,
so equal counts give an equal vocabulary.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from heedful.errors import UserError
from heedful.tokens.normalize import Normalizer
from heedful.tokens.vocabulary import SpecialTokens
from heedful.tokens.wordpiece import MAX_WORD, PREFIX

LEAST = 2
"""Times that two pieces must have stood together to become one."""

_SPECIAL = SpecialTokens()
_FIRST = (
    _SPECIAL.pad_token,  # id 0, as in the reference's vocabularies and configurations
    _SPECIAL.unk_token,
    _SPECIAL.cls_token,
    _SPECIAL.sep_token,
    _SPECIAL.mask_token,
)

_TOGETHER = 2**12
"""Times that a word is told to the trainer at once: it takes text, not counts."""


def count_words(texts: Iterable[str], normalizer: Normalizer) -> Counter[str]:
    """Count the words that WordPiece will see; what is held grows with the different ones alone."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.words(text))
    return counts


def learn_vocabulary(words: Mapping[str, int], *, size: int, alphabet: int = 1000) -> list[str]:
    """Learn the tokens of a vocabulary, in the order of their ids.

    Special tokens come first, then the letters, the letters inside words, and the learnt pieces,
    the earliest joined first.

    Args:
        words: each word, as `Normalizer` gives it, and how often it occurs.
        size: tokens of the vocabulary; fewer where no pair of pieces is left to be joined.
        alphabet: the most characters it knows, the most frequent ones; words with others become
            unknown.

    Raises:
        UserError: there are no words, ``size`` has no room for the characters, or the
            ``tokenizers`` library is not installed.
    """
    counts = {word: count for word, count in words.items() if len(word) <= MAX_WORD}
    if not counts:
        raise UserError("no words to learn a vocabulary from")
    heads, tails = _letters(counts, alphabet)
    first = [*_FIRST, *heads, *(PREFIX + letter for letter in tails)]
    if size < len(first):
        raise UserError(
            f"--size {size}: the text's characters alone make {len(first):,} tokens; give at least "
            "that many, or a smaller --alphabet"
        )
    return _trained(counts, first, heads, size)


def _letters(counts: Mapping[str, int], most: int) -> tuple[list[str], list[str]]:
    """Return the most frequent characters, and which of them occur inside words, in order."""
    found: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word:
            found[letter] += count
    kept = set(sorted(found, key=lambda letter: (-found[letter], letter))[:most])
    return sorted(kept), sorted({letter for word in counts for letter in word[1:]} & kept)


def _trained(
    counts: Mapping[str, int], first: list[str], letters: list[str], size: int
) -> list[str]:
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise UserError(
            "learning a vocabulary needs another library: pip install 'heedful[vocabulary]'"
        ) from None
    learner = Tokenizer(models.WordPiece(unk_token=_SPECIAL.unk_token))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=LEAST,
        special_tokens=first,  # these get the first ids, in this order
        initial_alphabet=letters,
        limit_alphabet=len(letters),  # so no other characters come in
        continuing_subword_prefix=PREFIX,
        show_progress=False,
    )
    learner.train_from_iterator(_spelt_out(counts), trainer)
    ids: dict[str, int] = learner.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _spelt_out(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield each word as often as it was counted."""
    for word, count in counts.items():
        whole, rest = divmod(count, _TOGETHER)
        many = f"{word} " * _TOGETHER if whole else ""
        for _ in range(whole):
            yield many
        yield f"{word} " * rest
