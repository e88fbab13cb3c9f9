import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny import byte_level_tokenizer
from tests.tiny_folders import write_folder

from heedful.batches.text_block import in_blocks
from heedful.batches.windows import windows
from heedful.batches.words import (
    Spans,
    WordRule,
    entities_in_words,
    extend_over_accents,
    first_inside,
    first_pieces,
    piece_words,
    refuse_shared_words,
    strip_spaces,
    word_breaks,
    word_probabilities,
)
from heedful.errors import UserError
from heedful.reading.tagging import Entity, TaggedText
from heedful.tokens import (
    BertTokenizer,
    RobertaTokenizer,
    Tokenizer,
    Vocabulary,
    encoder,
    load_encoder_tokenizer,
)
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.bytelevel_folder import ROBERTA

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, "é", ".", "'", "中"]
TOKENS += [f"##{letter}" for letter in [*LETTERS, "é", "\u0301"]]
tokenizer = BertTokenizer(Vocabulary(TOKENS, source="here"))
cased = BertTokenizer(Vocabulary(TOKENS, source="here"), do_lower_case=False)


def words_of(
    text: str, of: Tokenizer = tokenizer, rule: WordRule = "tokenizer"
) -> tuple[list[int], Spans]:
    (pieces,) = piece_words([text], of, rule)
    return pieces.ids.tolist(), pieces.words


def words_in(text: str, of: Tokenizer = tokenizer) -> list[str]:
    spans = words_of(text, of)[1]
    return [text[start:end] for start, end in spans[first_pieces(spans)].tolist()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \u200b ", []),
        ("Ann isn't in U.N.", ["Ann", "isn", "'", "t", "in", "U", ".", "N", "."]),
        ("a中b  c", ["a", "中", "b", "c"]),
        ("[SEP]x", ["[SEP]", "x"]),
        # An accent that is a character of its own belongs to its letter, also where it is dropped.
        ("cafe\u0301 e\u0301\u0302.", ["cafe\u0301", "e\u0301\u0302", "."]),
        ("café\u200b!", ["café", "!"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_in(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("low  lower.\n", ["low", "lower", "."]),
        (" \n a", ["a"]),
        ("it's 2 <mask>", ["it", "'s", "2", "<mask>"]),  # the space before 2 is a piece
        (" \n", []),
    ],
)
def test_white_space_is_no_word_where_it_has_pieces(text: str, words: list[str]) -> None:
    byte_level = byte_level_tokenizer()
    assert words_in(text, byte_level) == words
    ids, spans = words_of(text, byte_level)
    if words:
        assert ids == byte_level.encode_batch([text])[0]
        assert {text[start:end] for start, end in spans.tolist()} == set(words)
        _, spaced = words_of(text, byte_level, "spaces")
        assert {text[start:end] for start, end in spaced.tolist()} == set(words)


def test_accents_that_are_kept() -> None:
    assert words_in("cafe\u0301 .\u0301a", cased) == ["cafe\u0301", ".", "\u0301a"]


@given(st.text(st.sampled_from("abZ .'é中\u0301\u200b\n\t"), max_size=20))
def test_places_of_pieces(text: str) -> None:
    ids, spans = words_of(text)
    assert ids == tokenizer.encode_batch([text])[0]
    assert spans.shape == (len(ids), 2)
    words = spans[first_pieces(spans)]
    assert (words[:, 0] < words[:, 1]).all()
    assert (words[1:, 0] >= words[:-1, 1]).all()
    for (start, end), (first, last) in zip(
        spans.tolist(), tokenizer.pieces(text).offsets, strict=True
    ):
        assert start <= first < last <= end
        assert text[start:end].split() == [text[start:end]]


@pytest.mark.parametrize(
    "marked",  # a bar stands where words meet without a space
    [
        "",
        "@ann_b #tag US$ 5% AT&T C++ U.S.-led a.b@c.d 9.30",
        "Ann|'|s (|Bo|)|, “|x|”|; so|: '|U.N|.|'|! 1|,|000 a|/|b **|c|**",
        "see http://t.co/a?b=c,d#e|. (|https://a.b/|)|, http|:|//",
        "end|. wait|... no|!!! A|--|B b|''|c . ... -",
        "ab|中|.|国|c.d|中 http://a.b|中",
        "e\u0301.a\u0301 x\u00a0y",
    ],
)
def test_words_that_spaces_part(marked: str) -> None:
    text = marked.replace("|", "")
    _, words = words_of(text, rule="spaces")
    spans = words[first_pieces(words)].tolist()
    assert [text[start:end] for start, end in spans] == marked.replace("|", " ").split()
    assert {edge for span in spans for edge in span} <= word_breaks(text)


@given(st.text(st.sampled_from("abZ .'-@é中\u0301\u200b\n\t/:hps"), max_size=20))
def test_words_that_spaces_part_are_made_of_whole_words(text: str) -> None:
    (pieces,) = piece_words([text], tokenizer, "spaces")
    split, words = pieces.split, pieces.words
    assert words.shape == split.shape
    assert (words[:, 0] <= split[:, 0]).all()
    assert (words[:, 1] >= split[:, 1]).all()
    spans = words[first_pieces(words)]
    assert (spans[1:, 0] >= spans[:-1, 1]).all()
    assert all(len(text[start:end].split()) == 1 for start, end in spans.tolist())


def test_first_pieces() -> None:
    spans = np.array([[0, 2], [0, 2], [3, 4], [4, 6], [4, 6]], dtype=np.int32)
    assert first_pieces(spans).tolist() == [0, 2, 3]
    assert first_pieces(spans[:0]).tolist() == []


WORDS = np.array([[0, 3], [4, 8], [8, 9], [10, 12]], dtype=np.int32)
TEXT = "Ann asks. Bo"


def record(*entities: Entity) -> TaggedText:
    return TaggedText(text=TEXT, words=None, entities=entities, source="f", line=7)


def test_entities_in_words() -> None:
    found = entities_in_words(
        record(Entity(0, 8, "X"), Entity(8, 9, "Y"), Entity(10, 12, "X")), WORDS
    )
    assert found == [Entity(0, 2, "X"), Entity(2, 3, "Y"), Entity(3, 4, "X")]


@pytest.mark.parametrize(
    ("start", "end", "begin", "stop"), [(1, 2, 0, 1), (5, 9, 1, 3), (2, 5, 0, 2), (9, 11, 3, 4)]
)
def test_a_word_is_whole(start: int, end: int, begin: int, stop: int) -> None:
    assert entities_in_words(record(Entity(start, end, "X")), WORDS) == [Entity(begin, stop, "X")]


def test_an_entity_of_dropped_characters_has_no_words() -> None:
    assert entities_in_words(record(Entity(3, 4, "X")), WORDS) == []
    assert entities_in_words(record(Entity(3, 4, "X")), WORDS[:0]) == []


def test_two_entities_in_one_word() -> None:
    both = record(Entity(0, 6, "X"), Entity(6, 9, "Y"), Entity(10, 12, "Y"))
    assert entities_in_words(both, WORDS) == [
        Entity(0, 2, "X"),
        Entity(2, 3, "Y"),
        Entity(3, 4, "Y"),
    ]
    assert entities_in_words(record(Entity(4, 6, "X"), Entity(6, 8, "Y")), WORDS) == [
        Entity(1, 2, "X")
    ]
    with pytest.raises(UserError) as caught:
        refuse_shared_words(both, tokenizer, "tokenizer")
    assert str(caught.value) == (
        "f, line 7: two entities, the second 'ks.', share the word 'asks'; a word has one tag"
    )
    apart = record(Entity(0, 3, "X"), Entity(4, 8, "Y"), Entity(8, 9, "X"))
    assert refuse_shared_words(apart, tokenizer, "tokenizer") is apart


def test_first_inside() -> None:
    inner = [(0, 1), (1, 2), (2, 3), (6, 9)]
    assert first_inside([(0, 3), (4, 6), (6, 9)], inner) == {(0, 3): (0, 1), (6, 9): (6, 9)}
    assert first_inside([(0, 3)], []) == {}
    shared = [(0, 1), (1, 2), (2, 3), (4, 5)]  # the second word of them goes on into the third
    assert first_inside(shared, [(0, 1), (1, 3)]) == {(0, 1): (0, 1), (1, 3): (1, 3)}


ENDS = np.full((1, 2), -1, dtype=np.int32)


def test_what_pieces_give_their_word() -> None:
    spans = np.concatenate([ENDS, [[0, 3]] * 3, [[4, 5]], ENDS]).astype(np.int32)
    values = np.array(
        [[9, 9], [0.5, 0.5], [0.2, 0.8], [0.7, 0.3], [1, 0], [9, 9], [9, 9]], dtype=np.float32
    )
    for aggregation, expected in (
        ("first", [0.5, 0.5]),
        ("average", [1.4 / 3, 1.6 / 3]),
        ("max", [0.2, 0.8]),
    ):
        found = word_probabilities([spans], [values], aggregation)  # type: ignore[arg-type]
        assert list(found) == [(0, 3), (4, 5)]
        np.testing.assert_allclose(found[0, 3], expected, rtol=1e-6)
        assert found[4, 5].tolist() == [1, 0]
    nothing = np.concatenate([ENDS, ENDS])
    assert word_probabilities([nothing], [values[:2]], "first") == {}


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=25),
    limit=st.integers(4, 12),
    stride=st.integers(0, 3),
)
def test_a_word_is_taken_from_where_it_has_most_context(
    sizes: list[int], limit: int, stride: int
) -> None:
    ends = np.cumsum(sizes)
    words = [(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True)]
    pieces = [span for span, size in zip(words, sizes, strict=True) for _ in range(size)]
    spans, values = [], []
    for number, window in enumerate(windows(range(len(pieces)), limit, stride)):
        chosen = np.array([pieces[place] for place in window], dtype=np.int32)
        spans.append(np.concatenate([ENDS, chosen, ENDS]))
        values.append(np.array([[number, place] for place in [-1, *window, -1]], dtype=float))
    found = word_probabilities(spans, values, "first")
    assert list(found) == words
    for span, (number, place) in found.items():
        first = pieces.index(span)
        contexts = [_context(row, first, first + span[1] - span[0]) for row in values]
        assert number == contexts.index(max(contexts))
        assert place == max(first, values[int(number)][1][1])


def _context(row: np.ndarray, first: int, last: int) -> int:  # type: ignore[type-arg]
    """Count the context tokens on the shorter side of a word in a window; -1 if it is not there."""
    start, end = int(row[1][1]), int(row[-2][1]) + 1
    if last <= start or first >= end:
        return -1
    return min(max(first - start, 0), max(end - last, 0))


@pytest.fixture(scope="module")
def unigram(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Provide a tokenizer of SentencePiece with a piece for each letter and mark."""
    folder = tmp_path_factory.mktemp("unigram") / "model"
    write_folder("albert", folder)
    return load_encoder_tokenizer(folder)


def test_words_of_sentencepiece_end_at_marks_and_begin_behind_their_space(
    unigram: Tokenizer,
) -> None:
    text = " in paris,  yes!"
    _, spans = words_of(text, unigram)
    words = [text[start:end] for start, end in dict.fromkeys(map(tuple, spans.tolist()))]
    assert words == ["in", "paris", ",", "yes", "!"]


def test_slices_without_the_space_before_a_word(unigram: Tokenizer) -> None:
    text = " in  paris"
    spans = strip_spaces(text, unigram.pieces(text).offsets).tolist()
    assert [text[start:end] for start, end in spans if start < end] == [*"inparis"]
    assert strip_spaces("", []).shape == (0, 2)


def test_slices_with_the_accents_behind_them() -> None:
    spans = np.array([[0, 1], [2, 3], [4, 4], [4, 6]], dtype=np.int32)
    assert extend_over_accents("e\u0301e\u0301\u0302e\u0301 ", spans).tolist() == [
        *([0, 2], [2, 4], [4, 4], [4, 7]),
    ]
    assert spans[0].tolist() == [0, 1]
    # The marks of half-width kana become such accents; what becomes a space with one does not.
    kana = np.array([[0, 1], [2, 3]], dtype=np.int32)
    assert extend_over_accents("ｶﾞﾊ\uff9f¨", kana).tolist() == [[0, 2], [2, 4]]
    assert extend_over_accents("", np.empty((0, 2), dtype=np.int32)).shape == (0, 2)


def test_words_have_the_vowel_signs_that_the_tokenizer_drops(unigram: Tokenizer) -> None:
    text = "हिन्दी, in दिल्ली"
    _, spans = words_of(text, unigram)
    words = [text[start:end] for start, end in dict.fromkeys(map(tuple, spans.tolist()))]
    assert words == ["हिन्दी", ",", "in", "दिल्ली"]


@pytest.mark.parametrize("rule", ["tokenizer", "spaces"])
def test_a_word_of_ideographs_holds_the_piece_of_its_space(
    unigram: Tokenizer, rule: WordRule
) -> None:
    text = "北京 in 日本"
    pieces = unigram.pieces(text)
    assert [*pieces.offsets[:2]] == [(0, 1), (0, 2)]  # the first is the space before a text
    _, spans = words_of(text, unigram, rule)
    words = [text[start:end] for start, end in dict.fromkeys(map(tuple, spans.tolist()))]
    assert words == ["北京", "in", "日本"]


@pytest.mark.parametrize("rule", ["tokenizer", "spaces"])
def test_each_ideograph_is_a_word_where_a_tokenizer_splits_off_none(rule: WordRule) -> None:
    text = "in 北京abc，it's é"
    _, spans = words_of(text, byte_level_tokenizer(), rule)
    words = [text[start:end] for start, end in dict.fromkeys(map(tuple, spans.tolist()))]
    assert words == ["in", "北", "京", "abc", "，", "it", "'s", "é"]


def test_pieces_that_share_a_character_are_one_word() -> None:
    text = "的中x"
    bytes_ = [ALPHABET[byte] for byte in text.encode()]
    merges = [(bytes_[2], bytes_[3]), (bytes_[4], bytes_[5])]  # the first goes over both ideographs
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *ALPHABET, *map("".join, merges), "<mask>"]
    tokenizer = RobertaTokenizer(Vocabulary(tokens, ROBERTA), merges)
    assert tokenizer.pieces(text).offsets == [(0, 1), (0, 1), (0, 2), (1, 2), (2, 3)]
    _, spans = words_of(text, tokenizer, "pieces")
    assert spans.tolist() == [[0, 2]] * 4 + [[2, 3]]


def test_a_character_of_several_words_joins_them(unigram: Tokenizer) -> None:
    text = "abﷺ c"  # NFKC makes four words of one character
    _, spans = words_of(text, unigram)
    assert [*dict.fromkeys(map(tuple, spans.tolist()))] == [(0, 3), (4, 5)]


LETTERS_AND_MARKS = st.text(st.sampled_from("abZ .'-@é中\u0301\u200b\n\t/:hps"), max_size=20)


@pytest.mark.parametrize("rule", ["tokenizer", "spaces", "pieces"])
@pytest.mark.parametrize("kind", ["words", "bytes", "unigram"])
@settings(max_examples=20)
@given(texts=st.lists(LETTERS_AND_MARKS, max_size=9))
def test_words_do_not_depend_on_other_texts(
    rule: WordRule, kind: str, unigram: Tokenizer, texts: list[str]
) -> None:
    of = {"words": tokenizer, "bytes": byte_level_tokenizer(), "unigram": unigram}[kind]
    with pytest.MonkeyPatch.context() as patch:
        alone = [words_of(text, of, rule) for text in texts]
        for name in ("BULK", "MIN_BULK_CHARACTERS"):
            patch.setattr(encoder, name, 0)
        together = piece_words(texts, of, rule)
    for pieces, (ids, words) in zip(together, alone, strict=True):
        assert pieces.ids.tolist() == ids
        assert pieces.words.tolist() == words.tolist()


def test_blocks_are_limited_by_their_number_and_size_of_texts() -> None:
    assert [*in_blocks([], len)] == []
    assert [len(block) for block in in_blocks(["ab"] * 2500, len)] == [1024, 1024, 452]
    long = "a" * 2**18
    assert [*in_blocks(["b", long, long, "c"], len)] == [["b", long], [long], ["c"]]
