"""The options of ``generate`` that a folder sets, in the reference's ``generation_config.json``."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import read_json_or_empty

GENERATION = "generation_config.json"

_NO_EFFECT = frozenset(
    {
        *("_from_model_config", "_commit_hash", "transformers_version"),
        *("bos_token_id", "decoder_start_token_id"),  # the model's configuration has the latter
        *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
        *("return_dict_in_generate", "return_legacy_cache", "remove_invalid_values"),
        *("cache_implementation", "cache_config", "prefill_chunk_size", "low_memory"),
        *("compile_config", "disable_compile"),
        # For a second model, which only an argument of the call gives.
        *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule"),
        *("assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind"),
        *("target_lookbehind", "max_matching_ngram_size"),
    }
)
"""Keys that do not change which texts a model generates."""

_NEUTRAL = {
    **dict.fromkeys(("typical_p", "encoder_repetition_penalty", "guidance_scale"), 1),
    **dict.fromkeys(("num_beam_groups",), 1),
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "diversity_penalty", "min_p"), 0),
    **dict.fromkeys(("encoder_no_repeat_ngram_size",), 0),
    **dict.fromkeys(("renormalize_logits", "token_healing"), False),
}
"""Keys of other options of the reference, each with the value without effect; null has none."""


def read_defaults(folder: Path, config: object) -> dict[str, Any]:
    """Return the options that a folder sets, all keys of the file included.

    Without an end token in ``generation_config.json``, that of ``config.json`` is one of them, if
    the model's configuration does not keep it.

    Args:
        folder: the model's folder.
        config: configuration of the model.

    Raises:
        UserError: a file is damaged.
    """
    defaults = read_json_or_empty(folder / GENERATION)
    config = getattr(config, "decoder", config)
    if defaults.get("eos_token_id") is None and not hasattr(config, "eos_token_id"):
        values = read_json_or_empty(folder / "config.json")
        decoder = values.get("decoder")
        for part in (values, decoder if isinstance(decoder, dict) else {}):
            if part.get("eos_token_id") is not None:
                return {**defaults, "eos_token_id": part["eos_token_id"]}
    return defaults


def supported(defaults: Mapping[str, Any], options: Collection[str]) -> dict[str, Any]:
    """Return those defaults that are options here, without those of no effect.

    Args:
        defaults: keys and values of a ``generation_config.json``.
        options: names of the options.

    Raises:
        UserError: another key changes the search.
    """
    for key, value in defaults.items():
        neutral = value is None or (key in _NEUTRAL and value == _NEUTRAL[key])
        if not neutral and key not in options and key not in _NO_EFFECT:
            raise UserError(
                f"{GENERATION} of the model has {key} {value!r}, which generate does not support: "
                "delete it there, or give search=heedful.Search(...)"
            )
    return {key: value for key, value in defaults.items() if key in options and value is not None}
