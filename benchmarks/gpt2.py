"""Compare the speed of heedful's GPT-2 with the reference's: generation and classification.

    python -m benchmarks.gpt2 [--preset base] [--laps 5] [--tokens 32] [--precision fp32]

A GPT-2 with random weights continues 16 prompts of 4 to 24 tokens with greedy search and a cache,
and classifies 16 texts of 8 to 64 tokens. The reference has the same weights. It generates with
`generate` and its default settings, in one batch that is padded on the left. The two take turns in
one process, with the number of threads in OMP_NUM_THREADS. The script also compares their outputs.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
import transformers
from torch import Tensor

from heedful.compiled.model import compile_model
from heedful.decoding.search import Search
from heedful.models import FAMILIES, GPT2ForSequenceClassification, GPT2LMHeadModel
from heedful.models.generation import TextGenerator
from heedful.models.gpt2.presets import PRESETS

BATCH, END = 16, 50256
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def random_texts(low: int, high: int) -> tuple[Tensor, Tensor]:
    """Return random ids of a batch, padded on the right, and their mask."""
    torch.manual_seed(1)
    lengths = torch.randint(low, high + 1, (BATCH,))
    ids = torch.randint(10, END, (BATCH, high))
    mask = torch.arange(high) < lengths[:, None]
    return ids.masked_fill(~mask, END), mask


def padded_left(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Move the padding of a batch to the left."""
    rows = [row[real].flip(0) for row, real in zip(ids, mask, strict=True)]
    padded = torch.nn.utils.rnn.pad_sequence(rows, True, END).flip(1)
    real = torch.nn.utils.rnn.pad_sequence([row * 0 + 1 for row in rows], True).flip(1)
    return padded, real


def generation(folder: Path, dtype: torch.dtype, tokens: int) -> dict[str, Callable[[], Any]]:
    """Return for each library a function that continues the prompts and returns the new tokens."""
    ids, mask = random_texts(4, 24)
    left, real = padded_left(ids, mask)
    ours = compile_model(GPT2LMHeadModel.from_pretrained(folder).to(dtype).eval())
    assert ours.kernel != "plain", ours.reason
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=dtype).eval()
    writer = cast(TextGenerator, ours.model)
    search = Search(eos_token_id=END, max_new_tokens=tokens, min_new_tokens=tokens - 1)

    def heedful() -> list[list[int]]:
        return [list(text.tokens) for (text,) in writer.generate(ids, mask, search=search)]

    def reference() -> list[list[int]]:
        generated = theirs.generate(
            left,
            attention_mask=real,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            pad_token_id=END,
        )
        return [list(row) for row in generated[:, left.shape[1] :].tolist()]

    return {"heedful": heedful, "reference": reference}


def classification(folder: Path, dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Return for each library a function that classifies the texts and returns the classes."""
    ids, mask = random_texts(8, 64)
    ours = compile_model(GPT2ForSequenceClassification.from_pretrained(folder).to(dtype).eval())
    theirs = transformers.GPT2ForSequenceClassification.from_pretrained(
        folder, dtype=dtype, pad_token_id=END
    ).eval()

    @torch.inference_mode()
    def heedful() -> list[int]:
        return list(ours.model(ids, mask).logits.argmax(-1).tolist())

    @torch.inference_mode()
    def reference() -> list[int]:
        return list(theirs(ids, attention_mask=mask.long()).logits.argmax(-1).tolist())

    return {"heedful": heedful, "reference": reference}


def compare(arms: dict[str, Callable[[], Any]], laps: int) -> str:
    """Run the laps in turn; return the seconds, the speed-up and the number of equal outputs."""
    outputs = {name: lap() for name, lap in arms.items()}
    times: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(laps):
        for name, lap in arms.items():
            start = time.perf_counter()
            lap()
            times[name].append(time.perf_counter() - start)
    ratios = [
        theirs / ours for ours, theirs in zip(times["heedful"], times["reference"], strict=True)
    ]
    same = sum(a == b for a, b in zip(outputs["heedful"], outputs["reference"], strict=True))
    seconds = " | ".join(f"{median(times[name]):.3f}" for name in ("heedful", "reference"))
    spread = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"{seconds} | {spread} | {same} of {BATCH}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="base", choices=[*PRESETS])
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32, help="new tokens for each prompt")
    parser.add_argument("--precision", default="fp32", choices=[*DTYPES])
    options = parser.parse_args()
    dtype = DTYPES[options.precision]
    torch.manual_seed(0)
    # Make the likeliest token clearly likelier than the others, as in a trained model.
    sizes = {**PRESETS[options.preset], "initializer_range": 0.1}
    config = FAMILIES["gpt2"].config_class()(**sizes, pad_token_id=END)
    print("| task | heedful, s | reference, s | times as fast | same |\n|---|---|---|---|---|")
    with TemporaryDirectory() as name:
        folder = Path(name) / "model"
        GPT2LMHeadModel(config).save_pretrained(folder)
        print(
            f"| generation | {compare(generation(folder, dtype, options.tokens), options.laps)} |"
        )
        folder = Path(name) / "classifier"
        GPT2ForSequenceClassification(config).save_pretrained(folder)
        print(f"| classification | {compare(classification(folder, dtype), options.laps)} |")


if __name__ == "__main__":
    main()
