"""``heedful explain``."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from heedful.cli.options import COLUMNS, PREDICTING, Columns, Predicting, say
from heedful.errors import UserError
from heedful.settings import ExplainSettings

Explaining = Annotated[ExplainSettings, Parameter(name="*", group="Explaining")]
EXPLAINING = ExplainSettings()


def explain(
    run: Path,
    *texts: str,
    input: Path | None = None,
    context: str | None = None,
    context_file: Path | None = None,
    out: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    explaining: Explaining = EXPLAINING,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
) -> None:
    """Say which tokens an answer comes from, and show what the model attends to.

    Parameters
    ----------
    run
        Run folder.
    texts
        Texts to explain the answers for; without any, --input or standard input is read.
    input
        File of texts: one per line (.txt), or the --text column of .csv, .tsv, .jsonl, .parquet.
    context
        Second text of each pair: the context that holds the answers to questions.
    context_file
        File that holds the context.
    out
        File to write for one text: .html for a browser, or .json.
    overwrite
        Replace --out.
    """
    from heedful.commands import explain as command
    from heedful.commands import predict
    from heedful.explain.explaining import explain_record
    from heedful.predictor import Predictor

    if out is not None:
        command.check_out(out, overwrite=overwrite)
    if predicting.precision == "auto":  # bf16 is too coarse for differences of outputs
        predicting = replace(predicting, precision="fp32")
    predictor = Predictor.load(run, predicting)
    inputs = predict.texts_of(predictor.task, texts, context, context_file)
    records = [*predict.records_of(predictor.task, inputs, input, columns)]
    if out is not None and len(records) != 1:
        raise UserError(f"--out {out}: holds one explanation; there are {len(records)} texts")
    for record in records:
        explanation = explain_record(predictor, record, explaining)
        if out is not None:
            command.write(explanation, out)
            say(f"explanation written to {out}")
        else:
            print(json.dumps(explanation.to_dict(), ensure_ascii=False))
