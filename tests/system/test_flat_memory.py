"""The memory of a program does not grow with the text that it learns from."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

CUT = """
import sys
from pathlib import Path
from heedful import BertConfig, BertForPreTraining, BertTokenizer
from heedful.batches import Store, plan_epoch, write_store
from heedful.tasks.corpus import open_corpus
from heedful.task import Start
from heedful.tasks.pretrain import Pretrain

text, folder = map(Path, sys.argv[1:])
tokenizer = BertTokenizer.from_pretrained(folder)
task = Pretrain(
    preset=None,
    positions=None,
    position_type="absolute",
    objective="mlm+nsp",
    mask_share=0.15,
    masking="token",
    max_predictions=None,
    documents="blank-line",
    sentences="punctuation",
)
corpus = open_corpus([text], task.documents, task.sentences, tokenizer, folder, workers=1)
config = BertConfig(vocab_size=len(tokenizer), hidden_size=8, num_attention_heads=2)
model = BertForPreTraining.from_config(config)
start = Start(tokenizer=tokenizer, model=model, max_length=128)
pairs = task.sequences(corpus, start, seed=0, epoch=0)
write_store(folder / "pairs.arrow", pairs)
lengths = Store(folder / "pairs.arrow").lengths
plan_epoch(lengths, batch_size=32, batch_tokens=8192, seed=0, epoch=0)
"""
"""From a file of text to the plan of an epoch, as ``heedful train pretrain`` does it."""


def peak_memory(*words: object) -> int:
    """Run a program and return the most memory it held, in bytes.

    Pages of mapped files do not count, as they do in the kernel's own figure, VmHWM: the system
    takes them back when it wants to.
    """
    program = subprocess.Popen([sys.executable, *map(str, words)], stderr=subprocess.DEVNULL)
    status = Path(f"/proc/{program.pid}/status")
    peak = 0
    while program.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                peak = max(peak, int(line.split()[1]) * 1024)
        time.sleep(0.005)
    assert program.returncode == 0
    return peak


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_times_the_text_takes_no_more_memory(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(300)]
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in [*marks, *words]))
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(words, k=20)) + ".\n" for _ in range(40)]
    document = "".join(sentences) + "\n"
    peaks, sizes = [], []
    for megabytes in (1, 10):
        path = tmp_path / f"{megabytes}.txt"
        path.write_text(document * (megabytes * 2**20 // len(document)))
        sizes.append(path.stat().st_size)
        peaks.append(peak_memory("-c", CUT, path, tmp_path))
    # Even the bare text, held as a whole, would be more than twice as much.
    assert peaks[1] - peaks[0] < 0.4 * (sizes[1] - sizes[0])
