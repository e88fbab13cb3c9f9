"""A report of every task: one document with all its parts, and nothing else."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.browser import PHONE, Browser, assert_accessible
from tests.golden.asking import command
from tests.golden.copies import LATEST, ONE_OF_EACH, copy_to

import heedful
from heedful.cli import run
from heedful.commands.report import path_of, report_of_folder
from heedful.errors import UserError
from heedful.metrics.texts import score_text
from heedful.pages.language import Language

LARGEST = 400_000
"""Bytes of a report."""


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_to(tmp_path_factory.mktemp("reports"))


@pytest.fixture(autouse=True)
def in_golden(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden)


def text_of(html: str) -> str:
    """Return the text of a document, without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.split("<main")[1]))


@pytest.fixture
def english_alone(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Collect the sentences of reports that have no Chinese translation."""
    lacking: set[str] = set()
    translate = Language.sentence

    def sentence(language: Language, english: str) -> str:
        said = translate(language, english)
        if language.name != "en" and said == english:
            lacking.add(english)
        return said

    monkeypatch.setattr(Language, "sentence", sentence)
    return lacking


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_golden_run_is_reported(name: str, tmp_path: Path, english_alone: set[str]) -> None:
    out = tmp_path / "report.html"
    scores = json.loads(command(["evaluate", *ONE_OF_EACH[name]]))
    command(["report", *ONE_OF_EACH[name], "--out", str(out)])
    html = out.read_text("utf-8")
    said = text_of(html)
    for key, value in scores.items():
        if isinstance(value, float) and key != "tokens_per_second":
            assert f"{key} {score_text(value)}" in said, key
    assert english_alone <= {"BLEU"}, "chinese.json lacks these"
    assert "All were read completely" in said
    assert "The first answers" in said
    assert len(html) < LARGEST
    assert not re.search(r'(src|href)="(?!data:|#)', html)
    assert not re.search(r"\sstyle=|\son\w+=", html), "the policy of the document refuses these"


def test_without_data_it_says_what_the_folder_knows(tmp_path: Path) -> None:
    command(["report", "classify", "--out", str(tmp_path / "before.html")])
    before = text_of((tmp_path / "before.html").read_text("utf-8"))
    assert "heedful report RUN --data FILE" in before
    assert "Gives each text one of 3 labels" in before
    command(["evaluate", *ONE_OF_EACH["classify"]])
    command(["report", "classify", "--out", str(tmp_path / "after.html")])
    after = text_of((tmp_path / "after.html").read_text("utf-8"))
    assert "accuracy 1.0000" in after
    assert "Rows are true labels" in after


def test_a_model_from_scratch_is_named_by_its_sizes(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LATEST / "classify", tmp_path / "run"))
    record = json.loads((folder / "heedful.json").read_text("utf-8"))
    record["settings"] |= {"model": "minilm", "preset": "mini"}
    (folder / "heedful.json").write_text(json.dumps(record), "utf-8")
    assert "initial model mini " in text_of(report_of_folder(folder).html)
    assert "initial model start-shared " in text_of(report_of_folder(LATEST / "translate").html)


def test_the_report_of_the_current_folder_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("classify")
    assert "<h1>Report: classify</h1>" in report_of_folder(Path()).html


def test_small_scores_keep_three_digits(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LATEST / "regress", tmp_path / "run"))
    scores = {"items": 4, "mse": 1.254e-14, "pearson": 0.00125, "spearman": 0.0}
    (folder / "metrics.json").write_text(json.dumps(scores), "utf-8")
    said = text_of(report_of_folder(folder).html)
    assert "mse 1.25e-14 pearson 0.0013 spearman 0.0000" in said


def test_a_run_that_is_still_learning_and_a_single_item(tmp_path: Path) -> None:
    path = Path(shutil.copytree(LATEST / "classify", tmp_path / "young"))
    data = tmp_path / "new.csv"
    data.write_text("text,label\nthe very red cat sleeps,animal\n", "utf-8")
    single = text_of(heedful.report(path, data).html)
    assert "1 items of new.csv" not in single
    assert "1 item of new.csv" in single
    (path / "manifest.json").unlink()
    (path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n', "utf-8")
    assert "Training loss" in text_of(heedful.report(path).html)


def test_texts_that_were_cut_are_counted(tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    long = "the very red cat sleeps " * 300
    data.write_text(f"text,label\n{long},animal\n{long},animal\nthe cat,animal\n", "utf-8")
    said = text_of(heedful.report(LATEST / "classify", data, long_text="head").html)
    assert "at most 1,500 tokens, the longest has 1,500" in said
    assert "2 of 3 were truncated: 2,940 tokens were not read" in said


def test_each_bar_of_lengths_has_as_many_of_them(tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    rows = [f"{'cat ' * length},animal" for length in range(1, 47)]
    data.write_text("\n".join(["text,label", *rows]), "utf-8")
    said = text_of(heedful.report(LATEST / "classify", data).html)
    bars = [f"{first} to {first + 1} 2" for first in range(1, 47, 2)]
    assert " ".join(["tokens items", *bars]) in said


def test_the_shaded_texts_of_a_pair_stand_apart() -> None:
    html = heedful.report(*ONE_OF_EACH["answer"][::2], precision="fp32").html
    shaded = re.search(r'<p class="running" dir="auto">(.*?)</p>', html, re.DOTALL)
    assert shaded is not None
    question, context = re.sub(r"<(?!br)[^>]*>", "", shaded[1]).split("<br>")
    assert question.endswith("?")
    assert context.endswith(".")


def test_what_limits_an_explanation_is_told(tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text(f"text,label\n{'the cat sleeps ' * 12},animal\nthe cat,animal\n", "utf-8")
    said = text_of(heedful.report(LATEST / "classify", data, max_length=20).html)
    assert "this explains window" in said


def test_a_report_goes_into_the_run_and_is_only_replaced_if_told(
    capsys: pytest.CaptureFixture,
) -> None:
    command(["report", "regress"])
    assert run(["report", "regress"]) == 2
    assert "report.html exists" in capsys.readouterr().err
    command(["report", "regress", "--overwrite"])
    assert run(["report", "marian", "--data", "data/translate.de", "data/translate.en"]) == 2
    assert "--out" in capsys.readouterr().err
    assert run(["report", "regress", "--overwrite", "--text-pair", "other"]) == 2
    assert "--data" in capsys.readouterr().err


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7 * 7 }} &amp; \u202e"


def hostile_run(folder: Path) -> tuple[Path, Path]:
    """Make a run of hostile labels, and hostile data for it."""
    path = Path(shutil.copytree(LATEST / "classify", folder / "<b>run"))
    for name in ("heedful.json", "config.json"):
        text = (path / name).read_text("utf-8")
        label = json.dumps(HOSTILE)[1:-1]
        (path / name).write_text(text.replace('"animal"', f'"{label}"'), "utf-8")
    rows = [{"text": f"the red cat {HOSTILE}", "label": HOSTILE} for _ in range(3)]
    rows += [{"text": "the soup", "label": "place"}, {"text": "x" * 9000, "label": "food"}]
    data = folder / "new.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path, data


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    path, data = hostile_run(tmp_path)
    html = heedful.report(path, data, precision="fp32").html
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "<b>run" not in html
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in html
    assert "{{ 7 * 7 }}" in html
    assert "x" * 700 not in html, "a long text is shortened"


def test_errors_are_explained(tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("text,label\nthe very red cat sleeps,place\nthe soup is red,food\n", "utf-8")
    html = heedful.report("classify", data, precision="fp32").html
    surest = html.split("Most confident errors")[1].split("Least confident")[0]
    assert surest.count("<li>") == 1
    assert "evidence for label &#39;animal&#39;, by integrated gradients" in surest
    assert re.search(r'<span class="shaded more-10">\w+</span>', surest)
    assert " ".join(text_of(f"<main {surest}").split()).startswith("the very red cat sleeps Shaded")


def test_entities_are_counted_by_kind_of_error(tmp_path: Path) -> None:
    data = tmp_path / "new.jsonl"
    text = "Ann lives near New Lima"
    entities = [{"start": 0, "end": 3, "label": "LOC"}, {"start": 19, "end": 23, "label": "LOC"}]
    data.write_text(json.dumps({"text": text, "entities": entities}) + "\n", "utf-8")
    said = text_of(heedful.report("tag", data).html)
    assert "Errors by kind kind entities type 1 boundary 1" in said
    assert "true Ann (LOC) predicted Ann (PER)" in said
    assert "true Lima (LOC) predicted New Lima (LOC)" in said


def test_texts_from_right_to_left_are_shown_so(chromium: Browser, tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    text = "\u05e9\u05dc\u05d5\u05dd the cat \u05d9\u05e9\u05df!"
    data.write_text("\n".join(["text,label", *[f"{text},animal"] * 12]), "utf-8")
    chromium.open(heedful.report(LATEST / "classify", data, precision="fp32").html)
    script = """
    const texts = [...document.querySelectorAll(".items p:not(.verdict, .muted)")];
    return texts.map((node) => getComputedStyle(node).direction);
    """
    directions = chromium.driver.execute_script(script)
    assert len(directions) >= 12
    assert set(directions) == {"rtl"}


def test_it_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    report = heedful.report("tag", "data/tag.jsonl")
    assert report._repr_html_().startswith("<iframe ")
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == report.html
    with pytest.raises(heedful.UserError, match="exists"):
        report.save(tmp_path / "report.html")


def test_a_browser_reads_it(chromium: Browser, tmp_path: Path) -> None:
    path, data = hostile_run(tmp_path)
    rows = [json.dumps({"step": n, "loss": 1 / n, "learning_rate": 1e-4}) for n in range(1, 40)]
    rows += [json.dumps({"step": 39, "dev": {"accuracy": 0.5, "macro_f1": 0.25}})]
    (path / "metrics.jsonl").write_text("\n".join(rows), "utf-8")
    report = heedful.report(path, data)
    for dark in (False, True):
        chromium.open(report.html, dark=dark)
        assert_accessible(chromium)
    chromium.open(report.html, size=PHONE)
    wide = chromium.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= PHONE[0]
    assert not chromium.complaints()
    charts = chromium.driver.execute_script("return document.querySelectorAll('svg[role=img]')")
    assert len(charts) == 5
    for chart in charts:
        assert chart.get_attribute("aria-label")


def test_long_lists_are_shortened(tmp_path: Path) -> None:
    size = 60
    path = Path(shutil.copytree(LATEST / "classify", tmp_path / "many"))
    rows = [
        {"label": f"label {n}", "precision": 0.5, "recall": 0.5, "f1": n / size, "support": 10}
        for n in range(size)
    ]
    confusion = [[10 if a == b else int(b == a + 1) for b in range(size)] for a in range(size)]
    metrics = {"items": 660, "accuracy": 0.9, "per_class": rows, "confusion": confusion}
    (path / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    html = heedful.report(path).html
    cells = [
        {"true": f"label {a}", "predicted": f"label {b}", "items": confusion[a][b]}
        for a in range(size)
        for b in range(size)
        if confusion[a][b]
    ]
    metrics = {**metrics, "confusion_cells": cells}  # as of many labels
    del metrics["confusion"]
    (path / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    assert heedful.report(path).html == html
    said = text_of(html)
    assert "20 more labels have a higher F1" in said
    assert "label 39 0.500" in said
    assert "label 41 0.500" not in said
    assert 'class="matrix"' not in html
    assert "39 less frequent kinds of mistakes are omitted" in said


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_a_run_in_training_has_a_report(task: str, tmp_path: Path) -> None:
    shutil.copytree(task, tmp_path / "run")
    record = json.loads((tmp_path / "run" / "heedful.json").read_text(encoding="utf-8"))
    record["goal"] = {}
    (tmp_path / "run" / "heedful.json").write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / "run" / "manifest.json").unlink()
    report = report_of_folder(tmp_path / "run")
    report.save(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Its training has not finished." in page


def test_a_run_that_is_not_there_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(tmp_path / "gone")]) == 2
    assert capsys.readouterr().err == f"heedful: {tmp_path / 'gone'}: no such run folder\n"


def test_a_report_is_a_page(tmp_path: Path) -> None:
    assert path_of(tmp_path, tmp_path / "r.HTML") == tmp_path / "r.HTML"
    with pytest.raises(UserError, match=r"r\.pdf: a report is an HTML page; end its name"):
        path_of(tmp_path, tmp_path / "r.pdf")
