"""Translate sentences with a trained model, in batches of 64, from text to text.

The rate counts the tokens of the human translations, which are the same for all arms. So an arm
gains nothing by generating longer texts.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import ours
from benchmarks.arm_process import Trial
from benchmarks.peers import translations as peers
from benchmarks.row import Plan, Row, Scores
from benchmarks.rows.classify import agreement

if TYPE_CHECKING:
    from heedful.predictor import Predictor

SENTENCES = 1000


def heedful(trial: Trial, load: "Callable[..., Predictor]") -> list[str]:
    """Translate with heedful."""
    facts = trial.read("facts.json")
    predictor = load(facts["run"], batch_size=peers.BATCH, beam=facts["beam"])
    return peers.run_laps(trial, lambda texts: [answer.text for answer in predictor.predict(texts)])


def prepare(name: str, beam: int, folder: Path, laps: int, share: float) -> Plan:
    """Divide test_2016_flickr among the laps, and export the run for the peers."""
    from benchmarks.data import FOLDER
    from benchmarks.runs import trained_run
    from heedful.checkpoints.runs import read_record
    from heedful.interop import export
    from heedful.tokens import TranslationTokenizer

    run = trained_run(f"translate-{name}")
    export(run, folder / "marian", "marian")
    facts = {
        "run": str(run),
        "folder": str(folder / "marian"),
        "beam": beam,
        "longest": read_record(run).goal["longest"],
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    sides = []
    for language in ("de", "en"):
        path = FOLDER / f"multi30k/test_2016_flickr.{language}.gz"
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            sides.append(stream.read().splitlines()[: round(SENTENCES * share)])
    size = len(sides[0]) // laps
    if (
        size > peers.BATCH
    ):  # full batches: even a batch of two sentences takes as many decoding steps
        size -= size % peers.BATCH
    source, target = (
        [side[lap * size : (lap + 1) * size] for lap in range(laps)] for side in sides
    )
    (folder / "texts.json").write_text(json.dumps(source), encoding="utf-8")
    (folder / "truth.json").write_text(json.dumps([t for part in target for t in part]))
    tokenizer = TranslationTokenizer.from_pretrained(run)
    read, written = (
        [sum(len(ids) + 1 for ids in side.encode_batch(part)) for part in parts]
        for side, parts in ((tokenizer.source, source), (tokenizer.target, target))
    )
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    return Plan(
        amounts=[float(tokens) for tokens in written],
        operations=operations(config, beam, sum(read) / sum(written)),
    )


def operations(config: Mapping[str, int], beam: int, source_tokens_per_token: float) -> float:
    """Return the floating-point operations per generated token, without the attention products."""
    width = config["d_model"]
    encoder = 4 * width**2 + 2 * width * config["encoder_ffn_dim"]
    decoder = (
        6 * width**2 + 2 * width * config["decoder_ffn_dim"]
    )  # the keys and values of the source are counted below
    write = config["decoder_layers"] * decoder + width * config["vocab_size"]
    read = config["encoder_layers"] * encoder + config["decoder_layers"] * 2 * width**2
    return 2.0 * (beam * write + source_tokens_per_token * read)


def score(folder: Path, outputs: Mapping[str, list[str]]) -> Scores:
    """Return BLEU, and the share of texts that equal those of transformers in fp32."""
    from sacrebleu.metrics.bleu import BLEU

    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    reference = outputs.get("transformers")
    scores = {}
    for name, texts in outputs.items():
        scores[name] = {"BLEU": BLEU().corpus_score(texts, [truth]).score}
        if reference is not None:
            scores[name]["same text"] = agreement(texts, reference)
    return scores


ROWS = {
    f"translate-{name}-{beam}": Row(
        title=f"translating Multi30k from German to English, {name} Transformer, beam size {beam}",
        arms={**ours.arms(heedful), **peers.PEERS},
        prepare=partial(prepare, name, beam),
        score=score,
        unit="tokens/s",
    )
    for name in ("small", "base")
    for beam in (1, 5)
}
