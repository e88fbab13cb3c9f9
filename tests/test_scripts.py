"""What stands between texts that are joined."""

import pytest

from heedful.scripts import join, space_between


@pytest.mark.parametrize(
    ("before", "after", "space"),
    [
        ("他来了。", "她走了", ""),
        ("他说：“走。”", "“不走”", ""),
        ("好", "吃", ""),
        ("行った", "はい", ""),
        ("Done.", "He left", " "),
        ("우리는", "간다", " "),
        ("用", "BERT", " "),
        ("BERT", "模型", " "),
        ("BERT。", "It", ""),
        ("It", "（他）", ""),
        ("on 3 May.", "“Yes”", " "),
        ("二〇二〇年", "〇月", ""),
        ("", "他", ""),
        ("a", "", ""),
    ],
)
def test_the_scripts_at_a_seam_decide(before: str, after: str, space: str) -> None:
    assert space_between(before, after) == space


def test_many_texts_are_joined() -> None:
    assert join([]) == ""
    assert join(["甲。", "乙。", "C d.", "E"]) == "甲。乙。C d. E"
