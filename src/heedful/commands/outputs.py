"""Open the output of sharded predictions: a new file or folder, or an unfinished one.

No command overwrites its input.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.commands.parts import (
    PartialOutput,
    begin,
    check_kind,
    check_replaceable,
    folder_of,
    held,
    is_begun,
    is_replacing,
    is_there,
    refuse_if_there,
    resume,
)
from heedful.errors import UserError
from heedful.files import check_not_input
from heedful.reading.compressed import compression_of, without_compression
from heedful.settings import OutputSettings


def names_of(out: Path, inputs: Sequence[Path], read: Sequence[Path], *, plain: bool) -> list[str]:
    """Return the file names of an output folder, one for each input; empty for an output file.

    Args:
        out: a file, if its name has an extension, or a folder.
        inputs: the input files.
        read: all files that are read.
        plain: whether predictions are plain text, not JSON.

    Raises:
        UserError: there is no input, the output would overwrite an input, the extension does not
            match the format, or two files of the folder would have the same name.
    """
    if not inputs:
        raise UserError("--out is for the answers to --input FILES")
    check_not_input("--out", out, read)
    ending = out.suffix.lower()
    if compression_of(out) is not None:
        raise UserError(f"--out {out}: answers are not compressed; leave out {out.suffix}")
    if plain and ending == ".jsonl":
        raise UserError(f"--out {out}: --plain writes text; give another ending")
    if not plain and ending not in ("", ".jsonl"):
        raise UserError(
            f"--out {out}: give a name that ends in .jsonl, or one without an ending for a folder "
            "with a file for each input; --plain writes text"
        )
    names: dict[str, Path] = {}
    for path in () if ending else inputs:
        name = without_compression(path).stem + (".txt" if plain else ".jsonl")
        if name in names:
            raise UserError(
                f"--out {out}: {names[name]} and {path} would both write {name}; "
                "give --out the name of one file for all answers"
            )
        names[name] = path
    return list(names)


@contextmanager
def open_parts(
    output: OutputSettings,
    facts: Mapping[str, Any],
    size: int,
    *,
    plain: bool,
    scored: bool = False,
) -> Iterator[PartialOutput | None]:
    """Start or resume sharded predictions, and lock out other processes meanwhile.

    Args:
        output: the output settings.
        facts: identity of the predictions; see ``heedful.commands.identity``.
        size: default number of items per shard.
        plain: whether predictions are plain text, not JSON.
        scored: whether scores are computed from the shards, too. While the shards exist, the
            scores have not been shown yet, even if all predictions are finished.

    Yields:
        The finished shards; None if the output is complete.

    Raises:
        UserError: the output exists and no flag says what to do with it, the output is of another
            kind, the unfinished output has another identity, or another process computes it.
    """
    out = output.out
    assert out is not None
    if output.resume and output.overwrite:
        raise UserError("--resume continues and --overwrite starts over: give one of them")
    with ExitStack() as stack:
        if is_begun(out):
            stack.enter_context(held(out))
        parts = _parts(after_restart(output), facts, size, plain=plain, scored=scored)
        if parts is not None:
            stack.enter_context(held(out))  # the folder may have been replaced
        yield parts


def _parts(
    output: OutputSettings, facts: Mapping[str, Any], size: int, *, plain: bool, scored: bool
) -> PartialOutput | None:
    out, names = output.out, facts["files"]
    assert out is not None
    begun = is_begun(out)
    if output.overwrite:
        check_replaceable(out, names)
        shutil.rmtree(folder_of(out), ignore_errors=True)
        begun = False
    elif is_there(out, names) and not (begun and (scored or is_replacing(out))):
        if not output.resume:
            refuse_if_there(out, names)
        _check_finished(out, names)
        return None
    parts = PartialOutput(
        out=out,
        size=output.shard_size or size,
        plain=plain,
        overwrite=output.overwrite,
        shards=[],
    )
    if not begun:
        return begin(parts, facts)
    if not output.resume:
        raise UserError(
            f"{parts.folder} holds answers of a command that was stopped; give --resume to "
            "continue it, --overwrite to start over, or another name"
        )
    return resume(parts, facts, output.shard_size)


def told_as_finished(output: OutputSettings) -> str:
    """Return what to say if the output of a command with ``--resume`` exists already."""
    return f"{output.out} exists, so nothing is computed; --overwrite computes it again"


def after_restart(output: OutputSettings) -> OutputSettings:
    """Return settings that make a job restarted by ``torchrun`` resume its unfinished output."""
    if output.out is None or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        return output
    resume = is_begun(output.out) or not output.overwrite
    return replace(output, resume=resume, overwrite=not resume)


def _check_finished(out: Path, names: Sequence[str]) -> None:
    """Check that the output is complete.

    Raises:
        UserError: the output is of another kind or incomplete.
    """
    check_kind(out, names)
    for name in names:
        if not (out / name).is_file():
            raise UserError(
                f"--out {out} holds no {name}, so it is not an output of this command; choose "
                "another folder or give --overwrite"
            )
