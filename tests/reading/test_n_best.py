from pathlib import Path

import pytest

from heedful import UserError
from heedful.reading.n_best import NBestEntry, read_n_best


def test_texts_and_objects_are_hypotheses(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"id": 3, "hypotheses": ["one", {"text": "two", "source": 1}]}\n'
        '\n{"hypotheses": [{"text": "three", "score": -1, "scores": [2]}]}\n'
    )
    first, second = read_n_best(path)
    assert first.entries == (
        NBestEntry(text="one", score=None, others={}, where=f"{path}, line 1, hypothesis 1"),
        NBestEntry(
            text="two", score=None, others={"source": 1}, where=f"{path}, line 1, hypothesis 2"
        ),
    )
    assert first.others == {"id": 3}
    where = f"{path}, line 3, hypothesis 1"
    others = {"scores": [2]}
    assert second.entries == (NBestEntry(text="three", score=-1.0, others=others, where=where),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", r"line 2: no 'hypotheses'; its keys: none$"),
        ('{"hypothesis": ["a"]}', r"line 2: no 'hypotheses' \(did you mean 'hypothesis'\?\)"),
        (
            '{"hypotheses": []}',
            r"line 2: 'hypotheses': expected at least one, found an empty list",
        ),
        ('{"hypotheses": "a"}', r"line 2: 'hypotheses': expected a list, found a string"),
        ('{"hypotheses": ["a", " "]}', r"line 2, hypothesis 2: the text is empty"),
        ('{"hypotheses": [{"score": 1}]}', r"line 2, hypothesis 1: expected a text"),
        ('{"hypotheses": [7]}', r"line 2, hypothesis 1: expected a text, or an object with one"),
        ('{"hypotheses": [{"text": "a", "score": "b"}]}', r"hypothesis 1: the score must be a num"),
        ('{"hypotheses": [{"text": "a", "score": true}]}', r"the score must be a number"),
        (f'{{"hypotheses": [{{"text": "a", "score": {10**400}}}]}}', r"the score must be a number"),
        (
            '{"hypotheses": [{"text": "a", "score": -9}, "b"]}',
            r"line 2, hypothesis 2: no 'score'; all hypotheses of a list have one, or none has$",
        ),
        (
            '{"hypotheses": [{"text": "a", "lm_score": -1}, {"text": "b", "score": -9}]}',
            r"hypothesis 1: no 'score' \(did you mean 'lm_score'\?\); all hypotheses",
        ),
        (
            '{"hypotheses": [{"text": "a", "Score": -1}, {"text": "b"}]}',
            r"line 2, hypothesis 1: no 'score' \(did you mean 'Score'\?\); all hypotheses",
        ),
        ('{"hypotheses": ["a"', r"line 2, column 20: not JSON"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"hypotheses": ["a"]}\n' + line + "\n")
    lists = read_n_best(path)
    next(lists)
    with pytest.raises(UserError, match=message):
        next(lists)


def test_files_without_lists_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n")
    with pytest.raises(UserError, match="holds no lists"):
        list(read_n_best(path))
    with pytest.raises(UserError, match="no such file"):
        read_n_best(tmp_path / "b.jsonl")
