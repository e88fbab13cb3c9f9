"""Fine-tuning with a newly initialised pooler instead of the model's own."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful import BertForSequenceClassification
from heedful.cli import run

TAGGED = "Ada B-PER\nsleeps O\n\nParis B-LOC\nis O\n"


def train(task: str, model: Path, data: Path, out: Path, *more: str) -> int:
    words = ["train", task, "--model", model, "--train", data, "--out", out, "--steps", "1"]
    words += ["--learning-rate", "1e-9", "--head-learning-rate", "1e-9", *more]
    return run([str(word) for word in words])


def pooler(folder: Path) -> Tensor:
    model = BertForSequenceClassification.from_pretrained(folder, fresh_head=True)
    assert model.bert.pooler is not None
    return model.bert.pooler.dense.weight.detach()


def test_only_a_fresh_pooler_differs(tiny_model: Path, colours: Path, tmp_path: Path) -> None:
    before = pooler(tiny_model)
    for name, more in (("own", []), ("fresh", ["--fresh-pooler"])):
        assert train("classify", tiny_model, colours, tmp_path / name, *more) == 0
    torch.testing.assert_close(pooler(tmp_path / "own"), before)
    fresh = pooler(tmp_path / "fresh")
    assert (fresh - before).abs().median() > 0.005
    assert 0.01 < fresh.std() < 0.03  # initializer_range is 0.02


def test_a_task_without_a_pooler_has_none_to_renew(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "train.conll"
    data.write_text(TAGGED)
    assert train("tag", tiny_model, data, tmp_path / "run", "--fresh-pooler") == 2
    assert "--fresh-pooler: the model of this task has no pooler" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
