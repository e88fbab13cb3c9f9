"""Predict and measure the time of a step with several processes, and estimate it for GPUs.

    python -m benchmarks.scale [--processes 1 2 4] [--steps 12] [--preset mini]
    python -m benchmarks.scale --estimate [--gpus 8 64] [--share 0.4] [--price 2.5] ...

The model: the time of a step is the larger of computing and reading, plus the part of the gradient
exchange that does not overlap with computing, plus the step's share of writing a checkpoint.

The first command fits two numbers on one process, the seconds per step and per token, adds the
measured time that gloo needs to exchange the gradients, and compares this prediction with the time
that several processes take on this machine. The second command estimates the time on GPUs from the
options; it measures nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.data import FOLDER
from benchmarks.runner import ROOT

BATCH, LENGTH = 32, 128
TEXT = FOLDER / "gutenberg/emma.txt.gz"
BACKWARD = 2 / 3
"""The share of computing that the gradient exchange can overlap with: the backward pass."""


# Measurements with several processes on this machine.


def launch_command(processes: int, program: list[str]) -> list[str]:
    """Return the command that runs a program in several processes."""
    if processes == 1:
        return [sys.executable, *program]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, "--nproc-per-node", str(processes), *program]


def output_of(command: list[str]) -> str:
    """Run a command with one thread per process, and return its output."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def step_seconds(processes: int, batch: int, preset: str, steps: int) -> float:
    """Return the median seconds of a pre-training step."""
    with TemporaryDirectory() as name:
        run = Path(name) / "run"
        options = {
            "--train": str(TEXT),
            "--out": str(run),
            "--objective": "mlm",
            "--preset": preset,
            "--vocabulary": "minilm",
            "--max-length": str(LENGTH),
            "--batch-size": str(batch),
            "--steps": str(steps),
            "--precision": "fp32",
        }
        words = [word for pair in options.items() for word in pair]
        output_of(launch_command(processes, ["-m", "heedful", "train", "pretrain", *words]))
        rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        rates = [row["tokens_per_second"] for row in rows if "tokens_per_second" in row]
    rate: float = median(rates[2:])
    return batch * LENGTH / rate


def exchange_seconds(processes: int, numbers: int) -> float:
    """Return the seconds of an all-reduce of ``numbers`` values between processes."""
    if processes == 1:
        return 0.0
    program = ["-m", "benchmarks.scale", "--exchange", str(numbers)]
    return float(output_of(launch_command(processes, program)))


def exchange(numbers: int) -> None:
    """Run one process of the all-reduce; the first process prints the seconds."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    gradients, seconds = torch.ones(numbers), []
    for _ in range(12):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(gradients)
        seconds.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        print(median(seconds[2:]))
    dist.destroy_process_group()


def parameters_of(preset: str) -> int:
    """Return the number of parameters of the measured model."""
    from heedful.models import BertForMaskedLM
    from heedful.models.fresh import new_config

    tokens = {"vocab_size": 30522, "pad_token_id": 0}
    config = new_config(
        "bert", preset, tokens=tokens, positions=LENGTH, position_type="absolute", dropout=None
    )
    return sum(parameter.numel() for parameter in BertForMaskedLM(config).parameters())


def measure(processes: list[int], preset: str, steps: int) -> None:
    """Print the seconds of a step: predicted from one process, and measured."""
    cores, numbers = len(os.sched_getaffinity(0)), parameters_of(preset)
    half, whole = (step_seconds(1, batch, preset, steps) for batch in (BATCH // 2, BATCH))
    per_step = max(2 * half - whole, 0.0)
    for_tokens = whole - per_step  # the part that is proportional to the tokens of a step
    print(
        f"{numbers / 1e6:.1f} million parameters, {BATCH * LENGTH:,} tokens per step, {cores} cores"
    )
    print(f"One process: {per_step:.3f} s per step, plus {for_tokens:.3f} s for its tokens")
    print("| processes | exchange, s | step predicted, s | measured, s | measured, tokens/s |")
    print("|---|---|---|---|---|")
    for count in processes:
        exchange_time = exchange_seconds(count, numbers)
        predicted = max(1, count / cores) * (per_step + for_tokens / count) + exchange_time
        seconds = whole if count == 1 else step_seconds(count, BATCH, preset, steps)
        rate = BATCH * LENGTH / seconds
        print(
            f"| {count} | {exchange_time:.3f} | {predicted:.3f} | {seconds:.3f} | {rate:,.0f} |",
            flush=True,
        )


# Estimates for GPUs.


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The pre-training of a BERT, and assumptions about the machines. All rates are per second."""

    layers: int = 12
    hidden: int = 768
    vocabulary: int = 30522
    length: int = 512
    gigabytes: float = 100.0
    """Size of the text."""
    bytes_per_token: float = 4.5
    batch_tokens: int = 2**20
    """Tokens per step, over all GPUs."""
    peak: float = 989e12
    """Peak operations of a GPU in bf16, from its data sheet."""
    share: float = 0.4
    """Share of the peak that training reaches."""
    inside: float = 300e9
    """Bytes that a GPU exchanges with other GPUs of its machine."""
    between: float = 40e9
    """Bytes that a GPU exchanges with other machines."""
    gpus_per_machine: int = 8
    read: float = 400_000
    """Tokens that a core reads and tokenizes, within the range that `benchmarks.input` measures."""
    cores_per_gpu: int = 8
    disk: float = 1e9
    """Bytes of a checkpoint that are written."""
    checkpoint_steps: int = 1000
    price: float = 2.5
    """Price of a GPU per hour."""

    @property
    def tokens(self) -> float:
        """Number of tokens of the text."""
        return self.gigabytes * 1e9 / self.bytes_per_token

    @property
    def parameters(self) -> int:
        """Number of parameters: of the layers, the vocabulary and the positions."""
        return 12 * self.layers * self.hidden**2 + (self.vocabulary + self.length) * self.hidden

    @property
    def operations(self) -> float:
        """Operations per token, forward and backward.

        They are those of the weights, of attention, and of the prediction head for 15 % of tokens.
        """
        weights = 12 * self.layers * self.hidden**2 + 0.15 * self.vocabulary * self.hidden
        return 6 * weights + 12 * self.layers * self.length * self.hidden


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The seconds of a step by part, and the hours and price of one epoch."""

    computing: float
    reading: float
    exchange: float
    exposed: float
    checkpoint: float
    hours: float
    price: float


def estimate(job: Job, gpus: int) -> Estimate:
    """Estimate the time and the price of a job.

    The gradients are exchanged by a ring all-reduce in float32: each GPU sends 2 (n - 1) / n of
    their bytes.
    """
    computing = job.batch_tokens / gpus * job.operations / (job.peak * job.share)
    reading = job.batch_tokens / (gpus * job.cores_per_gpu * job.read)
    rate = job.inside if gpus <= job.gpus_per_machine else job.between
    exchange = 2 * (gpus - 1) / gpus * 4 * job.parameters / rate
    exposed = max(
        exchange - BACKWARD * computing, 0.1 * exchange
    )  # the exchange of the last bucket overlaps with nothing
    checkpoint = 12 * job.parameters / job.disk / job.checkpoint_steps
    seconds = max(computing, reading) + exposed + checkpoint
    hours = job.tokens / job.batch_tokens * seconds / 3600
    return Estimate(
        computing=computing,
        reading=reading,
        exchange=exchange,
        exposed=exposed,
        checkpoint=checkpoint,
        hours=hours,
        price=hours * gpus * job.price,
    )


def print_estimates(job: Job, gpus: list[int]) -> None:
    """Print a row for each number of GPUs."""
    print(
        f"{job.tokens / 1e9:.1f} billion tokens of {job.gigabytes:g} GB, "
        f"{job.tokens / job.batch_tokens:,.0f} steps of {job.batch_tokens:,} tokens each, "
        f"{job.parameters / 1e6:.0f} million parameters, {job.operations / 1e9:.2f} GFLOP per token"
    )
    print("| GPUs | computing | reading | exchange (exposed) | checkpoints | hours | price |")
    print("|---|---|---|---|---|---|---|")
    for count in gpus:
        one = estimate(job, count)
        cells = [f"{one.computing * 1e3:,.0f} ms", f"{one.reading * 1e3:,.0f} ms"]
        cells += [f"{one.exchange * 1e3:.1f} ms ({one.exposed * 1e3:.1f})"]
        cells += [f"{one.checkpoint * 1e3:.1f} ms", f"{one.hours:,.1f}", f"{one.price:,.0f}"]
        print(f"| {count} | {' | '.join(cells)} |")


def main() -> None:
    """Measure, or estimate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=12, help="steps of each run")
    parser.add_argument("--preset", default="mini", help="size of the measured model")
    parser.add_argument("--exchange", type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--estimate", action="store_true", help="estimate GPUs from the options below"
    )
    parser.add_argument("--gpus", nargs="+", type=int, default=[8, 64])
    defaults = Job()
    for name in Job.__slots__:
        default = getattr(defaults, name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default, help=f"{default:g}")
    options = parser.parse_args()
    if options.exchange:
        exchange(options.exchange)
    elif options.estimate:
        print_estimates(
            Job(**{name: getattr(options, name) for name in Job.__slots__}), options.gpus
        )
    else:
        measure(options.processes, options.preset, options.steps)


if __name__ == "__main__":
    main()
