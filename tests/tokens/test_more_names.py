"""Names of the reference's tokenizers that code for it uses give the same values."""

from pathlib import Path

import pytest
import transformers
from tests.tiny_folders import write_folder

import heedful
from heedful.arguments import UnknownArgumentError


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("bert", "BertTokenizerFast", "BertTokenizer"),
        ("roberta", "RobertaTokenizerFast", "RobertaTokenizer"),
        ("xlnet", "XLNetTokenizerFast", "XLNetTokenizer"),
    ],
)
def test_tokens_of_pairs_and_types_of_padding(
    tmp_path: Path, name: str, theirs: str, ours: str
) -> None:
    write_folder(name, tmp_path / "model")
    right = getattr(transformers, theirs).from_pretrained(tmp_path / "model")
    mine = getattr(heedful, ours).from_pretrained(tmp_path / "model")
    assert mine.pad_token_type_id == right.pad_token_type_id
    for pair in (None, "the dog"):
        for special in (False, True):
            options = {"pair": pair, "add_special_tokens": special}
            assert mine.tokenize("a b c", **options) == right.tokenize("a b c", **options)
    expected, encoding = right(["a b", "c"], ["c d", "d"]), mine(["a b", "c"], ["c d", "d"])
    for row in (0, 1):
        for index in range(len(encoding["input_ids"][row])):
            assert encoding.token_to_sequence(row, index) == expected.token_to_sequence(row, index)
    assert encoding.token_to_sequence(1) == expected.token_to_sequence(1)


def test_the_target_is_no_second_text(tiny_model: Path) -> None:
    tokenizer = heedful.BertTokenizer.from_pretrained(tiny_model)
    with pytest.raises(UnknownArgumentError, match="call the tokenizer on the target, and give"):
        tokenizer("a", text_target="b")  # type: ignore[call-arg]
