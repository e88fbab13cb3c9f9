"""Run JoeyNMT as a peer: write its training data as lines of pieces, train, and read its output."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import peers_python
from benchmarks.runner import ROOT, environment
from heedful.batches.parallel import encode_pairs
from heedful.reading import Record
from heedful.settings import TranslateSettings
from heedful.tasks.translator import learn_tokenizer
from heedful.tokens import TranslationTokenizer


def write_pieces(
    parts: Mapping[str, Sequence[Record]], languages: tuple[str, str], folder: Path
) -> TranslationTokenizer:
    """Train heedful's vocabulary on ``train``, and write all parts as lines of its pieces.

    Args:
        parts: The pairs of each part: ``train``, ``dev`` and optionally ``test``.
        languages: Source and target language, which are the suffixes of the files.
        folder: Output folder for the files and the list of pieces.

    Returns:
        The tokenizer.
    """
    tokenizer = learn_tokenizer(parts["train"], TranslateSettings())
    (folder / "pieces.txt").write_text("\n".join(tokenizer.source.tokens), encoding="utf-8")
    for part, pairs in parts.items():
        examples = [example for _, example in encode_pairs(pairs, tokenizer)]
        for language, rows in zip(
            languages,
            (
                [example.ids.tolist() for example in examples],
                [[int(token) for token in example.labels] for example in examples],
            ),
            strict=True,
        ):
            lines = [" ".join(tokenizer.source.pieces(row[:-1])) for row in rows]
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{part}.{language}").write_text(text, encoding="utf-8")
    return tokenizer


def read_pieces(path: Path, tokenizer: TranslationTokenizer) -> list[str]:
    """Read a file with lines of target pieces, and return the texts."""
    ids = {piece: index for index, piece in enumerate(tokenizer.target.tokens)}
    lines = path.read_text(encoding="utf-8").splitlines()
    return [tokenizer.target.decode([ids[piece] for piece in line.split()]) for line in lines]


def run_joeynmt(folder: Path, job: Mapping[str, object]) -> dict[str, Any]:
    """Run JoeyNMT in a folder, and return the contents of its `facts.json`; see `peers.joey`."""
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    command = [peers_python(), "-m", "benchmarks.peers.joey", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment(threads, peer=True))
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return facts
