"""``heedful explain``."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from heedful.cli.options import (
    COLUMNS,
    PREDICTING,
    Columns,
    Predicting,
    collector_at_rest,
    print_table,
    say,
    show,
)
from heedful.errors import UserError
from heedful.settings import ExplainSettings

if TYPE_CHECKING:
    from heedful.predictor import Predictor

Explaining = Annotated[ExplainSettings, Parameter(name="*", group="Explaining")]
Measuring = Annotated[bool, Parameter(negative="", group="Measuring")]
EXPLAINING = ExplainSettings()


def explain(
    run: Path,
    *texts: str,
    input: Path | None = None,
    context: str | None = None,
    context_file: Path | None = None,
    out: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    faithfulness: Measuring = False,
    heads: Measuring = False,
    data: Annotated[list[Path] | None, Parameter(group="Measuring")] = None,
    limit: Annotated[int, Parameter(group="Measuring")] = 200,
    explaining: Explaining = EXPLAINING,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
) -> None:
    """Show which tokens an answer depends on, and what the model attends to.

    Computes in fp32, unless --precision says otherwise.

    Parameters
    ----------
    run
        Run folder, or a folder saved by transformers.
    texts
        Texts whose answers to explain; default: --input or standard input.
    input
        File of texts: one per line (.txt), or the --text column of .csv, .tsv, .jsonl, .json,
        .parquet.
    context
        Second text of each pair: the context that holds the answers to questions.
    context_file
        File that holds the context.
    out
        File to write: .html, .png, .svg or .json for one text, .png, .svg or .json for --heads,
        .json for --faithfulness.
    overwrite
        Replace --out.
    json
        Print JSON lines instead of a table, even in a terminal.
    faithfulness
        Measure how far to trust each method: the drop in the answer's probability without the
        method's top tokens, and with only them.
    heads
        Measure how much each attention head matters, and how many can be pruned (--prune).
    data
        Files to measure on; with labels for --heads.
    limit
        Maximum number of texts to measure on, spread over the data.
    """
    with collector_at_rest():
        from heedful.commands import explain as command
        from heedful.predictor import Predictor

    measured = [name for name, on in (("faithfulness", faithfulness), ("heads", heads)) if on]
    if len(measured) == 2:
        raise UserError("give --faithfulness or --heads, not both")
    if bool(measured) != (data is not None):
        raise UserError("--data goes with --faithfulness or --heads: give both")
    if measured and (texts or input or context or context_file or explaining != EXPLAINING):
        raise UserError(f"--{measured[0]} is measured on --data: leave out texts and their options")
    if limit < 2:
        raise UserError(f"--limit {limit}: must be at least 2")
    if measured and predicting.precision == "int8":
        raise UserError(f"--{measured[0]} is not measured in int8; leave out --precision")
    read = [*(data or ()), *filter(None, (input, context_file))]
    _check_out(out, measured, read, overwrite)
    if predicting.precision == "auto":  # bf16 is too coarse for differences of outputs
        predicting = replace(predicting, precision="fp32")
    predictor = Predictor.load(run, predicting)
    if data is not None:
        _measure(predictor, measured[0], data, columns, limit, out, json)
        return
    from heedful.commands import inputs as reading
    from heedful.explanation_target import NothingToExplainError
    from heedful.explanations.explaining import explain_record
    from heedful.explanations.tables import explanation_table

    inputs = reading.texts_of(predictor.task, texts, context, context_file, columns.encoding)
    paths = [input] if input else []
    records = [*reading.records_of(predictor.task, inputs, paths, columns)]
    if out is not None and len(records) != 1:
        raise UserError(
            f"--out {out}: a file holds one explanation; there are {len(records)} texts"
        )
    if out is None and (explaining.attention is None or not _wants_json(json)):
        explaining = replace(explaining, attention=False)  # a table has no room for it
    for record in records:
        try:
            explanation = explain_record(predictor, record, explaining)
        except NothingToExplainError as error:
            raise UserError(f"{record.where}: {error}") from None
        if out is not None:
            command.WRITERS[out.suffix.lower()](explanation, out)
            say(f"explanation written to {out}")
        else:
            _show(explanation, explanation_table(explanation), json)


def _check_out(out: Path | None, measured: list[str], read: list[Path], overwrite: bool) -> None:
    from heedful.commands import explain as command
    from heedful.files import check_not_input

    writers: dict[str, Any] = {
        "faithfulness": command.FAITHFULNESS_WRITERS,
        "heads": command.HEADS_WRITERS,
    }
    if out is not None:
        check_not_input("--out", out, read)
        endings = writers[measured[0]] if measured else command.WRITERS
        command.check_out(out, list(endings), overwrite=overwrite)


def _measure(
    predictor: "Predictor",
    what: str,
    data: list[Path],
    columns: Columns,
    limit: int,
    out: Path | None,
    as_json: bool,
) -> None:
    from heedful.commands import explain as command
    from heedful.explanations import tables

    result: Any
    write: dict[str, Any]
    if what == "heads":
        result = command.measure_heads(predictor, data, columns, limit, say)
        table, write = tables.heads_table(result), command.HEADS_WRITERS
    else:
        result = command.measure_methods(predictor, data, columns, limit)
        table, write = tables.faithfulness_table(result), command.FAITHFULNESS_WRITERS
    if out is not None:
        print_table(table)
        write[out.suffix.lower()](result, out)
        say(f"written to {out}")
    else:
        _show(result, table, as_json)


def _show(result: Any, table: Any, as_json: bool) -> None:
    """Print a table in a terminal; print JSON otherwise, or if the user asks for it."""
    if _wants_json(as_json):
        show(json.dumps(result.to_dict(), ensure_ascii=False))
    else:
        print_table(table)


def _wants_json(as_json: bool) -> bool:
    return as_json or sys.stdout is None or not sys.stdout.isatty()  # None: closed
