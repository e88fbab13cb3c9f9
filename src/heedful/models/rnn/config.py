"""Configuration of a recurrent translation model."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from heedful.arguments import suggest_in_construction
from heedful.errors import UserError
from heedful.files import read_json
from heedful.layers.recurrent import CELLS
from heedful.models.configs import check_name, check_numbers, check_sizes, from_keys
from heedful.models.translator_config import TranslatorConfig, complete_vocabularies

MODEL_TYPE = "heedful-rnn"
"""Value of ``model_type`` in a ``config.json``."""


@suggest_in_construction
@dataclass(frozen=True, kw_only=True)
class RnnConfig(TranslatorConfig):
    """Sizes and options of an ``RnnSearch``.

    Raises:
        UserError: a value is of the wrong type or out of range, or two values conflict.
    """

    vocab_size: int = 8000
    """Number of tokens in the source vocabulary."""
    embedding_width: int = 256
    """Width of the token embeddings, and of the output layer's input."""
    hidden_width: int = 256
    """Width of the decoder's hidden state, of each encoder direction, and of the attention."""
    cell: str = "gru"
    """``"gru"`` or ``"lstm"``."""
    dropout: float = 0.3
    """Dropout of the embeddings, of the encoder's hidden states, and of the readout."""

    def __post_init__(self) -> None:
        complete_vocabularies(self)
        check_sizes(self, ("embedding_width", "hidden_width"))
        check_numbers(self, ("dropout",), float, below=1)
        check_name(self, "cell", CELLS)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a ``config.json``.

        Raises:
            UserError: the file cannot be read, is for another model type, has an unknown key, or a
                value is not supported.
        """
        values = read_json(path)
        kind = values.get("model_type")
        if kind != MODEL_TYPE:
            raise UserError(f"{path}: model_type is {kind!r}; expected {MODEL_TYPE!r}")
        values.pop("architectures", None)
        return from_keys(cls, values, str(path), fixed={"model_type": MODEL_TYPE})

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a ``config.json``."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"model_type": MODEL_TYPE, **values}
