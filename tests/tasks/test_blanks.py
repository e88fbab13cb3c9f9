"""Filling masks and scoring second texts, with handmade scores."""

from pathlib import Path

import pytest
import torch
from tests.tiny import SPECIAL, byte_level_tokenizer
from tests.tiny_folders import write_folder

from heedful import BertTokenizer, UserError
from heedful.batches import Fitted
from heedful.batches.examples import Example
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.task import LengthLimit
from heedful.tasks.answers import filled_masks
from heedful.tasks.answers.filled_masks import Filled
from heedful.tasks.texts import text_records
from heedful.tokens import load_encoder_tokenizer
from heedful.tokens.vocabulary import Vocabulary

TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL, *"abcdefgh", "##s", "##t", "."]))
IDS = TOKENIZER.get_vocab()


def encoded(text: str | tuple[str, str], max_length: int = 64) -> tuple[Record, Fitted[Example]]:
    (record,) = text_records([text])
    fit = LengthLimit(max_length=max_length, long_text="window")
    return record, filled_masks.encode(record, TOKENIZER, fit, pairs=True)


def answered(text: str, *likely: str, max_length: int = 64, top: int = 2) -> Filled:
    """Answer a text whose masks are probably one token, and less probably another."""
    record, fitted = encoded(text, max_length)
    width = max(len(example.ids) for example in fitted.pieces)
    masks = [(example.ids == IDS["[MASK]"]).nonzero()[0] for example in fitted.pieces]
    positions, logits = [], []
    firsts = [start for start, _ in spans(text)]
    for row, (places, offsets) in enumerate(zip(masks, fitted.offsets, strict=True)):
        for place in places:
            scores = torch.zeros(len(TOKENIZER))
            best, second = likely[firsts.index(offsets[place][0])].split()
            scores[IDS[best]], scores[IDS[second]] = 3 + row / 10, 2
            logits.append(scores)
            positions.append(row * width + int(place))
    output = filled_masks.candidates(
        torch.stack(logits), None, torch.tensor(positions), torch.Size([len(masks), width]), top
    )
    return filled_masks.decode(record, fitted, list(output), PredictSettings(top=top), TOKENIZER)


def spans(text: str) -> list[tuple[int, int]]:
    found, start = [], text.find("[MASK]")
    while start >= 0:
        found.append((start, start + 6))
        start = text.find("[MASK]", start + 1)
    return found


def test_a_mask_is_filled_in_the_users_own_text() -> None:
    answer = answered("A  [MASK]  É c.", "d e")
    assert answer.text == "A  d  É c."
    (blank,) = answer.blanks
    assert (blank.start, blank.end) == (3, 9)
    assert [candidate.token for candidate in blank.candidates] == ["d", "e"]
    assert [candidate.text for candidate in blank.candidates] == ["A  d  É c.", "A  e  É c."]
    scores = torch.zeros(len(TOKENIZER))
    scores[IDS["d"]], scores[IDS["e"]] = 3, 2
    expected = scores.softmax(0)[[IDS["d"], IDS["e"]]].tolist()
    assert [candidate.score for candidate in blank.candidates] == pytest.approx(expected)


def test_a_filled_text_is_plain_on_one_line() -> None:
    answer = answered("a [MASK]\r\n\nb  c", "d e")
    assert answer.text == "a d\r\n\nb  c"
    assert answer.plain() == "a d b  c"


def test_pieces_stand_close_to_their_word() -> None:
    assert answered("a [MASK] b", "##s c").text == "as b"
    assert answered("a[MASK]b", "##s c").text == "asb"
    assert answered("[MASK] b", "##s c").text == "s b"


def test_several_masks_are_filled_each_by_itself() -> None:
    answer = answered("[MASK] b [MASK].", "a c", "##t d")
    assert answer.text == "a bt."
    first, second = answer.blanks
    assert [candidate.text for candidate in first.candidates] == ["a bt.", "c bt."]
    assert [candidate.text for candidate in second.candidates] == ["a bt.", "a b d."]


def test_spaces_before_a_mask_are_those_of_the_text_again_for_another_word() -> None:
    answer = answered(" [MASK] [MASK]  [MASK]", "##s c", "a ##t", "##t b")
    assert answer.text == "s at"
    assert [[one.text for one in blank.candidates] for blank in answer.blanks] == [
        ["s at", " c at"],
        ["s at", "stt"],
        ["s at", "s a  b"],
    ]


def test_candidates_of_many_masks_share_one_text() -> None:
    answer = answered("[MASK] " * 60, *["a c"] * 60, max_length=80)
    candidates = [one for blank in answer.blanks for one in blank.candidates]
    assert len(candidates) == 120
    assert {id(one.slot.filled) for one in candidates} == {id(answer.text)}
    assert all(len(one.word.text + one.slot.spaces) <= 2 for one in candidates)
    assert answer.blanks[59].candidates[1].text == "a " * 59 + "c "


def test_a_token_that_begins_with_a_space_stands_where_the_mask_stood() -> None:
    byte_level = byte_level_tokenizer()
    (record,) = text_records(["a <mask> lo<mask>."])
    fitted = filled_masks.encode(
        record, byte_level, LengthLimit(max_length=16, long_text="window"), pairs=False
    )
    positions = (fitted.pieces[0].ids == byte_level.mask_token_id).nonzero()[0]
    logits = torch.zeros(2, len(byte_level))
    for row, token in zip(logits, ("Ġlow", "er"), strict=True):
        row[byte_level.get_vocab()[token]] = 3
    output = filled_masks.candidates(
        logits, None, torch.tensor(positions), torch.Size([1, len(fitted.pieces[0].ids)]), 1
    )
    answer = filled_masks.decode(record, fitted, list(output), PredictSettings(top=1), byte_level)
    assert answer.text == "a low loer."
    assert [one.candidates[0].token for one in answer.blanks] == ["Ġlow", "er"]


def test_the_space_before_a_mask_stays(tmp_path: Path) -> None:
    write_folder("albert", tmp_path / "model")
    unigram = load_encoder_tokenizer(tmp_path / "model")
    text = "b [MASK] c  [MASK]."
    assert text[slice(*unigram.pieces(text).offsets[2])] == " [MASK]"  # as in the reference
    (record,) = text_records([text])
    fitted = filled_masks.encode(
        record, unigram, LengthLimit(max_length=16, long_text="window"), pairs=False
    )
    positions = (fitted.pieces[0].ids == unigram.mask_token_id).nonzero()[0]
    logits = torch.zeros(2, len(unigram))
    for row, token in zip(logits, ("▁a", "d"), strict=True):
        row[unigram.vocabulary.ids[token]] = 3
    shape = torch.Size([1, len(fitted.pieces[0].ids)])
    output = filled_masks.candidates(logits, None, torch.tensor(positions), shape, 1)
    answer = filled_masks.decode(record, fitted, list(output), PredictSettings(top=1), unigram)
    assert answer.text == "b a cd."
    assert [text[one.start : one.end] for one in answer.blanks] == ["[MASK]", "[MASK]"]


def test_special_tokens_fill_no_mask() -> None:
    answer = answered("a [MASK]", "[UNK] [MASK]", top=3)
    tokens = [candidate.token for candidate in answer.blanks[0].candidates]
    assert len(tokens) == 3
    assert not set(tokens) & set(SPECIAL)


def test_a_mask_in_two_windows_is_read_where_it_has_more_text_around_it() -> None:
    text = "a b c d e f g [MASK] a b c d e f"
    _, fitted = encoded(text, max_length=12)
    assert len(fitted.pieces) == 2
    places = [int((example.ids == IDS["[MASK]"]).nonzero()[0][0]) for example in fitted.pieces]
    around = [min(at, 11 - at) for at in places]
    answer = answered(text, "h a", max_length=12)
    # `answered` makes each window's score of the likeliest token a little higher than the last's.
    logits = [torch.zeros(len(TOKENIZER)) for _ in places]
    for row, scores in enumerate(logits):
        scores[IDS["h"]], scores[IDS["a"]] = 3 + row / 10, 2
    best = around.index(max(around))
    expected = float(logits[best].softmax(0)[IDS["h"]])
    assert answer.blanks[0].candidates[0].score == pytest.approx(expected)
    assert around[0] != around[1]


def test_a_mask_that_was_not_read_has_no_candidates() -> None:
    (record,) = text_records(["a [MASK] b c d e f g h a b [MASK]"])
    fit = LengthLimit(max_length=8, long_text="head")
    fitted = filled_masks.encode(record, TOKENIZER, fit, pairs=True)
    assert fitted.tokens_used < fitted.tokens_total
    scores = torch.zeros(1, len(TOKENIZER))
    scores[0, IDS["d"]] = 3
    rows = filled_masks.candidates(scores, None, torch.tensor([2]), torch.Size([1, 8]), 1)
    answer = filled_masks.decode(record, fitted, list(rows), PredictSettings(top=1), TOKENIZER)
    assert answer.text == "a d b c d e f g h a b [MASK]"
    assert [len(blank.candidates) for blank in answer.blanks] == [1, 0]


def test_a_pair_is_told_whether_it_follows() -> None:
    record, fitted = encoded(("a b", "c"))
    follows = torch.tensor([[1.0, -1.0]])
    none = torch.empty(0, len(TOKENIZER))
    rows = filled_masks.candidates(
        none, follows, torch.empty(0, dtype=torch.int64), torch.Size([1, 6]), 5
    )
    answer = filled_masks.decode(record, fitted, list(rows), PredictSettings(top=5), TOKENIZER)
    assert answer.next_sentence == pytest.approx(float(follows.softmax(1)[0, 0]))
    assert answer.to_dict()["next_sentence"] == round(answer.next_sentence, 6)
    assert answer.plain() == f"{answer.next_sentence:.6f}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", r"^text, line 1: no \[MASK\] in the text; write it where a word is missing"),
        ("", r"^text, line 1: no \[MASK\] in the text"),
        ("a [mask]", r"^text, line 1: '\[mask\]' is not a mask; write \[MASK\]$"),
        ("a [MASK] [Mask]", r"'\[Mask\]' is not a mask"),
        ("a <mask>", r"'<mask>' is not a mask"),
        (("a", " "), r"^text, line 1: the second text of the pair is empty"),
        (("", "a"), r"^text, line 1: the first text of the pair is empty"),
    ],
)
def test_what_cannot_be_answered_is_named(text: str | tuple[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        encoded(text)


def test_a_mark_of_another_kind_beside_a_mask_is_text() -> None:
    assert encoded("a [MASK] <mask>")[1].pieces


def test_a_pair_needs_a_model_that_learnt_pairs() -> None:
    (record,) = text_records([("a", "b")])
    with pytest.raises(UserError, match=r"line 1: a pair, but this run takes single texts"):
        filled_masks.encode(
            record, TOKENIZER, LengthLimit(max_length=8, long_text="window"), pairs=False
        )


def targeted(*targets: str) -> Filled:
    record, fitted = encoded("[MASK] b")
    scores = torch.arange(len(TOKENIZER)).float()[None]
    rows = filled_masks.candidates(
        scores, None, torch.tensor([1]), torch.Size([1, 4]), len(TOKENIZER)
    )
    return filled_masks.decode(
        record, fitted, list(rows), PredictSettings(targets=targets), TOKENIZER
    )


def test_a_mask_is_filled_with_one_of_the_targets() -> None:
    (blank,) = targeted("A", "c", "##s").blanks
    assert [candidate.token for candidate in blank.candidates] == ["##s", "c", "a"]
    everything = targeted().blanks[0].candidates
    assert len(everything) == 5
    assert [one.score for one in everything if one.token == "##s"] == pytest.approx(
        [blank.candidates[0].score]
    )


@pytest.mark.parametrize("target", ["z", "a b", "[CLS]", ""])
def test_a_target_is_one_word_of_the_vocabulary(target: str) -> None:
    with pytest.raises(UserError, match="not a token of the vocabulary"):
        targeted("a", target)
