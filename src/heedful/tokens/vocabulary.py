"""A model's vocabulary, with its special tokens, and the files that store it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from heedful.errors import UserError, did_you_mean
from heedful.files import read_json, size_of

MAX_VOCABULARY_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecialTokens:
    """Tokens that are matched whole anywhere in a text."""

    unk_token: str = "[UNK]"
    """Unknown token: replaces a word that no sequence of tokens spells."""
    sep_token: str = "[SEP]"
    """Separator: ends each sequence."""
    pad_token: str = "[PAD]"
    """Padding: fills a row up to the length of its batch."""
    cls_token: str = "[CLS]"
    """Classification token: begins a row."""
    mask_token: str = "[MASK]"
    """Mask: hides a token in pre-training. The only named token that a vocabulary may lack."""
    additional_special_tokens: tuple[str, ...] = ()
    """Further special tokens, which are never split."""
    ordinary: tuple[str, ...] = ()
    """Added tokens that are never split, but count as ordinary text."""
    lstrip: frozenset[str] = frozenset()
    """Tokens that absorb the white space before them."""
    rstrip: frozenset[str] = frozenset()
    """Tokens that absorb the white space after them."""
    single_word: frozenset[str] = frozenset()
    """Tokens that match only as whole words."""
    normalized: frozenset[str] = frozenset()
    """Tokens that are matched after the others, in the normalized text."""

    def __post_init__(self) -> None:
        for token in self.named().values():
            _check_special(token)
        for token in (*self.additional_special_tokens, *self.ordinary):
            _check_special(token)

    def named(self) -> dict[str, str]:
        """Return the named special tokens: name (``"cls_token"``, ...) -> token."""
        names = [field.name for field in fields(self) if field.type is str]
        return {name: getattr(self, name) for name in names}


def _check_special(token: object) -> None:
    if not isinstance(token, str) or not token or token != token.strip():
        raise UserError(
            f"special token {token!r}: must be text that neither begins nor ends with a space; the "
            "options lstrip and rstrip of an added token take the spaces around it"
        )


class Vocabulary:
    """Tokens and their ids.

    Args:
        tokens: the tokens, in the order of their ids. An empty token takes up an id but never
            occurs in a text.
        special: the special tokens.
        source: where the tokens come from, for messages.
        added: number of added tokens at the end. They are matched whole, and words are never
            split into them.

    Raises:
        UserError: a token occurs twice, or a special token is missing.
    """

    def __init__(
        self,
        tokens: Iterable[str],
        special: SpecialTokens | None = None,
        *,
        source: str = "vocabulary",
        added: int = 0,
    ) -> None:
        self.tokens: Sequence[str] = list(tokens)
        self.special = special or SpecialTokens()
        self.source = source
        self.added = added
        self.ids: dict[str, int] = {}
        for token_id, token in enumerate(self.tokens):
            first = self.ids.setdefault(token, token_id)
            if first != token_id and token:
                raise UserError(f"{source}: {token!r} is on lines {first + 1} and {token_id + 1}")
        self._check_special_tokens()

    def _check_special_tokens(self) -> None:
        for name, token in self.special.named().items():
            if token not in self.ids and name != "mask_token":
                near = did_you_mean(token, self.ids)
                raise UserError(f"{self.source}: the {name} {token!r} is not in it{near}")
        for token in self.special.additional_special_tokens:
            if token not in self.ids:
                raise UserError(
                    f"{self.source}: the additional special token {token!r} is not in it"
                )
        for token in self.special.ordinary:
            if token not in self.ids:
                raise UserError(f"{self.source}: the added token {token!r} is not in it")

    def __len__(self) -> int:
        return len(self.tokens)

    def token(self, token_id: int) -> str:
        """Return the token with an id.

        Raises:
            UserError: no token has that id.
        """
        if not 0 <= token_id < len(self.tokens):
            raise UserError(
                f"token id {token_id}: {self.source} has the ids 0 to {len(self.tokens) - 1}"
            )
        return self.tokens[token_id]

    def base_tokens(self) -> Sequence[str]:
        """Return the tokens that words are split into: all except the added tokens at the end."""
        return self.tokens[: len(self.tokens) - self.added]

    def base_ids(self) -> Mapping[str, int]:
        """Return the `base_tokens` with their ids."""
        return {token: self.ids[token] for token in self.base_tokens()} if self.added else self.ids

    def special_ids(self) -> dict[str, int]:
        """Return the special tokens of this vocabulary with their ids."""
        named = self.special.named().values()
        present = [*named, *self.special.additional_special_tokens]
        return {token: self.ids[token] for token in present if token in self.ids}

    def added_ids(self) -> dict[str, int]:
        """Return all tokens that are never split, special or not, with their ids."""
        return self.special_ids() | {token: self.ids[token] for token in self.special.ordinary}


def read_tokens(path: Path) -> list[str]:
    r"""Read a ``vocab.txt``: one token per line, with line ends ``\n``, ``\r\n`` or ``\r``.

    Only the line end is removed. Blanks belong to the token, and so do characters that are line
    ends for Python but not for the reference (U+0085, U+2028, ...). As in the reference, the
    empty string after the last line end is not a token, but an empty line before it is.

    Raises:
        UserError: the file is missing, empty, larger than 64 MiB, or not UTF-8.
    """
    lines = _read_text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    tokens = lines[:-1] if not lines[-1] else lines
    if not tokens:
        raise UserError(f"{path}: no tokens in it")
    return tokens


def read_merges(path: Path) -> list[tuple[str, str]]:
    """Read a ``merges.txt``: a line with the version, then two tokens per line.

    Raises:
        UserError: see `read_tokens`, or a line does not hold two tokens.
    """
    merges: list[tuple[str, str]] = []
    for line_number, line in enumerate(_read_text(path).split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line or (line_number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise UserError(
                f"{path}, line {line_number}: {line!r:.80} is not two tokens with a space between"
            )
        merges.append((left, right))
    return merges


def read_ids(path: Path) -> dict[str, int]:
    """Read a ``vocab.json``: token -> id.

    Raises:
        UserError: the file is missing or damaged, or its ids are not 0, 1 and so on, each once.
    """
    ids = read_json(path)
    tokens_in_order(ids, source=str(path))
    return ids


def tokens_in_order(ids: Mapping[str, Any], *, source: str) -> list[str]:
    """Return the tokens in the order of their ids.

    Raises:
        UserError: the ids are not 0, 1 and so on, each once.
    """
    if set(map(type, ids.values())) - {int} or sorted(ids.values()) != [*range(len(ids))]:
        raise UserError(f"{source}: expected the ids 0 to {len(ids) - 1}, each of one token")
    return sorted(ids, key=ids.__getitem__)


def _read_text(path: Path) -> str:
    if (size := size_of(path)) > MAX_VOCABULARY_BYTES:
        raise UserError(
            f"{path}: {size:,} bytes of vocabulary; at most {MAX_VOCABULARY_BYTES:,} are read"
        )
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None


def write_merges(path: Path, merges: Iterable[tuple[str, str]]) -> None:
    """Write a ``merges.txt`` that the reference can read."""
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))


def write_tokens(path: Path, tokens: Iterable[str]) -> None:
    """Write a ``vocab.txt`` that the reference can read."""
    path.write_bytes("".join(f"{token}\n" for token in tokens).encode("utf-8"))
