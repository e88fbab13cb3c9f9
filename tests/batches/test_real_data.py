"""Real files, with their publishers' errors, are read completely and batched well."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from heedful.batches.buckets import plan_epoch, plan_pass
from heedful.reading.records import ColumnSettings, read_records
from heedful.sources import resolve
from heedful.tokens import BertTokenizer

AG_NEWS = ColumnSettings(text="2,3", label="1", header=False)
AG_NEWS_POOL = ColumnSettings(text="2", label="1", header=False)
COLA = ColumnSettings(text="4", label="2", header=False)
MRPC = ColumnSettings(text="#1 String", text_pair="#2 String", label="Quality")
RTE = ColumnSettings(text="sentence1", text_pair="sentence2")
SST2 = ColumnSettings(text="sentence")
STSB = ColumnSettings(text="1", text_pair="2", label="3", header=False)


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        ("ag_news/train_pool.csv.gz", AG_NEWS_POOL, 22_493),
        ("ag_news/test.csv.gz", AG_NEWS, 7_600),
        ("glue/SST-2/train.tsv.gz", SST2, 67_349),
        ("glue/SST-2/dev.tsv.gz", SST2, 872),
        ("glue/CoLA/train.tsv.gz", COLA, 8_551),
        ("glue/CoLA/dev.tsv.gz", COLA, 1_043),
        ("glue/MRPC/msr_paraphrase_train.txt.gz", MRPC, 4_076),
        ("glue/MRPC/msr_paraphrase_test.txt.gz", MRPC, 1_725),
        ("glue/RTE/train.tsv.gz", RTE, 2_490),
        ("glue/RTE/dev.tsv.gz", RTE, 277),
        ("stsb/stsb-en-train.csv.gz", STSB, 5_749),
        ("stsb/stsb-en-dev.csv.gz", STSB, 1_500),
        ("stsb/stsb-en-test.csv.gz", STSB, 1_379),
    ],
)
def test_every_row_is_read(
    data_folder: Path, name: str, columns: ColumnSettings, rows: int
) -> None:
    said = "tsv" if name.endswith(".txt.gz") else None
    labels: set[str] = set()
    count = 0
    for record in read_records([data_folder / name], replace(columns, format=said)):
        labels.update(record.labels or ())
        count += 1
    assert count == rows
    if columns is STSB:
        assert all(0 <= float(label) <= 5 for label in labels)
    else:
        assert len(labels) == (4 if "ag_news" in name else 2)


@pytest.fixture(scope="module")
def ag_news_lengths(data_folder: Path) -> NDArray[np.int64]:
    tokenizer = BertTokenizer.from_pretrained(resolve("minilm"))
    records = read_records([data_folder / "ag_news/train_pool.csv.gz"], AG_NEWS_POOL)
    texts = [record.text for record in records]
    return np.array([len(ids) + 2 for ids in tokenizer.encode_batch(texts)])


@pytest.mark.parametrize("batch_size", [8, 32])
def test_little_of_a_batch_is_padding(ag_news_lengths: NDArray[np.int64], batch_size: int) -> None:
    plan = plan_epoch(ag_news_lengths, batch_size=batch_size, batch_tokens=8192, seed=1, epoch=0)
    padded = sum(len(rows) * int(ag_news_lengths[rows].max()) for step in plan for rows in step)
    share = 1 - ag_news_lengths.sum() / padded
    assert 0 < share < 0.03


def test_little_of_a_prediction_is_padding(
    ag_news_lengths: NDArray[np.int64],
) -> None:
    plan = plan_pass(ag_news_lengths, batch_tokens=8192, max_items=64)
    padded = sum(len(rows) * int(ag_news_lengths[rows].max()) for rows in plan)
    share = 1 - ag_news_lengths.sum() / padded
    assert 0 < share < 0.01
