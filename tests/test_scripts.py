"""The separators of joined texts."""

import pytest

from heedful.scripts import join, remove_extra_spaces, space_between


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
        ("ジョン・", "Smith", ""),
        ("", "他", ""),
        ("a", "", ""),
    ],
)
def test_the_scripts_at_a_seam_decide(before: str, after: str, space: str) -> None:
    assert space_between(before, after) == space


def test_many_texts_are_joined() -> None:
    assert join([]) == ""
    assert join(["甲。", "乙。", "C d.", "E"]) == "甲。乙。C d. E"


@pytest.mark.parametrize(
    ("spaced", "text"),
    [
        ("他 说 ： “ 你 好 ！ ” （ 完 ）", "他说：“你好！”（完）"),
        ("2020 年 ， bert 发 布 了", "2020 年，bert 发布了"),
        ("真 的? 是. i am", "真的?是. i am"),
        ("約 翰 · 史 — — 東 京 で す", "約翰·史——東京です"),
        ("한국어 입니다, it's 5 o'clock.", "한국어 입니다, it's 5 o'clock."),
        ("", ""),
    ],
)
def test_spaces_between_joined_words_are_dropped_where_none_was(spaced: str, text: str) -> None:
    assert remove_extra_spaces(spaced) == text
