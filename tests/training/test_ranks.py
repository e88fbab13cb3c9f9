"""Processes that train together: shares of the work, sums, and a single writer."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exact import assert_same_bits

from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError
from heedful.training import ranks
from heedful.training import rendezvous as meetings
from heedful.training.record import shared_facts
from heedful.training.rendezvous import (
    INTERFACE,
    Meeting,
    address_to_others,
    agree,
    interface_of,
    meet,
)

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from heedful.errors import UserError
from heedful.training import shared_disk, ranks

meeting, rank = f"file://{sys.argv[1]}", int(sys.argv[2])
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
counts = torch.tensor([1.0, 10.0]) * (ranks.rank() + 1)
ranks.barrier()
rows = torch.full((rank + 1, rank + 2), float(rank + 1), requires_grad=True)
together = ranks.gathered(rows, -1)
(together.sum() / ranks.size()).backward()
model = nn.ParameterList([torch.zeros(2), torch.zeros(3), torch.zeros(1)])
model[0].grad = torch.full((2,), rank + 1.0)
if rank == 1:
    model[1].grad = torch.full((3,), 5.0)
ranks.add_gradients(model)
weights = nn.ParameterList([torch.full((2,), float(rank + 7))])
ranks.send_weights(weights)
shared_disk._PATIENCE = 0
folders = [Path(sys.argv[1]).parent / name for name in ("one", f"of {rank}")]
errors = []
for folder in folders:
    folder.mkdir(exist_ok=True)
for check in (
    lambda: ranks.check_same({"alike": 1, "a fact": rank}),
    lambda: shared_disk.check_shared(folders[0]),
    lambda: shared_disk.check_shared(folders[1]),
):
    try:
        check()
    except UserError as raised:
        errors.append(str(raised))
print(json.dumps({
    "rank": ranks.rank(),
    "size": ranks.size(),
    "first": ranks.is_first(),
    "total": ranks.total(counts).tolist(),
    "kept": counts.tolist(),
    "any": ranks.any_of([rank == 1, False]),
    "part": [items.tolist() if copies == 1 else copies for items, copies in (
        ranks.part(np.arange(5)), ranks.part(np.arange(1)))],
    "joined": list(ranks.joined(lambda items: (3 * item for item in items), range(2500))),
    "gathered": together.tolist(),
    "slope": rows.grad.tolist(),
    "gradients": [p.grad if p.grad is None else p.grad.tolist() for p in model],
    "weights": weights[0].tolist(),
    "errors": errors,
    "files": [path.name for folder in folders for path in folder.iterdir()],
}))
dist.destroy_process_group()
"""


def test_one_process_does_everything() -> None:
    counts = torch.tensor([3.0])
    assert (ranks.rank(), ranks.size(), ranks.is_first()) == (0, 1, True)
    assert_same_bits(ranks.total(counts), counts, "moved")
    assert ranks.part(np.arange(3)).items.tolist() == [0, 1, 2]
    assert list(ranks.joined(iter, "abc")) == ["a", "b", "c"]
    assert ranks.any_of([True, False]) == [True, False]
    ranks.check_same({})
    ranks.barrier()


def test_processes_that_cannot_meet_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with (
        pytest.raises(
            UserError, match=r"WORLD_SIZE is 2, but the processes cannot connect: .*RANK"
        ),
        ranks.together(),
    ):
        pass


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Results of each of two processes."""
    meeting: Path = tmp_path_factory.mktemp("ranks") / "meeting"
    command = [sys.executable, "-c", PROGRAM, str(meeting)]
    processes = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    return [json.loads(process.communicate(timeout=120)[0]) for process in processes]


def test_two_processes_share_the_work(rows: list[dict[str, object]]) -> None:
    assert [row["rank"] for row in rows] == [0, 1]
    assert [row["first"] for row in rows] == [True, False]
    assert all(row["size"] == 2 and row["total"] == [3.0, 30.0] for row in rows)
    assert [row["kept"] for row in rows] == [[1.0, 10.0], [2.0, 20.0]]
    assert [row["any"] for row in rows] == [[True, False]] * 2
    # Too few items to share are computed by both.
    assert [row["part"] for row in rows] == [[[0, 2, 4], 2], [[1, 3], 2]]
    assert all(row["joined"] == [3 * item for item in range(2500)] for row in rows)


def test_two_processes_know_each_others_rows_and_gradients(rows: list[dict[str, object]]) -> None:
    together = [[1.0, 1.0, -1.0], [2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    assert all(row["gathered"] == together for row in rows)
    # Half of the loss is each one's, so the slope is that of the whole.
    assert [row["slope"] for row in rows] == [[[1.0, 1.0]], [[1.0] * 3] * 2]
    assert all(row["gradients"] == [[3.0, 3.0], [5.0, 5.0, 5.0], None] for row in rows)
    assert all(row["weights"] == [7.0, 7.0] for row in rows)


def test_processes_that_differ_are_refused(rows: list[dict[str, Any]]) -> None:
    line = "processes 0 and 1 started differently: a fact is 0 in one, 1 in the other"
    assert [row["errors"][0] for row in rows] == [line, line]


def test_of_facts_that_differ_the_parts_that_do_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"settings": {"seed": 0, "head_rate": None, "steps": 5}, "teacher": {"sha256": "a"}}
    two = {"settings": {"seed": 1, "head_rate": 0.5, "steps": 5}, "teacher": {"sha256": "b" * 200}}

    def gather(found: list[Any], own: object) -> None:
        found[:] = [one, own]

    monkeypatch.setattr(ranks, "size", lambda: 2)
    monkeypatch.setattr("torch.distributed.all_gather_object", gather)
    ranks.check_same(one)
    with pytest.raises(UserError) as settings:
        ranks.check_same(two)
    assert str(settings.value) == (
        "processes 0 and 1 started differently: --head-rate is None in one, 0.5 in the other; "
        "--seed is 0 in one, 1 in the other"
    )
    with pytest.raises(
        UserError, match=r"'sha256' of teacher is 'a' in one, 'b+…b+' in the other$"
    ):
        ranks.check_same(one | {"teacher": two["teacher"]})


def test_of_many_files_the_one_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"/data/shards-of-a-long-name/part-{number:05}.txt.gz" for number in range(100)]
    one, two = (
        shared_facts(
            RunRecord(
                task="pretrain",
                goal={},
                max_length=8,
                settings={},
                data=[{"file": name, "bytes": 1234, "sha256": "a" * 64} for name in names[:-1]]
                + [{"file": names[-1], "bytes": 1234, "sha256": last * 64}],
                versions={},
            )
        )
        for last in "ab"
    )

    def gather(found: list[Any], own: object) -> None:
        found[:] = [one, own]

    monkeypatch.setattr(ranks, "size", lambda: 2)
    monkeypatch.setattr("torch.distributed.all_gather_object", gather)
    with pytest.raises(UserError) as raised:
        ranks.check_same(two)
    assert str(raised.value) == (
        f"processes 0 and 1 started differently: '{names[-1]}' of data is "
        f"'1,234 bytes with SHA-256 {'a' * 16}' in one, "
        f"'1,234 bytes with SHA-256 {'b' * 16}' in the other"
    )


def test_processes_without_a_disk_that_they_share_are_refused(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        (line,) = row["errors"][1:]
        assert re.fullmatch(
            r"process 1 on \S+ does not see \S+/of 0, where process 0 on \S+ writes: "
            "give a folder on a disk that all machines share",
            line.replace("of 1", "of 0"),
        )
    assert rows[0]["files"] == rows[1]["files"] == []


def test_processes_started_again_do_not_take_what_those_before_them_said() -> None:
    """The store outlives them: a start may find what one of more processes left, or of fewer."""
    store = torch.distributed.HashStore()
    names = []
    for size in (3, 2, 4):
        with ThreadPoolExecutor(size) as threads:
            ranks_last_first = reversed(range(size))
            said = [threads.submit(agree, store, rank, size) for rank in ranks_last_first]
            names.append({each.result(timeout=60) for each in said})
    assert [len(name) for name in names] == [1, 1, 1]
    assert len(set.union(*names)) == 3


@pytest.mark.parametrize(
    ("ways", "addresses"),
    [
        pytest.param(
            [{"place": "127.0.1.1", "10.9.0.2": "10.9.0.1"}, {"place": "10.9.0.2"}],
            ["10.9.0.1", "10.9.0.2"],
            id="debian",
        ),
        pytest.param(
            [{"place": "10.9.0.1"}, {"place": "10.9.0.2"}],
            ["10.9.0.1", "10.9.0.2"],
            id="by address",
        ),
        pytest.param(
            [{"place": "127.0.0.1"}, {"place": "127.0.0.1"}], [None, None], id="one machine"
        ),
        pytest.param([{}, {"place": "10.9.0.2"}], [None, "10.9.0.2"], id="no way"),
    ],
)
def test_machines_reach_each_other_by_the_way_to_where_they_meet(
    monkeypatch: pytest.MonkeyPatch, ways: list[dict[str, str]], addresses: list[str | None]
) -> None:
    """Whatever the first machine's host name resolves to."""
    store = torch.distributed.HashStore()
    for rank, way in enumerate(ways):
        store.set(f"address/{rank}", way.get("place", ""))
    found = []
    for rank, way in enumerate(ways):
        monkeypatch.setattr(meetings, "_address_towards", way.get)
        found.append(address_to_others(store, rank, len(ways), "place"))
    assert found == addresses


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_an_interface_is_known_by_its_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.255") is None  # which nobody has
    assert interface_of(None) is None


@pytest.mark.parametrize("named", [None, "by-the-user"])
def test_torch_is_told_the_interface_unless_the_user_named_one(
    monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "0")
    monkeypatch.setenv(INTERFACE, named or "")
    if named is None:
        monkeypatch.delenv(INTERFACE)
    monkeypatch.setattr(meetings, "address_to_others", lambda *_: "10.9.0.1")
    monkeypatch.setattr(meetings, "interface_of", {"10.9.0.1": "eth7"}.get)
    meet()
    assert os.environ[INTERFACE] == (named or "eth7")


def test_processes_that_met_but_cannot_reach_each_other_say_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("Connection refused, remote=[127.0.1.1]:9620\nframe #0")

    store = torch.distributed.HashStore()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(ranks, "watching", lambda _: nullcontext(Meeting(store, store, 1, 2)))
    monkeypatch.setattr(torch.distributed, "init_process_group", refuse)
    with pytest.raises(
        UserError, match="cannot connect to the others: Connection refused"
    ) as raised:
        ranks.together().__enter__()
    assert str(raised.value).endswith(
        "9620; set GLOO_SOCKET_IFNAME on each machine to the network interface that connects them"
    )
