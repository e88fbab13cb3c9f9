"""A call returns the same as the reference's call, option by option."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from tests.tokens.reference import assert_same_call

from heedful.errors import UserError
from heedful.sources import resolve
from heedful.tokens import BertTokenizer, load_tokenizer

ONE = "A café, isn't it? 北京 [MASK] unaffable"
OTHER = "No.\tIt was Müller's"
LONG = "the quick brown fox jumps over the lazy dog and nobody minds at all " * 6
TEXTS = [ONE, "", LONG, "x", " \n "]
PAIRS = [OTHER, LONG, "short one", "", "y z"]
WORDS = [["Hello", "unaffable", "", "U.N.", "[SEP]x"], [], ["x"]]
MORE_WORDS = [["Où", "北京"], ["a"], ["b", "c", "d"]]

EVERYTHING: dict[str, Any] = {
    "return_offsets_mapping": True,
    "return_special_tokens_mask": True,
    "return_length": True,
    "return_token_type_ids": True,
    "return_attention_mask": True,
}


CUTS: list[dict[str, Any]] = [
    {},
    {"truncation": True},
    {"truncation": True, "max_length": 8},
    {"truncation": "longest_first", "max_length": 16, "stride": 2},
    {"truncation": "only_first", "max_length": 104},
    {"truncation": "do_not_truncate"},
]
PADS: list[dict[str, Any]] = [
    {},
    {"padding": True},
    {"padding": "longest", "pad_to_multiple_of": 8},
    {"padding": "do_not_pad"},
]


@pytest.mark.parametrize(
    ("pairs", "special", "cut", "pad"), list(product((False, True), (True, False), CUTS, PADS))
)
def test_many_texts(
    uncased: BertTokenizer,
    reference: Any,
    pairs: bool,
    special: bool,
    cut: dict[str, Any],
    pad: dict[str, Any],
) -> None:
    options = {**cut, **pad, **EVERYTHING, "add_special_tokens": special}
    text_pair = PAIRS if pairs else None
    for overflow in (False, True):
        options["return_overflowing_tokens"] = overflow
        assert_same_call(
            uncased(TEXTS, text_pair, **options), reference(TEXTS, text_pair, **options)
        )


@pytest.mark.parametrize("tensors", ["pt", "np"])
@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("pairs", [False, True])
def test_tensors_of_many_texts(
    uncased: BertTokenizer, reference: Any, pairs: bool, special: bool, tensors: Any
) -> None:
    texts, second_texts = TEXTS * 3, PAIRS * 3  # so many that no lists are made in between
    for cut, pad in product(CUTS[:-1], PADS[1:3]):
        if cut.get("max_length", 8) % pad.get("pad_to_multiple_of", 1):
            continue  # refused
        options = {**cut, **pad, **EVERYTHING, "add_special_tokens": special}
        for overflow in (False, True):
            options |= {"return_overflowing_tokens": overflow, "return_tensors": tensors}
            assert_same_call(
                uncased(texts, second_texts if pairs else None, **options),
                reference(texts, second_texts if pairs else None, **options),
            )


def test_tensors_of_texts_and_pairs_side_by_side(uncased: BertTokenizer) -> None:
    mixed = [ONE, (OTHER, ONE), "", (LONG, ""), LONG]
    lists = uncased(mixed, padding=True, **EVERYTHING)
    tensors = uncased(mixed, padding=True, return_tensors="np", **EVERYTHING)
    assert {name: rows.tolist() for name, rows in tensors.items()} == {
        name: [[[*item] if isinstance(item, tuple) else item for item in row] for row in rows]
        if name != "length"
        else rows
        for name, rows in lists.items()
    }


@pytest.mark.parametrize("stride", [0, 1, 4])
@pytest.mark.parametrize("max_length", [24, 31, 40])
@pytest.mark.parametrize("truncation", ["longest_first", "only_second", "only_first"])
def test_windows_of_pairs(
    uncased: BertTokenizer, reference: Any, truncation: str, max_length: int, stride: int
) -> None:
    question, context = "who minds the lazy dog?", LONG
    if truncation == "only_first":
        question, context = context, question
    options = {
        "truncation": truncation,
        "max_length": max_length,
        "stride": stride,
        "return_overflowing_tokens": True,
        "padding": "max_length",
        **EVERYTHING,
    }
    questions, contexts = [question, "x"], [context, "y"]
    ours = uncased(questions, contexts, **options)
    assert_same_call(ours, reference(questions, contexts, **options))
    assert len(ours["input_ids"]) > 3
    # Windows of both texts at once.
    assert_same_call(
        uncased([LONG], [LONG], **(options | {"truncation": True})),
        reference([LONG], [LONG], **(options | {"truncation": True})),
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": True, "return_tensors": "pt"},
        {"padding": "max_length", "max_length": 20, "truncation": True},
        {"truncation": True, "max_length": 5, "stride": 1, "return_overflowing_tokens": True},
    ],
)
def test_texts_given_as_words(
    uncased: BertTokenizer, reference: Any, options: dict[str, Any]
) -> None:
    options = {**options, **EVERYTHING, "is_split_into_words": True}
    assert_same_call(uncased(WORDS, **options), reference(WORDS, **options))
    assert_same_call(uncased(WORDS[0], **options), reference(WORDS[0], **options))
    assert_same_call(uncased([], **options), reference([], **options))
    if "stride" not in options:
        assert_same_call(
            uncased(WORDS, MORE_WORDS, **options), reference(WORDS, MORE_WORDS, **options)
        )


@pytest.mark.parametrize("tensors", [None, "pt", "np"])
@pytest.mark.parametrize("pair", [None, OTHER])
def test_one_text(uncased: BertTokenizer, reference: Any, pair: str | None, tensors: Any) -> None:
    assert_same_call(
        uncased(ONE, pair, return_tensors=tensors, **EVERYTHING),
        reference(ONE, pair, return_tensors=tensors, **EVERYTHING),
    )
    windows: dict[str, Any] = {
        "max_length": 14,
        "truncation": True,
        "return_overflowing_tokens": True,
        "padding": True,
        "return_tensors": tensors,
    }
    assert_same_call(
        uncased(LONG, pair, **windows, **EVERYTHING), reference(LONG, pair, **windows, **EVERYTHING)
    )


@pytest.mark.parametrize("truncation", ["longest_first", "only_second", "only_first"])
def test_no_room_for_any_text(uncased: BertTokenizer, reference: Any, truncation: str) -> None:
    options: dict[str, Any] = {"truncation": truncation, "max_length": 3, **EVERYTHING}
    assert_same_call(uncased(ONE, OTHER, **options), reference(ONE, OTHER, **options))
    # The reference would give all that does not fit one row, however long.
    with pytest.raises(UserError, match="room for"):
        uncased(ONE, OTHER, return_overflowing_tokens=True, **options)


def test_a_list_of_pairs(uncased: BertTokenizer, reference: Any) -> None:
    pairs = list(zip(TEXTS, PAIRS, strict=True))
    assert_same_call(uncased(pairs, **EVERYTHING), reference(pairs, **EVERYTHING))


def test_items_that_were_not_asked_for_are_left_out(uncased: BertTokenizer, reference: Any) -> None:
    options: dict[str, Any] = {"return_token_type_ids": False, "return_attention_mask": False}
    assert_same_call(uncased(TEXTS, **options), reference(TEXTS, **options))
    assert_same_call(uncased(TEXTS), reference(TEXTS))


def test_known_ids(uncased: BertTokenizer) -> None:
    assert uncased.encode("PyTorch is a great framework for NLP") == [
        101, 1052, 22123, 2953, 2818, 2003, 1037, 2307, 7705, 2005, 17953, 2361, 102,
    ]  # fmt: skip
    assert uncased.encode("I like natural language progressing!") == [
        101, 1045, 2066, 3019, 2653, 27673, 999, 102,
    ]  # fmt: skip


def test_encode_and_tokenize(uncased: BertTokenizer, reference: Any) -> None:
    assert uncased.encode(ONE, OTHER) == reference.encode(ONE, OTHER)
    cut: dict[str, Any] = {"truncation": True, "max_length": 7}
    assert uncased.encode(ONE, **cut) == reference.encode(ONE, **cut)
    assert uncased.encode(ONE, add_special_tokens=False) == uncased.encode_batch([ONE])[0]
    words = ["Où", "unaffable"]
    assert uncased.encode(words, is_split_into_words=True) == reference.encode(
        words, is_split_into_words=True
    )
    assert uncased.tokenize(ONE) == reference.tokenize(ONE)
    row = uncased.encode(ONE, OTHER, return_tensors="pt")
    assert row.tolist() == [reference.encode(ONE, OTHER)]


def test_older_names_of_a_call(uncased: BertTokenizer, reference: Any) -> None:
    options: dict[str, Any] = {"padding": "max_length", "max_length": 20, "truncation": True}
    assert uncased.encode_plus(ONE, OTHER, **options) == dict(
        reference.encode_plus(ONE, OTHER, **options)
    )
    pairs = [(ONE, OTHER), (OTHER, "")]
    assert uncased.batch_encode_plus(pairs, padding=True) == dict(
        reference.batch_encode_plus(pairs, padding=True)
    )


def test_rows_are_built_as_calls_build_them(uncased: BertTokenizer) -> None:
    first, second = uncased.encode_batch([ONE, OTHER])
    for texts, parts in (((ONE,), (first,)), ((ONE, OTHER), (first, second))):
        row = uncased(*texts, return_special_tokens_mask=True)
        ids = uncased.build_inputs_with_special_tokens(*parts)
        assert ids == row.input_ids
        assert uncased.create_token_type_ids_from_sequences(*parts) == row.token_type_ids
        assert uncased.get_special_tokens_mask(*parts) == row.special_tokens_mask
        mask = uncased.get_special_tokens_mask(ids, already_has_special_tokens=True)
        assert mask == [int(token_id in uncased.all_special_ids) for token_id in ids]
        added = uncased.num_special_tokens_to_add(pair=len(parts) == 2)
        assert len(ids) == sum(map(len, parts)) + added


def test_no_text_is_cut_unasked(toy: BertTokenizer) -> None:
    text = "hello " * 100
    assert len(toy(text).input_ids) == 102
    assert len(toy([text, "a"], padding=True).input_ids[1]) == 102
    assert len(toy(text, padding="max_length", max_length=20).input_ids) == 102
    assert len(toy(text, truncation=True).input_ids) == 16  # model_max_length


def test_an_empty_second_text_is_a_second_text_alone_too(toy: BertTokenizer) -> None:
    # The reference counts it as one in a batch and as none in a single call.
    assert (
        toy("a", "").input_ids
        == toy(["a"], [""]).input_ids[0]
        == toy.build_inputs_with_special_tokens([11], [])
    )


def test_no_texts_make_no_rows(toy: BertTokenizer) -> None:
    assert dict(toy([], padding=True)) == {
        "input_ids": [],
        "token_type_ids": [],
        "attention_mask": [],
    }


WINDOWS = {"truncation": True, "return_overflowing_tokens": True}


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("a",), {"padding": "longst"}, "did you mean 'longest'"),
        (("a",), {"padding": 3}, "padding 3; allowed"),
        (("a",), {"truncation": "first_only"}, "truncation 'first_only'"),
        (("a",), {"truncation": True, "max_length": 1}, "the 2 special tokens of a row do not fit"),
        (("a",), {"truncation": True, "max_length": -1}, "max_length -1: must be a whole number"),
        (("a",), {"truncation": True, "max_length": 7.5}, "max_length 7.5: must be a whole number"),
        (("a",), {"truncation": True, "max_length": True}, "max_length True: must be a whole"),
        (("a",), {"max_length": 8}, "max_length 8 alone changes nothing"),
        (("a",), {"padding": True, "max_length": 8}, "max_length 8 alone changes nothing"),
        (("a",), {"stride": -1}, "stride -1: must be a whole number from 0"),
        (("a",), {"pad_to_multiple_of": 0}, "pad_to_multiple_of 0: must be"),
        (("a a a a",), WINDOWS | {"max_length": 4, "stride": 2}, "stride 2 is not below the 2 tok"),
        (("a", "a a"), WINDOWS | {"max_length": 4}, "stride 0 is not below the 0 tokens"),
        (
            ("a",),
            {"truncation": True, "padding": True, "max_length": 9, "pad_to_multiple_of": 8},
            "max_length 9 is not a multiple of pad_to_multiple_of 8",
        ),
        (("a a a",), {"truncation": "only_second", "max_length": 3}, "there is no second text"),
        (
            ("a a a a", "a"),
            {"truncation": "only_second", "max_length": 7},
            "the first text alone has 4 tokens and a row has room for 4 of both",
        ),
        (
            ("a", "a a a a"),
            {"truncation": "only_first", "max_length": 7},
            "the second text alone has 4 tokens and a row has room for 4 of both",
        ),
        ((["a", "a a"],), {"return_tensors": "pt"}, "no tensor can hold rows of 3 to 4 tokens"),
        (
            (["a " * 600, "a"],),
            {"return_tensors": "pt"},
            "no tensor can hold rows of 3 to 602 tokens",
        ),
        ((["a"],), {"return_tensors": "tf"}, "return_tensors 'tf': must be 'pt', 'np' or None"),
        ((3,), {}, "text is a int: must be text"),
        ((None,), {}, "text is None: must be text"),
        ((["a", 3],), {}, "text 1 is a int: must be text"),
        ((["a", ["b"]],), {}, "text 1 is a list: must be text; for words give is_split_into_words"),
        ((["a", "b"], "c"), {}, "text_pair: str for a list of 2 texts"),
        ((["a", "b"], ["c"]), {}, "text_pair: 1 texts for a list of 2 texts"),
        (("a", ["b"]), {}, "text_pair is a list: must be text"),
        ((["a", None],), {"is_split_into_words": True}, "text, word 1 is None: must be text"),
        (("a",), {"is_split_into_words": True}, "text is a str: must be a list of words"),
    ],
)
def test_what_a_call_refuses(
    toy: BertTokenizer, arguments: tuple[Any, ...], options: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        toy(*arguments, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_text_is_no_list_of_letters(toy: BertTokenizer) -> None:
    with pytest.raises(UserError, match="takes a list of texts, not one text"):
        toy.encode_batch("hello")


def test_truncation_needs_to_know_a_length(toy: BertTokenizer) -> None:
    unknown = BertTokenizer(toy.vocabulary)
    with pytest.raises(UserError, match="give max_length"):
        unknown("a", truncation=True)
    with pytest.raises(UserError, match="give max_length"):
        unknown("a", padding="max_length")


def test_a_misspelt_keyword_is_an_error(toy: BertTokenizer) -> None:
    with pytest.raises(TypeError, match="truncate"):
        toy("a", truncate=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("padding_side", "left"),
        ("truncation_side", "left"),
        ("pad_token", "no such token"),
    ],
)
def test_an_attribute_that_rows_would_not_follow_is_refused(name: str, value: object) -> None:
    tokenizer = load_tokenizer(resolve("minilm"))
    with pytest.raises(UserError, match=name):
        setattr(tokenizer, name, value)


def test_attributes_that_calls_read_can_be_set() -> None:
    tokenizer = load_tokenizer(resolve("minilm"))
    tokenizer.padding_side = "right"
    tokenizer.model_max_length = 4
    assert len(tokenizer("a b c d e", truncation=True)["input_ids"]) == 4
