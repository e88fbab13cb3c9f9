"""Embed texts, tokenization included: news with MiniLM, or one length with a random BERT-base.

Each arm sees each text only once. All arms truncate long texts at the same length.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import ours
from benchmarks.arm_process import Trial
from benchmarks.peers import vectors as peers
from benchmarks.row import Plan, Row, Scores

if TYPE_CHECKING:
    import numpy as np

    from heedful.predictor import Predictor

    Array = np.ndarray[Any, np.dtype[Any]]

TEXTS = 2000
BASE_TOKENS = 128 * 128
"""Tokens per lap with BERT-base."""


def heedful(trial: Trial, load: "Callable[..., Predictor]") -> "Array":
    """Embed with heedful."""
    import numpy as np

    model = trial.read("model.json")
    predictor = load(model["folder"], max_length=model["max_length"], long_text="head")

    def vectors_of(texts: list[str]) -> "Array":
        return np.stack([answer.vector.numpy() for answer in predictor.predict(texts)])

    return peers.run_laps(trial, vectors_of)


def operations(config: Mapping[str, Any], lengths: list[int]) -> float:
    """Return the floating-point operations of an encoder per token, for texts of these lengths."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    linear = 2 * (4 * width * width + 2 * width * inner)
    attention = 4 * width * sum(length * length for length in lengths) / sum(lengths)
    return float(config["num_hidden_layers"] * (linear + attention))


def lengths_of(texts: Sequence[str], model: Path, longest: int) -> list[int]:
    """Return the number of tokens of each truncated text, including special tokens."""
    from heedful.tokens import TranslationTokenizer, load_tokenizer

    tokenizer = load_tokenizer(model)
    assert not isinstance(tokenizer, TranslationTokenizer)
    return [min(len(ids) + 2, longest) for ids in tokenizer.encode_batch(texts)]


def write_work(folder: Path, model: Path, parts: list[list[str]], longest: int) -> Plan:
    """Write the texts of each lap and the path of the model, and return the plan."""
    lengths = [lengths_of(part, model, longest) for part in parts]
    (folder / "texts.json").write_text(json.dumps(parts), encoding="utf-8")
    (folder / "model.json").write_text(json.dumps({"folder": str(model), "max_length": longest}))
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return Plan(
        amounts=[float(sum(part)) for part in lengths],
        operations=operations(config, [length for part in lengths for length in part]),
    )


def prepare_news(name: str, folder: Path, laps: int, share: float) -> Plan:
    """Write new texts of AG News for each lap, and the path of the model ``name``."""
    from benchmarks.data import ag_news
    from heedful.sources import resolve

    model, longest, size = Path(resolve(name)), 256, max(64, round(TEXTS * share))
    texts = [record.text for record in ag_news("train_pool")]
    parts = [texts[lap * size : (lap + 1) * size] for lap in range(laps)]
    return write_work(folder, model, parts, longest)


def prepare_base(length: int, folder: Path, laps: int, share: float) -> Plan:
    """Write a random BERT-base, and texts of equal length whose words are one token each."""
    import numpy as np

    from heedful.sources import resolve

    model = folder / "base"
    write_base(model, Path(resolve("minilm")))
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = [word for word in vocabulary if word.isascii() and word.isalpha()]
    random, size = np.random.default_rng(0), max(2, round(BASE_TOKENS / length * share))
    parts = [[" ".join(random.choice(words, length - 2)) for _ in range(size)] for _ in range(laps)]
    return write_work(folder, model, parts, length)


def write_base(folder: Path, like: Path) -> None:
    """Write a BERT-base with random weights in the format of sentence-transformers."""
    import shutil

    import torch

    from heedful import BertConfig, BertModel

    torch.manual_seed(0)
    shutil.copytree(like, folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    BertModel(BertConfig()).save_pretrained(folder)
    pooling = folder / "1_Pooling/config.json"
    sizes = json.loads(pooling.read_text(encoding="utf-8"))
    pooling.write_text(json.dumps({**sizes, "word_embedding_dimension": 768}))
    limits = {"max_seq_length": 512, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(limits))


def score(folder: Path, outputs: "Mapping[str, Array]") -> Scores:
    """Return the mean and the minimum cosine with the vectors of transformers in fp32."""
    import numpy as np

    truth = outputs.get("transformers")
    if truth is None:
        return {}
    cosines = {
        name: (vectors * truth).sum(1) / np.linalg.norm(vectors, axis=1)
        for name, vectors in outputs.items()
    }
    return {
        name: {"cosine": float(cosine.mean()), "least cosine": float(cosine.min())}
        for name, cosine in cosines.items()
    }


ARMS = {**ours.arms(heedful), **peers.PEERS}
ROWS = {
    "encode": Row(
        title="embedding AG News with MiniLM, including tokenization",
        arms=ARMS,
        prepare=partial(prepare_news, "minilm"),
        score=score,
        unit="tokens/s",
    ),
    "encode-mpnet": Row(
        title="embedding AG News with all-mpnet-base-v2, including tokenization",
        arms={
            **ours.arms(heedful),
            **{name: peers.PEERS[name] for name in ("transformers", "sentence-transformers")},
        },
        prepare=partial(prepare_news, "mpnet"),
        score=score,
        unit="tokens/s",
    ),
    **{
        f"encode-base-{length}": Row(
            title=f"embedding texts of {length} tokens with a random BERT-base",
            arms=ARMS,
            prepare=partial(prepare_base, length),
            score=score,
            unit="tokens/s",
        )
        for length in (128, 512)
    },
}
