"""Learning a vocabulary: WordPiece, pairs of bytes, likeliest pieces, pieces for translation.

The ``tokenizers`` library's trainer joins the most frequent pair of pieces again and again. Left to
itself it numbers the letters inside words in the order of a hash table, and so breaks ties in
another way each time (huggingface/tokenizers#1794). Here every letter gets its number beforehand,
so equal counts give an equal vocabulary.
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
from heedful.tokens.plain_splitting import UNDERLINE
from heedful.tokens.text import BYTES, EOS, MAX_PIECE, PAD, SPACE, UNKNOWN, TextTokenizer
from heedful.tokens.translation import TranslationTokenizer
from heedful.tokens.vocabulary import SpecialTokens
from heedful.tokens.wordpiece import MAX_WORD, PREFIX

LEAST = 2
"""Times that two pieces must have stood together to become one."""

_RARE_STEP = 1e-4
"""By so much the scores differ that the trainer of likeliest pieces gives to rare characters."""
_SAME_STEP = 1e-5
"""In such steps, how far from a whole number still is one."""
_DIGITS = 6
"""Of a score, behind the point: in those after them the trainer differs each time."""

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


BYTES_AROUND: dict[str, tuple[tuple[str, ...], str]] = {
    "roberta": (_ROBERTA_FIRST, ROBERTA.mask_token),
    "gpt2": ((), GPT2_KIND.special.sep_token),
    "deberta": (("[PAD]", "[CLS]", "[SEP]", "[UNK]"), "[MASK]"),
}
"""The first tokens of vocabularies of bytes and the last one, by family."""


class Framing(NamedTuple):
    """The special tokens of a unigram vocabulary, and where they stand."""

    tokenizer: str
    """The class that reads it."""
    first: tuple[str, ...]
    """The first tokens, in the order of their ids."""
    unknown: str
    mask: str
    """The last token, unless it is among the first."""
    single: str
    """What the compiled reference calls the rows of texts."""
    pair: str
    """And those of pairs."""


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
"""Of unigram vocabularies, by family."""

_NO_PIECES = ("Cc", "Cs")
"""Categories of characters that are always written in bytes: controls and half characters."""

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
    """Learn pairs of bytes: the tokens in the order of their ids, and the pairs that they join.

    The family's first special tokens have its ids; then come the 256 bytes and the learnt tokens,
    the earliest joined first. The last is the mask, or the token that ends a text of GPT-2's.

    Args:
        texts: the texts.
        size: tokens of the vocabulary; fewer where no pair is left to be joined.
        arch: a family in ``BYTES_AROUND``.

    Raises:
        UserError: ``size`` has no room for the bytes, or the ``tokenizers`` library is not
            installed.
    """
    special, last = BYTES_AROUND[arch]
    least = len(special) + len(ALPHABET) + 1
    if size < least:
        raise UserError(
            f"--size {size}: the special tokens and the 256 bytes alone make {least} tokens; give "
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
        min_frequency=LEAST,
        special_tokens=list(special),
        initial_alphabet=sorted(ALPHABET),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    ids: dict[str, int] = model["vocab"]
    tokens = [*sorted(ids, key=ids.__getitem__), last]
    return tokens, [(left, right) for left, right in model["merges"]]


def learn_unigram(texts: Iterable[str], *, size: int, arch: str = "xlm-roberta") -> dict[str, Any]:
    """Learn the likeliest pieces (Kudo 2018), and return the ``tokenizer.json`` that holds them.

    Special tokens are those of a family; those of XLM-RoBERTa have its ids. Texts are put in
    normal form NFKC, and a space is part of the word behind it, as in SentencePiece. The same texts
    give the same pieces in the same order, which the trainer alone does not promise.

    Args:
        texts: the texts.
        size: tokens of the vocabulary; fewer where the texts have no more.
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
    learner.normalizer = _normalizer()
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size - ends_in_mask,
        special_tokens=list(special),
        unk_token=framing.unknown,
        show_progress=False,
    )

    def seen() -> Iterator[str]:
        for text in texts:
            characters.update(text)
            yield text

    try:
        learner.train_from_iterator(seen(), trainer)
    except Exception as error:
        least = len(characters) + len(special) + 1 + ends_in_mask
        if isinstance(error, UserError) or size >= least:
            raise
        raise UserError(
            f"--size {size}: the text's characters alone make {least:,} tokens; give at least that "
            "many"
        ) from error
    learner.post_processor = TemplateProcessing(
        single=framing.single,
        pair=framing.pair,
        special_tokens=[(token, number) for number, token in enumerate(special)],
    )
    compiled: dict[str, Any] = json.loads(learner.to_str())
    tokens, added = compiled["model"]["vocab"], compiled["added_tokens"]
    # What a text spells like a special token would have two ids.
    spelt = {*special, framing.mask}
    tokens[len(special) :] = _in_order(one for one in tokens[len(special) :] if one[0] not in spelt)
    if ends_in_mask:
        added.append({**added[0], "id": len(tokens), "content": framing.mask})
        tokens.append([framing.mask, 0.0])
    for token in added:
        token["lstrip"] = token["content"] == framing.mask
    return compiled


def _in_order(pieces: Iterable[tuple[str, float]]) -> list[list[Any]]:
    """Put the likeliest first, the same way each time.

    The trainer adds scores up in an order that changes. Characters that are too rare for a score of
    their own get the least one, each a step more than the one before, in the order of a hash table.
    """
    scores = dict(pieces)
    least = min(scores.values(), default=0.0)
    steps = {
        piece: (score - least) / _RARE_STEP for piece, score in scores.items() if len(piece) == 1
    }
    taken = {round(step) for step in steps.values() if abs(step - round(step)) < _SAME_STEP}
    last = min({*range(len(taken) + 1)} - taken)
    rare = sorted(piece for piece, step in steps.items() if step < last - 0.5)
    scores |= zip(rare, sorted((scores[piece] for piece in rare), reverse=True), strict=True)
    rounded = [[piece, round(score, _DIGITS)] for piece, score in scores.items()]
    return sorted(rounded, key=lambda each: (-each[1], each[0]))


def _normalizer() -> Any:
    """Return what puts texts in normal form before likeliest pieces are learnt."""
    from tokenizers import Regex, normalizers

    return normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.NFKC(),
            normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), UNDERLINE),
        ]
    )


def count_spaced(texts: Iterable[str]) -> Counter[str]:
    """Count what stands between two spaces, as the pieces of translation are learnt from it."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split(" "))
    return counts


def learn_pieces(words: Mapping[str, int], *, size: int, alphabet: int = 1000) -> list[str]:
    """Learn the tokens of a `TextTokenizer`, in the order of their ids.

    The end of a text and the unknown token come first, then the 256 bytes, the space, the
    characters, those that stood behind a space with it, and the learnt pieces, the earliest joined
    first. The padding token is the last. Letters, digits and punctuation are never joined with each
    other; line ends and other controls are no pieces at all, so they are written in bytes.

    Args:
        words: what stands between two spaces, and how often it occurs.
        size: tokens of the vocabulary; fewer where no pair of pieces is left to be joined.
        alphabet: the most characters it knows, the most frequent ones; others are written in bytes.

    Raises:
        UserError: there are no words, ``size`` has no room for the characters, or the
            ``tokenizers`` library is not installed.
    """
    if not any(words):
        raise UserError("no words to learn a vocabulary from")
    letters = _letters(
        words, alphabet, never=lambda one: one == SPACE or unicodedata.category(one) in _NO_PIECES
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
    """Learn the tokenizer of a translation from the counted words of both sides.

    Args:
        source: the words of the texts that are read, as `count_spaced` gives them.
        target: those of the texts that are written.
        size: tokens of the vocabulary; with ``separate``, of each.
        separate: whether each side has a vocabulary of its own.

    Raises:
        UserError: see `learn_pieces`.
    """
    if not separate:
        both = TextTokenizer(learn_pieces(source + target, size=size))
        return TranslationTokenizer(both, both)
    sides = [learn_pieces(words, size=size) for words in (source, target)]
    # Both rows of a model are filled up with one id, so the larger vocabulary has it further in.
    pad = min(map(len, sides)) - 1
    read, write = (TextTokenizer([*side[:pad], PAD, *side[pad:-1]]) for side in sides)
    return TranslationTokenizer(read, write)


def _letters(
    counts: Mapping[str, int], most: int, *, never: Callable[[str], bool] = lambda letter: False
) -> list[str]:
    """Return the most frequent characters, in order."""
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    known = [letter for letter in letters if not never(letter)]
    return sorted(sorted(known, key=lambda letter: (-letters[letter], letter))[:most])


def _kind(character: str) -> str:
    """Return the letter of what may stand together in a piece: L, N, P, or C and Z for the rest."""
    return {"M": "L", "S": "P"}.get(kind := unicodedata.category(character)[0], kind)


def _runs(word: str, letters: Container[str]) -> Iterator[str]:
    """Cut a word, with the space before it, to where what is learnt may be joined."""
    start = SPACE
    for kind, run in groupby(word, lambda one: _kind(one) if one in letters else ""):
        text = start + "".join(run)
        start = ""
        if kind:
            yield from (text[at : at + MAX_PIECE] for at in range(0, len(text), MAX_PIECE))


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
        min_frequency=LEAST,
        special_tokens=first,  # these get the first ids, in this order
        initial_alphabet=letters,
        limit_alphabet=len(letters),  # so no other characters come in
        continuing_subword_prefix=prefix,
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
