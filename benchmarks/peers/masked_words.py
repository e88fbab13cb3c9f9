"""Predict the masked word of each text."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.arm_process import Trial
from benchmarks.peers.engines import ENGINES, load
from benchmarks.peers.texts import BATCH, compute
from benchmarks.row import Arm


def run_laps(trial: Trial, words_of: Callable[[list[str]], list[str]]) -> list[str]:
    """Run the laps with a function from texts to words, and return all words."""
    parts: list[list[str]] = trial.read("texts.json")
    words_of(parts[0][:32])
    return [word for texts in trial.laps(parts) for word in words_of(texts)]


def pipeline(trial: Trial) -> list[str]:
    """Predict with the reference's pipeline."""
    import torch
    from transformers import BertForMaskedLM, BertTokenizerFast
    from transformers import pipeline as make

    torch.set_num_threads(trial.threads)
    folder = trial.read("model.json")["folder"]
    model = BertForMaskedLM.from_pretrained(folder)
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    fill = make("fill-mask", model=model, tokenizer=tokenizer, batch_size=BATCH, top_k=5)
    return run_laps(trial, lambda texts: [row[0]["token_str"] for row in fill(texts)])


def engine_arm(name: str) -> Callable[[Trial], list[str]]:
    """Return an arm that predicts with an engine, texts sorted by length."""

    def run(trial: Trial) -> list[str]:
        folder = Path(trial.read("model.json")["folder"])
        engine, tokenizer = load(name, folder, "masked_words", trial.threads, longest=512)
        mask = tokenizer.token_to_id("[MASK]")

        def words_of(texts: list[str]) -> list[str]:
            encodings = tokenizer.encode_batch_fast(texts)
            # Keep only the mask's logits: those of all tokens would not fit in memory.
            best = compute(
                engine,
                encodings,
                keep=lambda item, output: output[0][item.ids.index(mask)].argmax(),
            )
            return [tokenizer.id_to_token(int(token)) for token in best]

        return run_laps(trial, words_of)

    return run


PEERS = {
    "transformers pipeline": Arm(run=pipeline, format="fp32"),
    **{
        name: Arm(run=engine_arm(name), format=number_format)
        for name, number_format in ENGINES.items()
        if not name.startswith("CTranslate2")  # CTranslate2 has no head for masked words.
    },
}
