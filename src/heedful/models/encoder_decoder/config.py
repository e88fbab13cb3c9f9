"""Configuration of an encoder-decoder model, in the reference's single-file format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from heedful.arguments import suggest_in_construction
from heedful.errors import UserError
from heedful.files import read_json, read_json_or_empty
from heedful.models import FAMILIES, Head
from heedful.models.configs import IGNORED, ReferenceConfig
from heedful.models.generation_defaults import GENERATION
from heedful.models.stored_config import StoredConfig

ARCHITECTURE = "EncoderDecoderModel"
"""The reference's class name in ``architectures``."""

_FIXED = {"model_type": "encoder-decoder", "is_encoder_decoder": True, "tie_encoder_decoder": False}
# Other keys of the reference's files. The configurations of the two parts set their values.
_IGNORED = {
    *(IGNORED - _FIXED.keys()),
    *("vocab_size", "pad_token_id", "tie_word_embeddings", "use_cache"),
}


@suggest_in_construction
@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(StoredConfig):
    """Configurations of an encoder and a decoder."""

    encoder: ReferenceConfig
    """Configuration of the encoder."""
    decoder: ReferenceConfig
    """Configuration of the decoder."""
    decoder_start_token_id: int | None = None
    """Id of the decoder's first input token, which is not part of the generated text."""

    @property
    def DROPOUTS(self) -> tuple[str, ...]:  # noqa: N802 - other configurations have it as a constant
        """Fields of the two parts that are all set by a single dropout rate."""
        return tuple(dict.fromkeys((*self.encoder.DROPOUTS, *self.decoder.DROPOUTS)))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the ``config.json`` of an encoder-decoder checkpoint.

        Raises:
            UserError: the file cannot be read, a key is unknown, or a value is not supported.
        """
        values = read_json(path)
        for key, expected in _FIXED.items():
            if values.get(key, expected) != expected:
                raise UserError(f"{path}: {key} is {values[key]!r}; only {expected!r} is supported")
        known = {"encoder", "decoder", "decoder_start_token_id"}
        if odd := sorted(values.keys() - known - _FIXED.keys() - _IGNORED):
            raise UserError(f"{path}: unknown key {odd[0]!r}")
        if not all(isinstance(values.get(part), dict) for part in ("encoder", "decoder")):
            raise UserError(f"{path}: expected the configurations 'encoder' and 'decoder' in it")
        config = cls(
            encoder=_part(values["encoder"], "body", f"{path}: encoder"),
            decoder=_part(values["decoder"], "causal_lm", f"{path}: decoder"),
            decoder_start_token_id=_start(values, path),
        )
        decoder: Any = config.decoder
        if not (decoder.is_decoder and decoder.add_cross_attention):
            raise UserError(f"{path}: decoder needs is_decoder and add_cross_attention")
        start, vocab_size = config.decoder_start_token_id, decoder.vocab_size
        if start is not None and (type(start) is not int or not 0 <= start < vocab_size):
            raise UserError(
                f"{path}: decoder_start_token_id is {start!r}; it must be null or from 0 to "
                f"{vocab_size - 1}"
            )
        return config

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a ``config.json``, for heedful and for the reference."""
        return {
            "architectures": [ARCHITECTURE],
            **_FIXED,
            "encoder": self.encoder.to_dict(),
            "decoder": self.decoder.to_dict(),
            "decoder_start_token_id": self.decoder_start_token_id,
            "pad_token_id": getattr(self.decoder, "pad_token_id", None),
        }


def _start(values: dict[str, Any], path: Path) -> Any:
    """Return ``decoder_start_token_id``; ``generation_config.json`` overrides ``config.json``."""
    search = read_json_or_empty(path.with_name(GENERATION))
    start = search.get("decoder_start_token_id")
    return values.get("decoder_start_token_id") if start is None else start


def _part(values: dict[str, Any], head: Head, where: str) -> ReferenceConfig:
    """Build the configuration of one part, of the family that its ``model_type`` names."""
    model_type = values.get("model_type", "bert")
    known = [kind for kind, one in FAMILIES.items() if head in one.models and one.reads == "texts"]
    if model_type not in known:
        raise UserError(
            f"{where}: model_type is {model_type!r}; expected one of {', '.join(known)}"
        )
    config: ReferenceConfig = FAMILIES[model_type].config_class().from_dict(values, where=where)
    return config
