"""``heedful train``: records in, a run folder out."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from heedful.batches import Example, Fitted, Store, collate, fingerprint, plan_epoch, write_store
from heedful.checkpoints.runs import RunRecord
from heedful.commands.card import write_card
from heedful.commands.evaluate import score_records
from heedful.doctor import versions
from heedful.errors import unknown_name
from heedful.predictor import Predictor, check_max_length
from heedful.settings import (
    HEAD_RATE,
    ClassifySettings,
    ColumnSettings,
    PredictSettings,
    TrainSettings,
)
from heedful.tasks import classify
from heedful.tokens import BertTokenizer
from heedful.training.device import choose_device, choose_precision, keep_big_buffers
from heedful.training.fit import Job, Outcome, fit, open_run
from heedful.training.loop import Work
from heedful.training.optimize import adamw
from heedful.training.progress import counted
from heedful.training.schedule import schedule


def train_classify(
    data: ClassifySettings,
    columns: ColumnSettings,
    training: TrainSettings,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome | None:
    """Fine-tune a classifier and leave a run folder.

    Args:
        data: files, model and labels.
        columns: where texts and labels stand in the files.
        training: how to train.
        out: the run folder.
        resume: go on with the run in ``out``.
        overwrite: replace the run in ``out``.
        say: takes each line meant for the user.

    Returns:
        How it ended; None where ``resume`` found the run finished.

    Raises:
        UserError: wrong input of any kind, before anything is written where that can be told.
    """
    device = choose_device(training.device)
    precision = choose_precision(training.precision, device)
    keep_big_buffers()
    multi_label = columns.label_separator is not None
    metric = _metric(training.metric, multi_label=multi_label)
    read = partial(classify.read, columns=columns.columns(), file_format=columns.format)
    found = classify.count_labels(read(data.train))
    wanted = data.labels.split(",") if data.labels is not None else None
    labels = classify.order_labels(found, wanted, multi_label=multi_label)
    weights = classify.class_weights(data.class_weights, labels, found)
    index = {label: number for number, label in enumerate(labels)}
    for item in read(data.dev) if data.dev else ():  # now, not after the first epoch
        classify.targets(item, index, multi_label=multi_label)

    torch.manual_seed(training.seed)
    tokenizer = BertTokenizer.from_pretrained(data.model, revision=data.revision)
    model = classify.build(
        data.model, labels, multi_label=multi_label, dropout=data.dropout, revision=data.revision
    ).to(device)
    max_length = check_max_length(
        data.max_length or model.config.max_position_embeddings, model.config
    )
    record = RunRecord(
        task="classify",
        labels=labels,
        multi_label=multi_label,
        max_length=max_length,
        settings=_plain(asdict(data) | asdict(columns) | asdict(training)),
        data=[asdict(print_) for print_ in fingerprint(data.train)],
        versions=versions(),
    )
    if not open_run(out, record, resume=resume, overwrite=overwrite):
        say(f"{out} is finished; nothing to do")
        return None

    store_folder = out / ".data.partial"
    store_folder.mkdir()
    try:
        cut = _Cut()
        encoded = classify.encode(
            read(data.train),
            tokenizer,
            labels,
            multi_label=multi_label,
            max_length=max_length,
            rule=data.long_text,
        )
        write_store(store_folder / "train.arrow", cut.examples(counted(encoded, "texts tokenized")))
        if cut.texts:
            say(
                f"{cut.texts:,} texts are longer than {max_length} tokens: {cut.tokens:,} tokens "
                f"are not learnt from (--long-text {data.long_text}); window would use all"
            )
        store = Store(store_folder / "train.arrow")
        steps_per_epoch = -(-len(store) // training.batch_size)
        total_steps = training.steps or training.epochs * steps_per_epoch
        weight_tensor = None if weights is None else torch.tensor(weights, device=device)
        model.gradient_checkpointing = training.gradient_checkpointing
        work = Work(
            model=model,
            optimizer=adamw(
                model,
                learning_rate=training.learning_rate,
                head_learning_rate=training.head_learning_rate
                or HEAD_RATE * training.learning_rate,
                weight_decay=training.weight_decay,
            ),
            plan=lambda epoch: plan_epoch(
                store.lengths,
                batch_size=training.batch_size,
                batch_tokens=training.batch_tokens,
                seed=training.seed,
                epoch=epoch,
            ),
            fetch=lambda rows: collate(
                [store[row] for row in rows],
                pad_id=tokenizer.pad_token_id,
                labels="classes" if multi_label else "class",
                num_labels=len(labels),
            ).to(device),
            loss=partial(classify.loss, multi_label=multi_label, weights=weight_tensor),
            count=partial(classify.loss_count, multi_label=multi_label, weights=weight_tensor),
            factor=schedule(training.schedule, total_steps=total_steps, warmup=training.warmup),
        )

        def score() -> dict[str, Any]:
            computing = PredictSettings(
                precision=training.precision,
                device=training.device,
                batch_tokens=training.batch_tokens,
            )
            predictor = Predictor(model, tokenizer, record, computing)
            assert data.dev is not None
            return score_records(predictor, read(data.dev))

        def save(folder: Path) -> None:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            write_card(folder, record)

        job = Job(
            work=work,
            record=record,
            total_steps=total_steps,
            steps_per_epoch=steps_per_epoch,
            precision=precision,
            score=score if data.dev else None,
            metric=metric,
            save=save,
            say=say,
        )
        say(
            f"{len(store):,} examples, {len(labels)} labels, {total_steps:,} steps of "
            f"{training.batch_size}, {str(precision.dtype).removeprefix('torch.')} on {device} "
            f"({precision.reason})"
        )
        return fit(job, training, out)
    finally:
        shutil.rmtree(store_folder, ignore_errors=True)


@dataclass(slots=True)
class _Cut:
    """Counts what a rule for long texts leaves out."""

    texts: int = 0
    tokens: int = 0

    def examples(self, fitted: Iterable[Fitted[Example]]) -> Iterator[Example]:
        for text in fitted:
            self.texts += text.tokens_used < text.tokens_total
            self.tokens += text.tokens_total - text.tokens_used
            yield from text.pieces


def _metric(given: str | None, *, multi_label: bool) -> str:
    """Check the metric that picks the best step."""
    allowed = classify.MULTI_LABEL_METRICS if multi_label else classify.METRICS
    if given is not None and given not in allowed:
        raise unknown_name("--metric", given, allowed)
    return given or allowed[0]


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Make settings fit for JSON: paths as text."""

    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        return [plain(item) for item in value] if isinstance(value, list) else value

    return {key: plain(value) for key, value in settings.items()}
