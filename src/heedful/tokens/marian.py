"""The tokenizers of the reference's Marian folders, by the ``sentencepiece`` library.

Such a folder (OPUS-MT has some 1,400) has ``source.spm`` and ``target.spm``, which say how texts
are cut, and ``vocab.json``, which says which piece has which id.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.errors import UserError, did_you_mean, listed
from heedful.extras import missing
from heedful.tokens.text import (
    BYTES,
    EOS,
    PAD,
    SPECIAL,
    UNKNOWN,
    Spelling,
    TextTokenizer,
    utf8,
)

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"

_CODE = re.compile(r">>[^\s<>]+<<")
"""What chooses the language to be written, at the start of a text."""


def is_code(token: str) -> bool:
    """Tell whether a token is the code of a language."""
    return _CODE.fullmatch(token) is not None


class MarianText:
    """One side of a Marian folder.

    Unlike the reference, text that spells a special token (``</s>``) is text.

    Args:
        model: the contents of the ``.spm`` file.
        ids: piece -> id, with the special tokens.
        source: where they are from, for messages.

    Attributes:
        model: the contents of the ``.spm`` file.
        tokens: the tokens, in the order of their ids.
        ids: token -> id.

    Raises:
        UserError: the ``sentencepiece`` library is not installed or does not read the file, or a
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
        self._spelling = Spelling(self.tokens, with_bytes=ids.keys() >= {*BYTES}, exact=False)
        wrong = UserError(f"{source}: not a model of sentencepiece, or damaged")
        if not model:  # the library would make a tokenizer without a model of it
            raise wrong
        try:
            self._cutter = _library().SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise wrong from None

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without the end, but with its language code.

        Raises:
            UserError: a text begins with a code of a language that the model does not write, or
                holds half of a surrogate pair.
        """
        codes, bare = [], []
        for text in texts:
            code = self.language_code(text)
            codes.append([self.ids[code]] if code else [])
            bare.append(text.removeprefix(code))
            utf8(text, of=text)  # an error of the library would not name the text
        unknown = self.unk_token_id
        return [
            code + [self.ids.get(piece, unknown) for piece in pieces]
            for code, pieces in zip(codes, self._cutter.encode(bare, out_type=str), strict=True)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, without space around it. Special tokens give nothing.

        Raises:
            UserError: an id is of no token; a model may have more words than its folder names.
        """
        ids = list(ids)
        if wrong := [token_id for token_id in ids if token_id >= len(self.tokens)]:
            raise UserError(
                f"token id {wrong[0]}: {self._source} has the ids 0 to {len(self.tokens) - 1}"
            )
        return self._spelling.text(ids)

    def offsets(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return which slice of ``decode(ids)`` each id stands for; see `Spelling.slices`."""
        return self._spelling.slices(ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id."""
        return [self.tokens[token_id] for token_id in ids]

    def language_code(self, text: str) -> str:
        """Return the language code that a text begins with, or "" where the model knows none.

        Raises:
            UserError: the model does not write that language.
        """
        match = _CODE.match(text) if self._codes else None
        if match is None:
            return ""
        code = match.group()
        if code not in self._codes:
            near = did_you_mean(code, self._codes)
            codes = listed(sorted(self._codes))
            raise UserError(f"no language {code!r}{near}: this model writes {codes}")
        return code


def read_side(path: Path, ids: Mapping[str, int]) -> MarianText:
    """Read a ``.spm`` file.

    Raises:
        UserError: it is missing; see `MarianText`.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    return MarianText(path.read_bytes(), ids, source=str(path))


def model_of(tokenizer: TextTokenizer) -> bytes:
    """Return a ``.spm`` file that cuts texts as a tokenizer does.

    ``sentencepiece`` takes the longest of the symbols that a user defined wherever one begins,
    before anything else, so all pieces are such. What is left is written in bytes. But one thing
    differs: a ``▁`` in a text, which that library takes for a space.

    Raises:
        UserError: the ``protobuf`` library is not installed.
    """
    _library()
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        raise missing("marian") from None
    messages: Any = sentencepiece_model_pb2  # its classes are made when it is imported
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
