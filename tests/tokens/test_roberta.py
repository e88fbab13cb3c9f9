"""RoBERTa's tokenizer returns what the reference's returns, option by option."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tokens.reference import assert_same_call
from tests.tokens.test_call import CUTS, EVERYTHING, PADS

from heedful.errors import UserError
from heedful.tokens import RobertaTokenizer, Vocabulary
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.bytelevel_folder import ROBERTA

ONE = "A café, isn't it? 北京 <mask> unaffable"
LONG = "the quick brown fox jumps over the lazy dog and nobody minds at all " * 6 + "now"
TEXTS = [ONE, "", LONG, "x", "\n"]
PAIRS = ["No.\tIt was Müller's", LONG, "short one", "", "y z"]
WORDS = [["Hello", "unaffable", "", "U.N.", "</s>x"], [], ["x"]]
MORE_WORDS = [["Où", "北京"], ["a"], ["b", "c", "d"]]


@pytest.mark.parametrize(
    ("pairs", "special", "cut", "pad"), list(product((False, True), (True, False), CUTS, PADS))
)
def test_many_texts(
    roberta: RobertaTokenizer,
    roberta_reference: Any,
    pairs: bool,
    special: bool,
    cut: dict[str, Any],
    pad: dict[str, Any],
) -> None:
    options = {"max_length": 512, **cut} if cut.get("truncation") is True else cut
    options = {**options, **pad, **EVERYTHING, "add_special_tokens": special}
    # Without special tokens the reference says type 1, which the model does not have.
    options["return_token_type_ids"] = special or not pairs
    text_pair = PAIRS if pairs else None
    for overflow in (False, True):
        options["return_overflowing_tokens"] = overflow
        assert_same_call(
            roberta(TEXTS, text_pair, **options), roberta_reference(TEXTS, text_pair, **options)
        )


def test_a_model_that_tells_texts_by_no_type_gets_none(
    roberta: RobertaTokenizer, roberta_reference: Any
) -> None:
    ours, theirs = roberta(TEXTS, PAIRS), roberta_reference(TEXTS, PAIRS)
    assert_same_call(ours, theirs)
    assert list(ours) == ["input_ids", "attention_mask"]
    asked = roberta("a", "b", return_token_type_ids=True)
    assert (
        asked.input_ids
        == roberta.build_inputs_with_special_tokens([102], [428])
        == [0, 102, 2, 2, 428, 2]
    )
    assert asked.token_type_ids == [0] * 6


def test_padding_what_calls_returned(roberta: RobertaTokenizer, roberta_reference: Any) -> None:
    rows = [dict(roberta(text)) for text in TEXTS]
    padded = roberta.pad(rows)
    assert dict(padded) == dict(roberta_reference.pad(rows))
    assert padded["input_ids"][1][:3] == [0, 2, 1]


def test_texts_given_as_words(roberta: RobertaTokenizer, roberta_reference: Any) -> None:
    with pytest.raises(UserError, match="needs a tokenizer with add_prefix_space=True"):
        roberta(["a"], is_split_into_words=True)
    ours = RobertaTokenizer(roberta.vocabulary, roberta.merges, add_prefix_space=True)
    theirs = type(roberta_reference)(
        tokenizer_object=roberta_reference.backend_tokenizer.from_str(
            roberta_reference.backend_tokenizer.to_str()
        ),
        add_prefix_space=True,
    )
    options: dict[str, Any] = {**EVERYTHING, "is_split_into_words": True}
    # The reference leaves a letter out of the slice of a word behind a special token.
    words = [WORDS[0][:-1], *WORDS[1:]]
    assert_same_call(ours(words, **options), theirs(words, **options))
    assert_same_call(ours(words, MORE_WORDS, **options), theirs(words, MORE_WORDS, **options))
    row = ours(WORDS[0], **options)
    assert row.input_ids == theirs(WORDS[0], **options).input_ids
    assert (row.tokens()[-2], row.offset_mapping[-2], row.word_ids()[-2]) == ("Ġx", (4, 5), 4)


def test_known_ids(roberta: RobertaTokenizer) -> None:
    assert roberta.encode("Hello world!") == [0, 31414, 232, 328, 2]
    assert roberta.encode("Paris is the <mask> of France.") == [
        0, 32826, 16, 5, 50264, 9, 1470, 4, 2,
    ]  # fmt: skip


def test_the_names_of_special_tokens(roberta: RobertaTokenizer, roberta_reference: Any) -> None:
    for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        for part in (f"{name}_token", f"{name}_token_id"):
            assert getattr(roberta, part) == getattr(roberta_reference, part)
    assert sorted(roberta.all_special_ids) == sorted(roberta_reference.all_special_ids)
    assert len(roberta) == len(roberta_reference)
    assert roberta.get_vocab() == roberta_reference.get_vocab()
    assert roberta.tokenize(ONE) == [token.strip() for token in roberta_reference.tokenize(ONE)]


@given(
    ids=st.lists(
        st.one_of(st.integers(0, 50264), st.sampled_from([0, 2, 50264, 4, 6, 36, 50118])),
        max_size=12,
    )
)
def test_any_ids_are_decoded_as_by_the_reference(
    roberta: RobertaTokenizer, roberta_reference: Any, ids: list[int]
) -> None:
    for skip, tidy in product((False, True), repeat=2):
        options = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": tidy}
        assert roberta.decode(ids, **options) == roberta_reference.decode(ids, **options)
    assert roberta.decode(ids) == roberta_reference.decode(ids)
    tokens = roberta.convert_ids_to_tokens(ids)
    assert tokens == roberta_reference.convert_ids_to_tokens(ids)
    assert roberta.convert_tokens_to_string(tokens) == roberta_reference.convert_tokens_to_string(
        tokens
    )


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_ids_give_the_text_back(roberta: RobertaTokenizer, text: str) -> None:
    if "<" not in text:
        assert roberta.decode(roberta.encode_batch([text])[0]) == text


def test_words_go_on_where_no_space_begins_a_token(toy_roberta: RobertaTokenizer) -> None:
    ids = toy_roberta.vocabulary.ids
    going = {token for token in ids if toy_roberta.continues_word(ids[token])}
    assert {"a", "lo", "er", "."} < going
    assert not going & {"Ġ", "Ġlow", "ĠĠ", "Ċ", "<s>", "<mask>"}
    assert toy_roberta.text_of([ids["<s>"], ids["Ġlow"], ids["er"], ids["Ġa"]]) == "lower a"
    assert toy_roberta.text_of([]) == ""
    assert toy_roberta.continuation([ids["Ġa"]], [ids["<s>"], ids["Ġlow"], ids["er"]]) == " a"
    assert toy_roberta.continuation([ids["er"]], [ids["Ġlow"]]) == "er"


def test_other_special_tokens_take_spaces_or_not() -> None:
    special = replace(
        ROBERTA,
        mask_token="[M]",
        additional_special_tokens=("[E]",),
        lstrip=frozenset({"[E]"}),
    )
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "[M]", "[E]", *ALPHABET]
    ours = RobertaTokenizer(Vocabulary(tokens, special), [])
    assert ours.tokenize("a [M] \n[E][M]") == ["a", "Ġ", "[M]", "[E]", "[M]"]
