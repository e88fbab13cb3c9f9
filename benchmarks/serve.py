"""Load-test the server on the loopback interface: ``python -m benchmarks.serve`` (see ``--help``).

The first part measures throughput and latency. A number of clients send requests to each server in
turn, one lap at a time; each client waits for a response before it sends the next request.

The second part tests overload. heedful's server gets twice as many requests as it can handle, at
even intervals. It must refuse the excess at once, and an accepted request must not wait longer than
the limit of the queue plus two batches.

Every response is compared with what ``heedful predict`` gives for the same text alone. The servers
use all cores but one; the client uses that core.
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
class Example:
    """A text, heedful's prediction and the correct label."""

    text: str
    label: str
    """Label that heedful predicts."""
    score: float
    truth: str


@dataclass(kw_only=True, slots=True)
class Tally:
    """The results of a number of requests."""

    seconds: list[float] = field(default_factory=list)
    """Latencies of the requests that were answered."""
    refused: list[float] = field(default_factory=list)
    """Latencies of the requests that were refused."""
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    """Number of responses that differ from heedful's predictions."""
    right: int = 0
    """Number of responses with the correct label."""

    def percentile(self, share: float, *, refused: bool = False) -> float:
        """Return a percentile of the latencies in milliseconds; ``share`` is from 0 to 1."""
        seconds = sorted(self.refused if refused else self.seconds)
        return 1000 * seconds[min(int(share * len(seconds)), len(seconds) - 1)] if seconds else 0.0


@dataclass(kw_only=True, slots=True)
class Server:
    """A running server."""

    name: str
    process: subprocess.Popen[bytes]
    url: str
    path: str
    tolerance: float | None
    """Largest allowed difference from heedful's scores; None to allow other labels, too."""

    def memory(self) -> float:
        """Return the memory of the server in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


async def send_request(
    client: httpx.AsyncClient, server: Server, example: Example, tally: Tally
) -> None:
    """Send a request, and record the result."""
    started = time.perf_counter()
    try:
        reply = await client.post(server.url + server.path, json={"texts": [example.text]})
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
    tally.right += answer["label"] == example.truth
    if server.tolerance is not None:
        near = abs(answer["score"] - example.score) <= server.tolerance
        tally.wrong += not near or answer["label"] != example.label


async def run_clients(
    server: Server, examples: Sequence[Example], seconds: float, tally: Tally
) -> None:
    """Run the clients for some seconds; each waits for a response before its next request."""
    texts = itertools.cycle(examples)
    end = time.perf_counter() + seconds
    async with client_of(CLIENTS) as client:

        async def run_client() -> None:
            while time.perf_counter() < end:
                await send_request(client, server, next(texts), tally)

        await asyncio.gather(*(run_client() for _ in range(CLIENTS)))


async def send_at_rate(
    server: Server, examples: Sequence[Example], rate: float, seconds: float, tally: Tally
) -> list[float]:
    """Send requests at even intervals, without waiting; return the server's memory each second."""
    memory: list[float] = []
    tasks: set[asyncio.Task[None]] = set()
    texts = itertools.cycle(examples)
    async with contextlib.AsyncExitStack() as stack:
        # Use many small pools in turn. For each request a pool searches all of its connections, so
        # a single pool of 4,096 connections would keep the client busier than the server.
        pools = [await stack.enter_async_context(client_of(32)) for _ in range(128)]
        clients = itertools.cycle(pools)
        started = time.perf_counter()
        for number in range(int(rate * seconds)):
            due = started + number / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            if due - started >= len(memory):
                memory.append(server.memory())
            request = send_request(next(clients), server, next(texts), tally)
            tasks.add(task := asyncio.create_task(request))
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
    return memory


def client_of(connections: int) -> httpx.AsyncClient:
    """Return a client with a maximum number of connections."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(limits=limits, timeout=120, verify=False)


@contextlib.contextmanager
def running_server(name: str, run: Path, cores: set[int]) -> Iterator[Server]:
    """Start a server on the given cores, and yield it once it is ready."""
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
    """Wait until a server is ready."""
    end = time.perf_counter() + _READY_SECONDS
    while time.perf_counter() < end and server.process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{server.url}/health").status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{server.name} did not get ready")


def batch_seconds(server: Server, share: float) -> float:
    """Return a percentile of the seconds of heedful's batches; ``share`` is from 0 to 1."""
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


def predict_examples(run: Path, texts: int, precision: Literal["fp32", "bf16"]) -> list[Example]:
    """Return texts with heedful's predictions, each computed alone in the server's precision."""
    import heedful

    records = ag_news("test", texts)
    predictor = heedful.load(run, precision=precision)
    answers = [predictor(record.text) for record in records]
    return [
        Example(
            text=record.text, label=one.label, score=one.score, truth=(record.labels or ("",))[0]
        )
        for record, one in zip(records, answers, strict=True)
    ]


def train(folder: Path) -> Path:
    """Train a classifier on AG News."""
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


def show_throughput(console: Console, tallies: dict[str, Tally], seconds: float) -> None:
    """Print the throughput and the latencies of every server."""
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
    """Print the results of the overload test."""
    lost = sum(n for status, n in tally.statuses.items() if status not in ("200", "429"))
    minute = max(1, min(60, len(memory) // 4))
    first = statistics.median(memory[minute : 2 * minute])
    last = statistics.median(memory[-minute:])
    limit = 1000 * (QUEUE_SECONDS + 2 * batch)
    table = Table("at twice the capacity", "measured", "wanted")
    table.add_row("requests sent per second", f"{rate:,.1f}", "")
    table.add_row("answered", f"{tally.statuses['200']:,}", "")
    table.add_row("refused with 429", f"{tally.statuses['429']:,}", "the rest")
    others = [f"{n:,} {status}" for status, n in tally.statuses.items()]
    table.add_row("neither", f"{lost:,} of {', '.join(others)}" if lost else "0", "0")
    table.add_row("wrong", f"{tally.wrong:,}", "0")
    table.add_row("p50 of answered, ms", f"{tally.percentile(0.5):,.0f}", "")
    table.add_row("p99 of answered, ms", f"{tally.percentile(0.99):,.0f}", f"{limit:,.0f}")
    refused = f"{tally.percentile(0.99, refused=True):,.0f}"
    table.add_row("p99 of refused, ms", refused, "at once")
    table.add_row("p99 of batches, ms", f"{1000 * batch:,.0f}", "")
    table.add_row("memory, MiB", f"{first:,.0f} to {last:,.0f}", "flat")
    console.print(table)


def main() -> None:
    """Run both parts, and print a table for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--run", type=Path, help="finished run of a classifier; default: train one")
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
        examples = {
            name: predict_examples(run, options.texts, "bf16" if name.endswith("bf16") else "fp32")
            for name in options.arms
        }
        if "onnx" in options.arms:
            write_onnx(run)
        os.sched_setaffinity(0, {own})
        arms = {
            name: stack.enter_context(running_server(name, run, cores)) for name in options.arms
        }
        tallies = {name: Tally() for name in arms}
        for name, server in arms.items():  # warm-up
            asyncio.run(run_clients(server, examples[name], options.lap_seconds / 4, Tally()))
        for _ in range(options.laps):
            for name, server in arms.items():
                asyncio.run(run_clients(server, examples[name], options.lap_seconds, tallies[name]))
        seconds = options.laps * options.lap_seconds
        show_throughput(console, tallies, seconds)
        ours = next((server for name, server in arms.items() if name.startswith("heedful")), None)
        if ours is not None and options.overload_seconds:
            rate = 2 * len(tallies[ours.name].seconds) / seconds
            tally = Tally()
            steady = send_at_rate(ours, examples[ours.name], rate, options.overload_seconds, tally)
            memory = asyncio.run(steady)
            show_overload(console, tally, memory, batch_seconds(ours, 0.99), rate)


if __name__ == "__main__":
    main()
