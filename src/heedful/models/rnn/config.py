"""What a recurrent translation model is made of."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from heedful.errors import UserError, unknown_name
from heedful.files import read_json
from heedful.layers.recurrent import CELLS
from heedful.models.values import check_numbers, check_sizes, complete_pieces, from_keys

MODEL_TYPE = "heedful-rnn"
"""What ``model_type`` is in a ``config.json``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RnnConfig:
    """The sizes and options of an ``RnnSearch``.

    Raises:
        UserError: a value is of the wrong type or out of range, or two do not go together.
    """

    DROPOUTS: ClassVar[tuple[str, ...]] = ("dropout",)
    """The fields that one rate of dropout sets."""

    vocab_size: int = 8000
    """Number of pieces of the source vocabulary."""
    decoder_vocab_size: int = 0
    """Number of pieces of the target vocabulary; 0 takes ``vocab_size``."""
    embedding_width: int = 256
    """Width of a piece's vector, and of what is compared with it to score it."""
    hidden_width: int = 256
    """Width of the decoder's state, of each direction of the encoder, and of the attention."""
    cell: str = "gru"
    """``"gru"`` or ``"lstm"``."""
    dropout: float = 0.3
    """Dropout of the vectors of pieces, of the encoder's states, and of what scores pieces."""
    share_encoder_decoder_embeddings: bool = True
    """Whether source and target pieces have one table of vectors; needs one vocabulary."""
    tie_word_embeddings: bool = True
    """Whether a target piece is scored with its vector, rather than with another one."""
    label_smoothing: float = 0.0
    """Share of the truth that all pieces have alike in training (Szegedy et al. 2016)."""
    max_position_embeddings: int = 1024
    """Longest sequence in tokens; a bound alone, for nothing here knows positions."""
    pad_token_id: int = -1
    """Id of the padding piece, whose vector is zeros and not trained; -1 takes the last that both
    vocabularies have."""
    eos_token_id: int = 0
    """Id of the piece that ends a text."""
    decoder_start_token_id: int = -1
    """Id of the piece that a text to write starts after; -1 takes the padding piece."""

    def __post_init__(self) -> None:
        complete_pieces(self)
        sizes = ("embedding_width", "hidden_width", "max_position_embeddings")
        check_sizes(self, sizes)
        check_numbers(self, ("dropout", "label_smoothing"), float, below=1)
        if self.cell not in CELLS:
            raise unknown_name("cell", str(self.cell), CELLS)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the ``config.json`` of a folder.

        Raises:
            UserError: the file cannot be read, is of another kind of model, or a key is unknown, or
                its value not supported.
        """
        values = read_json(path)
        kind = values.get("model_type")
        if kind != MODEL_TYPE:
            raise UserError(f"{path}: model_type is {kind!r}; expected {MODEL_TYPE!r}")
        values.pop("architectures", None)
        return from_keys(cls, values, str(path), fixed={"model_type": MODEL_TYPE})

    def to_dict(self) -> dict[str, Any]:
        """Return what a ``config.json`` holds."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"model_type": MODEL_TYPE, **values}
