"""A run that is killed at any moment and resumed ends with the weights of an uninterrupted run."""

import errno
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful import files
from heedful.checkpoints import runs, steps
from heedful.commands.train import train
from heedful.errors import UserError
from heedful.files import sha256
from heedful.settings import (
    ClassifySettings,
    ColumnSettings,
    DataSettings,
    RunSettings,
    TrainSettings,
)
from heedful.task import Recipe, Say
from heedful.training import fit
from heedful.training.fit import Stopped
from heedful.training.log import metrics_log

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("kill_driver.py")


def test_kill_nine_at_many_moments(tiny_model: Path, colours: Path, tmp_path: Path) -> None:
    command = [sys.executable, DRIVER, tiny_model, colours, tmp_path, "6", "classify"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) == 6
    assert all(result["killed"] for result in results)
    assert all(result["same"] for result in results), results
    # Every step is in the log once, in order, however often it was computed.
    assert all(result["logged"] == list(range(1, 25)) for result in results)
    # The moments are worth something only if some fall before the first checkpoint, some later,
    # and some where most is half done.
    places = Counter(result["where"] for result in results)
    assert places == {"between micro-batches": 2, "in a checkpoint": 2, "elsewhere": 2}
    assert any(not result["steps"] for result in results)
    assert any(result["steps"] for result in results)


def test_kill_nine_of_a_translator(tiny_model: Path, tmp_path: Path) -> None:
    """Its vocabulary is learnt first, and must be the same when the run resumes."""
    source, target = tmp_path / "train.de", tmp_path / "train.en"
    words = [("Hund", "dog"), ("Mann", "man"), ("Fisch", "fish")]
    pairs = [
        (f"Der {noun} {'sehr ' * (number % 5)}klein.", f"The {word} {'very ' * (number % 4)}small.")
        for number in range(12)
        for noun, word in words
    ]
    source.write_text("".join(f"{text}\n" for text, _ in pairs))
    target.write_text("".join(f"{text}\n" for _, text in pairs))
    command = [sys.executable, DRIVER, tiny_model, source, tmp_path, "3", "translate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert [(result["killed"], result["same"]) for result in results] == [(True, True)] * 3
    assert all(result["logged"] == list(range(1, 9)) for result in results)


def run(
    model: Path,
    data: Path,
    out: Path,
    *,
    steps: int = 12,
    average: int = 1,
    resume: bool = False,
    say: Say = lambda line: None,
) -> str:
    train(
        "classify",
        Recipe(
            data=DataSettings(train=[data], model=str(model)),
            options=ClassifySettings(),
            columns=ColumnSettings(),
            training=TrainSettings(
                steps=steps,
                batch_size=8,
                learning_rate=1e-2,
                head_learning_rate=1e-2,
                precision="fp32",
                checkpoint_every=3,
                keep_checkpoints=3,
                average=average,
            ),
            run=RunSettings(out=out, resume=resume),
        ),
        say=say,
    )
    return sha256(out / "model.safetensors")


def stop_after(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Simulate that the process dies when a step's metrics are logged."""
    append = runs.append_metrics

    def dying(folder: Path, row: dict[str, object]) -> None:
        append(folder, row)
        if row["step"] == step:
            raise MemoryError

    monkeypatch.setattr(runs, "append_metrics", dying)


@pytest.mark.parametrize("damage", ["truncate", "flip", "no manifest", "no state"])
def test_a_damaged_newest_checkpoint_is_named_and_skipped(
    tiny_model: Path,
    colours: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
) -> None:
    whole = run(tiny_model, colours, tmp_path / "whole")
    out = tmp_path / "broken"
    with monkeypatch.context() as patch:
        stop_after(patch, 10)
        with pytest.raises(MemoryError):
            run(tiny_model, colours, out)
    assert steps.steps(out) == [3, 6, 9]
    newest = steps.folder_of(out, 9)
    weights = newest / steps.WEIGHTS
    if damage == "truncate":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "flip":
        content = bytearray(weights.read_bytes())
        content[-5] ^= 1
        weights.write_bytes(content)
    else:
        (newest / ("manifest.json" if damage == "no manifest" else steps.STATE)).unlink()
    found, skipped = steps.newest(out)
    assert found is not None
    assert found.state.step == 6
    assert len(skipped) == 1
    assert str(newest) in skipped[0]
    assert run(tiny_model, colours, out, resume=True) == whole


def test_a_run_whose_checkpoints_are_all_damaged_says_that_it_begins_anew(
    tiny_model: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out, lines = run(tiny_model, colours, tmp_path / "whole"), tmp_path / "broken", []
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(MemoryError):
            run(tiny_model, colours, out)
    (steps.folder_of(out, 3) / steps.STATE).unlink()
    assert run(tiny_model, colours, out, resume=True, say=lines.append) == whole
    assert "no checkpoint is intact: training starts over at step 1" in lines


def test_a_checkpoint_whose_weights_have_other_names_is_refused(
    tiny_model: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(MemoryError):
            run(tiny_model, colours, out)
    checkpoint = steps.load(steps.folder_of(out, 3))
    renamed = {name.replace("encoder.layer", "layers"): x for name, x in checkpoint.model.items()}
    steps.save(
        out,
        checkpoint.state,
        model=renamed,
        average=None,
        optimizer=checkpoint.optimizer,
        random=checkpoint.random,
    )
    with pytest.raises(
        UserError, match=r"step-3: written by another version of heedful, .*start over"
    ):
        run(tiny_model, colours, out, resume=True)


@pytest.mark.parametrize("what", ["checkpoint of step 6", "trained model"])
@pytest.mark.parametrize("of_library", [False, True])
def test_a_full_disk_is_told_with_the_way_on(
    tiny_model: Path,
    colours: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    of_library: bool,
) -> None:
    full, out, write = OSError(errno.ENOSPC, "no room"), tmp_path / "run", files.write_tensors

    def written(path: Path, tensors: Any) -> None:
        if f".{'step-6' if 'step' in what else 'finished'}." in str(path):
            raise OSError(f"{path}: could not be written: no room") if of_library else full
        write(path, tensors)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_tensors", written)
        with pytest.raises(UserError) as told:
            run(tiny_model, colours, out)
    last = 3 if "step" in what else 12
    assert str(told.value) == (
        f"{out}: the {what} could not be written: no room; once that is fixed, the same command "
        f"with --resume continues; the last checkpoint is {steps.folder_of(out, last)}"
    )
    assert run(tiny_model, colours, out, resume=True)


@pytest.mark.parametrize("known", [False, True])
def test_a_run_that_learns_in_another_order_is_refused(
    known: bool, tiny_model: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setattr("heedful.training.run._groups_by_length", lambda *_: not known)
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(MemoryError):
            run(tiny_model, colours, out)
    checkpoint = steps.folder_of(out, 3)
    if not known:  # as version 0.1.0 wrote it
        state = json.loads((checkpoint / steps.STATE).read_text())
        del state["alike"]
        (checkpoint / steps.STATE).write_text(json.dumps(state))
        (checkpoint / files.MANIFEST).unlink()
        files.write_manifest(checkpoint)
    monkeypatch.setattr("heedful.training.run._groups_by_length", lambda *_: known)
    with pytest.raises(
        UserError, match=r"step-3: written by another version .* another order; .*over"
    ):
        run(tiny_model, colours, out, resume=True)
    monkeypatch.setattr("heedful.training.run._groups_by_length", lambda *_: not known)
    run(tiny_model, colours, out, resume=True)


def test_a_run_does_not_go_on_with_other_settings_or_data(
    tiny_model: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(MemoryError):
            run(tiny_model, colours, out)
    with pytest.raises(UserError, match=r"started with --steps 12, now it is 13"):
        run(tiny_model, colours, out, steps=13, resume=True)
    with pytest.raises(UserError, match="holds an unfinished run; give --resume"):
        run(tiny_model, colours, out)
    colours.write_text(colours.read_text() + "the sky is red,red\n")
    with pytest.raises(UserError, match="started on other training data"):
        run(tiny_model, colours, out, resume=True)


def test_a_signal_saves_a_checkpoint_and_says_how_to_go_on(
    tiny_model: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    # Two at once come of torchrun, which passes on what its processes got, too.
    signals = {
        4: [signal.SIGINT, signal.SIGINT],
        7: [signal.SIGTERM, signal.SIGTERM],
        10: [signal.SIGUSR1, signal.SIGTERM],
    }
    # The checkpoint at which a run stops is not among those that are averaged.
    whole = run(tiny_model, colours, tmp_path / "whole", average=3)
    append = runs.append_metrics

    def interrupting(folder: Path, row: dict[str, Any]) -> None:
        append(folder, row)
        for number in signals.get(row["step"], []):
            os.kill(os.getpid(), number)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(runs, "append_metrics", interrupting)
        for step, (number, _) in signals.items():
            said = rf"{number.name}: stopped after step {step} of 12.*--resume"
            with pytest.raises(Stopped, match=said):
                run(tiny_model, colours, out, average=3, resume=True)
            assert steps.steps(out)[-1] == step
    assert run(tiny_model, colours, out, average=3, resume=True) == whole


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_ends_with_the_scores_of_what_it_saved(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """The training data contradicts the development data, so the first steps are the best."""
    texts = ["red sky", "green apple", "blue book", "so red", "so green", "so blue"]
    learnt = [{"text": text, "label": label} for text, label in zip(texts, "abcabc", strict=True)]
    wrong = [{"text": text, "label": label} for text, label in zip(texts, "bcabca", strict=True)]
    out = tmp_path / "run"

    def trained(*, resume: bool = False) -> fit.Outcome:
        outcome = heedful.train(
            "classify",
            train=learnt,
            dev=wrong,
            model=str(tiny_model),
            out=out,
            steps=20,
            batch_size=6,
            evaluate_every=1,
            learning_rate=1e-2,
            head_learning_rate=1e-2,
            precision="fp32",
            resume=resume,
        )
        assert outcome is not None
        return outcome

    if killed:
        with monkeypatch.context() as patch:
            patch.setattr(fit, "_finish", dying)
            with pytest.raises(MemoryError):
                trained()
    outcome = trained(resume=killed)
    assert outcome.best_step is not None
    assert outcome.best_step < outcome.step == 20
    assert outcome.session_steps == (0 if killed else 20)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    evaluated = {row["step"]: row["dev"]["accuracy"] for row in rows if "dev" in row}
    assert evaluated[outcome.best_step] > evaluated[20]
    assert outcome.scores["accuracy"] == evaluated[outcome.best_step]


def test_a_run_killed_at_its_very_end_is_tidied(
    tiny_model: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    finished = runs.finished

    @contextmanager
    def killed_after(folder: Path) -> Iterator[Path]:
        with finished(folder) as partial:
            yield partial
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(runs, "finished", killed_after)
        with pytest.raises(MemoryError):
            run(tiny_model, colours, out)
    # An error deletes what a process that is killed leaves.
    (out / ".data.abc.partial").mkdir()
    (out / "checkpoints" / ".step-3.9.old").mkdir()
    assert steps.steps(out) == [6, 9, 12]
    run(tiny_model, colours, out, resume=True)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-12"]
    assert [path.name for path in out.glob(".*")] == []


def dying(*_: object) -> None:
    """Simulate a process that is killed."""
    raise MemoryError


def test_tensorboard_shows_each_step_once(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    for done, last in ((0, 5), (3, 6)):
        with metrics_log(tmp_path, tensorboard=True, done=done) as log:
            for step in range(done + 1, last + 1):
                log(step, {"loss": float(last)})
    shown = accumulator(str(tmp_path / "tensorboard"))
    shown.Reload()
    assert [(event.step, event.value) for event in shown.Scalars("loss")] == [
        *((step, 5) for step in (1, 2, 3)),
        *((step, 6) for step in (4, 5, 6)),
    ]
