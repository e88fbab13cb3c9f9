"""heedful answers from an export as from the run that was exported."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.alike import same

import heedful
from heedful.errors import UserError
from heedful.interop import export, predictable_record

pytest.importorskip("transformers", reason="needs the extra [hf]")

LONG = "the blue horse sleeps in Paris and Dan Miller lives near New Lima. " * 6
TEXTS = ["", "a", "it is white", "the (red) soup, isn't Ann-based?", "😀 日本 the horse", LONG]
QUESTIONS = [(question, text) for question in ("where is it?", "who") for text in TEXTS[1:]]
CHOICES = [("what sleeps?", "soup", text, "tower") for text in TEXTS[1:]]
ITEMS: dict[str, list[Any]] = {
    **{"pair": QUESTIONS, "answer": QUESTIONS, "choose": CHOICES},
    **{name: [f"{text} [MASK]" for text in TEXTS] for name in ("pretrain", "masked")},
}
CASES = [
    *((name, "hf") for name in ("classify", "many", "pair", "pruned", "regress", "tag", "spans")),
    *((name, "hf") for name in ("answer", "choose", "embed", "pretrain", "masked", "writer")),
    *(("replies", "hf"), ("translate", "hf"), ("translate", "marian")),
    ("embed", "sentence-transformers"),
]


@pytest.mark.parametrize(("name", "format"), CASES)
def test_what_was_exported_answers_as_the_run_does(
    name: str, format: str, golden: Path, tmp_path: Path
) -> None:
    export(golden / name, tmp_path / "out", format)
    ours, again = (predictable_record(folder) for folder in (golden / name, tmp_path / "out"))
    assert (again.task, again.goal, again.max_length) == (ours.task, ours.goal, ours.max_length)
    runs = [heedful.load(run, precision="fp32") for run in (golden / name, tmp_path / "out")]
    items = ITEMS.get(name, TEXTS)
    asked, told = ([one.to_dict(everything=True) for one in run(items)] for run in runs)
    assert same(told, asked)


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("config.json", "id2label", {"0": "O", "1": "B-X"}, "describes another model than config"),
        ("config.json", "architectures", ["BertModel"], "describes another model than config"),
        (
            "heedful_export.json",
            "max_length",
            "long",
            "'max_length' is 'long'; the file",
        ),
        ("heedful_export.json", "max_length", 10**6, "heedful_export.json: .* the file is damaged"),
        ("heedful_export.json", "goal", {"a": 1}, "heedful_export.json: its goal does not fit"),
        ("heedful_export.json", "extra", 1, "key 'extra' is missing or unknown"),
    ],
)
def test_a_record_of_another_model_is_refused(
    file: str, key: str, value: Any, message: str, golden: Path, tmp_path: Path
) -> None:
    export(golden / "tag", tmp_path / "out", "hf")
    path = tmp_path / "out" / file
    contents = json.loads(path.read_text("utf-8")) | {key: value}
    contents.pop("label2id", None)
    path.write_text(json.dumps(contents), "utf-8")
    with pytest.raises(UserError, match=message):
        heedful.load(tmp_path / "out", precision="fp32")
