"""``heedful train TASK``: one command per task, built from the table of tasks."""

from collections.abc import Callable
from inspect import Parameter as Argument
from inspect import Signature, cleandoc
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from heedful.cli.options import collector_at_rest, print_table, say
from heedful.errors import count_of, shell_word
from heedful.settings import (
    TASKS,
    ColumnSettings,
    FileSettings,
    RunSettings,
    TaskEntry,
    TeacherSettings,
)

if TYPE_CHECKING:
    from heedful.task import Recipe
    from heedful.training.fit import Outcome

app = App(name="train", help="Train a model on your own files, into a run folder.")


def command(name: str, entry: TaskEntry) -> Callable[..., None]:
    """Return the command of a task. Its arguments are groups of settings."""

    def train(
        *,
        data: Any,
        options: Any = entry.options(),  # noqa: B008, a frozen value
        columns: ColumnSettings | FileSettings = ColumnSettings(),  # noqa: B008
        training: Any = entry.training(),  # noqa: B008
        teaching: TeacherSettings = TeacherSettings(),  # noqa: B008
        run: RunSettings,
    ) -> None:
        with collector_at_rest():
            from heedful.task import Recipe

        if isinstance(columns, FileSettings):
            columns = ColumnSettings(encoding=columns.encoding)
        recipe = Recipe(
            data=data,
            options=options,
            columns=columns,
            training=training,
            run=run,
            teaching=teaching,
        )
        train_and_report(name, recipe)

    groups = {
        "data": (entry.data, "Data and model"),
        "options": (entry.options, entry.title),
        "columns": (ColumnSettings, "Columns") if entry.columns else (FileSettings, "Files"),
        "training": (entry.training, "Training"),
        "teaching": (TeacherSettings, "Teacher"),
        "run": (RunSettings, "Run"),
    }
    if not entry.options.__dataclass_fields__:  # type: ignore[attr-defined]
        del groups["options"]
    required = ("data", "run")
    arguments = [
        Argument(
            group,
            Argument.KEYWORD_ONLY,
            default=Argument.empty if group in required else kind(),
            annotation=Annotated[
                kind, Parameter(name="*", group=title, negative="" if group == "run" else None)
            ],
        )
        for group, (kind, title) in groups.items()
    ]
    train.__signature__ = Signature(arguments, return_annotation=None)  # type: ignore[attr-defined]
    train.__annotations__ = {argument.name: argument.annotation for argument in arguments}
    train.__doc__ = cleandoc(entry.options.__doc__ or "")
    return train


def train_and_report(name: str, recipe: "Recipe") -> None:
    """Train; with several processes, only the first reports the outcome."""
    from heedful.commands import train as verb
    from heedful.training import ranks

    advice = "the same command with --resume continues from the last checkpoint"
    with ranks.together(advice), ranks.naming_the_process():
        outcome = verb.train(name, recipe, say=say)
        if ranks.is_first():
            report(recipe, outcome)


def report(recipe: "Recipe", outcome: "Outcome | None") -> None:
    """Print the outcome of a training, and suggest the next commands."""
    from heedful.checkpoints.runs import read_record
    from heedful.tasks import read_task

    if outcome is None:
        return
    out = recipe.run.out
    rate = outcome.tokens / max(outcome.seconds, 1e-9)
    best = f", best at step {outcome.best_step:,}" if outcome.best_step is not None else ""
    why = f" ({outcome.stopped})" if outcome.stopped else ""
    steps = count_of(outcome.step, "step")
    if outcome.session_steps < outcome.step:
        steps += f", the last {outcome.session_steps:,}"
    say(
        f"{steps} in {outcome.seconds:.0f} s{why}, {rate:,.0f} tokens/s{best}; "
        f"the model is in {out}"
    )
    if outcome.scores:
        from heedful.metrics import scores_table

        print_table(scores_table(outcome.scores, "heedful evaluate writes all"))
    task = read_task(read_record(out), out)
    data = "FOLDER" if "see" in task.abilities else "FILE"
    run = shell_word(str(out))
    say(f"try: heedful predict {run} {task.example}   or: heedful evaluate {run} --data {data}")


for task, entry in TASKS.items():
    app.command(command(task, entry), name=task)
