"""Messages name what is allowed, and stay one short line."""

import json
import os
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from heedful.cli import run
from heedful.errors import (
    UserError,
    count_of,
    join_names,
    other_option,
    shell_word,
    shorten,
    unknown_name,
    with_article,
)
from heedful.models import BertConfig
from heedful.tasks.classify import order_labels
from heedful.tasks.label_counts import class_weights

LABELS = [f"label-{number:02}" for number in range(77)]
SHORT = ", ".join(LABELS[:12]) + " and 65 more"


def test_an_option_that_is_not_given_has_no_value() -> None:
    started = "run was started with"
    assert str(other_option("run", "epochs", 3, 5)) == f"{started} --epochs 3, now it is 5"
    assert (
        str(other_option("run", "epochs", 3, None)) == f"{started} --epochs 3, now it is not given"
    )
    assert str(other_option("run", "max_length", None, 9)) == (
        f"{started}out --max-length, now it is 9"
    )


def test_twelve_names_are_listed_and_the_others_counted() -> None:
    assert join_names(LABELS) == SHORT
    assert join_names(LABELS[:12]) == ", ".join(LABELS[:12])
    assert join_names(LABELS[:13]) == ", ".join(LABELS[:12]) + " and 1 more"
    assert join_names([]) == ""
    assert join_names(["a\ntext " * 50 + "!", 2]) == shorten("a text " * 50 + "!", 100) + ", 2"


def test_spaces_at_the_ends_of_a_name_are_seen() -> None:
    assert (
        join_names([" red", "red", "blue\t", "light blue"]) == "' red', red, 'blue\\t', light blue"
    )


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("short", "short"),
        ("exactly-10", "exactly-10"),
        ("longer than ten", "long…n ten"),
        ("tab\tand\nline", "tab … line"),
    ],
)
def test_shorten_keeps_both_ends(label: str, shown: str) -> None:
    assert shorten(label, 10) == shown
    assert len(shown) <= 10


def test_the_nearest_name_is_looked_for_among_all() -> None:
    message = str(unknown_name("label", "label-77", [*LABELS, "label-777"]))
    assert " (did you mean 'label-777'?)" in message
    assert len(message) < 250


def test_a_long_unknown_name_is_shortened_and_spaces_around_a_short_one_are_seen() -> None:
    message = str(unknown_name("key", "x" * 10**6, ["text"]))
    assert message == f"unknown key '{'x' * 49}…{'x' * 50}'; allowed: text"
    assert str(unknown_name("key", " text", ["text"])).startswith("unknown key ' text' (did you")


def test_messages_about_labels_are_short() -> None:
    found = Counter([*LABELS, "lable-76"])
    with pytest.raises(UserError, match=rf"did you mean 'label-76'\?\): {SHORT}$"):
        order_labels(found, LABELS, multi_label=False)
    with pytest.raises(UserError, match=r"^--labels names 'label-03' 2 times$"):
        order_labels(Counter(LABELS), [*LABELS, "label-03"], multi_label=False)
    with pytest.raises(UserError, match=rf"did you mean 'label-76'\?\): {SHORT}$"):
        class_weights("lable-76=2", LABELS, Counter(LABELS))


def test_messages_about_a_config_are_short() -> None:
    wrong = {number + 1: label for number, label in enumerate(LABELS)}
    with pytest.raises(UserError, match=r"ids 1, 2, .*, 12 and 65 more; they must be 0 to 76$"):
        BertConfig(id2label=wrong)
    with pytest.raises(UserError, match=r"names 'a', .*, 'a' and 65 more; they must be different"):
        BertConfig(id2label=dict.fromkeys(range(77), "a"))
    by_label = {label: number for number, label in enumerate(LABELS)}
    values = {"id2label": wrong, "label2id": by_label}
    with pytest.raises(UserError, match=r"differ: 0 is None in the one and 'label-00' in the oth"):
        BertConfig.from_dict(values)


def test_a_run_with_many_labels_says_little_of_them(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "many.jsonl", tmp_path / "run"
    lines = (json.dumps({"text": "the sky", "label": label}) for label in LABELS)
    data.write_text("\n".join(lines) + "\n")
    train = ["train", "classify", "--model", tiny_model, "--train", data, "--steps", "1"]
    assert run([str(word) for word in [*train, "--out", out]]) == 0
    said = capsys.readouterr().err
    assert f"Gives each text one of 77 labels: {SHORT}.\n" in said
    assert max(map(len, said.splitlines())) < 300
    assert json.loads((out / "config.json").read_text())["id2label"]["76"] == LABELS[76]

    assert run(["evaluate", str(out), "--data", str(data)]) == 0
    assert len(capsys.readouterr().out) < 500
    data.write_text('{"text": "the sky", "label": "lable-76"}\n')
    assert run(["evaluate", str(out), "--data", str(data)]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert (
        f"line 1: label 'lable-76' is not one of the model's (did you mean 'label-76'?): {SHORT}"
        in message
    )


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 texts"), (1, "1 text"), (2, "2 texts"), (4096, "4,096 texts")]
)
def test_one_is_told_in_the_singular(number: int, words: str) -> None:
    assert count_of(number, "text") == words


@pytest.mark.parametrize(
    ("noun", "named"), [("classify", "a classify"), ("embed", "an embed"), ("", "a ")]
)
def test_a_noun_stands_behind_its_article(noun: str, named: str) -> None:
    assert with_article(noun) == named


NAMES = [
    "run",
    "my run",
    "it's",
    "a\nb",
    "\x1b[31m\x7f \x851",
    "a\n'\\$HOME",
    "caf\udce9\n",
    "中文",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_word_of_a_command_on_one_line(name: str) -> None:
    word = shell_word(name)
    assert word.isprintable()
    if (bash := shutil.which("bash")) is None:
        pytest.skip("reads the word by bash")
    printed = subprocess.run([bash, "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert os.fsdecode(printed.stdout) == name


def test_a_usual_name_is_quoted_as_ever() -> None:
    assert [shell_word(name) for name in NAMES[:3]] == [shlex.quote(name) for name in NAMES[:3]]


def test_what_to_try_next_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one two three\n" * 20)
    out = tmp_path / "a\nb"
    assert run(["vocabulary", str(text), "--size", "40", "--out", str(out)]) == 0
    line = capsys.readouterr().err.splitlines()[-1]
    assert "try: heedful train pretrain" in line
    assert line.endswith(f"--vocabulary $'{tmp_path}/a\\012b' --out RUN")
