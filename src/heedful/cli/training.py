"""``heedful train TASK``: one command a task."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from heedful.cli.options import (
    COLUMNS,
    TRAINING,
    TRAINING_ANEW,
    Columns,
    Data,
    Pairs,
    Place,
    Training,
    TrainingAnew,
    print_table,
    say,
)
from heedful.settings import (
    AnswerSettings,
    ChooseSettings,
    ClassifySettings,
    ColumnSettings,
    DataSettings,
    EmbedSettings,
    GenerateSettings,
    PretrainSettings,
    RegressSettings,
    RunSettings,
    TagSettings,
    TrainSettings,
    TranslateSettings,
)

if TYPE_CHECKING:
    from heedful.training.fit import Outcome

CLASSIFY = ClassifySettings()
TAG, ANSWER, EMBED = TagSettings(), AnswerSettings(), EmbedSettings()
PRETRAIN, TRANSLATE = PretrainSettings(), TranslateSettings()

train = App(name="train", help="Train a model on your own files and leave a run folder.")


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

        heedful train classify --train tickets.csv --label team --out runs/tickets
    """
    _train("classify", data, own, columns, training, place)


@train.command(name="regress")
def train_regress(
    *, data: Data, columns: Columns = COLUMNS, training: Training = TRAINING, place: Place
) -> None:
    r"""Give texts, or pairs of texts, a number, such as how alike two sentences are.

    The label is a number:

        heedful train regress --train pairs.csv --text-pair other --label score
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

    The file has a word and its tag on each line, and an empty line between
    sentences; --text and --label are the numbers of their columns, by default
    the first and the last:

        heedful train tag --train train.conll --dev dev.conll --out runs/names

    Or it is a .jsonl file with a text and its entities on each line, under
    these names unless --text and --label say others:

        {"text": "Ann is in Rome",
         "entities": [{"start": 10, "end": 14, "label": "place"}]}
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

    The file is SQuAD's JSON; or it is .jsonl, a question and its answers on
    each line:

        heedful train answer --train squad.json --max-length 384 --out runs/answers

        {"question": "Who?", "context": "It was Ann.",
         "answers": [{"text": "Ann", "start": 7}]}
    """
    _train("answer", data, own, COLUMNS, training, place)


@train.command(name="choose")
def train_choose(*, data: Data, training: Training = TRAINING, place: Place) -> None:
    """Choose the one of several texts that answers a question, or goes on from a text.

    The file is .jsonl, a question, its choices and the right one's number or
    text on each line:

        heedful train choose --train questions.jsonl --out runs/quiz

        {"question": "What is the sky?", "choices": ["blue", "a fish"], "answer": 0}

    The layout of CommonsenseQA is read as well.
    """
    _train("choose", data, ChooseSettings(), COLUMNS, training, place)


@train.command(name="embed")
def train_embed(
    *,
    data: Data,
    own: Annotated[EmbedSettings, Parameter(name="*", group="Embedding")] = EMBED,
    columns: Columns = COLUMNS,
    training: Training = TRAINING,
    place: Place,
) -> None:
    """Give texts vectors that are near each other where the texts mean the same.

    The file has pairs of texts that belong together, such as questions and
    their answers; or, where --label names a column, pairs and a score of how
    alike they are:

        heedful train embed --train faq.csv --text-pair answer --out runs/search

        heedful train embed --train pairs.csv --text-pair other --label score
            --out runs/alike
    """
    _train("embed", data, own, columns, training, place)


@train.command(name="pretrain")
def train_pretrain(
    *,
    data: Data,
    own: Annotated[PretrainSettings, Parameter(name="*", group="Pre-training")] = PRETRAIN,
    training: Training = TRAINING,
    place: Place,
) -> None:
    """Learn from plain text alone: which words are masked, and which sentences follow others.

    From scratch, or on from another model to make it know your field:

        heedful train pretrain --train books/*.txt --documents gap
            --preset mini --vocabulary words --learning-rate 1e-3 --out runs/mini

        heedful train pretrain --train reports.txt --objective mlm
            --out runs/field

    A model from scratch reads 128 tokens at once unless --max-length says otherwise.
    """
    from heedful.commands.pretrain import pretrain

    _report("pretrain", pretrain(data, own, training, place, say=say), place.out)


@train.command(name="generate")
def train_generate(
    *, data: Data, columns: Columns = COLUMNS, training: Training = TRAINING, place: Place
) -> None:
    """Write: go on with a text, or read a text and write another, such as a summary or a reply.

    From a table with a text to read and one to write on each row; or from
    .txt files, to go on:

        heedful train generate --train mails.csv --label reply --out runs/replies

        heedful train generate --train book.txt --out runs/writer
    """
    _train("generate", data, GenerateSettings(), columns, training, place)


@train.command(name="translate")
def train_translate(
    *,
    data: Pairs,
    own: Annotated[TranslateSettings, Parameter(name="*", group="Translation")] = TRANSLATE,
    columns: Columns = COLUMNS,
    training: TrainingAnew = TRAINING_ANEW,
    place: Place,
) -> None:
    """Translate: a text in one language for a text in another.

    From two files that are translations of each other line by line:

        heedful train translate --train train.de train.en --dev val.de val.en --out runs/de-en

    Or from a table with a column of each:

        heedful train translate --train pairs.tsv --text de --label en --out runs/de-en
    """
    from heedful.commands.translate import translate

    _report("translate", translate(data, own, columns, training, place, say=say), place.out)


def _train(
    task: str,
    data: DataSettings,
    own: object,
    columns: ColumnSettings,
    training: TrainSettings,
    place: RunSettings,
) -> None:
    from heedful.commands.train import train

    _report(task, train(task, data, own, columns, training, place, say=say), place.out)


def _report(task: str, outcome: "Outcome | None", out: Path) -> None:
    """Tell how a training ended, and what to do with it."""
    from heedful.tasks import task_named

    if outcome is None:
        return
    rate = outcome.tokens / max(outcome.seconds, 1e-9)
    best = f", best at step {outcome.best_step:,}" if outcome.best_step is not None else ""
    why = f" ({outcome.stopped})" if outcome.stopped else ""
    say(
        f"{outcome.step:,} steps in {outcome.seconds:.0f} s{why}, {rate:,.0f} tokens/s{best}; "
        f"the model is in {out}"
    )
    if outcome.scores:
        from heedful.metrics import scores_table

        print_table(scores_table(outcome.scores))
    example = task_named(task).example
    say(f"try: heedful predict {out} {example}   or: heedful evaluate {out} --data FILE")
