"""Checkpoints of a training run: ``checkpoints/step-N`` folders, written whole and verified."""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any

from torch import Tensor

from heedful import files
from heedful.errors import UserError

WEIGHTS, AVERAGE, OPTIMIZER, RANDOM, STATE = (
    "model.safetensors",
    "average.safetensors",
    "optimizer.safetensors",
    "random.safetensors",
    "state.json",
)
_WHOLE: Mapping[str, Tensor] = MappingProxyType({})
_STEP_FOLDER = re.compile(r"step-(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """The state that a run needs to resume, except tensors. The defaults are for a new run."""

    step: int = 0
    """Number of optimizer steps so far. With the plan of batches, the position in the data."""
    epoch: int = 0
    """Epoch of the next step, from 0."""
    index: int = 0
    """Index of the next step in its epoch."""
    best: tuple[tuple[float, int], ...] = ()
    """The best results of the tracked metric so far, best first, each with its step."""
    evaluations_without_gain: int = 0
    """Evaluations since the best one, for early stopping."""
    alike: bool = True
    """Whether items of similar length are grouped into a step."""
    loss_scale: float | None = None
    """Loss scale of fp16; None in other precisions."""
    loss_scale_streak: int = 0
    """Number of steps since the loss scale last changed."""
    stream: dict[str, Any] | None = None
    """Position in streamed data; see `heedful.batches.stream.StreamPosition`."""

    @property
    def best_step(self) -> int | None:
        """The step with the best result of the tracked metric."""
        return self.best[0][1] if self.best else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """The contents of a complete checkpoint."""

    folder: Path
    state: TrainingState
    model: dict[str, Tensor]
    average: dict[str, Tensor] | None
    """The moving average of the model's weights, if there is one."""
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]


def folder_of(run: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return run / "checkpoints" / f"step-{step}"


def save(
    run: Path,
    state: TrainingState,
    *,
    model: Mapping[str, Tensor],
    average: Mapping[str, Tensor] | None,
    optimizer: Mapping[str, Tensor],
    random: Mapping[str, Tensor],
) -> Path:
    """Write a checkpoint to a temporary folder, hash and sync it, then rename it."""
    target = folder_of(run, state.step)
    with files.new_folder(target, overwrite=True) as folder:
        files.write_tensors(folder / WEIGHTS, model)
        if average is not None:
            files.write_tensors(folder / AVERAGE, average)
        files.write_tensors(folder / OPTIMIZER, optimizer)
        files.write_tensors(folder / RANDOM, random)
        files.write_json(folder / STATE, asdict(state))
        files.write_manifest(folder)
    return target


def save_divided(
    run: Path,
    state: TrainingState,
    *,
    model: Mapping[str, Tensor],
    average: Mapping[str, Tensor] | None,
    optimizer: Mapping[str, Tensor],
    random: Mapping[str, Tensor],
) -> None:
    """Save a sharded checkpoint. A collective operation: each rank writes its shards.

    Each tensor file of `save` becomes a folder of files, named without the suffix.
    """
    from heedful.checkpoints import shards

    with shards.new_folder(folder_of(run, state.step)) as (folder, is_first):
        for name, tensors in ((WEIGHTS, model), (AVERAGE, average), (OPTIMIZER, optimizer)):
            if tensors:
                shards.write((folder / name).with_suffix(""), tensors)
        if is_first:
            files.write_tensors(folder / RANDOM, random)
            files.write_json(folder / STATE, asdict(state))
            files.write_manifest(folder)


def _read(path: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read the tensors of a file, or of the folder that a sharded checkpoint has instead."""
    sharded = path.with_suffix("")
    if not sharded.is_dir():
        return files.read_tensors(path)
    from heedful.checkpoints import shards

    return shards.read(sharded, like)


def _has_average(folder: Path) -> bool:
    return any(folder.glob(f"{Path(AVERAGE).stem}*"))


def load(folder: Path, like: Mapping[str, Tensor] = _WHOLE) -> Checkpoint:
    """Read one checkpoint after checking it against its manifest.

    Args:
        folder: the checkpoint.
        like: the weights of the model. If both the checkpoint and a weight are sharded, this rank
            reads only its own shard.

    Raises:
        UserError: a file is missing, truncated, damaged or has other contents.
    """
    _check(folder)
    return Checkpoint(
        folder=folder,
        state=_read_state(folder),
        model=_read(folder / WEIGHTS, like),
        average=_read(folder / AVERAGE, like) if _has_average(folder) else None,
        optimizer=_read(folder / OPTIMIZER, like),
        random=files.read_tensors(folder / RANDOM),
    )


def _check(folder: Path) -> None:
    """Check a checkpoint against its manifest, which must list all files needed to resume."""
    names = {name.partition("/")[0] for name in files.read_manifest(folder)}
    for name in (WEIGHTS, OPTIMIZER, RANDOM, STATE):
        if names.isdisjoint((name, Path(name).stem)):  # the stem is the folder of a sharded file
            raise UserError(f"{folder / files.MANIFEST}: no {name!r} in it")
    files.check_manifest(folder)


def _read_state(folder: Path) -> TrainingState:
    # Version 0.1.0 did not write these fields and had no other mode.
    raw = files.read_fields(folder / STATE, TrainingState, absent={"alike": True, "stream": None})
    for key, value in raw.items():
        if not _fits(key, value):
            raise UserError(f"{folder / STATE}: {key!r} is {value!r:.40}; the file is damaged")
    raw["best"] = tuple((score, step) for score, step in raw["best"])
    return TrainingState(**raw)


def _fits(key: str, value: object) -> bool:
    """Return whether a value has the right type for a field of the state."""
    if key == "best":
        pairs = value if isinstance(value, list) else [None]
        return all(
            isinstance(pair, list) and [type(item) for item in pair] in ([float, int], [int, int])
            for pair in pairs
        )
    kinds = {"alike": (bool,), "loss_scale": (float, int, NoneType), "stream": (dict, NoneType)}
    return type(value) in kinds.get(key, (int,))


def load_weights(folder: Path, like: Mapping[str, Tensor] = _WHOLE) -> dict[str, Tensor]:
    """Read the evaluated weights of a checkpoint, after checking all its files.

    Args:
        folder: the checkpoint.
        like: see `load`.

    Raises:
        UserError: a file is missing, truncated or damaged.
    """
    _check(folder)
    return _read(folder / (AVERAGE if _has_average(folder) else WEIGHTS), like)


def steps(run: Path) -> list[int]:
    """Return the steps with a checkpoint folder, complete or not, oldest first."""
    matches = (_STEP_FOLDER.fullmatch(path.name) for path in (run / "checkpoints").glob("step-*"))
    return sorted(int(match[1]) for match in matches if match)


def newest(run: Path, like: Mapping[str, Tensor] = _WHOLE) -> tuple[Checkpoint | None, list[str]]:
    """Read the newest complete checkpoint.

    Args:
        run: the run folder.
        like: see `load`.

    Returns:
        The checkpoint, or None if there is none, and a message for each skipped checkpoint.
    """
    skipped: list[str] = []
    for step in reversed(steps(run)):
        try:
            return load(folder_of(run, step), like), skipped
        except UserError as error:
            skipped.append(f"skipped {folder_of(run, step)}: {error}")
    return None, skipped


def prune(run: Path, *, keep: int, needed: Iterable[int] = ()) -> None:
    """Delete old checkpoints, and those without a state, from which no run can resume.

    Args:
        run: the run folder.
        keep: number of newest checkpoints to keep, along with the best ones that they refer to.
        needed: other steps whose checkpoints to keep.
    """
    saved, kept = steps(run), set(needed)
    for step in reversed(saved):
        if not keep:
            break
        try:
            state = _read_state(folder_of(run, step))
        except UserError:  # half deleted by a killed process
            continue
        # If the newest checkpoint turns out to be damaged, the previous one needs its best steps.
        kept |= {step, *(best for _, best in state.best)}
        keep -= 1
    for step in set(saved) - kept:
        _delete(folder_of(run, step))


def drop_after(run: Path, step: int) -> None:
    """Delete the checkpoints of later steps."""
    for later in steps(run):
        if later > step:
            _delete(folder_of(run, later))


def _delete(folder: Path) -> None:
    """Delete a checkpoint. A killed process leaves it whole, or under a hidden name."""
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(hidden)
    shutil.rmtree(hidden)
