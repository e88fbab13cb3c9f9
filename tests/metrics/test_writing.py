"""Scores of translations, as the Conference on Machine Translation published them."""

import csv
import gzip
from pathlib import Path

import pytest

from heedful.metrics.writing import text_scores


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
