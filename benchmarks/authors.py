"""Who wrote a passage of 2,500 words: read as a whole by a BigBird, and in windows of 512 tokens.

    python -m benchmarks.authors BOOKS [--epochs 1] [--rate 0.001]

BOOKS is a folder with books as ``*.txt.gz``. The first four fifths of each are learnt from, the
last fifth is asked about. Both arms start from the same small model with random weights, and learn
from the same tokens in as many steps. What windows say is averaged.
"""

import argparse
import gzip
import tempfile
import time
from pathlib import Path

import torch

import heedful
from heedful.commands.vocabulary import learn
from heedful.models import BigBirdConfig, BigBirdForSequenceClassification
from heedful.settings import VocabularySettings
from heedful.tokens import Tokenizer

AUTHORS = {
    "bleak_house": "Dickens",
    "crime_and_punishment": "Dostoyevsky",
    "david_copperfield": "Dickens",
    "dracula": "Stoker",
    "emma": "Austen",
    "great_expectations": "Dickens",
    "huckleberry_finn": "Twain",
    "jane_eyre": "Bronte",
    "middlemarch": "Eliot",
    "moby_dick": "Melville",
    "pride_and_prejudice": "Austen",
    "voyage_of_the_beagle": "Darwin",
}
LONG, SHORT = 4096, 512
WORDS = 2500
"""Of a passage: nearly as many tokens as the model reads."""
ARMS = {"whole": LONG, "windows of 512 tokens": SHORT}


def passages(path: Path) -> list[str]:
    """Cut a book."""
    words = gzip.decompress(path.read_bytes()).decode("utf-8").split()
    firsts = range(0, len(words) - WORDS + 1, WORDS)
    return [" ".join(words[first : first + WORDS]) for first in firsts]


def start(folder: Path, tokenizer: Tokenizer) -> None:
    """Write the model that both arms start from."""
    torch.manual_seed(0)
    config = BigBirdConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        sep_token_id=tokenizer.sep_token_id,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=LONG,
        num_labels=len(set(AUTHORS.values())),
    )
    BigBirdForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("books", type=Path, help="the folder")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the passages")
    parser.add_argument("--rate", type=float, default=1e-3, help="the learning rate")
    given = parser.parse_args()
    files = [given.books / f"{name}.txt.gz" for name in AUTHORS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = learn(files, VocabularySettings(size=4000), folder / "words")
        start(folder / "model", tokenizer)
        train, test = [], []
        for path, author in zip(files, AUTHORS.values(), strict=True):
            rows = [{"text": passage, "label": author} for passage in passages(path)]
            split = len(rows) * 4 // 5
            train += rows[:split]
            test += rows[split:]
        print(f"{len(train)} passages to learn from, {len(test)} to tell")
        print("| read | accuracy | training |\n|---|---|---|")
        for arm, length in ARMS.items():
            begun = time.perf_counter()
            run = folder / arm
            heedful.train(
                "classify",
                train=train,
                model=str(folder / "model"),
                out=run,
                max_length=length,
                long_text="window",
                epochs=given.epochs,
                learning_rate=given.rate,
                batch_size=4 * LONG // length,
                say=lambda line: None,
            )
            taken = time.perf_counter() - begun
            scores = heedful.evaluate(run, test)
            print(f"| {arm} | {scores['accuracy']:.3f} | {taken:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
