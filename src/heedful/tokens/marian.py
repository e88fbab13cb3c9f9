"""The tokenizers of the reference's Marian folders, based on the ``sentencepiece`` library.

In such a folder (OPUS-MT has about 1,400), ``source.spm`` and ``target.spm`` determine how texts
are split, and ``vocab.json`` maps pieces to ids.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.errors import UserError, did_you_mean, join_names
from heedful.extras import missing
from heedful.tokens.text import (
    BYTES,
    EOS,
    PAD,
    SPECIAL,
    UNKNOWN,
    TextTokenizer,
    TokenBytes,
    utf8,
)

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"

_CODE = re.compile(r">>[^\s<>]+<<")
"""The code at the start of a text that chooses the target language."""


def is_code(token: str) -> bool:
    """Return whether a token is a language code."""
    return _CODE.fullmatch(token) is not None


class MarianText:
    """The tokenizer of one side of a Marian folder.

    Unlike in the reference, text that spells a special token (``</s>``) is ordinary text.

    Args:
        model: the contents of the ``.spm`` file.
        ids: piece -> id, including special tokens.
        source: where the pieces come from, for messages.

    Attributes:
        model: the contents of the ``.spm`` file.
        tokens: the tokens, in the order of their ids.
        ids: token -> id.

    Raises:
        UserError: the ``sentencepiece`` library is not installed or cannot read the file, or a
            special token is missing.
    """

    def __init__(self, model: bytes, ids: Mapping[str, int], *, source: str) -> None:
        self.model = model
        self.ids = ids
        self._source = source
        self.tokens: Sequence[str] = sorted(ids, key=ids.__getitem__)
        for token in SPECIAL:
            if token not in ids:
                raise UserError(f"{source}: {token!r} is not in its vocabulary")
        self.eos_token_id, self.unk_token_id, self.pad_token_id = map(ids.__getitem__, SPECIAL)
        self._codes = {token for token in self.tokens if is_code(token)}
        self._spelling = TokenBytes(self.tokens, with_bytes=ids.keys() >= {*BYTES}, exact=False)
        wrong = UserError(f"{source}: not a model of sentencepiece, or damaged")
        if not model:  # the library would build a tokenizer without a model
            raise wrong
        try:
            self._processor = _library().SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise wrong from None

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, with its language code but without the end token.

        Raises:
            UserError: a text begins with the code of a language that the model does not write, or
                contains a lone surrogate.
        """
        codes, stripped = [], []
        for text in texts:
            code = self.language_code(text)
            codes.append([self.ids[code]] if code else [])
            stripped.append(text.removeprefix(code))
            utf8(text, of=text)  # the library's own error would not name the text
        unknown = self.unk_token_id
        return [
            code + [self.ids.get(piece, unknown) for piece in pieces]
            for code, pieces in zip(
                codes, self._processor.encode(stripped, out_type=str), strict=True
            )
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to text, stripped of white space at both ends. Special tokens are dropped.

        Raises:
            UserError: an id has no token. A model may have more ids than its folder names.
        """
        ids = list(ids)
        if wrong := [token_id for token_id in ids if token_id >= len(self.tokens)]:
            raise UserError(
                f"token id {wrong[0]}: {self._source} has the ids 0 to {len(self.tokens) - 1}"
            )
        return self._spelling.text(ids)

    def offsets(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the slice of ``decode(ids)`` that each id spells; see `TokenBytes.slices`."""
        return self._spelling.slices(ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id."""
        return [self.tokens[token_id] for token_id in ids]

    def language_code(self, text: str) -> str:
        """Return the language code at the start of a text, or "" if there is none.

        For a model without language codes, this is always "".

        Raises:
            UserError: the model does not write that language.
        """
        match = _CODE.match(text) if self._codes else None
        if match is None:
            return ""
        code = match.group()
        if code not in self._codes:
            near = did_you_mean(code, self._codes)
            codes = join_names(sorted(self._codes))
            raise UserError(f"no language {code!r}{near}: this model writes {codes}")
        return code


def read_side(path: Path, ids: Mapping[str, int]) -> MarianText:
    """Read a ``.spm`` file.

    Raises:
        UserError: the file is missing; or see `MarianText`.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    return MarianText(path.read_bytes(), ids, source=str(path))


def model_of(tokenizer: TextTokenizer) -> bytes:
    """Return a ``.spm`` file that splits texts like a tokenizer.

    ``sentencepiece`` first matches the longest user-defined symbol at each position. So all pieces
    are user-defined symbols, and the remaining text is written as bytes. One difference remains:
    the library treats a ``▁`` in a text as a space.

    Raises:
        UserError: the ``protobuf`` library is not installed.
    """
    _library()
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        raise missing("marian") from None
    messages: Any = sentencepiece_model_pb2  # its classes are created on import
    kinds = messages.ModelProto.SentencePiece
    model = messages.ModelProto()
    tokens = [token for token in tokenizer.tokens if token != PAD]
    special = {UNKNOWN: kinds.UNKNOWN, EOS: kinds.CONTROL} | dict.fromkeys(BYTES, kinds.BYTE)
    for token in tokens:
        model.pieces.add(piece=token, score=0.0, type=special.get(token, kinds.USER_DEFINED))
    training = model.trainer_spec
    training.model_type = messages.TrainerSpec.BPE
    training.vocab_size = len(tokens)
    training.byte_fallback = True
    training.unk_id, training.eos_id = tokens.index(UNKNOWN), tokens.index(EOS)
    training.bos_id = training.pad_id = -1
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.escape_whitespaces = True
    model.normalizer_spec.remove_extra_whitespaces = False
    serialized: bytes = model.SerializeToString()
    return serialized


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise missing("marian") from None
    return sentencepiece
