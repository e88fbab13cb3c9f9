"""Which shards are read, how changes to them are detected, and shards on other machines."""

import gzip
import io
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import pytest

from heedful.errors import UserError
from heedful.reading import shards as reading
from heedful.reading.documents import read_documents
from heedful.reading.lines import open_bytes
from heedful.reading.remote import is_remote, url_of
from heedful.reading.shards import find_shards, shard_fingerprints


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.txt"):
        (tmp_path / name).write_text(f"The text of {name}.\n")
    return tmp_path


def test_a_pattern_names_many(shards: Path) -> None:
    assert [path.name for path in find_shards([shards / "*.txt"])] == ["a.txt", "b.txt", "c.txt"]
    (shards / "d[1].txt").write_text("A name with brackets.\n")
    assert find_shards([shards / "d[1].txt"]) == (shards / "d[1].txt",)


def test_shards_are_hashed_side_by_side(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for another, because an object store is slow."""
    found = find_shards([shards / "*.txt"])
    alone, all_here = shard_fingerprints(found), threading.Barrier(len(found))
    opened = reading.open_raw

    def open_together(path: Path) -> AbstractContextManager[IO[bytes]]:
        all_here.wait(60)
        return opened(path)

    monkeypatch.setattr(reading, "open_raw", open_together)
    assert shard_fingerprints(found) == alone


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["*.gz"], "no file matches this pattern"),
        (["a.txt", "?.txt"], "named twice"),
        (["a.text"], "did you mean 'a.txt'"),
    ],
)
def test_wrong_names_are_told(shards: Path, names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_shards([shards / name for name in names])


def digest(path: Path) -> str:
    (print_,) = shard_fingerprints([path])
    return print_.sha256


@pytest.mark.parametrize("size", [100, 10**6, 3 * 10**6])
def test_a_change_is_noticed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "shard.txt"
    text = (b"some text " * size)[:size]
    path.write_bytes(text)
    before = digest(path)
    for changed in (text + b"x", b"x" + text, b"x" + text[1:], text[:-1] + b"x"):
        path.write_bytes(changed)
        assert digest(path) != before
    path.write_bytes(text)
    assert digest(path) == before
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"shard\.txt: holds no text"):
        digest(path)


def test_files_elsewhere_are_read_as_files_here(shards: Path) -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    for path in shards.iterdir():
        system.pipe(f"/corpus/{path.name}", path.read_bytes())
    system.pipe("/corpus/d.txt.gz", gzip.compress(b"Packed.\n\nTwo documents.\n"))
    found_here = find_shards([shards / "*.txt"])
    names = [Path("memory://corpus/*.txt"), Path("memory://corpus/d.txt.gz")]
    shards_there = find_shards(names)
    assert [url_of(path) for path in shards_there[-2:]] == [
        "memory://corpus/c.txt",
        "memory://corpus/d.txt.gz",
    ]
    here, there = read_documents(found_here), read_documents(shards_there)
    texts = [document.text for document in there]
    assert texts == [*(document.text for document in here), "Packed.", "Two documents."]
    assert [print_.sha256 for print_ in shard_fingerprints(shards_there[:3])] == [
        print_.sha256 for print_ in shard_fingerprints(found_here)
    ]
    files = find_shards([Path(f"file://{shards}/*.txt")])
    assert [document.text for document in read_documents(files)] == texts[:3]
    with pytest.raises(UserError, match=r"memory://corpus/e\.txt: no such file"):
        find_shards([Path("memory://corpus/e.txt")])
    system.pipe("/corpus/e.txt.gz", b"not packed")
    with pytest.raises(UserError, match=r"memory://corpus/e\.txt\.gz: not gzip data"):
        list(read_documents([Path("memory://corpus/e.txt.gz")]))


def test_an_error_of_a_driver_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    class GoneError(Exception):
        """An exception that only the driver knows."""

    class Gone(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise GoneError("the bucket is gone\nmore of it")

    def fail(*_: object, **__: object) -> bool:
        raise GoneError("no credentials")

    path = Path("memory://corpus/a.txt.bz2")
    told = r"memory://corpus/a\.txt\.bz2: cannot be read: "
    monkeypatch.setattr(MemoryFileSystem, "isfile", lambda *_, **__: True)
    monkeypatch.setattr(MemoryFileSystem, "open", lambda *_, **__: Gone())
    with pytest.raises(UserError, match=told + "the bucket is gone$"):
        list(read_documents([path]))
    monkeypatch.setattr(MemoryFileSystem, "isfile", fail)
    with pytest.raises(UserError, match=told + "no credentials$"):
        find_shards([path])


def test_an_error_of_a_reader_is_not_one_of_the_file() -> None:
    import fsspec

    fsspec.filesystem("memory").pipe("/corpus/a.txt", b"Text.")
    with pytest.raises(ZeroDivisionError), open_bytes(Path("memory://corpus/a.txt")):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("adl://bucket/a.txt", r"adl://bucket/a\.txt: adl:// needs a driver: pip install adlfs"),
        ("nothing://bucket/a.txt", "nothing://bucket/a.txt: Protocol not known: nothing"),
    ],
)
def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch, url: str, message: str) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(UserError, match=message):
        find_shards([Path(url)])


@pytest.mark.parametrize("protocol", ["s3", "gs", "hf", "simplecache::s3"])
@pytest.mark.parametrize("name", ["a.txt", "bucket/a b/c.txt.gz", "user@host/*.txt"])
def test_a_path_gives_back_its_url(protocol: str, name: str) -> None:
    assert is_remote(Path(f"{protocol}://{name}"))
    assert url_of(Path(f"{protocol}://{name}")) == f"{protocol}://{name}"


def test_files_here_are_not_elsewhere() -> None:
    for name in ("a.txt", "C:/a.txt", "/a:/b.txt", "shards/s3:/b.txt"):
        assert not is_remote(Path(name))
        assert url_of(Path(name)) == name
