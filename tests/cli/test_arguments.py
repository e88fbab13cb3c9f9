"""Config files, a lone dash and whole numbers on the command line."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful import cli
from heedful.cli import EXIT_USER_ERROR, run, training
from heedful.task import Recipe

Parse = Callable[..., Recipe]


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Parse:
    """Provide a function that parses a command line of ``heedful train classify``."""
    recipes: list[Recipe] = []
    monkeypatch.setattr(training, "train_and_report", lambda name, recipe: recipes.append(recipe))

    def check(*options: object) -> Recipe:
        words = ["train", "classify", "--out", "run", *map(str, options)]
        assert run(words) == 0
        return recipes.pop()

    return check


@pytest.fixture
def fails(parse: Parse, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Provide a function that returns the error line of ``heedful train classify``."""

    def check(*options: object) -> str:
        words = ["train", "classify", "--out", "run", *map(str, options)]
        assert run(words) == EXIT_USER_ERROR
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return check


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("no-header = true", False),
        ("no_header = true", False),
        ("no-header = false", True),
        ("header = false", False),
    ],
)
def test_a_negative_name_in_a_config_is_the_negative(
    parse: Parse, tmp_path: Path, line: str, header: bool
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'train = ["a.csv"]\n{line}\n')
    assert parse("--config", config).columns.header is header
    assert parse("--config", config, "--header").columns.header


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("header = false\nno-header = true", "header is given twice, the second time as no-header"),
        ("batch_size = 1\nbatch-size = 2", "batch-size is given twice, the second time as"),
        ('no-header = "yes"', "no-header yes: must be true or false"),
        ("no-resume = true", "no option of this command is called 'no-resume' (did you mean"),
        ('lable = "team"', "is called 'lable' (did you mean 'label'?)"),
        ("epochs = 1.5", "epochs 1.5: must be a whole number"),
        ('labels = ["red", "blue"]', "labels: expected one value, not a list: write 'red,blue', w"),
        ("epochs = [3]", "epochs: expected one value, not a list"),
        ('dev = [["a.csv"]]', "dev: a list may not contain lists or sections"),
        ("[train]\nepochs = 3", "[train] is a section; write the options without sections"),
        ("[class-weights]\nred = 2", "[class-weights] is a section; write the options"),
    ],
)
def test_a_config_that_is_refused(
    fails: Callable[..., str], tmp_path: Path, content: str, message: str
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f"{content}\n")
    line = fails("--config", config, "--train", "a.csv")
    assert message in line
    assert str(config) in line


def test_a_config_of_windows_and_one_joined_to_its_option(parse: Parse, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_bytes(b'\xef\xbb\xbftrain = ["a.csv"]\nepochs = 7\n')
    assert parse(f"--config={config}").training.epochs == 7


def test_a_config_needs_a_name(fails: Callable[..., str]) -> None:
    assert "--config needs a TOML file" in fails("--train", "a.csv", "--config")
    assert "--config needs a TOML file" in fails("--train", "a.csv", "--config=")


def test_what_follows_two_dashes_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []

    def tokenize(texts: tuple[str, ...], *_: Any) -> list[Any]:
        seen.append(texts)
        return []

    monkeypatch.setattr("heedful.commands.tokenize.tokenize", tokenize)
    texts = ("--config", "x", "--debug", "-", "--help")
    monkeypatch.setattr(sys, "argv", ["heedful", "tokenize", "--", *texts])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code, seen) == (0, [texts])


def test_a_lone_dash_is_a_value(parse: Parse) -> None:
    recipe = parse("--train", "-", "--label-separator", "-")
    assert recipe.data.train == [Path("-")]
    assert recipe.columns.label_separator == "-"


@pytest.mark.parametrize("value", ["1.5", "0x10", "1e2", "many", "-0.5"])
def test_what_is_no_whole_number(fails: Callable[..., str], value: str) -> None:
    line = fails("--train", "a.csv", "--epochs", value)
    assert line == f"heedful: --epochs {value}: must be a whole number"


@pytest.mark.parametrize("value", ["5e-5x", "0,001", ""])
def test_what_is_no_number(fails: Callable[..., str], value: str) -> None:
    line = fails("--train", "a.csv", "--learning-rate", value)
    assert line == f"heedful: --learning-rate {value}: must be a number"


def test_whole_numbers_and_words_in_their_place(parse: Parse, fails: Callable[..., str]) -> None:
    settings = parse("--train", "a.csv", "--epochs", "4.0", "--batch-tokens", "auto").training
    assert (settings.epochs, settings.batch_tokens) == (4, "auto")
    assert parse("--train", "a.csv", "--batch-tokens", "512").training.batch_tokens == 512
    line = fails("--train", "a.csv", "--batch-tokens", "1.5")
    assert "--batch-tokens 1.5: must be a whole number or auto" in line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["predict"], "predict: RUN is missing; `heedful predict --help` says what it is"),
        (["export", "r"], "export: --to is missing; `heedful export --help` says what it is"),
        (["export", "r", "--to"], "export: --to needs a value"),
        (["predict", "r", "--beam"], "predict: --beam needs a value"),
        (
            ["train", "classify", "--train", "a", "--out", "r", "--text", "subject,", "body"],
            "train classify: 'body' belongs to no option; quote a value that has spaces",
        ),
        (
            ["train", "classify", "--out", "r"],
            "train classify: --train is missing; `heedful train classify --help` says what it is",
        ),
        (
            ["train", "classify", "a.csv", "--out", "r"],
            "train classify: --train is missing; 'a.csv' belongs to no option",
        ),
        (["evaluate", "r", "a.csv"], "evaluate: --data is missing; 'a.csv' belongs to no option"),
        (
            ["predict", "r", "-5 C"],
            "'-5 C' begins like an option; put -- before texts that begin with '-'",
        ),
        (
            ["tokenize", "--- a"],
            "'--- a' begins like an option; put -- before texts that begin with '-'",
        ),
        (["predict", "r", "--plane"], "Unknown option: --plane. Did you mean --plain?"),
    ],
)
def test_what_is_missing_is_named(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == EXIT_USER_ERROR
    assert capsys.readouterr().err == f"heedful: {line}\n"


def test_a_misspelt_option_is_named_with_the_one_that_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["export", "r", "--too", "x", "--format", "hf"]) == EXIT_USER_ERROR
    assert "Did you mean --to instead of --too?" in capsys.readouterr().err


def test_help_shows_square_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "pretrain", "--help"]) == 0
    shown = capsys.readouterr().out.replace("│", " ")
    assert "default: phrases marked [[like this]] in" in " ".join(shown.split())


@pytest.mark.parametrize("option", ["--out", "--train", "--dev", "--model", "--teacher"])
def test_an_empty_path_is_no_folder(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([option, ""], [f"{option}="]):
        assert run(["train", "classify", *words]) == EXIT_USER_ERROR
        assert capsys.readouterr().err == f"heedful: {option} is empty: expected a path\n"


def test_no_word_at_all_is_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Start here: heedful demo" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("out", [["--out", "-"], ["--out=-"]])
def test_a_dash_for_out_is_no_folder(out: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "run", "--input", "x.csv", *out]) == EXIT_USER_ERROR
    assert "--out -: expected a path; `predict` and" in capsys.readouterr().err


def test_help_says_which_column_is_read_where_none_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["train", "embed", "--help"])
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Column of the label; default: label; for embed none. --header" in words


def test_a_terminal_obeys_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "run\x1b[31m\x07", "text"]) == EXIT_USER_ERROR
    assert "run\\x1b[31m\\x07: " in capsys.readouterr().err


def test_a_path_may_begin_with_the_home_folder(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / "c.toml"
    config.write_text('train = ["~/one.csv"]\n')
    assert parse("--config=~/c.toml", "--dev", "~/two.csv").data.train == [tmp_path / "one.csv"]
    recipe = parse("--config", config, "--dev=~/two.csv", "--model", "~/bert")
    assert recipe.data.dev == [tmp_path / "two.csv"]
    assert str(recipe.data.model) == str(tmp_path / "bert")
    recipe = parse("--train", "d.csv", "--teacher=~/taught")
    assert recipe.teaching.teacher == tmp_path / "taught"


def test_text_of_a_terminal_that_is_not_utf8_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    run_folder = Path(__file__).parents[1] / "golden" / "0.1.0" / "classify"
    assert run(["predict", str(run_folder), "caf\udce9"]) == EXIT_USER_ERROR
    assert capsys.readouterr().err.startswith("heedful: text 1: not UTF-8; set the terminal")
