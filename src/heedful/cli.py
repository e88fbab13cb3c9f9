"""The ``heedful`` command: verbs and options to functions; what they do is in ``commands``.

Nothing here imports torch before a command needs it, so that help is there at once. The settings'
dataclasses give the options, and their docstrings the help; those that need no torch stand here.
"""

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, ArgumentCollection, CycloptsError, Parameter
from cyclopts.config import Dict

from heedful import __version__
from heedful.errors import UserError
from heedful.settings import (
    AnswerSettings,
    ChooseSettings,
    ClassifySettings,
    ColumnSettings,
    DataSettings,
    GenerateSettings,
    PredictSettings,
    PretrainSettings,
    RegressSettings,
    RunSettings,
    TagSettings,
    TrainSettings,
    VocabularySettings,
)

if TYPE_CHECKING:
    from heedful.predictor import Predictor
    from heedful.training.fit import Outcome

EXIT_USER_ERROR, EXIT_STOPPED = 2, 130

Columns = Annotated[ColumnSettings, Parameter(name="*", group="Columns")]
Predicting = Annotated[PredictSettings, Parameter(name="*", group="Computing")]
Data = Annotated[DataSettings, Parameter(name="*", group="Data and model")]
Training = Annotated[TrainSettings, Parameter(name="*", group="Training")]
Place = Annotated[RunSettings, Parameter(name="*", group="Run", negative="")]
COLUMNS, PREDICTING, TRAINING = ColumnSettings(), PredictSettings(), TrainSettings()  # defaults
VOCABULARY = VocabularySettings()
CLASSIFY = ClassifySettings()
TAG, ANSWER = TagSettings(), AnswerSettings()
PRETRAIN = PretrainSettings()

app = App(
    name="heedful",
    version=__version__,
    help="Turn your own text into working BERT models, on your own machine.",
    help_epilogue="""
Start here: [bold]heedful demo[/bold], then
[bold]heedful train classify --train tickets.csv --out runs/tickets[/bold].
""",
    help_format="rich",
    default_parameter=Parameter(consume_multiple=True, negative_iterable=""),
)
train = App(name="train", help="Train a model on your own files and leave a run folder.")
app.command(train)


@train.command(name="classify")
def train_classify(
    *,
    data: Data,
    own: Annotated[ClassifySettings, Parameter(name="*", group="Classification")] = CLASSIFY,
    columns: Columns = COLUMNS,
    training: Training = TRAINING,
    place: Place,
) -> None:
    """Sort texts, or pairs of texts, into labels.

    The file has a column of texts and a column of labels:

        heedful train classify --train tickets.csv --text message --label team --out runs/tickets
    """
    _train("classify", data, own, columns, training, place)


@train.command(name="regress")
def train_regress(
    *, data: Data, columns: Columns = COLUMNS, training: Training = TRAINING, place: Place
) -> None:
    r"""Give texts, or pairs of texts, a number, such as how alike two sentences are.

    The label is a number:

        heedful train regress --train pairs.csv --text first --text-pair second --label score \\
            --out runs/alike
    """
    _train("regress", data, RegressSettings(), columns, training, place)


@train.command(name="tag")
def train_tag(
    *,
    data: Data,
    own: Annotated[TagSettings, Parameter(name="*", group="Tagging")] = TAG,
    columns: Columns = COLUMNS,
    training: Training = TRAINING,
    place: Place,
) -> None:
    """Find entities in texts, such as persons and places.

    The file has a word and its tag on each line, and an empty line between sentences; --text and
    --label are the numbers of their columns, by default the first and the last:

        heedful train tag --train train.conll --dev dev.conll --out runs/names

    Or it is a .jsonl file with a text and its entities on each line, under these names unless
    --text and --label say others:

        {"text": "Ann is in Rome", "entities": [{"start": 10, "end": 14, "label": "place"}]}
    """
    _train("tag", data, own, columns, training, place)


@train.command(name="answer")
def train_answer(
    *,
    data: Data,
    own: Annotated[AnswerSettings, Parameter(name="*", group="Answers")] = ANSWER,
    training: Training = TRAINING,
    place: Place,
) -> None:
    """Answer questions with slices of texts, or say that a text holds no answer.

    The file is SQuAD's JSON; or it is .jsonl, a question and its answers on each line:

        heedful train answer --train squad.json --max-length 384 --out runs/answers

        {"question": "Who?", "context": "It was Ann.", "answers": [{"text": "Ann", "start": 7}]}
    """
    _train("answer", data, own, COLUMNS, training, place)


@train.command(name="choose")
def train_choose(*, data: Data, training: Training = TRAINING, place: Place) -> None:
    """Choose the one of several texts that answers a question, or goes on from a text.

    The file is .jsonl, a question, its choices and the right one's number or text on each line:

        heedful train choose --train questions.jsonl --out runs/quiz

        {"question": "What is the sky?", "choices": ["blue", "a fish"], "answer": 0}

    The layout of CommonsenseQA is read as well.
    """
    _train("choose", data, ChooseSettings(), COLUMNS, training, place)


@train.command(name="pretrain")
def train_pretrain(
    *,
    data: Data,
    own: Annotated[PretrainSettings, Parameter(name="*", group="Pre-training")] = PRETRAIN,
    training: Training = TRAINING,
    place: Place,
) -> None:
    r"""Learn from plain text alone: which words are masked, and which sentences follow others.

    From scratch, or on from another model to make it know your field:

        heedful train pretrain --train books/*.txt --documents file --preset mini \\
            --vocabulary words --learning-rate 1e-3 --out runs/mini

        heedful train pretrain --train reports.txt --model minilm --objective mlm --out runs/field

    A model from scratch reads 128 tokens at once unless --max-length says otherwise.
    """
    from heedful.commands.pretrain import pretrain

    outcome = pretrain(
        data, own, training, place.out, resume=place.resume, overwrite=place.overwrite, say=_say
    )
    _report("pretrain", outcome, place.out)


@train.command(name="generate")
def train_generate(
    *, data: Data, columns: Columns = COLUMNS, training: Training = TRAINING, place: Place
) -> None:
    """Write: go on with a text, or read a text and write another, such as a summary or a reply.

    From a table with a text to read and one to write on each row; or from .txt files, to go on:

        heedful train generate --train mails.csv --text question --label reply --out runs/replies

        heedful train generate --train book.txt --out runs/writer
    """
    _train("generate", data, GenerateSettings(), columns, training, place)


def _train(
    task: str,
    data: DataSettings,
    own: object,
    columns: ColumnSettings,
    training: TrainSettings,
    place: RunSettings,
) -> None:
    from heedful.commands.train import train

    outcome = train(
        task,
        data,
        own,
        columns,
        training,
        place.out,
        resume=place.resume,
        overwrite=place.overwrite,
        say=_say,
    )
    _report(task, outcome, place.out)


def _report(task: str, outcome: "Outcome | None", out: Path) -> None:
    """Tell how a training ended, and what to do with it."""
    from heedful.tasks import task_named

    if outcome is None:
        return
    rate = outcome.tokens / max(outcome.seconds, 1e-9)
    best = f", best at step {outcome.best_step:,}" if outcome.best_step is not None else ""
    why = f" ({outcome.stopped})" if outcome.stopped else ""
    _say(
        f"{outcome.step:,} steps in {outcome.seconds:.0f} s{why}, {rate:,.0f} tokens/s{best}; "
        f"the model is in {out}"
    )
    if outcome.scores:
        from heedful.metrics import scores_table

        _print_table(scores_table(outcome.scores))
    example = task_named(task).example
    _say(f"try: heedful predict {out} {example}   or: heedful evaluate {out} --data FILE")


@app.command
def evaluate(
    run: Path,
    *,
    data: list[Path],
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
    picture: Path | None = None,
) -> None:
    """Score a run on labelled files: JSON on standard output and in RUN/metrics.json.

    Parameters
    ----------
    run
        Run folder.
    data
        Labelled files.
    picture
        Also draw the confusion matrix, to a .png or .svg file.
    """
    from heedful.commands import evaluate as command
    from heedful.metrics import confusion_table, save_confusion_picture, scores_table

    predictor = _predictor(run, predicting)
    scores = command.evaluate(run, data, columns, predictor)
    _print_table(scores_table(scores))
    if "confusion" in scores:
        _print_table(confusion_table(scores))
    if picture is not None:
        save_confusion_picture(scores, picture)
        _say(f"confusion matrix drawn to {picture}")
    print(json.dumps(scores, ensure_ascii=False))


@app.command
def predict(
    run: Path,
    *texts: str,
    input: Path | None = None,
    context: str | None = None,
    context_file: Path | None = None,
    columns: Columns = COLUMNS,
    predicting: Predicting = PREDICTING,
    all_scores: Annotated[bool, Parameter(negative="")] = False,
    plain: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Answer for texts given here, in a file, or on standard input: one JSON object a line.

    Parameters
    ----------
    run
        Run folder.
    texts
        Texts to answer for; without any, --input or standard input is read.
    input
        A file of texts: one a line (.txt), or the --text column of .csv, .tsv, .jsonl, .parquet.
    context
        A text that goes with each of the texts: what holds the answers to questions.
    context_file
        The same, in a file.
    all_scores
        Give everything the model scored, such as the probability of every label.
    plain
        Print the answer alone.
    """
    from heedful.commands import predict as command

    predictor = _predictor(run, predicting)
    given = command.texts_of(texts, context, context_file)
    records = command.records_of(predictor.task, given, input, columns)
    for answer in predictor.answers(records):
        line = command.line_of(predictor, answer, all_scores=all_scores, plain=plain)
        print(line, flush=not texts)


@app.command
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
    """Tell how likely texts are to a pre-trained run, or re-rank lists of hypotheses by that.

    Each token is masked in turn, and the log probabilities of all are added up:

        heedful score runs/mini "He sat on the chair." "He sat on the cheer."

    A list to re-rank, from a speech recogniser or a translator, is one line of JSON:

        {"hypotheses": [{"text": "a nice man", "score": -1.2}, {"text": "an ice man"}]}

    Parameters
    ----------
    run
        Run folder.
    texts
        Texts to score; without any, --input, --n-best or standard input is read.
    input
        A file of texts: one a line (.txt), or the --text column of .csv, .tsv, .jsonl, .parquet.
    n_best
        A file of lists to re-rank, as JSON lines.
    weight
        How much the likelihood counts beside a hypothesis's own score.
    all_scores
        Give the log probability of every token.
    """
    from heedful.commands import predict, score

    if n_best is not None and (texts or input is not None):
        raise UserError("--n-best is a file of lists: give no texts and no --input beside it")
    predictor = _predictor(run, predicting)
    if n_best is not None:
        for line in score.rerank(predictor, n_best, weight=weight):
            print(line)
        return
    records = predict.records_of(predictor.task, texts, input, columns)
    for found in score.score_texts(predictor, (record.text for record in records)):
        print(score.line_of(found, everything=all_scores), flush=not texts)


@app.command
def tokenize(*texts: str, model: str = "minilm", revision: str | None = None) -> None:
    """Show a text as the model gets it: one JSON object a text, with pieces, ids and offsets.

    Parameters
    ----------
    texts
        Texts; without any, standard input is read, one a line.
    model
        Model whose vocabulary to use: a folder, a run, an installed model or a hub name.
    revision
        Commit, tag or branch of a hub name.
    """
    from heedful.tokens import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained(model, revision=revision)
    for text in texts or (line.rstrip("\r\n") for line in sys.stdin):
        row = tokenizer(text, return_offsets_mapping=True)
        pieces = tokenizer.convert_ids_to_tokens(row["input_ids"])
        offsets = [list(span) for span in row["offset_mapping"]]
        line = {"pieces": pieces, "ids": row["input_ids"], "offsets": offsets}
        print(json.dumps(line, ensure_ascii=False))


@app.command
def vocabulary(
    *files: Path,
    settings: Annotated[VocabularySettings, Parameter(name="*")] = VOCABULARY,
    out: Path,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Learn a WordPiece vocabulary from plain text, for a model of your own.

    Parameters
    ----------
    files
        Plain text files, also with .gz.
    out
        Folder to make: vocab.txt and what says how texts are split.
    overwrite
        Replace what stands in --out.
    """
    from heedful.commands import vocabulary as command

    tokenizer = command.learn(files, settings, out, overwrite=overwrite)
    _say(
        f"{len(tokenizer):,} tokens in {out}; "
        f"try: heedful train pretrain --train FILES --vocabulary {out} --out RUN"
    )


@app.command
def doctor() -> None:
    """Tell what this machine can do: cores, number formats, GPU, versions, installed models."""
    from heedful.doctor import examine

    print(json.dumps(examine(), indent=2, ensure_ascii=False))


@app.command
def demo(*, out: Path = Path("runs/demo"), data: Path = Path("examples/support_tickets")) -> None:
    """Watch a pre-trained BERT learn to sort support tickets, in about a minute.

    Parameters
    ----------
    out
        Run folder to make; a demo that stands there is replaced.
    data
        Folder with train.csv and test.csv.
    """
    from heedful.commands.demo import run_demo

    run_demo(out, data, say=_say, show=_print_table)


def _predictor(run: Path, settings: PredictSettings) -> "Predictor":
    from heedful.predictor import Predictor

    return Predictor.load(run, settings)


def _say(line: str) -> None:
    """Tell the user something, beside the results on standard output."""
    print(line, file=sys.stderr, flush=True)


def _print_table(table: Any) -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False).print(table)


def main() -> None:
    """Run the command line and exit: 0 done, 2 the user's mistake, 130 stopped by the user."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    sys.exit(run([argument for argument in arguments if argument != "--debug"], debug=debug))


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: the words after ``heedful``; ``--config FILE.toml`` gives defaults for options.
        debug: show the traceback of an error that is otherwise one line.
    """
    try:
        arguments = _with_config(arguments)
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except KeyboardInterrupt as stop:
        _say(str(stop) or "stopped")
        return EXIT_STOPPED
    except BrokenPipeError:
        # Whoever read our output has seen enough; keep Python from complaining when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (CycloptsError, UserError, OSError) as error:
        if debug:
            raise
        _say("heedful: " + " ".join(_message(error).split()))
        return EXIT_USER_ERROR
    return 0


def _message(error: BaseException) -> str:
    """Return an error's line; the parser wraps those our settings raise."""
    while isinstance(error, CycloptsError) and isinstance(error.__cause__, UserError):
        error = error.__cause__
    return str(error)


def _with_config(arguments: list[str]) -> list[str]:
    """Take ``--config FILE`` out of the arguments and use the file for what they do not say."""
    app.config = ()
    if "--config" not in arguments:
        return arguments
    at = arguments.index("--config")
    if at + 1 == len(arguments):
        raise UserError("--config needs a TOML file")
    path = Path(arguments[at + 1])
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"--config {path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path}: {error}") from None

    def defaults(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        nested = values
        for command in reversed(commands):  # where the library looks for a command's options
            nested = {command: nested}
        Dict(data=nested, source=str(path))(app, commands, arguments)

    app.config = (defaults,)
    return arguments[:at] + arguments[at + 2 :]
