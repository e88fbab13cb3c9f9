"""The record of a run: what `--resume` compares, so that a run does not mix two trainings."""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from heedful.checkpoints.runs import RunRecord, versions
from heedful.reading import Fingerprint, fingerprint
from heedful.reading.shards import find_shards, shard_fingerprints
from heedful.task import AnyTask, Recipe, Start
from heedful.training.distil import teacher_print


def new_record(kind: type[AnyTask], recipe: Recipe) -> RunRecord:
    """Return the record of a run whose goal and tokenizer are still unknown."""
    settings: dict[str, Any] = {}
    for group in (recipe.data, recipe.options, recipe.columns, recipe.training):
        settings |= asdict(group)
    if recipe.teaching.teacher is not None:
        settings |= asdict(recipe.teaching)
    if recipe.teaching.student_layers is not None:
        settings["model"] = recipe.teaching.teacher
    images = recipe.columns.format == "images"
    dev = recipe.data.dev and fingerprint(recipe.data.dev, folders=images)
    return RunRecord(
        task=kind.name,
        goal={},
        max_length=0,
        settings=_plain_values(settings),
        data=[asdict(file) for file in _fingerprints(kind, recipe, images)],
        versions=versions(),
        teacher=teacher_print(recipe.teaching),
        dev=[asdict(file) for file in dev] if dev else None,
        phrases=_phrases_print(recipe),
    )


def with_start(record: RunRecord, start: Start) -> RunRecord:
    """Return a record with the model's configuration and the hash of all that affects token ids."""
    identity = json.dumps(start.tokenizer.identity(), sort_keys=True)
    return replace(
        record,
        tokenizer=hashlib.sha256(identity.encode()).hexdigest(),
        model=json.loads(json.dumps(start.model.config.to_dict())),
    )


def with_goal(record: RunRecord, task: AnyTask, max_length: int) -> RunRecord:
    """Return a record with all that predictions need."""
    return replace(record, goal=_plain_values(asdict(task)), max_length=max_length)


def shared_facts(record: RunRecord) -> dict[str, Any]:
    """Return what all ranks must have in common; files by name, so that an error can name one."""
    facts = asdict(record)
    for name in ("data", "dev"):
        facts[name] = {
            item["file"]: f"{item['bytes']:,} bytes with SHA-256 {item['sha256'][:16]}"
            for item in facts[name] or ()
        }
    return facts


def _fingerprints(kind: type[AnyTask], recipe: Recipe, images: bool) -> list[Fingerprint]:
    if kind.streams(recipe):
        return shard_fingerprints(find_shards(recipe.data.train))
    return fingerprint(recipe.data.train, folders=images)


def _phrases_print(recipe: Recipe) -> dict[str, Any] | None:
    """Return the file, size in bytes and SHA-256 of the ``--phrases``; None without such a file."""
    path = getattr(recipe.options, "phrases", None)
    if path is None or not path.is_file():  # a pipe, which cannot be read twice
        return None
    return asdict(fingerprint([path])[0])


def _plain_values(settings: dict[str, Any]) -> dict[str, Any]:
    """Convert settings to JSON types: paths become strings."""

    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    return {key: plain(value) for key, value in settings.items()}
