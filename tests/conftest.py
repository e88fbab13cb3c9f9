"""Applies to every test: no network, no colours, and real data where available."""

import gc
import ipaddress
import os
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.browser import Browser

ROOT = Path(__file__).parents[1]

# Before torch and the reference libraries are imported, and for child processes as well. One
# thread: to wake another takes longer than all of a tiny model. What is about threads sets them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MPLBACKEND"] = "Agg"
os.environ["NO_COLOR"] = "1"
os.environ["TERM"] = "dumb"
os.environ["COLUMNS"] = "100"
os.environ.pop("FORCE_COLOR", None)

if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":  # `make test-other-cpu`: one without bf16, too
    import torch

    for asked in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        setattr(torch.cpu, asked, lambda: False)

# A timing never fails a test, and the same commit gets the same examples everywhere.
hypothesis.settings.register_profile("heedful", deadline=None, derandomize=True)
hypothesis.settings.load_profile("heedful")


class NetworkRefusedError(BaseException):
    """A test tried to use the network.

    Not an ``Exception``: a library that catches its own failures to connect must not hide it.
    """


def _is_local(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        # A Unix socket's address is a path; a connected socket sends without an address.
        host = address[0] if isinstance(address, tuple) else None
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = arguments[0]
    else:
        return
    if not _is_local(host):
        raise NetworkRefusedError(f"{event} to {host!r}: tests may reach only loopback addresses")


sys.addaudithook(_refuse_network)


@pytest.fixture
def bf16_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU emulate bf16 instructions; heedful refuses to, because it is slow."""
    from heedful.training import device

    monkeypatch.setattr(device, "bf16_products", lambda device: (True, "a test asks for it"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, so none of them delays the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if on_gpu := [item for item in items if item.get_closest_marker("cuda")]:
        import torch

        if not torch.cuda.is_available():
            skip = pytest.mark.skip(reason="needs a GPU that torch can use")
            for item in on_gpu:
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Collect garbage less often: it takes a tenth of the time of an export to ONNX."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


@cache
def _seed_only_what_is_there() -> None:
    """Let torch not remember each seed, with its stack, for devices that this machine lacks."""
    import torch

    if not torch.accelerator.is_available():
        for devices in (torch.cuda, torch.mtia, torch.xpu):
            devices.manual_seed_all = lambda seed: None


@pytest.hookimpl(tryfirst=True)  # before the fixtures draw
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed each test separately, with the same seed in every run of the suite."""
    # Not for a test of text alone: to import torch takes seconds.
    if torch := sys.modules.get("torch"):
        _seed_only_what_is_there()
        torch.manual_seed(zlib.crc32(item.nodeid.encode()))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Provide the folder of real data sets: ``HEEDFUL_DATA``, or ``../shared/data``."""
    named = os.environ.get("HEEDFUL_DATA")
    folder = ROOT / (named or "../shared/data")
    if not folder.is_dir():
        reason = f"needs the real data sets: no folder {folder} (HEEDFUL_DATA names it)"
        if named and os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with a tiny random BERT and a vocabulary of letters and a few words."""
    import torch

    from heedful import BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("models") / "tiny"
    words = ["red", "green", "blue", "apple", "grass", "sky", "is", "the", "a", "was", "very"]
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + list("0123456789.,!?'")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    pieces += letters + [f"##{letter}" for letter in letters]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(pieces := list(dict.fromkeys(pieces))),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    BertForSequenceClassification(config).bert.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """Provide one window of a real browser to all tests that open pages."""
    from tests.browser import chromium_in

    with chromium_in(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """Provide a CSV file of 45 short texts of varied length in 3 labels."""
    rows = ["text,label"]
    things = {"red": "apple", "green": "grass", "blue": "sky"}
    for number in range(15):
        for colour, thing in things.items():
            rows.append(f"the {thing} {'very ' * (number % 5)}is {colour} {number},{colour}")
    path = tmp_path / "colours.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
