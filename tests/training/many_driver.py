"""Train several things in a row, in one process or in several that ``torchrun`` starts.

What would be float32 is float64 here, a teacher, too, so that the order of sums changes next to
nothing, but for trainings whose words begin with ``float32``. Those that begin with ``until``, a
step and a signal get that signal after the step, in the last process alone, and what comes after
them goes on. Those that begin with ``overlap`` exchange gradients as on GPUs. Those that begin with
``texts`` do so, too, and attend without padding, in the format that follows if there is one.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

torch.set_num_threads(1)

from tests.layers.test_varlen import by_text  # noqa: E402

from heedful.cli import run  # noqa: E402
from heedful.layers import multihead, varlen  # noqa: E402
from heedful.training import device, distil, fit, loop, ranks, trained  # noqa: E402

SINGLE, TRAIN, WAITS = torch.Tensor.float, fit.train, loop.blocks_host
HAS_KERNEL, BF16_PRODUCTS = multihead.has_kernel, device.bf16_products
in_precision = distil.in_precision
distil.in_precision = lambda model, device, dtype: in_precision(model, device, torch.float64)


def train_until(step: int, name: str) -> None:
    """Send a process a signal after a step."""

    def train(*arguments, **settings):  # type: ignore[no-untyped-def]
        for taken in TRAIN(*arguments, **settings):
            if taken.position.step + 1 == step and ranks.rank() == ranks.size() - 1:
                signal.raise_signal(signal.Signals[name])
            yield taken

    fit.train = train


def attend_to_texts(dtype: torch.dtype) -> list[None]:
    """Simulate a kernel for a format; return a list that grows with each of its calls."""
    calls: list[None] = []

    def kernel(*arguments: Any) -> tuple[torch.Tensor]:
        assert arguments[0].dtype is dtype
        calls.append(None)
        return by_text(*arguments)

    varlen.flash_attention = kernel
    multihead.has_kernel = lambda device, narrow, width: narrow is dtype  # type: ignore[assignment]
    return calls


def work(words: list[str]) -> int:
    """Train, and return the exit code."""
    narrow = words[:2] == ["texts", "bfloat16"]
    single = words[0] == "float32" or narrow
    torch.set_default_dtype(torch.float32 if single else torch.float64)
    torch.Tensor.float = SINGLE if single else torch.Tensor.double  # type: ignore[method-assign]
    # A CPU without the instructions emulates them here.
    device.bf16_products = (lambda device: (True, "")) if narrow else BF16_PRODUCTS
    fit.train = TRAIN
    gpu = words[0] in ("overlap", "texts")
    multihead.has_kernel = HAS_KERNEL
    attended: list[None] | None = None
    if words[0] == "texts":
        attended = attend_to_texts(torch.bfloat16 if narrow else torch.float64)
    trained._OVERLAPPED = ("cpu",) if gpu else ("cuda",)
    loop.blocks_host = (lambda device: True) if gpu else WAITS
    if words[0] == "until":
        train_until(int(words[1]), words[2])
    try:
        code = run(words[words.index("train") :])
    except SystemExit as end:
        code = int(end.code or 0)
    if attended == []:
        return 1
    return 0 if code == 130 and words[0] == "until" else code


naming_the_process = ranks.naming_the_process


@contextmanager
def telling_the_pid() -> Iterator[None]:
    """Write this process's id once it is ready to be killed."""
    with naming_the_process():
        mine = Path(f"rank-{ranks.rank()}.pid")
        mine.with_suffix(".new").write_text(str(os.getpid()))
        mine.with_suffix(".new").replace(mine)
        yield


ranks.naming_the_process = telling_the_pid
with ranks.together():
    if ranks.size() > 1:
        from heedful.checkpoints import shards

        shards._BYTES_OF_FILE = 2**13  # so that tiny models fill several
    for words in json.loads(sys.argv[1]):
        if code := work(words):
            sys.exit(code)
