"""Classify the author of a passage of 2,500 words: as a whole, or in windows of 512 tokens.

    python -m benchmarks.authors BOOKS [--epochs 1] [--rate 0.001]

BOOKS is a folder with books as ``*.txt.gz``. The first four fifths of each book are training data,
the last fifth is test data. Both arms fine-tune the same small BigBird with random weights, on the
same tokens for the same number of steps. The predictions of windows are averaged.
"""

import argparse
import gzip
import tempfile
import time
from pathlib import Path

import torch

import heedful
from heedful.commands.vocabulary import learn as train_vocabulary
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
"""Words per passage, so that it has nearly the model's maximum number of tokens."""
ARMS = {"whole": LONG, "windows of 512 tokens": SHORT}


def passages(path: Path) -> list[str]:
    """Split a book into passages of equal length."""
    words = gzip.decompress(path.read_bytes()).decode("utf-8").split()
    starts = range(0, len(words) - WORDS + 1, WORDS)
    return [" ".join(words[first : first + WORDS]) for first in starts]


def write_model(folder: Path, tokenizer: Tokenizer) -> None:
    """Write the model with random weights that both arms start from."""
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
    parser.add_argument("books", type=Path, help="folder with the books")
    parser.add_argument("--epochs", type=int, default=1, help="training epochs")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    args = parser.parse_args()
    files = [args.books / f"{name}.txt.gz" for name in AUTHORS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = train_vocabulary(files, VocabularySettings(size=4000), folder / "words")
        write_model(folder / "model", tokenizer)
        train, test = [], []
        for path, author in zip(files, AUTHORS.values(), strict=True):
            rows = [{"text": passage, "label": author} for passage in passages(path)]
            split = len(rows) * 4 // 5
            train += rows[:split]
            test += rows[split:]
        print(f"{len(train)} training passages, {len(test)} test passages")
        print("| input | accuracy | training |\n|---|---|---|")
        for arm, length in ARMS.items():
            started = time.perf_counter()
            run = folder / arm
            heedful.train(
                "classify",
                train=train,
                model=str(folder / "model"),
                out=run,
                max_length=length,
                long_text="window",
                epochs=args.epochs,
                learning_rate=args.rate,
                batch_size=4 * LONG // length,
                say=lambda line: None,
            )
            seconds = time.perf_counter() - started
            scores = heedful.evaluate(run, test)
            print(f"| {arm} | {scores['accuracy']:.3f} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
