"""The server under load, on loopback: ``python -m benchmarks.serve`` (``--help`` tells the rest).

First every server is asked by a number of clients that each wait for their answer, a lap each in
turn: its throughput, and how long answers take. Then heedful's alone is sent twice the requests
that it can answer, at even intervals, whatever it answers: the excess must be refused at once, and
who is accepted must wait no longer than the queue's limit and two batches. Every answer is checked
against what ``heedful predict`` gives for the text alone.

The servers have all cores but one, which the client has for itself.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.data import FOLDER, ag_news
from benchmarks.serve_peers import write_onnx

TEXTS = 2000
CLIENTS = 32
QUEUE_SECONDS = 1.0
TOLERANCE = {"fp32": 1e-5, "bf16": 1e-2}
_READY_SECONDS = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A text, and what is right about it."""

    text: str
    label: str
    """What heedful predicts."""
    score: float
    truth: str


@dataclass(kw_only=True, slots=True)
class Tally:
    """What came of some requests."""

    seconds: list[float] = field(default_factory=list)
    """Of those that were answered."""
    refused: list[float] = field(default_factory=list)
    """Seconds until those that were refused were told so."""
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    """Answers that are not those of predict."""
    right: int = 0
    """Answers that are true."""

    def percentile(self, share: float, *, refused: bool = False) -> float:
        """Return the milliseconds within which a share of the requests were answered."""
        seconds = sorted(self.refused if refused else self.seconds)
        return 1000 * seconds[min(int(share * len(seconds)), len(seconds) - 1)] if seconds else 0.0


@dataclass(kw_only=True, slots=True)
class Server:
    """A server that runs."""

    name: str
    process: subprocess.Popen[bytes]
    url: str
    path: str
    tolerance: float | None
    """How far scores may be from those of predict; None if labels may differ, too."""

    def memory(self) -> float:
        """Return the MiB that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


async def ask(client: httpx.AsyncClient, server: Server, asked: Asked, tally: Tally) -> None:
    """Send a request, and note what comes of it."""
    started = time.perf_counter()
    try:
        reply = await client.post(server.url + server.path, json={"texts": [asked.text]})
    except httpx.HTTPError as error:
        tally.statuses[type(error).__name__] += 1
        return
    seconds = time.perf_counter() - started
    tally.statuses[str(reply.status_code)] += 1
    if reply.status_code != 200:
        tally.refused.append(seconds)
        return
    tally.seconds.append(seconds)
    (answer,) = reply.json()["answers"]
    tally.right += answer["label"] == asked.truth
    if server.tolerance is not None:
        near = abs(answer["score"] - asked.score) <= server.tolerance
        tally.wrong += not near or answer["label"] != asked.label


async def ask_in_turn(server: Server, asked: Sequence[Asked], seconds: float, tally: Tally) -> None:
    """Let clients ask for some time, each waiting for its answer."""
    texts = itertools.cycle(asked)
    end = time.perf_counter() + seconds
    async with client_of(CLIENTS) as client:

        async def keep_asking() -> None:
            while time.perf_counter() < end:
                await ask(client, server, next(texts), tally)

        await asyncio.gather(*(keep_asking() for _ in range(CLIENTS)))


async def ask_steadily(
    server: Server, asked: Sequence[Asked], rate: float, seconds: float, tally: Tally
) -> list[float]:
    """Send requests at even intervals, whatever comes of them; return the memory at each second."""
    memory: list[float] = []
    tasks: set[asyncio.Task[None]] = set()
    texts = itertools.cycle(asked)
    async with contextlib.AsyncExitStack() as stack:
        # A pool looks through all of its connections at each request, so many small ones are asked
        # in turn: one of 4,096 connections would keep the client busier than the server.
        pools = [await stack.enter_async_context(client_of(32)) for _ in range(128)]
        clients = itertools.cycle(pools)
        started = time.perf_counter()
        for number in range(int(rate * seconds)):
            due = started + number / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            if due - started >= len(memory):
                memory.append(server.memory())
            request = ask(next(clients), server, next(texts), tally)
            tasks.add(task := asyncio.create_task(request))
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
    return memory


def client_of(connections: int) -> httpx.AsyncClient:
    """Return a client with so many connections."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(limits=limits, timeout=120, verify=False)


@contextlib.contextmanager
def running(name: str, run: Path, cores: set[int]) -> Iterator[Server]:
    """Start a server on some cores, and give it once it is ready."""
    kind, _, precision = name.partition(" ")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if kind == "heedful":
        words = ["heedful", "serve", str(run), "--port", str(port), "--precision", precision]
        words += ["--queue-seconds", str(QUEUE_SECONDS), "--connections", "4096"]
        path, tolerance = f"/api/runs/{run.name}/predict", TOLERANCE[precision]
    else:
        words, path, tolerance = (
            ["benchmarks.serve_peers", kind, str(run), str(port)],
            "/predict",
            None,
        )
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env={**os.environ, "OMP_NUM_THREADS": str(len(cores))},
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    server = Server(
        name=name,
        process=process,
        url=f"http://127.0.0.1:{port}",
        path=path,
        tolerance=tolerance,
    )
    try:
        wait_until_ready(server)
        yield server
    finally:
        process.terminate()
        process.wait(_READY_SECONDS)


def wait_until_ready(server: Server) -> None:
    """Return when a server says that it is ready."""
    end = time.perf_counter() + _READY_SECONDS
    while time.perf_counter() < end and server.process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{server.url}/health").status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{server.name} did not get ready")


def batch_seconds(server: Server, share: float) -> float:
    """Return the seconds within which a share of heedful's batches were computed."""
    text = httpx.get(f"{server.url}/metrics").text
    rows = re.findall(r'heedful_batch_seconds_bucket\{le="([^"]+)",[^}]*\} (\S+)', text)
    buckets = [(float(most), float(count)) for most, count in rows]
    wanted = share * buckets[-1][1]
    below, counted = 0.0, 0.0
    for most, count in buckets:
        if count >= wanted:
            return below + (most - below) * (wanted - counted) / (count - counted)
        below, counted = most, count
    return below


def questions(run: Path, texts: int, precision: Literal["fp32", "bf16"]) -> list[Asked]:
    """Return texts with heedful's answers, each computed alone in the server's precision."""
    import heedful

    records = ag_news("test", texts)
    predictor = heedful.load(run, precision=precision)
    answers = [predictor(record.text) for record in records]
    return [
        Asked(text=record.text, label=one.label, score=one.score, truth=(record.labels or ("",))[0])
        for record, one in zip(records, answers, strict=True)
    ]


def train(folder: Path) -> Path:
    """Train a run that knows the subjects of AG News."""
    import heedful

    heedful.train(
        "classify",
        train=FOLDER / "ag_news/train_pool.csv.gz",
        text="2",
        label="1",
        header=False,
        steps=500,
        batch_size=8,
        out=folder / "news",
    )
    return folder / "news"


def show_race(console: Console, tallies: dict[str, Tally], seconds: float) -> None:
    """Print the throughput of every server, and how long its answers take."""
    table = Table("server", "requests/s", "p50 ms", "p99 ms", "accuracy", "wrong", "lost")
    for name, tally in tallies.items():
        answered = len(tally.seconds)
        table.add_row(
            name,
            f"{answered / seconds:,.1f}",
            f"{tally.percentile(0.5):,.1f}",
            f"{tally.percentile(0.99):,.1f}",
            f"{tally.right / max(answered, 1):.4f}",
            f"{tally.wrong:,}" if name.startswith("heedful") else "-",
            f"{sum(tally.statuses.values()) - answered:,}",
        )
    console.print(table)


def show_overload(
    console: Console, tally: Tally, memory: list[float], batch: float, rate: float
) -> None:
    """Print how the server does with twice what it can answer."""
    lost = sum(n for status, n in tally.statuses.items() if status not in ("200", "429"))
    minute = max(1, min(60, len(memory) // 4))
    first = statistics.median(memory[minute : 2 * minute])
    last = statistics.median(memory[-minute:])
    limit = 1000 * (QUEUE_SECONDS + 2 * batch)
    table = Table("at twice the capacity", "measured", "wanted")
    table.add_row("requests sent a second", f"{rate:,.1f}", "")
    table.add_row("answered", f"{tally.statuses['200']:,}", "")
    table.add_row("refused with 429", f"{tally.statuses['429']:,}", "the rest")
    others = [f"{n:,} {status}" for status, n in tally.statuses.items()]
    table.add_row("neither", f"{lost:,} of {', '.join(others)}" if lost else "0", "0")
    table.add_row("wrong", f"{tally.wrong:,}", "0")
    table.add_row("p50 of the answered, ms", f"{tally.percentile(0.5):,.0f}", "")
    table.add_row("p99 of the answered, ms", f"{tally.percentile(0.99):,.0f}", f"{limit:,.0f}")
    refused = f"{tally.percentile(0.99, refused=True):,.0f}"
    table.add_row("p99 of the refused, ms", refused, "at once")
    table.add_row("p99 of batches, ms", f"{1000 * batch:,.0f}", "")
    table.add_row("memory, MiB", f"{first:,.0f} to {last:,.0f}", "flat")
    console.print(table)


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--run", type=Path, help="a finished run of classify; default: train one")
    parser.add_argument("--arms", nargs="+", default=["heedful fp32", "pipeline", "onnx"])
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--lap-seconds", type=float, default=20)
    parser.add_argument("--overload-seconds", type=float, default=600)
    options = parser.parse_args()
    *servers, own = sorted(os.sched_getaffinity(0)) or [0]
    cores = set(servers) or {own}
    console = Console(width=110, highlight=False)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        run = options.run or train(Path(folder))
        asked = {
            name: questions(run, options.texts, "bf16" if name.endswith("bf16") else "fp32")
            for name in options.arms
        }
        if "onnx" in options.arms:
            write_onnx(run)
        os.sched_setaffinity(0, {own})
        arms = {name: stack.enter_context(running(name, run, cores)) for name in options.arms}
        tallies = {name: Tally() for name in arms}
        for name, server in arms.items():  # to warm up
            asyncio.run(ask_in_turn(server, asked[name], options.lap_seconds / 4, Tally()))
        for _ in range(options.laps):
            for name, server in arms.items():
                asyncio.run(ask_in_turn(server, asked[name], options.lap_seconds, tallies[name]))
        seconds = options.laps * options.lap_seconds
        show_race(console, tallies, seconds)
        ours = next((server for name, server in arms.items() if name.startswith("heedful")), None)
        if ours is not None and options.overload_seconds:
            rate = 2 * len(tallies[ours.name].seconds) / seconds
            tally = Tally()
            steady = ask_steadily(ours, asked[ours.name], rate, options.overload_seconds, tally)
            memory = asyncio.run(steady)
            show_overload(console, tally, memory, batch_seconds(ours, 0.99), rate)


if __name__ == "__main__":
    main()
