"""A run of translation as the folder of one of the reference's Marian models.

A Transformer's weights and configuration have the reference's names already. What is added is what
the reference cuts texts with (``source.spm``, ``target.spm``) and searches with
(``generation_config.json``).
"""

from importlib.util import find_spec
from pathlib import Path

from heedful.checkpoints.runs import RunRecord, outside_record
from heedful.errors import UserError
from heedful.files import read_json, read_json_if_there, write_json
from heedful.interop.checking import Check, check_by_reading
from heedful.interop.source import Source
from heedful.models import Transformer, TransformerConfig
from heedful.settings import ExportSettings, PredictSettings
from heedful.tokens import TextTokenizer
from heedful.tokens.marian import SOURCE_MODEL, TARGET_MODEL, model_of
from heedful.tokens.translation import CONFIG, MODEL_CONFIG, is_translation_folder

GENERATION = "generation_config.json"


def read_record(folder: Path) -> RunRecord | None:
    """Say what a Marian folder is, as a run of translate would; None for any other folder."""
    if not is_translation_folder(folder):
        return None
    positions = TransformerConfig.read(folder / MODEL_CONFIG).max_position_embeddings
    longest = min(read_longest(folder) or positions, positions)
    return outside_record("translate", {"longest": longest}, positions)


def export(source: Source, folder: Path, settings: ExportSettings) -> Check:
    """Write a run of translate as a Marian model.

    Raises:
        UserError: the run cannot be such a model.
    """
    model = source.model
    if not isinstance(model, Transformer):
        raise UserError(
            f"{source.folder}: a recurrent network; Marian's models here are Transformers"
        )
    if model.config.normalize_before:
        raise UserError(
            "this model normalises before each part (pre-norm), and Marian's models do after it; "
            "train one without --pre-norm"
        )
    write_translator(source, folder)
    if find_spec("transformers") is None:
        return check_by_reading(source, folder)
    from heedful.interop.hf import compare  # which writes translators by this file

    return compare(source, folder)


def write_translator(source: Source, folder: Path) -> None:
    """Write a folder that ``MarianTokenizer`` and the reference's model of the same kind read.

    Args:
        source: has a Transformer.
        folder: an empty one.

    Raises:
        UserError: the reference has no such model, or a library is missing.
    """
    model, tokenizer = source.model, source.tokenizer
    config = model.config
    if config.pruned_heads or config.decoder_pruned_heads or config.cross_attn_pruned_heads:
        raise UserError(
            "this model has lost attention heads, and Marian's models have all of them; "
            "--format onnx can hold it"
        )
    if config.vocab_size != config.decoder_vocab_size:
        raise UserError(
            f"this model's vocabularies have {config.vocab_size} and {config.decoder_vocab_size} "
            "pieces, and those of a Marian model are of one size; train with a size that both "
            "fill, or use --format onnx"
        )
    if config.normalize_before and not tokenizer.joint:
        raise UserError(
            "this model normalises before each part (pre-norm) and has two vocabularies; Pegasus, "
            "the reference's model of that kind, has one: --format onnx can hold it"
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, side in ((SOURCE_MODEL, tokenizer.source), (TARGET_MODEL, tokenizer.target)):
        if isinstance(side, TextTokenizer):  # the files of others are there already
            (folder / name).write_bytes(model_of(side))
    lengths = {"model_max_length": config.max_position_embeddings}
    write_json(folder / CONFIG, {**read_json(folder / CONFIG), **lengths})
    defaults = PredictSettings()
    search = {
        "decoder_start_token_id": config.decoder_start_token_id,
        "eos_token_id": config.eos_token_id,
        "pad_token_id": config.pad_token_id,
        "bad_words_ids": [[config.pad_token_id]],
        # The piece that starts a text is counted there.
        "max_length": source.record.goal["longest"] + 1,
        "num_beams": defaults.beam,
        "length_penalty": defaults.length_penalty,
        "early_stopping": True,  # once so many have ended, as our search does
    }
    write_json(folder / GENERATION, search)


def read_longest(folder: Path) -> int | None:
    """Return the most tokens of a translation that a folder tells the reference's search, if any.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / GENERATION
    most = read_json_if_there(path).get("max_length")
    if most is None:
        return None
    if type(most) is not int or most < 2:
        raise UserError(f"{path}: max_length is {most!r}; expected a whole number of at least 2")
    return most - 1
