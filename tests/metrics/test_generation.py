"""Scores of translations, as published by the Conference on Machine Translation."""

import csv
import gzip
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.metrics import generation
from heedful.metrics.generation import bleu_tokenizer, text_scores


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        return [line.rstrip("\n") for line in stream]


def test_the_published_score_of_a_system(data_folder: Path) -> None:
    folder = data_folder / "wmt21_en_de"
    written = _lines(folder / "newstest2021.de-en.hyp.Facebook-AI.en.gz")
    right = _lines(folder / "newstest2021.de-en.ref.A.en.gz")
    published = {
        row[4]: float(row[5])
        for row in csv.reader(_lines(folder / "automatic-scores.tsv.gz"), delimiter="\t")
        if row[:2] == ["de-en", "Facebook-AI"]
    }
    scores = text_scores(written, right, cased=True)
    assert scores["bleu"] == published["bleu-A"] == 33.99789664597108
    assert scores["chrf"] == pytest.approx(published["chrf-A"], abs=1e-9)
    assert scores["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")


def test_capital_letters() -> None:
    written, right = ["A Dog runs in the park ."] * 2, ["a dog runs in the park ."] * 2
    scores = text_scores(written, right, cased=True)
    assert scores["bleu_lowercase"] == pytest.approx(100)
    assert scores["bleu"] < 90
    assert scores["chrf"] < 100
    assert text_scores(written, right, cased=False)["bleu"] == pytest.approx(100)
    assert "case:lc" in scores["signatures"]["bleu_lowercase"]


def test_chinese_is_cut_into_characters() -> None:
    written, right = ["我们今天去北京。"], ["我们明天去北京。"]
    assert text_scores(written, right, cased=True)["bleu"] == 0  # one word, and a wrong one
    scores = text_scores(written, right, cased=True, tokenize="zh")
    assert scores["bleu"] == pytest.approx(50, abs=10)
    for name in ("bleu", "bleu_lowercase"):
        assert "|tok:zh|" in scores["signatures"][name]
    assert "tok" not in scores["signatures"]["chrf"]
    mixed = text_scores(["用 BERT 模型"], ["用BERT模型"], cased=True, tokenize="zh")
    assert mixed["bleu"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("他来了。BERT", "zh"),
        ("他來了，說：「Hello」", "zh"),
        ("Anna liest Tolstoi. 你好", "13a"),
        ("오늘은 날씨가 좋다", "13a"),
        ("", "13a"),
    ],
)
def test_the_script_chooses_the_tokenizer(text: str, name: str) -> None:
    assert bleu_tokenizer([text, ""]) == name


@pytest.mark.parametrize(("installed", "name"), [(True, "ja-mecab"), (False, "char")])
def test_japanese_needs_a_package(
    monkeypatch: pytest.MonkeyPatch, installed: bool, name: str
) -> None:
    monkeypatch.setattr(generation, "find_spec", lambda module: installed or None)
    assert bleu_tokenizer(["彼は来た"]) == name
    if not installed:
        with pytest.raises(UserError, match=r"pip install 'heedful\[japanese\]'"):
            text_scores(["a"], ["a"], cased=True, tokenize="ja-mecab")
