"""Every task that starts from an encoder takes one of another family, too."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.models import RobertaConfig, RobertaForMaskedLM
from heedful.tokens.bpe import ALPHABET

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
QUICK: dict[str, Any] = {
    "batch_size": 4,
    "learning_rate": 5e-3,
    "head_learning_rate": 5e-3,
    "precision": "fp32",
}


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give a folder with a tiny random RoBERTa, whose tokens are bytes."""
    folder = tmp_path_factory.mktemp("models") / "roberta"
    tokens = [*SPECIAL, *ALPHABET]
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=42,
        initializer_range=0.2,
    )
    RobertaForMaskedLM(config).save_pretrained(folder)
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    return str(folder)


def test_a_classifier_learns(roberta: str, tmp_path: Path) -> None:
    colours = ("blue", "green", "red")
    rows = [
        {"text": f"{how}{colour}", "label": colour}
        for colour in colours
        for how in ("", "so ", "very ", "very very ")
    ]
    heedful.train(
        "classify", train=rows, out=tmp_path / "run", model=roberta, epochs=40, dropout=0.0, **QUICK
    )
    run = heedful.load(tmp_path / "run")
    assert type(run.model) is heedful.RobertaForSequenceClassification
    assert run.max_length == 40
    assert heedful.evaluate(tmp_path / "run", rows)["accuracy"] == 1.0
    assert [answer.label for answer in run([*colours])] == [*colours]


DATA = Path(__file__).parents[1] / "golden" / "0.1.0" / "data"
QUESTION = ("who is in Paris?", "Ann is in Paris")
TRAININGS: list[tuple[str, str, dict[str, Any], str, Any]] = [
    ("classify", "pairs.csv", {"text_pair": "reply"}, "ForSequenceClassification", QUESTION),
    ("regress", "regress.csv", {}, "ForSequenceClassification", "the bird is red"),
    ("tag", "tag.conll", {}, "ForTokenClassification", "Ann is in Paris"),
    ("answer", "answer.jsonl", {"stride": 6}, "ForQuestionAnswering", QUESTION),
    ("choose", "choose.jsonl", {}, "ForMultipleChoice", ("it is", "red", "blue", "green")),
    ("embed", "embed.csv", {"text_pair": "other"}, "Model", "Ann is in Paris"),
    ("pretrain", "pretrain.txt", {"objective": "mlm"}, "ForMaskedLM", "the sky is <mask>."),
    ("generate", "generate.txt", {}, "ForCausalLM", "the sky"),
]


@pytest.mark.parametrize(("task", "file", "options", "kind", "question"), TRAININGS)
def test_every_task_takes_it(
    task: str,
    file: str,
    options: dict[str, Any],
    kind: str,
    question: Any,
    roberta: str,
    tmp_path: Path,
) -> None:
    heedful.train(
        task,
        train=DATA / file,
        out=tmp_path,
        overwrite=True,
        model=roberta,
        steps=2,
        **QUICK,
        **options,
    )
    run = heedful.load(tmp_path)
    assert type(run.model).__name__ == f"Roberta{kind}"
    answer = run(question)
    assert answer.tokens_used == answer.tokens_total > 0
