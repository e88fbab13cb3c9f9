"""``heedful predict RUN --against FILE``: find the texts of a file nearest to each text.

Shapes: N texts of the file, D embedding width.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.commands.inputs import records_of, shared
from heedful.errors import UserError, with_article
from heedful.predictor import Predictor
from heedful.reading import Record
from heedful.settings import ColumnSettings
from heedful.training import ranks
from heedful.training.progress import counted


def check_no_pairs(context: str | None, context_file: Path | None, columns: ColumnSettings) -> None:
    """Reject options that turn the queries into text pairs.

    Raises:
        UserError: such an option is given; the message names it.
    """
    options = {
        "--context": context,
        "--context-file": context_file,
        "--text-pair": columns.text_pair,
    }
    for option, value in options.items():
        if value is not None:
            raise UserError(
                f"{option} makes pairs, but --against searches with single texts: give one of them"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The embedded texts of a file, for nearest-neighbour search."""

    texts: list[Record]
    vectors: Tensor
    """Unit-length embeddings. Shape (N, D)."""
    top: int

    @classmethod
    def read(
        cls,
        predictor: Predictor,
        corpus: Path,
        columns: ColumnSettings,
        queries: Sequence[Path] = (),
    ) -> "Neighbours":
        """Embed the texts of a file; several processes share the work.

        Args:
            predictor: predictor of an embed run.
            corpus: a file of texts, read like ``--input``.
            columns: columns of the texts.
            queries: files of the queries, read with the same columns.

        Raises:
            UserError: the run has another task, or the file has no text.
        """
        if "embed" not in predictor.task.abilities:
            raise UserError(
                f"--against is for embed runs; this is {with_article(predictor.task.name)} run"
            )
        read = records_of(predictor.task, (), [corpus], shared(columns, corpus, queries))
        records, copies = tee(record for record in read if record.text.strip())
        answers = ranks.joined(predictor.answers, copies)
        rows = [answer.vector for answer in counted(answers, "texts embedded")]
        if not rows:
            raise UserError(f"{corpus}: no text in it")
        vectors = F.normalize(torch.stack(rows), dim=-1)
        return cls(list(records), vectors, min(predictor.settings.top, len(rows)))

    def line_of(self, answer: Any, *, plain: bool) -> str:
        """Format the nearest texts as a JSON object, or with ``plain`` only the nearest text."""
        row = self.nearest(answer)
        nearest: str = row["nearest"][0]["text"]
        return " ".join(nearest.split()) if plain else json.dumps(row, ensure_ascii=False)

    def nearest(self, answer: Any) -> dict[str, Any]:
        """Find the texts nearest to an embedded text by cosine similarity.

        Returns:
            ``nearest``: text, line and score of each, best first; and the token counts of the
            embedded text.

        Raises:
            UserError: a vector holds NaN or infinity.
        """
        # Cosines of equal vectors may differ in the last bits. Rounding makes them tie, and among
        # ties the earlier text comes first.
        cosines = (self.vectors @ F.normalize(answer.vector, dim=0)).round(decimals=6)  # (N,)
        if not cosines.isfinite().all():
            raise UserError("a vector has values that are not numbers; the model is damaged")
        near = (cosines >= cosines.topk(self.top).values[-1]).nonzero().squeeze(1)
        rows = near[cosines[near].argsort(descending=True, stable=True)][: self.top]
        return {
            "nearest": [
                {
                    "text": self.texts[row].text,
                    "line": self.texts[row].line,
                    "score": round(float(cosines[row]), 6),
                }
                for row in rows.tolist()
            ],
            "tokens_total": answer.tokens_total,
            "tokens_used": answer.tokens_used,
        }
