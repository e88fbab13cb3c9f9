"""A program that classifies a file of texts, as a user of the peers would write it.

``python -m benchmarks.peers.program NAME FOLDER FILE OUT THREADS`` reads the first column of a CSV
file with a header and writes one line of JSON for each text. NAME is ``pipeline``, or an engine
such as ``ONNX Runtime int8`` or ``OpenVINO bf16``. FOLDER is the run, or for an engine the folder
with its converted graph.
"""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path


def load_classifier(name: str, folder: Path, threads: int) -> Callable[[list[str]], list[str]]:
    """Return a function from texts to labels."""
    if name == "pipeline":
        import torch

        from benchmarks.peers.labels import pipeline_labels

        torch.set_num_threads(threads)
        return pipeline_labels(folder)
    from tokenizers import Tokenizer

    from benchmarks.peers.engines import converted_engine
    from benchmarks.peers.labels import LONGEST
    from benchmarks.peers.texts import compute

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    engine = converted_engine(name, folder, "sequence", folder, threads)

    def labels_of(texts: list[str]) -> list[str]:
        outputs = compute(engine, tokenizer.encode_batch_fast(texts))
        return [config["id2label"][str(int(logits.argmax()))] for (logits,) in outputs]

    return labels_of


def main() -> None:
    """Classify the texts of the file given on the command line."""
    name, folder, file, out, threads = sys.argv[1:]
    labels_of = load_classifier(name, Path(folder), int(threads))
    with open(file, newline="", encoding="utf-8") as stream:
        _, *rows = csv.reader(stream)
    texts = [row[0] for row in rows]
    with open(out, "w", encoding="utf-8") as stream:
        for text, label in zip(texts, labels_of(texts), strict=True):
            stream.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
