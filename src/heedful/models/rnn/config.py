"""What a recurrent translation model is made of."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from heedful.errors import UserError
from heedful.files import read_json
from heedful.layers.recurrent import CELLS
from heedful.models.configs import check_name, check_numbers, check_sizes, from_keys
from heedful.models.translator_config import TranslatorConfig, complete_pieces

MODEL_TYPE = "heedful-rnn"
"""What ``model_type`` is in a ``config.json``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RnnConfig(TranslatorConfig):
    """The sizes and options of an ``RnnSearch``.

    Raises:
        UserError: a value is of the wrong type or out of range, or two do not go together.
    """

    vocab_size: int = 8000
    """Number of pieces of the source vocabulary."""
    embedding_width: int = 256
    """Width of a piece's vector, and of what is compared with it to score it."""
    hidden_width: int = 256
    """Width of the decoder's state, of each direction of the encoder, and of the attention."""
    cell: str = "gru"
    """``"gru"`` or ``"lstm"``."""
    dropout: float = 0.3
    """Dropout of the vectors of pieces, of the encoder's states, and of what scores pieces."""

    def __post_init__(self) -> None:
        complete_pieces(self)
        check_sizes(self, ("embedding_width", "hidden_width"))
        check_numbers(self, ("dropout",), float, below=1)
        check_name(self, "cell", CELLS)

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
