"""Read the ``tokenizer.json`` of a unigram tokenizer into our own types."""

from base64 import b64decode
from binascii import Error
from collections.abc import Iterator, Mapping
from math import copysign
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.tokens.charsmap import Charsmap
from heedful.tokens.folder import TokenizerFiles, checked_value, json_part
from heedful.tokens.plain_splitting import WORD_START
from heedful.tokens.rewriting import (
    DECOMPOSE_AND_STRIP,
    LOWERCASE,
    NMT,
    STRIP_ACCENTS,
    JoinSpaces,
    NormalForm,
    Precompiled,
    Replace,
    Step,
    Strip,
)
from heedful.tokens.splitting import Prefix, Rules

_FORMS = [
    NormalForm(compatible=compatible, composed=composed)
    for compatible in (False, True)
    for composed in (False, True)
]
_SIMPLE: dict[str, Step] = {step.name: step for step in (LOWERCASE, STRIP_ACCENTS, NMT)}
_SIMPLE |= {form.name: form for form in _FORMS}
_SPACES = (" {2,}", "  +")
"""The patterns for two or more spaces that occur in files."""
_MAX_EXPONENT = 308
"""Exponent of the largest power of ten in double precision."""


def read_scores(files: TokenizerFiles) -> tuple[list[str], list[float]]:
    """Return the tokens in the order of their ids, and their log-probabilities.

    Raises:
        UserError: the file has invalid entries.
    """
    path = files.compiled_path
    model = json_part(files, "model", "Unigram")
    tokens: list[str] = []
    scores: list[float] = []
    for entry in checked_value(path, model, "vocab", (list,)) or []:
        match entry:
            case [str(token), float(score) | int(score)] if abs(score) < float("inf"):
                tokens.append(token)
                scores.append(float(score))
            case _:
                raise UserError(
                    f"{path}: {entry!r:.80} in its vocabulary is not a token with a score"
                )
    unknown = checked_value(path, model, "unk_id", (int,))
    if unknown is None or not 0 <= unknown < len(tokens):
        raise UserError(
            f"{path}: unk_id {unknown!r}: must be the id of one of {len(tokens)} tokens"
        )
    return tokens, scores


def as_compiled(score: float) -> float:
    """Return a score of the file as the compiled reference parses it.

    The reference divides the digits, as an integer, by a power of ten. So one number in four is off
    by its last bit. That decides between segmentations of equal probability, such as `00` `0` and
    `0` `00`.
    """
    mantissa, _, exponent = repr(abs(score)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    number, power = float(int(whole + fraction)), int(exponent or 0) - len(fraction)
    while power < -_MAX_EXPONENT:
        number, power = number / float(10**_MAX_EXPONENT), power + _MAX_EXPONENT
    number = number * float(10**power) if power > 0 else number / float(10**-power)
    return copysign(number, score)


def unknown_token(files: TokenizerFiles) -> str:
    """Return the unknown token; see `read_scores`."""
    model = json_part(files, "model", "Unigram")
    token: str = model["vocab"][model["unk_id"]][0]
    return token


def read_rules(files: TokenizerFiles) -> Rules:
    """Read the rules for splitting texts into words.

    Raises:
        UserError: the rules are not supported.
    """
    path, compiled = files.compiled_path, files.compiled
    steps: list[Step] = []
    for part in _parts(path, compiled.get("normalizer"), "normalizers"):
        step = read_step(path, part)
        if step == STRIP_ACCENTS and steps[-1:] == [_SIMPLE["NFKD"]]:
            steps[-1] = DECOMPOSE_AND_STRIP
        else:
            steps.append(step)
    splitters = [*_parts(path, compiled.get("pre_tokenizer"), "pretokenizers")]
    at_white_space = len(splitters) == 2 and splitters[0].get("type") == "WhitespaceSplit"
    last = splitters[-1] if len(splitters) == 1 + at_white_space else {}
    if (
        last.get("type") != "Metaspace"
        or last.get("replacement", WORD_START) != WORD_START
        or last.get("split", True) is not True
    ):
        raise UserError(
            f"{path}: pre_tokenizer: only a Metaspace that splits at {WORD_START} is supported, "
            "alone or behind a WhitespaceSplit"
        )
    return Rules(steps=tuple(steps), prefix=_prefix(path, last), at_white_space=at_white_space)


def _parts(path: Path, part: Any, inner: str) -> Iterator[dict[str, Any]]:
    """Yield a normalizer or pre-tokenizer, or for a sequence, its elements."""
    if part is None:
        return
    if not isinstance(part, dict):
        raise UserError(f"{path}: {part!r:.80} is not part of a tokenizer")
    if part.get("type") != "Sequence":
        yield part
        return
    for one in checked_value(path, part, inner, (list,)) or []:
        if isinstance(one, dict) and one.get("type") == "Sequence":
            raise UserError(f"{path}: a Sequence in a Sequence is not supported")
        yield from _parts(path, one, inner)


def read_step(path: Path, part: Mapping[str, Any]) -> Step:
    """Read one normalizer.

    Raises:
        UserError: the normalizer is not supported.
    """
    kind = str(part.get("type"))
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    match part:
        case {"type": "Precompiled", "precompiled_charsmap": str(encoded)}:
            try:
                return Precompiled(Charsmap(b64decode(encoded, validate=True), source=str(path)))
            except Error:
                raise UserError(f"{path}: its precompiled_charsmap is not Base64") from None
        case {"type": "Strip", "strip_left": bool(left), "strip_right": bool(right)}:
            return Strip(left=left, right=right)
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
            return Replace(old=old, new=new)
        case {"type": "Replace", "pattern": {"Regex": pattern}, "content": str(new)} if (
            pattern in _SPACES and len(new) == 1
        ):
            return JoinSpaces(new=new)
    supported = ["Precompiled", "Strip", "Replace of a text or of spaces", *_SIMPLE]
    raise UserError(
        f"{path}: the normalizer {dict(part)!r:.80} is not supported; supported: "
        f"{', '.join(supported)}"
    )


def _prefix(path: Path, part: Mapping[str, Any]) -> Prefix:
    # The first releases used a Boolean.
    switch = "always" if part.get("add_prefix_space", True) else "never"
    scheme: Prefix = part.get("prepend_scheme", switch)
    if scheme not in ("always", "first", "never"):
        raise UserError(f"{path}: pre_tokenizer: prepend_scheme {scheme!r} is not supported")
    return scheme
