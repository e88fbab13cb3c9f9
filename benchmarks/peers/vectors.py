"""Embed texts: the vector is the mean over a text's tokens, normalized to length 1."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial
from benchmarks.peers.engines import ENGINES, load
from benchmarks.peers.texts import BATCH, compute
from benchmarks.row import Arm

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


def run_laps(trial: Trial, vectors_of: "Callable[[list[str]], Array]") -> "Array":
    """Run the laps with a function from texts to vectors, and return all vectors."""
    import numpy as np

    parts: list[list[str]] = trial.read("texts.json")
    vectors_of(parts[0][:64])
    return np.concatenate([vectors_of(texts) for texts in trial.laps(parts)])


def transformers(trial: Trial) -> "Array":
    """Embed as in a tutorial of transformers: in fp32, with batches in the order of the texts."""
    import torch
    import torch.nn.functional as F
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(trial.threads)
    folder = trial.read("model.json")
    model = AutoModel.from_pretrained(folder["folder"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder["folder"])

    @torch.inference_mode()
    def vectors_of(texts: list[str]) -> "Array":
        vectors = []
        for start in range(0, len(texts), BATCH):
            batch = tokenizer(
                texts[start : start + BATCH],
                padding=True,
                truncation=True,
                max_length=folder["max_length"],
                return_tensors="pt",
            )
            hidden = model(**batch).last_hidden_state
            real = batch["attention_mask"][..., None].float()
            vectors.append(F.normalize((hidden * real).sum(1) / real.sum(1), dim=-1))
        return torch.cat(vectors).numpy()

    return run_laps(trial, vectors_of)


def sentence_transformers(trial: Trial) -> "Array":
    """Embed with sentence-transformers, which sorts the texts itself."""
    import torch
    from sentence_transformers import SentenceTransformer, models

    torch.set_num_threads(trial.threads)
    folder = trial.read("model.json")
    body = models.Transformer(folder["folder"], max_seq_length=folder["max_length"])
    pooling = models.Pooling(body.get_word_embedding_dimension(), pooling_mode="mean")
    model = SentenceTransformer(modules=[body, pooling, models.Normalize()], device="cpu")

    def vectors_of(texts: list[str]) -> "Array":
        return model.encode(texts, batch_size=BATCH, show_progress_bar=False)

    return run_laps(trial, vectors_of)


def engine_arm(name: str) -> Callable[[Trial], "Array"]:
    """Return an arm that embeds with an engine, texts sorted by length."""

    def run(trial: Trial) -> "Array":
        import numpy as np

        folder = trial.read("model.json")
        path = Path(folder["folder"])
        longest = folder["max_length"]
        engine, tokenizer = load(name, path, "vectors", trial.threads, longest=longest)

        def vectors_of(texts: list[str]) -> "Array":
            outputs = compute(engine, tokenizer.encode_batch_fast(texts))
            return np.stack([vector for (vector,) in outputs])

        return run_laps(trial, vectors_of)

    return run


PEERS = {
    "transformers": Arm(run=transformers, format="fp32"),
    "sentence-transformers": Arm(run=sentence_transformers, format="fp32"),
    **{
        name: Arm(run=engine_arm(name), format=number_format)
        for name, number_format in ENGINES.items()
        if name != "transformers fp32"
    },
}
