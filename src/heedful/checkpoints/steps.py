"""Checkpoints of a run in training: ``checkpoints/step-N`` folders, whole and verified."""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

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
_STEP_FOLDER = re.compile(r"step-(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """Everything but tensors that decides how a run goes on; by itself that of a fresh run."""

    step: int = 0
    """Optimizer steps done; with the plan of batches it is the position in the data."""
    epoch: int = 0
    """Epoch of the next step, from 0."""
    index: int = 0
    """Index of the next step in its epoch."""
    best: tuple[tuple[float, int], ...] = ()
    """The best values of the tracked metric so far, best first, and the steps that gave them."""
    evaluations_without_gain: int = 0
    """Evaluations since then: the counter of early stopping."""
    loss_scale: float | None = None
    """Scale of fp16 losses, where there is one."""
    loss_scale_streak: int = 0
    """Steps since that scale last changed."""

    @property
    def best_step(self) -> int | None:
        """The step whose weights gave the best value of the tracked metric."""
        return self.best[0][1] if self.best else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A complete checkpoint as read from its folder."""

    folder: Path
    state: TrainingState
    model: dict[str, Tensor]
    average: dict[str, Tensor] | None
    """The moving average of the model's weights, where one is kept."""
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
    """Write a checkpoint: to a folder beside it, hashed, synced, then renamed into place."""
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


def load(folder: Path) -> Checkpoint:
    """Read one checkpoint after checking it against its manifest.

    Raises:
        UserError: a file is missing, truncated, damaged or of another form.
    """
    files.check_manifest(folder)
    raw = files.read_json(folder / STATE)
    names = {field.name for field in fields(TrainingState)}
    if set(raw) != names:
        odd = sorted(set(raw) ^ names)[0]
        raise UserError(f"{folder / STATE}: key {odd!r} is missing or unknown")
    raw["best"] = tuple((value, step) for value, step in raw["best"])
    average = folder / AVERAGE
    return Checkpoint(
        folder=folder,
        state=TrainingState(**raw),
        model=files.read_tensors(folder / WEIGHTS),
        average=files.read_tensors(average) if average.is_file() else None,
        optimizer=files.read_tensors(folder / OPTIMIZER),
        random=files.read_tensors(folder / RANDOM),
    )


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights that a checkpoint was evaluated with, after checking all of it.

    Raises:
        UserError: a file is missing, truncated or damaged.
    """
    files.check_manifest(folder)
    average = folder / AVERAGE
    return files.read_tensors(average if average.is_file() else folder / WEIGHTS)


def steps(run: Path) -> list[int]:
    """Return the steps that have a folder, oldest first, complete or not."""
    found = (_STEP_FOLDER.fullmatch(path.name) for path in (run / "checkpoints").glob("step-*"))
    return sorted(int(match[1]) for match in found if match)


def newest(run: Path) -> tuple[Checkpoint | None, list[str]]:
    """Read the newest checkpoint that is whole.

    Returns:
        The checkpoint, or None where no whole one is left, and a line for each one skipped.
    """
    skipped: list[str] = []
    for step in reversed(steps(run)):
        try:
            return load(folder_of(run, step)), skipped
        except UserError as error:
            skipped.append(f"skipped {folder_of(run, step)}: {error}")
    return None, skipped


def prune(run: Path, *, keep: int, needed: Iterable[int] = ()) -> None:
    """Delete checkpoints.

    Args:
        run: the run folder.
        keep: how many of the newest stay, and the best ones that these go back to.
        needed: steps whose checkpoints stay, too.
    """
    done = steps(run)
    kept = {*done[-keep:], *needed}
    for step in done[-keep:]:
        # If the newest turns out damaged, the one before it still needs its own best steps.
        kept |= {best for _, best in files.read_json(folder_of(run, step) / STATE)["best"]}
    for step in set(done) - kept:
        shutil.rmtree(folder_of(run, step))


def drop_after(run: Path, step: int) -> None:
    """Delete the checkpoints of later steps."""
    for later in steps(run):
        if later > step:
            shutil.rmtree(folder_of(run, later))


def clear_partial(run: Path) -> None:
    """Delete what a killed process left half written."""
    for path in (run / "checkpoints").glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)
