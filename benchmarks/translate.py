"""Translating with the same weights: heedful and the reference's ``generate``, in fp32.

A Transformer of the paper's base size learns for some minutes from Multi30k, so that texts end
where translations do; or ``HEEDFUL_TRANSLATOR`` names a run that has learnt. A model that has
learnt as little as that runs on to the limit now and then, for which the reference pays with its
whole batch; heedful does not, as what has ended leaves the batch. Both arms translate the
sentences of test_2016_flickr, or the first ``HEEDFUL_SENTENCES`` of them, 64 at once: heedful as
its predictor does by itself, which sorts them by length; the reference as they come, and once more
sorted by their lengths in tokens, as a careful user would. Its tokens are made beforehand and its
answers are left as tokens, heedful's time is from text to text.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import FOLDER
from benchmarks.race import Lap, race, run_laps, total

BATCH, LAPS, BEAMS = 64, 2, (5, 1)
STEPS = 500
REFERENCE_ORDERS = ("as they come", "sorted by length")
TRAINING = (
    *("--preset", "base", "--pre-norm", "--batch-size", "64", "--learning-rate", "1e-3"),
    *("--schedule", "linear", "--warmup", "120", "--dropout", "0.1", "--steps", str(STEPS)),
)


def _run() -> Path:
    return Path(os.environ["HEEDFUL_TRANSLATOR"])


def _halves() -> Iterator[tuple[int, list[str]]]:
    """Yield what each lap translates, and at which beam."""
    with gzip.open(FOLDER / "multi30k/test_2016_flickr.de.gz", "rt", encoding="utf-8") as stream:
        texts = [line.rstrip("\n") for line in stream]
    texts = texts[: int(os.environ.get("HEEDFUL_SENTENCES", len(texts)))]
    for beam in BEAMS:
        for lap in range(LAPS):
            yield beam, texts[lap * len(texts) // LAPS : (lap + 1) * len(texts) // LAPS]


def heedful_arm() -> Iterator[Lap]:
    """Translate with heedful."""
    from heedful import load

    translate = load(_run(), precision="fp32", batch_size=BATCH)
    translate(["Ein Hund."] * 4, beam=2)
    yield {"ready": True}
    for beam, texts in _halves():
        started = time.perf_counter()
        answers = translate(texts, beam=beam)
        seconds = time.perf_counter() - started
        yield {
            "seconds": seconds,
            "beam": beam,
            "tokens": sum(answer.tokens_written for answer in answers),
            "texts": [answer.text for answer in answers],
        }


def reference_arm() -> Iterator[Lap]:
    """Translate with the reference."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    from heedful.checkpoints.runs import read_record
    from heedful.tokens import TranslationTokenizer

    tokenizer = TranslationTokenizer.from_pretrained(_run())
    model = AutoModelForSeq2SeqLM.from_pretrained(_run()).eval()
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    longest = read_record(_run()).goal["longest"]

    def write(texts: list[list[int]], beam: int) -> list[list[int]]:
        rows = [torch.tensor(text) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        with torch.inference_mode():
            found = model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                num_beams=beam,
                max_new_tokens=longest,
                do_sample=False,
                early_stopping=beam > 1,
            )
        return [[token for token in row[1:] if token != pad] for row in found.tolist()]

    write([[5, end]] * 4, 2)
    yield {"ready": True}
    for beam, texts in _halves():
        ids = [[*text, end] for text in tokenizer.source.encode_batch(texts)]
        by_length = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
        lap: Lap = {"beam": beam}
        for name, order in zip(REFERENCE_ORDERS, (list(range(len(ids))), by_length), strict=True):
            written: dict[int, list[int]] = {}
            started = time.perf_counter()
            for start in range(0, len(ids), BATCH):
                places = order[start : start + BATCH]
                written |= zip(places, write([ids[place] for place in places], beam), strict=True)
            seconds = time.perf_counter() - started
            lap[name] = {
                "seconds": seconds,
                "tokens": sum(map(len, written.values())),
                "texts": [
                    tokenizer.target.decode([token for token in written[place] if token != end])
                    for place in range(len(ids))
                ],
            }
        yield lap


ARMS = {"heedful": heedful_arm, "reference": reference_arm}


def _train(folder: Path) -> Path:
    """Train a base model for a few minutes."""
    sides = [str(FOLDER / f"multi30k/train.{side}.gz") for side in ("de", "en")]
    run = folder / "base"
    command = ("train", "translate", "--train", *sides, "--out", str(run), *TRAINING)
    subprocess.run([sys.executable, "-m", "heedful", *command], check=True)
    return run


def run() -> list[dict[str, object]]:
    """Race the arms, and return a row for each beam and order."""
    with tempfile.TemporaryDirectory() as folder:
        if "HEEDFUL_TRANSLATOR" not in os.environ:
            os.environ["HEEDFUL_TRANSLATOR"] = str(_train(Path(folder)))
        sizes = json.loads((_run() / "config.json").read_text(encoding="utf-8"))
        laps = race("benchmarks.translate", list(ARMS))
    peaks = " / ".join(f"{laps[name][-1]['peak']:,}" for name in ARMS)
    rows: list[dict[str, object]] = []
    for beam in BEAMS:
        mine = [lap for lap in laps["heedful"] if lap["beam"] == beam]
        for order in REFERENCE_ORDERS:
            theirs = [lap[order] for lap in laps["reference"] if lap["beam"] == beam]
            rates = [total(runs, "tokens") / total(runs, "seconds") for runs in (mine, theirs)]
            pairs = [
                one == other
                for ours, their in zip(mine, theirs, strict=True)
                for one, other in zip(ours["texts"], their["texts"], strict=True)
            ]
            rows.append(
                {
                    "name": f"translation, beam {beam}, {BATCH} sentences at once, Transformer of "
                    f"{sizes['encoder_layers']}+{sizes['decoder_layers']} blocks of width "
                    f"{sizes['d_model']} with {sizes['vocab_size']:,} pieces, fp32, against "
                    f"transformers 4.57.6 with sentences {order}",
                    "ours": rates[0],
                    "peer": rates[1],
                    "ratio": rates[0] / rates[1],
                    "unit": "target tokens/s",
                    "quality": f"same text {sum(pairs) / len(pairs):.4f}",
                    "memory": peaks,
                }
            )
    return rows


if __name__ == "__main__":
    run_laps(ARMS)
