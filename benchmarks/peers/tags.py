"""Tag words: the tag of a word is the tag of its first piece."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial
from benchmarks.peers.engines import ENGINES, load
from benchmarks.peers.texts import BATCH, compute
from benchmarks.row import Arm

if TYPE_CHECKING:
    import numpy as np

Tags = list[list[str]]
"""For each sentence, one tag for each word."""


def run_laps(trial: Trial, tags_of: Callable[[list[list[str]]], Tags]) -> Tags:
    """Run the laps with a function from the words of sentences to tags, and return all tags."""
    parts: list[list[list[str]]] = trial.read("words.json")
    tags_of(parts[0][:64])
    return [tags for sentences in trial.laps(parts) for tags in tags_of(sentences)]


def tags_of_words(
    words: int, owners: list[int | None], best: "np.ndarray[Any, Any]", names: dict[int, str]
) -> list[str]:
    """Return a tag for each word.

    Args:
        words: Number of words.
        owners: For each piece, the index of its word; None for special tokens.
        best: For each piece, the index of the likeliest tag.
        names: The tags by index.
    """
    tags, last = ["O"] * words, None
    for position, word in enumerate(owners):
        if word is not None and word != last:
            tags[word] = names[int(best[position])]
        last = word
    return tags


def transformers(trial: Trial) -> Tags:
    """Tag as in the reference's own example: in fp32, with batches in the order of the texts."""
    import torch
    from transformers import BertForTokenClassification, BertTokenizerFast

    torch.set_num_threads(trial.threads)
    folder = trial.read("model.json")["folder"]
    model = BertForTokenClassification.from_pretrained(folder).eval()
    tokenizer = BertTokenizerFast.from_pretrained(folder)

    @torch.inference_mode()
    def tags_of(sentences: list[list[str]]) -> Tags:
        tags = []
        for start in range(0, len(sentences), BATCH):
            batch = sentences[start : start + BATCH]
            encoded = tokenizer(
                batch, is_split_into_words=True, truncation=True, padding=True, return_tensors="pt"
            )
            best = model(**encoded).logits.argmax(-1).numpy()
            tags += [
                tags_of_words(len(row), encoded.word_ids(at), best[at], model.config.id2label)
                for at, row in enumerate(batch)
            ]
        return tags

    return run_laps(trial, tags_of)


def engine_arm(name: str) -> Callable[[Trial], Tags]:
    """Return an arm that tags with an engine, sentences sorted by length."""

    def run(trial: Trial) -> Tags:
        model = trial.read("model.json")
        folder = Path(model["folder"])
        names = {int(number): label for number, label in model["names"].items()}
        engine, tokenizer = load(name, folder, "tokens", trial.threads, longest=512)

        def tags_of(sentences: list[list[str]]) -> Tags:
            encodings = tokenizer.encode_batch(sentences, is_pretokenized=True)
            outputs = compute(engine, encodings)
            return [
                tags_of_words(len(words), encoding.word_ids, logits.argmax(-1), names)
                for words, encoding, (logits,) in zip(sentences, encodings, outputs, strict=True)
            ]

        return run_laps(trial, tags_of)

    return run


PEERS = {
    "transformers": Arm(run=transformers, format="fp32"),
    **{
        name: Arm(run=engine_arm(name), format=number_format)
        for name, number_format in ENGINES.items()
        if name != "transformers fp32"
    },
}
