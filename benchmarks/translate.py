"""Decoding with the same weights: heedful's Transformer and the reference's MarianMTModel.

The sizes are those of the paper's base model with its vocabulary (Vaswani et al. 2017), the lengths
of the sources those of real sentences. The weights are random, but drawn so that what is written
depends on the source and on the pieces before. It would end anywhere or nowhere: the ending piece
is ruled out for both, and every text has the same number of pieces.
"""

import gzip
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import FOLDER
from benchmarks.race import Lap, race, run_laps, total

if TYPE_CHECKING:
    from torch import Tensor

    from heedful import Transformer

PIECES, BATCH, BATCHES, NEW_TOKENS, BEAMS = 37_000, 64, 2, 20, (5, 1)
IMPOSSIBLE = -1e9


def _folder() -> Path:
    return Path(os.environ["HEEDFUL_BENCHMARK_RUN"])


def sources(count: int) -> list[list[int]]:
    """Draw pieces for sentences as long as real ones, the ending piece included."""
    import numpy as np

    with gzip.open(FOLDER / "multi30k/test_2016_flickr.de.gz", "rt", encoding="utf-8") as stream:
        lengths = sorted(len(re.findall(r"\w+|[^\w\s]", line)) for line in stream)
    # Evenly from the shortest to the longest; those of a batch are alike, as in real use.
    chosen = [lengths[place * len(lengths) // count] for place in range(count)]
    draw = np.random.default_rng(0)
    return [[*draw.integers(2, PIECES - 1, length).tolist(), 0] for length in chosen]


def _batches() -> Iterator[tuple[int, list[list[int]]]]:
    texts = sources(BATCH * BATCHES)
    for beams in BEAMS:
        for start in range(0, len(texts), BATCH):
            yield beams, texts[start : start + BATCH]


def _padded(texts: list[list[int]]) -> tuple["Tensor", "Tensor"]:
    import torch

    rows = [torch.tensor(text) for text in texts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PIECES - 1)
    return ids, (ids != PIECES - 1).long()


def _laps(write: "Callable[[Tensor, Tensor, int], list[list[int]]]") -> Iterator[Lap]:
    ids, mask = _padded(next(_batches())[1][:4])
    write(ids, mask, 2)
    yield {"ready": True}
    for beams, texts in _batches():
        ids, mask = _padded(texts)
        started = time.perf_counter()
        found = write(ids, mask, beams)
        yield {"seconds": time.perf_counter() - started, "beams": beams, "texts": found}


def heedful_arm() -> Iterator[Lap]:
    """Decode with heedful."""
    from heedful import Search, Transformer
    from heedful.training.device import keep_big_buffers

    keep_big_buffers()
    model = Transformer.from_pretrained(_folder())

    def write(ids: "Tensor", mask: "Tensor", beams: int) -> list[list[int]]:
        search = Search(eos_token_id=0, max_new_tokens=NEW_TOKENS, num_beams=beams)
        return [list(best.tokens) for (best,) in model.generate(ids, mask, search=search)]

    yield from _laps(write)


def reference_arm() -> Iterator[Lap]:
    """Decode with the reference."""
    import torch
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(_folder()).eval()

    def write(ids: "Tensor", mask: "Tensor", beams: int) -> list[list[int]]:
        with torch.inference_mode():
            found = model.generate(
                input_ids=ids,
                attention_mask=mask,
                num_beams=beams,
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                forced_eos_token_id=None,
                early_stopping=beams > 1,
            )
        return [row[1:] for row in found.tolist()]

    yield from _laps(write)


ARMS = {"heedful": heedful_arm, "reference": reference_arm}


def random_model() -> "Transformer":
    """Draw the weights.

    With fresh weights and tied word vectors every piece would be its own likeliest successor.
    """
    import torch

    from heedful import Transformer, TransformerConfig

    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=PIECES))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "shared" not in name:
                weight *= 0.7
        model.model.decoder.layers[-1].final_layer_norm.weight.normal_(std=2)
        model.final_logits_bias[0, [0, PIECES - 1]] = IMPOSSIBLE
    return model


def run() -> list[dict[str, object]]:
    """Race the arms, and return a row for each beam."""
    model = random_model()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        os.environ["HEEDFUL_BENCHMARK_RUN"] = folder
        laps = race("benchmarks.translate", list(ARMS))
    rows: list[dict[str, object]] = []
    for beams in BEAMS:
        mine, theirs = (
            [lap for lap in laps[name] if lap["beams"] == beams]
            for name in ("heedful", "reference")
        )
        tokens = BATCH * BATCHES * NEW_TOKENS
        rates = [tokens / total(runs, "seconds") for runs in (mine, theirs)]
        pairs = [
            one == other
            for ours, their in zip(mine, theirs, strict=True)
            for one, other in zip(ours["texts"], their["texts"], strict=True)
        ]
        rows.append(
            {
                "name": f"translation, beam {beams}, batches of {BATCH} sentences, base "
                f"Transformer with {PIECES:,} pieces, fp32, against transformers 4.57.6",
                "ours": rates[0],
                "peer": rates[1],
                "ratio": rates[0] / rates[1],
                "unit": "target tokens/s",
                "quality": f"same text {sum(pairs) / len(pairs):.4f}",
                "memory": f"{mine[-1]['peak']:,} / {theirs[-1]['peak']:,}",
            }
        )
    return rows


if __name__ == "__main__":
    run_laps(ARMS)
