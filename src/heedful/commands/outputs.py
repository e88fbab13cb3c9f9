"""Where the answers of ``heedful predict --out`` go: a new file or folder, or one begun before."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.commands.parts import Parts, begin, folder_of, go_on, is_begun, refuse_if_there
from heedful.errors import UserError
from heedful.reading.compressed import without_compression
from heedful.settings import OutputSettings


def names_of(out: Path, inputs: Sequence[Path], *, plain: bool) -> list[str]:
    """Return the names of the files of the folder to make, one for each input; none for a file.

    Args:
        out: a file, if its name has an ending, or a folder.
        inputs: the files that are read.
        plain: whether answers are text, not JSON.

    Raises:
        UserError: there is no input, or it is where the answers would go; the ending is not that
            of what is written; or two files of a folder would have one name.
    """
    if not inputs:
        raise UserError("--out is for the answers to --input FILES")
    for path in inputs:
        if out.resolve() in (path.resolve(), *path.resolve().parents):
            raise UserError(f"--out {out}: {path} is read from there; choose another name")
    ending = out.suffix.lower()
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


def open_parts(
    output: OutputSettings, facts: Mapping[str, Any], size: int, *, plain: bool
) -> Parts | None:
    """Begin with a prediction, or go on with one.

    Args:
        output: where it goes.
        facts: what the answers depend on; see ``heedful.commands.identity``.
        size: items of a shard unless the output says otherwise.
        plain: whether answers are text, not JSON.

    Returns:
        What is finished of it; None if all is.

    Raises:
        UserError: something stands there and no flag says what to do with it, or what was begun
            depends on something else.
    """
    out = output.out
    assert out is not None
    if output.resume and output.overwrite:
        raise UserError(
            "--resume goes on with a prediction and --overwrite starts anew: give one of them"
        )
    begun = is_begun(out)
    output = _after_restart(output, begun=begun)
    if output.overwrite:
        _remove(out, facts["files"])
        shutil.rmtree(folder_of(out), ignore_errors=True)
        begun = False
    if output.resume and out.exists():
        return None
    refuse_if_there(out)
    parts = Parts(out=out, size=output.shard_size or size, plain=plain, shards=[])
    if not begun:
        return begin(parts, facts)
    if not output.resume:
        raise UserError(
            f"{parts.folder} holds a prediction that was stopped; give --resume to go on with it, "
            "--overwrite to start anew, or another --out"
        )
    return go_on(parts, facts, output.shard_size)


def _after_restart(output: OutputSettings, *, begun: bool) -> OutputSettings:
    """Have a job that ``torchrun`` starts again go on with what it began."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        return output
    resume = begun or not output.overwrite
    return replace(output, resume=resume, overwrite=not resume)


def _remove(out: Path, names: Sequence[str]) -> None:
    """Delete answers that are to be replaced.

    Raises:
        UserError: what stands there may be something else.
    """
    if not names:
        if out.is_dir():
            raise UserError(f"--out {out} is a folder; give the name of a file")
        out.unlink(missing_ok=True)
    elif out.is_dir():
        others = sorted({path.name for path in out.iterdir()} - set(names))
        if others:
            raise UserError(
                f"--out {out} holds {others[0]}, which would not be replaced: choose another folder"
            )
        shutil.rmtree(out)
    elif out.exists():
        raise UserError(f"--out {out} is a file; give the name of a folder, or an ending")
