"""Whether two runs differ: for every task, and which comparisons are refused."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.asking import command
from tests.golden.copies import LATEST, ONE_OF_EACH

import heedful
from heedful.cli import run
from heedful.errors import UserError
from heedful.item_results import ItemResult
from heedful.metrics.generation import paired_tests, text_metrics
from heedful.reading import Record
from heedful.reports.comparison import PairedResults, Verdict, conclude
from heedful.reports.top_k import TopK
from heedful.tasks.answers.generated import GeneratedText
from heedful.tasks.answers.labels import Prediction
from heedful.tasks.answers.translations import Translation
from heedful.tasks.item_scorers.decisions import one_label, several_labels
from heedful.tasks.item_scorers.numbers import estimates
from heedful.tasks.item_scorers.texts import generated
from heedful.tasks.regress import Estimate


@pytest.fixture(autouse=True)
def in_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LATEST)


def compare(first: str, second: str, *words: str) -> dict:
    _, *options = ONE_OF_EACH[first]
    return json.loads(command(["compare", first, second, *options, *words]))


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_no_run_differs_from_itself(name: str) -> None:
    comparison = compare(name, name)
    assert comparison["items_that_differ"] == 0
    assert comparison["scores"]
    for name, row in comparison["scores"].items():
        assert row["first"] == pytest.approx(row["second"]), name
        assert (row["low"], row["high"]) == (0, 0), name
        assert row["p_value"] == 1, name
    assert comparison["conclusion"].startswith("No difference can be detected")
    assert comparison["conclusion"].endswith(" for both.")
    assert comparison["lost"] == comparison["gained"] == []


def copy_of(name: str, folder: Path, **goal: object) -> Path:
    """Copy a golden run, with other values of the settings chosen from its training data."""
    shutil.copytree(LATEST / name, folder)
    record = json.loads((folder / "heedful.json").read_text("utf-8"))
    record["goal"] |= goal
    (folder / "heedful.json").write_text(json.dumps(record), "utf-8")
    return folder


@pytest.fixture
def halved(tmp_path: Path) -> Path:
    """Provide a copy of the classifier that mistakes animals for food."""
    folder = copy_of("classify", tmp_path / "halved")
    for name in ("heedful.json", "config.json"):
        text = (folder / name).read_text("utf-8")
        swapped = text.replace('"animal"', '"?"').replace('"food"', '"animal"')
        (folder / name).write_text(swapped.replace('"?"', '"food"'), "utf-8")
    return folder


def test_a_real_difference_is_told(halved: Path) -> None:
    comparison = heedful.compare("classify", halved, "data/classify.csv")
    accuracy = comparison.scores["accuracy"]
    wrong = comparison.items_that_differ
    assert 0 < wrong < comparison.items
    assert accuracy.difference == pytest.approx(-wrong / comparison.items)
    assert accuracy.low < accuracy.difference < accuracy.high < 0
    assert accuracy.p_value == pytest.approx(2 / 2**wrong)  # each of them was right before
    assert accuracy.test == "exact McNemar"
    assert comparison.conclusion.startswith(f"{halved} is worse than classify")
    assert len(comparison.lost) == 10
    assert comparison.gained == []
    assert comparison.lost[0].first == comparison.lost[0].truth != comparison.lost[0].second
    assert comparison.to_dict()["lost"][0]["where"] == "data/classify.csv, line 2"


def test_the_seed_alone_decides(halved: Path) -> None:
    words = ["compare", "classify", str(halved), "--data", "data/classify.csv"]
    first, again, other = (command([*words, "--seed", seed]) for seed in ("1", "1", "2"))
    assert first == again != other
    same = heedful.compare("classify", halved, "data/classify.csv", seed=1, metric="macro_f1")
    stored = json.loads(first)
    assert same.scores["ece"].low == pytest.approx(stored["scores"]["ece"]["low"])
    assert (stored["metric"], same.metric) == ("accuracy", "macro_f1")


RIGHT = [f"the {word} sleeps near the old bridge" for word in ("cat", "dog", "bird", "horse")] * 8


def test_paired_tests_of_texts() -> None:
    worse = [text.replace("old", "new") if n % 2 else text for n, text in enumerate(RIGHT)]
    metrics = {"bleu": text_metrics(cased=True)["bleu"]}
    tested = paired_tests(metrics, [RIGHT, worse], RIGHT, seed=0)
    assert len(tested["bleu"]) == 2
    assert all(p_value < 0.01 for p_value in tested["bleu"].values())
    assert tested == paired_tests(metrics, [RIGHT, worse], RIGHT, seed=0)


def test_one_text_that_differs_tells_nothing() -> None:
    """sacreBLEU's tests alone would find a difference: they do not count equal differences."""
    scorer = generated(cased=True, translated=True)

    def results_of(texts: list[str]) -> Iterator[ItemResult]:
        for number, (text, right) in enumerate(zip(texts, RIGHT, strict=True)):
            answer = Translation(
                n_best=(GeneratedText(text=text, score=0.0, ended=True),),
                links=None,
                log_likelihood=-1.0,
                tokens_known=8,
                tokens_generated=8,
                tokens_total=8,
                tokens_used=8,
            )
            record = Record(text=str(number), text_pair=right, labels=None, source="a", line=number)
            yield from scorer.results([(answer, record)])

    pairing = PairedResults((scorer, scorer), "bleu")
    pairing.update(zip(results_of(RIGHT), results_of(["a new cat", *RIGHT[1:]]), strict=True))
    comparison = pairing.compare(("a", "b"), "translate", seed=0)
    assert len(comparison.scores["chrf"].p_values) == 3
    assert comparison.scores["perplexity"].test == "paired bootstrap"
    assert min(comparison.scores["bleu"].p_values.values()) < 0.05
    assert comparison.scores["bleu"].p_value > 0.3
    assert comparison.items_that_differ == 1
    assert [item.second for item in comparison.lost] == ["a new cat"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("classify", "tag", "classify is a run of classify and tag one of tag"),
        ("classify", "pair", "only classify knows animal, food, place"),
        ("pretrain", "masked", "only runs with the same scores can be compared"),
        ("many", "classify", "many: Gives each text any number of 3 labels"),
    ],
)
def test_what_cannot_be_compared(
    first: str, second: str, message: str, capsys: pytest.CaptureFixture
) -> None:
    assert run(["compare", first, second, *ONE_OF_EACH[first][1:]]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("scored", [False, True])
def test_what_vectors_were_learnt_from_does_not_decide_how_they_are_compared(
    scored: bool, tmp_path: Path
) -> None:
    """Runs trained on pairs and on scores, with data of either kind."""
    other = copy_of("embed", tmp_path / "other", scored=True, lowest=0.0, highest=5.0)
    data = tmp_path / "pairs.csv"
    rows = (LATEST / "data" / "embed.csv").read_text("utf-8").splitlines()[1:9]
    lines = [f"{row},{number % 6}" for number, row in enumerate(rows)]
    data.write_text("\n".join(["text,other,score", *lines]), "utf-8")
    label = {"label": "score"} if scored else {}
    for first, second in (("embed", other), (other, "embed"), ("embed", "embed")):
        comparison = heedful.compare(first, second, data, text_pair="other", **label)
        assert comparison.metric == ("spearman" if scored else "recall_at_1")
        assert comparison.items == 8


def test_bleu_counts_the_same_words_for_both(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    other = str(copy_of("translate", tmp_path / "other", bleu_tokenize="char"))
    words = ["compare", "translate", other, *ONE_OF_EACH["translate"][1:], "--beam", "1"]
    assert run(words) == 2
    message = f"BLEU splits the texts of translate by 13a and those of {other} by char"
    assert message in capsys.readouterr().err
    same = json.loads(command([*words, "--bleu-tokenize", "char"]))
    assert same["scores"]["bleu"]["difference"] == pytest.approx(0)


def test_what_is_read_twice_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for path in ("-", str(pipe), "/dev/null"):
        assert run(["compare", "classify", "pruned", "--data", path]) == 2
        message = f"--data {path}: both runs read the data, so it must be a file"
        assert message in capsys.readouterr().err


def test_a_metric_that_there_is_not(capsys: pytest.CaptureFixture) -> None:
    words = ["compare", "classify", "pruned", "--data", "data/classify.csv"]
    assert run([*words, "--metric", "acuracy"]) == 2
    assert "did you mean 'accuracy'?" in capsys.readouterr().err


def decided(text: str) -> ItemResult:
    """Return a wrong decision for the second of two classes."""
    return ItemResult(
        where="",
        texts={"text": text},
        truth="a",
        answer="b",
        correct=False,
        score=0.0,
        confidence=0.6,
        statistics=(0.0, 1.0, 0.6),
    )


def test_a_metric_that_there_is_not_is_told_by_the_first_item() -> None:
    scorer = one_label(("a", "b"))
    pairs = iter([(decided("a text"), decided("a text"))] * 9)
    with pytest.raises(UserError, match="did you mean 'accuracy'"):
        PairedResults((scorer, scorer), "acuracy").update(pairs)
    assert len(list(pairs)) == 8


def test_runs_that_cut_the_data_differently_are_refused() -> None:
    scorer = one_label(("a", "b"))
    with pytest.raises(UserError, match="they cut the data differently"):
        PairedResults((scorer, scorer)).update([(decided("a text"), decided("a"))])


@pytest.mark.parametrize(
    ("answers", "differ"), [((None, "b"), 1), (("b", None), 1), (("", "b"), 1), ((None, None), 0)]
)
def test_no_answer_differs_from_a_wrong_one(
    answers: tuple[str | None, str | None], differ: int
) -> None:
    scorer = one_label(("a", "b"))
    pairing = PairedResults((scorer, scorer))
    first, second = (replace(decided("a text"), answer=answer) for answer in answers)
    pairing.update([(first, second)])
    assert pairing.items_that_differ == differ


def test_the_order_in_which_runs_know_labels_is_no_difference() -> None:
    scorers = several_labels(("a", "b", "c")), several_labels(("c", "b", "a"))
    answers = [
        Prediction(
            label=label,
            score=None,
            scores={"a": 0.9, "b": 0.9, "c": 0.1},
            tokens_total=1,
            tokens_used=1,
            windows=1,
        )
        for label in (["a", "b"], ["b", "a"])
    ]
    record = Record(text="a text", text_pair=None, labels=("c", "a"), source="f", line=1)
    (first,), (second,) = (
        scorer.results([(answer, record)]) for scorer, answer in zip(scorers, answers, strict=True)
    )
    pairing = PairedResults(scorers)
    pairing.update([(first, second)])
    assert pairing.items_that_differ == 0


def test_a_lower_error_is_better() -> None:
    tested = Verdict(
        first=2.0,
        second=1.0,
        difference=-1.0,
        low=-1.5,
        high=-0.5,
        p_value=0.01,
        test="paired bootstrap",
        p_values={"paired bootstrap": 0.01},
    )
    assert conclude(("a", "b"), "mse", tested, 9).startswith("b is better than a")
    assert conclude(("a", "b"), "f1", tested, 9).startswith("b is worse than a")


def test_small_numbers_are_compared() -> None:
    records = [
        Record(text="a", text_pair=None, labels=(f"{number}e-8",), source="f", line=number)
        for number in range(1, 9)
    ]
    results = []
    for error in (2e-8, 1e-9):
        answers = [
            Estimate(value=number * 1e-8 + error, tokens_total=1, tokens_used=1, windows=1)
            for number in range(1, 9)
        ]
        results.append(estimates().results(zip(answers, records, strict=True)))
    pairing = PairedResults((estimates(), estimates()), "mse")
    pairing.update(zip(*results, strict=True))
    assert pairing.items_that_differ == 8
    found = pairing.compare(("a", "b"), "regress", seed=0)
    assert found.gained[0].change == pytest.approx(1.9e-8)
    assert "mse 1e-18 instead of 4e-16, a difference of -3.99e-16" in found.conclusion


def test_the_highest_are_kept_in_order() -> None:
    highest = TopK[str](3)
    for number, (value, item) in enumerate([(1, "a"), (3, "b"), (2, "c"), (3, "d"), (0, "e")]):
        highest.add(value, number, item)
    assert highest.sorted() == ["b", "d", "c"]
