"""Answers in shards that outlast a stop, and are joined when all are there.

While ``answers.jsonl`` is computed, the folder ``answers.jsonl.parts`` stands beside it. It holds
what the answers depend on (``prediction.json``), a file for each finished shard, and what is known
of each of them (``finished.jsonl``), written after it. Of several processes the first alone reads
and writes it, and its lock keeps those of another command out.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from heedful import files
from heedful.commands.identity import check_identity
from heedful.commands.shards import Row
from heedful.errors import UserError, message_of, other_option
from heedful.locks import LOCK, locked

ASKED, FINISHED, JOINED, REPLACED = "prediction.json", "finished.jsonl", "joined", "replaced"
_SIZE, _OVERWRITE = "shard_size", "overwrite"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """What is known of a finished shard."""

    items: int
    cut: int
    """Of how many the model was given only a part."""
    records: str
    """Digest of what was answered."""
    sha256: str
    """Of the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The shards of a prediction."""

    out: Path
    """What they are joined to: a file, or a folder of files."""
    size: int
    """Items of a shard; the last one may have fewer."""
    plain: bool
    """Whether answers are text, of which one may take several lines. A line of a shard is JSON."""
    overwrite: bool
    """Whether they replace answers that stand there until all are joined."""
    shards: list[Shard]

    @property
    def folder(self) -> Path:
        """Where they are."""
        return folder_of(self.out)

    @property
    def items(self) -> int:
        """How many answers are finished."""
        return sum(shard.items for shard in self.shards)

    @property
    def cut(self) -> int:
        """Of how many of them the model was given only a part."""
        return sum(shard.cut for shard in self.shards)

    def check(self, number: int, records: str) -> None:
        """Check that a shard was computed of what is there now.

        Args:
            number: of the shard.
            records: digest of what would be answered.

        Raises:
            UserError: it was something else.
        """
        if records != self.shards[number].records:
            before = sum(shard.items for shard in self.shards[:number])
            raise UserError(
                f"{self.folder} was started on other data: of the items {before + 1:,} to "
                f"{before + self.shards[number].items:,} some have changed"
            )

    def lines(self, number: int) -> Iterator[str]:
        """Yield the lines of a shard."""
        path = _shard(self.folder, number)
        with path.open(encoding="utf-8", newline="\n") as stream:
            yield from (json.loads(line) + "\n" for line in stream) if self.plain else stream

    def add(self, rows: Sequence[Row], records: str) -> None:
        """Write a shard, completely or not at all.

        Args:
            rows: its answers.
            records: digest of what was answered.
        """
        path = _shard(self.folder, len(self.shards))
        with files.new_file(path, overwrite=True) as partial, _open(partial) as stream:
            for row in rows:
                stream.write((json.dumps(row.line) if self.plain else row.line) + "\n")
        cut = sum(row.cut for row in rows)
        shard = Shard(items=len(rows), cut=cut, records=records, sha256=files.sha256(path))
        known = self.folder / FINISHED
        with files.naming(known), known.open("a", encoding="utf-8") as journal:
            journal.write(_entry(shard))
            _sync(journal)
        self.shards.append(shard)

    def discard(self) -> None:
        """Delete all of it."""
        shutil.rmtree(self.folder)

    def join(self, counts: Mapping[str, int]) -> None:
        """Have the file, or the folder, of all answers appear at once, and delete the shards.

        Args:
            counts: the names of a folder's files, in order, and how many answers each has; empty
                for a single file.

        Raises:
            UserError: something has come to stand there meanwhile that is not to be replaced.
        """
        with files.naming(self.out, self.folder / JOINED):
            self._write_joined(self.folder / JOINED, counts)
        out = files.behind_link(self.out)
        if self.overwrite:
            check_replaceable(self.out, list(counts))
            if out.exists():
                out.rename(self.folder / REPLACED)
        else:
            refuse_if_there(self.out, list(counts))
        (self.folder / JOINED).rename(out)
        files.sync_tree(out.parent, deep=False)
        self.discard()

    def _write_joined(self, joined: Path, counts: Mapping[str, int]) -> None:
        lines = chain.from_iterable(map(self.lines, range(len(self.shards))))
        if counts:
            joined.mkdir()
        for name, count in counts.items():
            with _open(joined / name) as stream:
                stream.writelines(islice(lines, count))
                _sync(stream)
        if not counts:
            with _open(joined) as stream:
                stream.writelines(lines)
                _sync(stream)


@contextmanager
def kept(parts: Parts | None) -> Iterator[None]:
    """Say how to go on where something stops it, unless nothing is finished."""
    try:
        yield
    except (UserError, OSError, KeyboardInterrupt) as stop:
        if parts is None:
            raise
        if not parts.shards:
            parts.discard()
            raise
        kind = UserError if isinstance(stop, OSError) else type(stop)
        raise kind(
            f"{message_of(stop) or 'stopped'}; {parts.items:,} answers are kept: the same command "
            "with --resume goes on"
        ) from None


def begin(parts: Parts, facts: Mapping[str, Any]) -> Parts:
    """Make the folder of a prediction.

    Args:
        parts: what it will be; there are no shards.
        facts: what the answers depend on; see ``heedful.commands.identity``.

    Raises:
        UserError: there is no folder to make it in.
    """
    if not parts.out.parent.is_dir():
        raise UserError(f"--out {parts.out}: there is no folder {str(parts.out.parent)!r}")
    with files.new_folder(parts.folder) as partial:
        asked = {_SIZE: parts.size, _OVERWRITE: parts.overwrite, **facts}
        files.write_json(partial / ASKED, asked)
    return parts


def go_on(parts: Parts, facts: Mapping[str, Any], size: int | None) -> Parts:
    """Return what is finished of a prediction, and delete what is not.

    Args:
        parts: what it is.
        facts: what the answers depend on now.
        size: items of a shard, if that is asked for.

    Raises:
        UserError: the answers depended on something else, or what is known of them is damaged.
    """
    before = files.read_json(parts.folder / ASKED)
    if not {_SIZE, *facts} <= before.keys() or not isinstance(before[_SIZE], int):
        raise UserError(f"{parts.folder / ASKED}: a key is missing; give --overwrite")
    if size not in (None, before[_SIZE]):
        raise other_option(parts.folder, "shard_size", before[_SIZE], size)
    check_identity(str(parts.folder), before, facts)
    parts = replace(
        parts,
        size=before[_SIZE],
        overwrite=bool(before.get(_OVERWRITE)),  # earlier versions deleted at the start
        shards=_finished(parts.folder),
    )
    kept = {
        ASKED,
        LOCK,
        *(_shard(parts.folder, number).name for number in range(len(parts.shards))),
    }
    for path in parts.folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (parts.folder / FINISHED).write_text("".join(map(_entry, parts.shards)), encoding="utf-8")
    return parts


def is_begun(out: Path) -> bool:
    """Tell whether there are shards of what goes to a file or folder.

    Raises:
        UserError: what stands where they would be is something else.
    """
    folder = folder_of(out)
    begun = (folder / ASKED).is_file()
    if folder.exists() and not begun:
        raise UserError(f"{folder} is in the way: the answers are collected there; move it")
    return begun


def held(out: Path) -> AbstractContextManager[None]:
    """Keep other processes from the shards, which are begun, of what goes to a file or folder.

    Raises:
        UserError: another process computes them.
    """
    return locked(
        folder_of(out),
        f"--out {out}: another process is computing these answers; wait for it, or choose another "
        "name",
    )


def folder_of(out: Path) -> Path:
    """Return where the shards are of what goes to a file or folder."""
    out = files.behind_link(out)
    return out.with_name(out.name + ".parts")


def is_replacing(out: Path) -> bool:
    """Tell whether what was begun replaces what stands where it goes."""
    return bool(files.read_json(folder_of(out) / ASKED).get(_OVERWRITE))


def is_there(out: Path, names: Sequence[str]) -> bool:
    """Tell whether something stands where answers go; an empty folder is filled.

    Args:
        out: where they go.
        names: those of the files of a folder; none for a file.
    """
    return out.exists() and not (names and out.is_dir() and not any(out.iterdir()))


def refuse_if_there(out: Path, names: Sequence[str]) -> None:
    """Refuse to write over what stands there; see `is_there`.

    Raises:
        UserError: naming it.
    """
    if is_there(out, names):
        raise UserError(f"--out {out} exists; choose another name or give --overwrite")


def check_kind(out: Path, names: Sequence[str]) -> None:
    """Refuse a file in the place of a folder, and the other way round; see `is_there`.

    Raises:
        UserError: naming it.
    """
    if names and out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file; give the name of a folder, or an ending")
    if not names and out.is_dir():
        raise UserError(f"--out {out} is a folder; give the name of a file")


def check_replaceable(out: Path, names: Sequence[str]) -> None:
    """Refuse to replace what may be something else than answers; see `is_there`.

    Raises:
        UserError: naming it.
    """
    check_kind(out, names)
    others = {path.name for path in out.iterdir()} - set(names) if out.is_dir() else set()
    if others:
        raise UserError(
            f"--out {out} holds {min(others)}, which would not be replaced: choose another folder"
        )


def _finished(folder: Path) -> list[Shard]:
    """Return what is known of the shards, up to the first that is not whole."""
    shards: list[Shard] = []
    if not (folder / FINISHED).is_file():
        return shards
    for number, line in enumerate((folder / FINISHED).read_text(encoding="utf-8").splitlines()):
        try:
            shard = Shard(**json.loads(line))
        except (ValueError, TypeError):  # the line was being written
            break
        path = _shard(folder, number)
        if not path.is_file() or files.sha256(path) != shard.sha256:
            break
        shards.append(shard)
    return shards


def _shard(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.jsonl"


def _entry(shard: Shard) -> str:
    return json.dumps(asdict(shard)) + "\n"


def _open(path: Path) -> TextIO:
    # As on standard output: half a surrogate pair is written as JSON escapes it.
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")


def _sync(stream: TextIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())
