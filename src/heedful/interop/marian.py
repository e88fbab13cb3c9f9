"""Read and write translation runs as Marian model folders of the reference.

The weights and configuration of a Transformer already use the reference's names. Export adds the
reference's tokenizer files (``source.spm``, ``target.spm``) and beam search settings
(``generation_config.json``).
"""

from importlib.util import find_spec
from pathlib import Path

from heedful.checkpoints.runs import RunRecord, outside_record
from heedful.errors import UserError
from heedful.files import read_json, read_json_or_empty, write_json
from heedful.interop import exported
from heedful.interop.checking import Check, check_by_reading
from heedful.interop.source import Source
from heedful.models import Transformer, TransformerConfig
from heedful.models.generation_defaults import GENERATION
from heedful.settings import ExportSettings, PredictSettings
from heedful.tokens import TextTokenizer
from heedful.tokens.marian import SOURCE_MODEL, TARGET_MODEL, model_of
from heedful.tokens.translation import CONFIG, MODEL_CONFIG, is_translation_folder


def read_record(folder: Path) -> RunRecord | None:
    """Return the run record of a Marian folder; None for any other folder."""
    if not is_translation_folder(folder):
        return None
    positions = TransformerConfig.read(folder / MODEL_CONFIG).max_position_embeddings
    longest = min(read_longest(folder) or positions, positions)
    return outside_record("translate", {"longest": longest}, positions)


def export(source: Source, folder: Path, settings: ExportSettings) -> Check:
    """Write a translation run as a Marian model.

    Raises:
        UserError: the run cannot be exported as a Marian model.
    """
    model = source.model
    if not isinstance(model, Transformer):
        raise UserError(
            f"{source.folder}: a recurrent network; Marian's models here are Transformers"
        )
    if model.config.normalize_before:
        raise UserError(
            "this model is pre-norm, and Marian's models are post-norm; "
            "train one without --pre-norm"
        )
    write_translator(source, folder)
    if find_spec("transformers") is None:
        return check_by_reading(source, folder)
    from heedful.interop.hf import compare  # hf imports this module

    return compare(source, folder)


def write_translator(source: Source, folder: Path) -> None:
    """Write a folder for ``MarianTokenizer`` and the reference's model of the same kind.

    Args:
        source: a source with a Transformer.
        folder: an empty folder.

    Raises:
        UserError: the reference has no such model, or a library is missing.
    """
    model, tokenizer = source.model, source.tokenizer
    config = model.config
    if config.pruned_heads or config.decoder_pruned_heads or config.cross_attn_pruned_heads:
        raise UserError(
            "this model has pruned heads, which Marian's models cannot have; use --format onnx"
        )
    if config.vocab_size != config.decoder_vocab_size:
        raise UserError(
            f"this model's vocabularies have {config.vocab_size} and {config.decoder_vocab_size} "
            "pieces, but a Marian model needs two of the same size; train with a size that both "
            "reach, or use --format onnx"
        )
    if config.normalize_before and not tokenizer.joint:
        raise UserError(
            "this model normalises before each sublayer (pre-norm) and has two vocabularies; "
            "Pegasus, "
            "the reference's model of that kind, has one: use --format onnx"
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, side in ((SOURCE_MODEL, tokenizer.source), (TARGET_MODEL, tokenizer.target)):
        if isinstance(side, TextTokenizer):  # other tokenizers have written their files already
            (folder / name).write_bytes(model_of(side))
    lengths = {"model_max_length": config.max_position_embeddings}
    write_json(folder / CONFIG, {**read_json(folder / CONFIG), **lengths})
    defaults = PredictSettings()
    search = {
        "decoder_start_token_id": config.decoder_start_token_id,
        "eos_token_id": config.eos_token_id,
        "pad_token_id": config.pad_token_id,
        "bad_words_ids": [[config.pad_token_id]],
        # The reference counts the start token.
        "max_length": source.record.goal["longest"] + 1,
        "num_beams": defaults.beam,
        "length_penalty": defaults.length_penalty,
        "early_stopping": True,  # stop at ``num_beams`` finished hypotheses, like our search
    }
    write_json(folder / GENERATION, search)
    exported.write_record(source.record, folder)


def read_longest(folder: Path) -> int | None:
    """Return the maximum translation length from the reference's search settings, if any.

    Raises:
        UserError: the settings file is damaged.
    """
    path = folder / GENERATION
    max_length = read_json_or_empty(path).get("max_length")
    if max_length is None:
        return None
    if type(max_length) is not int or max_length < 2:
        raise UserError(
            f"{path}: max_length is {max_length!r}; expected a whole number of at least 2"
        )
    return max_length - 1
