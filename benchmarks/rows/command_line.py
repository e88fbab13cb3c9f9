"""Measure whole commands: classify a file of news, or a single text, including the start-up time.

Each lap starts a new process, so these times are what a user waits for.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.arm_process import Trial
from benchmarks.ours import PRECISIONS
from benchmarks.row import Arm, Format, Plan, Row, Scores
from benchmarks.rows.classify import agreement
from benchmarks.rows.encode import lengths_of

TEXTS = 7600
PROGRAMS: dict[str, tuple[str, Format]] = {
    "transformers pipeline": ("pipeline", "fp32"),
    "ONNX Runtime fp32": ("ONNX Runtime fp32", "fp32"),
    "ONNX Runtime int8": ("ONNX Runtime int8", "int8"),
    "OpenVINO bf16": ("OpenVINO bf16", "bf16"),
}
"""For each arm: the name of its program, and the number format that it computes in."""
TEXT = "stocks fell sharply after the central bank raised its rate"


def labels_in(path: Path) -> list[str]:
    """Read the labels from a file with one JSON object per line."""
    return [json.loads(line)["label"] for line in path.read_text(encoding="utf-8").splitlines()]


def run_laps(trial: Trial, command: list[str], out: Path) -> None:
    """Run a command in each lap, and record its peak memory."""
    trial.peak = 0
    for _ in trial.laps(range(trial.number_of_laps)):
        with out.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"exit code {process.returncode}")
        trial.peak = max(trial.peak, usage.ru_maxrss // 1024)


def heedful(precision: str, trial: Trial) -> list[str]:
    """Classify with the command ``heedful predict``, as users call it."""
    folder = trial.read("model.json")["folder"]
    out = trial.folder / f"out-{precision}"
    command = [sys.executable, "-m", "heedful", "predict", folder, "--precision", precision]
    texts = trial.read("arguments.json")
    arguments = [texts] if isinstance(texts, str) else ["--input", str(trial.folder / "texts.csv")]
    run_laps(trial, [*command, *arguments], out)
    return labels_in(out)


def peer(name: str, trial: Trial) -> list[str]:
    """Classify with a peer's program; an engine's graph is converted before the laps."""
    from benchmarks.peers.engines import convert

    folder = Path(trial.read("model.json")["folder"])
    out = trial.folder / f"out-{name}"
    if name != "pipeline":
        work = trial.folder / f"peer-{name}"
        work.mkdir()
        (work / "config.json").write_bytes((folder / "config.json").read_bytes())
        convert(name, folder, "sequence", work)
        folder = work
    command = [sys.executable, "-m", "benchmarks.peers.program", name, str(folder)]
    files = [str(trial.folder / "texts.csv"), str(out), str(trial.threads)]
    run_laps(trial, [*command, *files], trial.folder / f"printed-{name}")
    return labels_in(out)


def _arm(run: "Callable[[str, Trial], list[str]]", name: str) -> Callable[[Trial], list[str]]:
    return lambda trial: run(name, trial)


ARMS = {
    **{
        f"heedful {name}": Arm(run=_arm(heedful, name), format=number_format, peer=False)
        for name, number_format in PRECISIONS.items()
    },
    **{
        title: Arm(run=_arm(peer, name), format=number_format)
        for title, (name, number_format) in PROGRAMS.items()
    },
}


def prepare_file(folder: Path, laps: int, share: float) -> Plan:
    """Write the test set of AG News as a CSV file with one column."""
    from benchmarks.data import ag_news

    records = ag_news("test", round(TEXTS * share))
    texts = [record.text for record in records]
    model = _write(folder, texts, [(record.labels or ("",))[0] for record in records])
    (folder / "arguments.json").write_text("null")
    tokens = sum(lengths_of(texts, model, 512))
    return Plan(amounts=[float(tokens)] * laps)


def prepare_one(folder: Path, laps: int, share: float) -> Plan:
    """Write a single text."""
    _write(folder, [TEXT], ["3"])
    (folder / "arguments.json").write_text(json.dumps(TEXT))
    return Plan()


def _write(folder: Path, texts: list[str], truth: list[str]) -> Path:
    from benchmarks.runs import trained_run

    model = trained_run("classify")
    (folder / "model.json").write_text(json.dumps({"folder": str(model)}))
    (folder / "truth.json").write_text(json.dumps(truth))
    with (folder / "texts.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["text"], *([text] for text in texts)])
    return model


def score(folder: Path, outputs: Mapping[str, list[str]]) -> Scores:
    """Return the accuracy of the labels."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return {
        name: {"accuracy": agreement(labels, truth)} for name, labels in outputs.items() if labels
    }


def import_of(module: str) -> Callable[[Trial], list[str]]:
    """Return an arm that starts Python and imports a module, as a lower bound for the programs."""

    def run(trial: Trial) -> list[str]:
        command = [sys.executable, "-c", f"import {module}"]
        run_laps(trial, command, trial.folder / f"printed-{module}")
        return []

    return run


ROWS = {
    "file": Row(
        title="classifying a file of AG News, from the start of the program to its end",
        arms=ARMS,
        prepare=prepare_file,
        score=score,
        unit="tokens/s",
    ),
    "start": Row(
        title="classifying one text, from the start of the program to its end",
        arms={
            **ARMS,
            "import heedful alone": Arm(run=import_of("heedful"), peer=False),
            "import torch alone": Arm(run=import_of("torch"), peer=False),
        },
        prepare=prepare_one,
        score=score,
        unit="s",
        measure="seconds",
    ),
}
