"""``heedful predict RUN --against FILE``: the texts of a file that are nearest to each text.

Shapes: N texts of the file, D width of a vector.
"""

from collections.abc import Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.commands.predict import records_of
from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.reading import Record
from heedful.settings import ColumnSettings
from heedful.training.progress import counted


def nearest(
    predictor: Predictor, records: Iterable[Record], corpus: Path, columns: ColumnSettings
) -> Iterator[dict[str, Any]]:
    """Find the ``--top`` nearest texts of a corpus to each record, by the cosine of their vectors.

    Args:
        predictor: of a run that gives vectors.
        records: what is looked for.
        corpus: a file of texts, read as ``--input`` is.
        columns: where the texts stand in a file of columns.

    Yields:
        ``nearest``: the text, its line and its score of each, best first; and the record's tokens.

    Raises:
        UserError: the run is one of another task, or the file has no text.
    """
    if "embed" not in predictor.task.abilities:
        raise UserError(f"--against is for embed runs; this is a {predictor.task.name} run")
    texts, vectors = _read_corpus(predictor, corpus, columns)
    most = min(predictor.settings.top, len(texts))
    for answer in predictor.answers(records):
        best = (vectors @ F.normalize(answer.vector, dim=0)).topk(most)  # (N,) to (most,)
        yield {
            "nearest": [
                {"text": texts[row].text, "line": texts[row].line, "score": round(score, 6)}
                for score, row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ],
            "tokens_total": answer.tokens_total,
            "tokens_used": answer.tokens_used,
        }


def _read_corpus(
    predictor: Predictor, corpus: Path, columns: ColumnSettings
) -> tuple[list[Record], Tensor]:
    """Return the texts of a file, and their vectors of length 1. Shape (N, D)."""
    read = records_of(predictor.task, (), corpus, columns)
    records, copies = tee(record for record in read if record.text.strip())
    vectors = [answer.vector for answer in counted(predictor.answers(copies), "texts embedded")]
    if not vectors:
        raise UserError(f"{corpus}: no text in it")
    return list(records), F.normalize(torch.stack(vectors), dim=-1)
