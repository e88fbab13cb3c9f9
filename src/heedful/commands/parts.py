"""Store predictions in shards that survive an interruption, and join the finished shards.

While ``answers.jsonl`` is computed, the folder ``answers.jsonl.parts`` exists beside it. It holds
the identity of the predictions (``prediction.json``), a file for each finished shard, and an entry
for each finished shard (``finished.jsonl``), written after the shard. Only rank 0 reads and writes
the folder, and its lock keeps out other commands.
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
from heedful.errors import UserError, count_of, message_of, other_option
from heedful.locks import LOCK, locked

IDENTITY_FILE, FINISHED, JOINED, REPLACED = (
    "prediction.json",
    "finished.jsonl",
    "joined",
    "replaced",
)
_SIZE, _OVERWRITE = "shard_size", "overwrite"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Entry of a finished shard."""

    items: int
    cut: int
    """Number of truncated items."""
    records: str
    """Digest of the shard's records."""
    sha256: str
    """SHA-256 of the shard's file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartialOutput:
    """The shards of a prediction."""

    out: Path
    """Final output of the joined shards: a file, or a folder of files."""
    size: int
    """Number of items per shard; the last shard may have fewer."""
    plain: bool
    """Whether predictions are plain text, each possibly of several lines. A shard stores each as
    one line of JSON."""
    overwrite: bool
    """Whether joining replaces an existing output, which stays in place until then."""
    shards: list[Shard]

    @property
    def folder(self) -> Path:
        """Folder of the shards."""
        return folder_of(self.out)

    @property
    def items(self) -> int:
        """Number of finished predictions."""
        return sum(shard.items for shard in self.shards)

    @property
    def cut(self) -> int:
        """Number of finished predictions whose input was truncated."""
        return sum(shard.cut for shard in self.shards)

    def check(self, number: int, records: str) -> None:
        """Check that a shard was computed from the current records.

        Args:
            number: number of the shard.
            records: digest of the current records.

        Raises:
            UserError: the records have changed.
        """
        if records != self.shards[number].records:
            before = sum(shard.items for shard in self.shards[:number])
            raise UserError(
                f"{self.folder} was started on other data: some of the items {before + 1:,} to "
                f"{before + self.shards[number].items:,} have changed"
            )

    def lines(self, number: int) -> Iterator[str]:
        """Yield the lines of a shard."""
        path = _shard(self.folder, number)
        with path.open(encoding="utf-8", newline="\n") as stream:
            yield from (json.loads(line) + "\n" for line in stream) if self.plain else stream

    def add(self, rows: Sequence[Row], records: str) -> None:
        """Write a shard atomically.

        Args:
            rows: the shard's predictions.
            records: digest of the shard's records.
        """
        path = _shard(self.folder, len(self.shards))
        with files.new_file(path, overwrite=True) as partial, _open(partial) as stream:
            for row in rows:
                stream.write((json.dumps(row.line) if self.plain else row.line) + "\n")
        cut = sum(row.cut for row in rows)
        shard = Shard(items=len(rows), cut=cut, records=records, sha256=files.sha256(path))
        entries_path = self.folder / FINISHED
        with (
            files.with_file_name(entries_path),
            entries_path.open("a", encoding="utf-8") as journal,
        ):
            journal.write(_entry(shard))
            _sync(journal)
        self.shards.append(shard)

    def discard(self) -> None:
        """Delete the folder of the shards."""
        shutil.rmtree(self.folder)

    def join(self, counts: Mapping[str, int]) -> None:
        """Create the output file or folder atomically from all shards, and delete the shards.

        Args:
            counts: number of predictions of each file of an output folder, by file name and in
                order; empty for an output file.

        Raises:
            UserError: the output has been created meanwhile and must not be replaced.
        """
        with files.with_file_name(self.out, self.folder / JOINED):
            self._write_joined(self.folder / JOINED, counts)
        out = files.symlink_target(self.out)
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
def resumable(parts: PartialOutput | None) -> Iterator[None]:
    """Add to an error's message how to resume; delete the folder if no shard is finished."""
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
            f"{message_of(stop) or 'stopped'}; {count_of(parts.items, 'answer')} "
            f"{'is' if parts.items == 1 else 'are'} kept: the same command with --resume continues"
        ) from None


def begin(parts: PartialOutput, facts: Mapping[str, Any]) -> PartialOutput:
    """Create the folder of the shards.

    Args:
        parts: the output, without shards.
        facts: identity of the predictions; see ``heedful.commands.identity``.

    Raises:
        UserError: the parent folder does not exist.
    """
    if not parts.out.parent.is_dir():
        raise UserError(f"--out {parts.out}: there is no folder {str(parts.out.parent)!r}")
    with files.new_folder(parts.folder) as partial:
        contents = {_SIZE: parts.size, _OVERWRITE: parts.overwrite, **facts}
        files.write_json(partial / IDENTITY_FILE, contents)
    return parts


def resume(parts: PartialOutput, facts: Mapping[str, Any], size: int | None) -> PartialOutput:
    """Return the finished shards of an earlier call, and delete unfinished files.

    Args:
        parts: the output, without shards.
        facts: current identity of the predictions.
        size: requested number of items per shard, if any.

    Raises:
        UserError: the identity has changed, or the stored identity is damaged.
    """
    before = files.read_json(parts.folder / IDENTITY_FILE)
    if not {_SIZE, *facts} <= before.keys() or not isinstance(before[_SIZE], int):
        raise UserError(f"{parts.folder / IDENTITY_FILE}: a key is missing; give --overwrite")
    if size not in (None, before[_SIZE]):
        raise other_option(parts.folder, "shard_size", before[_SIZE], size)
    check_identity(str(parts.folder), before, facts)
    parts = replace(
        parts,
        size=before[_SIZE],
        overwrite=bool(before.get(_OVERWRITE)),  # earlier versions deleted the output at the start
        shards=_read_entries(parts.folder),
    )
    expected_names = {
        IDENTITY_FILE,
        LOCK,
        *(_shard(parts.folder, number).name for number in range(len(parts.shards))),
    }
    for path in parts.folder.iterdir():
        if path.name not in expected_names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (parts.folder / FINISHED).write_text("".join(map(_entry, parts.shards)), encoding="utf-8")
    return parts


def is_begun(out: Path) -> bool:
    """Return whether an output has a folder of shards.

    Raises:
        UserError: the folder exists but holds something else.
    """
    folder = folder_of(out)
    begun = (folder / IDENTITY_FILE).is_file()
    if folder.exists() and not begun:
        raise UserError(f"{folder} is in the way: the answers are collected there; move it")
    return begun


def held(out: Path) -> AbstractContextManager[None]:
    """Lock the existing folder of an output's shards.

    Raises:
        UserError: another process holds the lock.
    """
    return locked(
        folder_of(out),
        f"--out {out}: another process is computing these answers; wait for it, or choose another "
        "name",
    )


def folder_of(out: Path) -> Path:
    """Return the folder of an output's shards."""
    out = files.symlink_target(out)
    return out.with_name(out.name + ".parts")


def is_replacing(out: Path) -> bool:
    """Return whether the unfinished predictions will replace an existing output."""
    return bool(files.read_json(folder_of(out) / IDENTITY_FILE).get(_OVERWRITE))


def is_there(out: Path, names: Sequence[str]) -> bool:
    """Return whether the output exists; an empty folder for an output folder does not count.

    Args:
        out: the output path.
        names: file names of an output folder; empty for an output file.
    """
    return out.exists() and not (names and out.is_dir() and not any(out.iterdir()))


def refuse_if_there(out: Path, names: Sequence[str]) -> None:
    """Check that the output does not exist; see `is_there`.

    Raises:
        UserError: the output exists.
    """
    if is_there(out, names):
        raise UserError(f"--out {out} exists; choose another name or give --overwrite")


def check_kind(out: Path, names: Sequence[str]) -> None:
    """Check that an existing output is a file or folder as expected; see `is_there`.

    Raises:
        UserError: a file exists in place of the output folder, or a folder in place of the file.
    """
    if names and out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file; give the name of a folder, or an ending")
    if not names and out.exists() and not out.is_file():
        kind = "a folder" if out.is_dir() else "not a regular file"
        raise UserError(f"--out {out} is {kind}; give the name of a file")


def check_replaceable(out: Path, names: Sequence[str]) -> None:
    """Check that an existing output holds only predictions, so that it may be replaced.

    For the arguments see `is_there`.

    Raises:
        UserError: the output is of another kind or holds other files.
    """
    check_kind(out, names)
    others = {path.name for path in out.iterdir()} - set(names) if out.is_dir() else set()
    if others:
        raise UserError(
            f"--out {out} holds {min(others)}, which would not be replaced: choose another folder"
        )


def _read_entries(folder: Path) -> list[Shard]:
    """Return the entries of the finished shards, up to the first incomplete shard."""
    shards: list[Shard] = []
    if not (folder / FINISHED).is_file():
        return shards
    for number, line in enumerate((folder / FINISHED).read_text(encoding="utf-8").splitlines()):
        try:
            shard = Shard(**json.loads(line))
        except (ValueError, TypeError):  # the line is incomplete
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
    # As on standard output, lone surrogates are written as JSON escapes.
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")


def _sync(stream: TextIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())
