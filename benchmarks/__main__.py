"""``python -m benchmarks [NAME ...]``: rows of ratios, and the machine's own ceiling."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from benchmarks import (
    answer,
    embed,
    finetune,
    memory,
    predict,
    pretrain,
    tag,
    tokenizer,
    train_translator,
    translate,
)

BENCHMARKS = {
    "tokenizer": tokenizer.run,
    "finetune": finetune.run,
    "predict": predict.run,
    "tag": tag.run,
    "embed": embed.run,
    "answer": answer.run,
    "pretrain": pretrain.run,
    "memory": memory.run,
    "translate": translate.run,
    "train_translator": train_translator.run,
}


def ceiling() -> dict[str, float]:
    """Measure the best matrix product of this machine, in GFLOP/s."""
    import torch

    best = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        left, right = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype)
        shortest = float("inf")
        for _ in range(12):
            started = time.perf_counter()
            left @ right
            shortest = min(shortest, time.perf_counter() - started)
        best[name] = 2 * 2048**3 / shortest / 1e9
    return best


def _columns() -> list[Column]:
    """Return the columns; their widths are fixed, so that rows printed one by one line up."""
    return [
        Column("what", width=62),
        Column("heedful", width=10, justify="right"),
        Column("peer", width=10, justify="right"),
        Column("unit", width=15),
        Column("ratio", width=6, justify="right"),
        Column("quality (heedful / peer)", width=46),
        Column("peak MiB", width=15),
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    ours, peer, ratio = f"{row['ours']:,.0f}", f"{row['peer']:,.0f}", f"{row['ratio']:.2f}"
    return [row["name"], ours, peer, row["unit"], ratio, row["quality"], row.get("memory", "")]


def _line(cells: list[str]) -> Table:
    """Lay out one line of the table, its long cells wrapped."""
    table = Table(*_columns(), box=None, show_header=False)
    table.add_row(*map(escape, cells))
    return table


def main() -> None:
    """Run the benchmarks that are named, or all."""
    names = sys.argv[1:] or list(BENCHMARKS)
    if unknown := sorted(set(names) - set(BENCHMARKS)):
        sys.exit(f"no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    console = Console(width=190, highlight=False)
    figures = ", ".join(f"{name} {value:,.0f} GFLOP/s" for name, value in ceiling().items())
    console.print(f"best matrix product of this machine: {figures}")
    console.print(_line([str(column.header) for column in _columns()]))
    for name in names:
        for row in BENCHMARKS[name]():
            console.print(_line(_cells(row)))


if __name__ == "__main__":
    main()
