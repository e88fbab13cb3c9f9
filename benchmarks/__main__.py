"""``python -m benchmarks [NAME ...]``: one table of ratios, and the machine's own ceiling."""

import sys
import time

from rich.console import Console
from rich.table import Table

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


def main() -> None:
    """Run the benchmarks that are named, or all."""
    names = sys.argv[1:] or list(BENCHMARKS)
    if unknown := sorted(set(names) - set(BENCHMARKS)):
        sys.exit(f"no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    console = Console(width=190)
    figures = ", ".join(f"{name} {value:,.0f} GFLOP/s" for name, value in ceiling().items())
    console.print(f"best matrix product of this machine: {figures}")
    table = Table(
        "what", "heedful", "peer", "unit", "ratio", "quality (heedful / peer)", "peak MiB"
    )
    for name in names:
        for row in BENCHMARKS[name]():
            table.add_row(
                str(row["name"]),
                f"{row['ours']:,.0f}",
                f"{row['peer']:,.0f}",
                str(row["unit"]),
                f"{row['ratio']:.2f}",
                str(row["quality"]),
                str(row.get("memory", "")),
            )
    console.print(table)


if __name__ == "__main__":
    main()
