"""Embed the sentence pairs of STS-B with MiniLM, and compare their similarity with people's."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.row import Plan, Row, Scores
from benchmarks.rows.encode import ARMS, write_work

if TYPE_CHECKING:
    import numpy as np


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Divide the pairs of the test set among the laps."""
    from benchmarks.data import FOLDER
    from heedful.reading import read_records
    from heedful.settings import ColumnSettings
    from heedful.sources import resolve

    columns = ColumnSettings(text="1", text_pair="2", label="3", header=False)
    records = list(read_records([FOLDER / "stsb/stsb-en-test.csv.gz"], columns))
    size = round(len(records) * share) // laps
    records = records[: laps * size]
    truth = [float((record.labels or ("0",))[0]) for record in records]
    (folder / "truth.json").write_text(json.dumps(truth))
    parts = [
        [
            text
            for r in records[lap * size : (lap + 1) * size]
            for text in (r.text, r.text_pair or "")
        ]
        for lap in range(laps)
    ]
    model = Path(resolve("minilm"))
    return write_work(folder, model, parts, 256)


def score(folder: Path, outputs: "Mapping[str, np.ndarray[Any, Any]]") -> Scores:
    """Return the rank correlation of the cosines with the scores that people gave."""
    from scipy.stats import spearmanr

    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return {
        name: {"Spearman": float(spearmanr((rows[0::2] * rows[1::2]).sum(1), truth).statistic)}
        for name, rows in outputs.items()
    }


ROWS = {
    "embed": Row(
        title="embedding sentences of STS-B with MiniLM, including tokenization",
        arms=ARMS,
        prepare=prepare,
        score=score,
        unit="tokens/s",
    )
}
