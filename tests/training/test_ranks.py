"""Processes that train together: shares of the work, sums, and one writer."""

import json
import subprocess
import sys
from pathlib import Path

import torch
from tests.exact import assert_same_bits

from heedful.training import ranks

PROGRAM = """
import json, sys
import torch
import torch.distributed as dist
from heedful.training import ranks

meeting, rank = f"file://{sys.argv[1]}", int(sys.argv[2])
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
counts = torch.tensor([1.0, 10.0]) * (ranks.rank() + 1)
ranks.barrier()
print(json.dumps({
    "rank": ranks.rank(),
    "size": ranks.size(),
    "first": ranks.is_first(),
    "total": ranks.total(counts).tolist(),
    "kept": counts.tolist(),
    "share": ranks.share([0, 1, 2, 3, 4]),
    "stream": list(ranks.stream(iter("abcde"))),
}))
dist.destroy_process_group()
"""


def test_one_process_does_everything() -> None:
    counts = torch.tensor([3.0])
    assert (ranks.rank(), ranks.size(), ranks.is_first()) == (0, 1, True)
    assert_same_bits(ranks.total(counts), counts, "moved")
    assert ranks.share([0, 1, 2]) == [0, 1, 2]
    assert list(ranks.stream(iter("abc"))) == ["a", "b", "c"]
    ranks.barrier()


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "meeting")]
    processes = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    rows = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert [row["rank"] for row in rows] == [0, 1]
    assert [row["first"] for row in rows] == [True, False]
    assert all(row["size"] == 2 and row["total"] == [3.0, 30.0] for row in rows)
    assert [row["kept"] for row in rows] == [[1.0, 10.0], [2.0, 20.0]]
    assert [row["share"] for row in rows] == [[0, 2, 4], [1, 3]]
    assert [row["stream"] for row in rows] == [["a", "c", "e"], ["b", "d"]]
