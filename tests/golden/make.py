"""Make a folder of golden runs with the imported heedful, and store their answers.

    python -m tests.golden.make tests/golden/VERSION

Each version leaves one folder, which every later version must read and answer alike.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tests.golden.asking import ask, command, evaluate, outputs_of
from tests.golden.cases import ANSWERS, EVALUATIONS, LOADED, RUNS, TENSORS, TRANSLATORS
from tests.golden.texts import write_texts

import heedful

FP32 = ("--precision", "fp32")
NOT_NEEDED = ("checkpoints", "metrics.jsonl", "metrics.json")


def write_starts() -> None:
    """Write the models that the runs start from, with random weights of a few kilobytes."""
    torch.manual_seed(0)
    words = len(Path("body/vocab.txt").read_text().splitlines())
    for name, positions in (("body", "absolute"), ("relative", "relative_key")):
        config = heedful.BertConfig(
            vocab_size=words,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
            position_embedding_type=positions,
            initializer_range=0.2,
        )
        heedful.BertModel(config).save_pretrained(f"made-{name}")
        Path(name).mkdir(exist_ok=True)
        for path in Path(f"made-{name}").iterdir():
            path.replace(Path(name) / path.name)
        Path(f"made-{name}").rmdir()
    shutil.copy("body/vocab.txt", "relative/vocab.txt")
    for name, options in TRANSLATORS.items():
        learn = ["--train", "data/translate.de", "data/translate.en", "--preset", "tiny"]
        command(["train", "translate", *learn, *options, "--steps", "1", *FP32, "--out", name])
        _shrink(Path(name))


def _shrink(folder: Path) -> None:
    """Make a translator smaller than any preset."""
    values = json.loads((folder / "config.json").read_text())
    model: heedful.RnnSearch | heedful.Transformer
    if values["model_type"] == "heedful-rnn":
        del values["model_type"]
        values |= {"embedding_width": 16, "hidden_width": 16}
        values.pop("architectures", None)
        model = heedful.RnnSearch(heedful.RnnConfig(**values))
    else:
        values |= {"d_model": 16}
        for side in ("encoder", "decoder"):
            values |= {f"{side}_layers": 1, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 32}
        model = heedful.Transformer(heedful.TransformerConfig.from_dict(values))
    model.save_pretrained("made")
    for path in Path("made").iterdir():
        path.replace(folder / path.name)
    Path("made").rmdir()


def train(name: str, words: Sequence[str]) -> None:
    """Train a run, and keep only what predictions need."""
    options = ["--seed", "1", "--warmup", "0.1", *FP32, "--out", name]
    command(["train", *words, *options])
    for unneeded in NOT_NEEDED:
        path = Path(name, unneeded)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


def record() -> dict[str, list[dict[str, Any]]]:
    """Ask the runs all stored questions, and return these with the answers."""
    commands: list[dict[str, Any]] = []
    for number, words in enumerate(ANSWERS):
        asked = [*words, *([] if words[0] == "tokenize" else FP32)]
        rows = [json.loads(line) for line in command(asked).splitlines()]
        name = f"{words[0]}-{number}-{words[1] if words[0] != 'tokenize' else words[-1]}"
        commands.append({"name": name, "command": asked, "rows": rows})
    evaluations = []
    for words in EVALUATIONS:
        asked = ["evaluate", *words, *FP32]
        name = f"{words[0]}-{Path(words[2]).name}"
        evaluations.append({"name": name, "command": asked, "metrics": evaluate(asked)})
        Path(words[0], "metrics.json").unlink(missing_ok=True)
    loaded = [
        {
            "name": name,
            "run": name,
            "input": asked,
            "attribute": attribute,
            "answer": ask(name, asked, attribute),
        }
        for name, asked, attribute in LOADED
    ]
    tensors = [
        {
            "name": f"{kind}-{folder}",
            "class": kind,
            "folder": folder,
            "outputs": outputs_of(kind, folder),
        }
        for kind, folder in TENSORS
    ]
    return {
        "commands": commands,
        "evaluations": evaluations,
        "loaded": loaded,
        "tensors": tensors,
    }


def main(folder: Path) -> None:
    """Make the folder."""
    torch.set_num_threads(1)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    os.chdir(folder)
    write_texts(Path("data"))
    Path("data/body").replace("body")
    write_starts()
    for name, words in RUNS.items():
        train(name, words)
    command(["export", "translate", "--to", "marian", "--format", "marian"])
    # A folder of sentence-transformers is a run of embed without what only heedful writes.
    shutil.copytree("embed", "sentences")
    for name in ("heedful.json", "manifest.json", "MODEL_CARD.md"):
        Path("sentences", name).unlink(missing_ok=True)
    for name in TRANSLATORS:
        shutil.rmtree(name)
    Path("answers.json").write_text(
        json.dumps(record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
