"""Models that have learnt nothing, to compare pre-trained ones with."""

from pathlib import Path

import torch

from heedful.models import Head
from heedful.models.loading import family_of
from heedful.tokens.loading import load_tokenizer


def random_start(run: Path, folder: Path, seed: int, head: Head) -> Path:
    """Write a model with a run's configuration and tokenizer, and random weights.

    Args:
        run: the run.
        folder: where to write.
        seed: of the weights.
        head: what the model has behind its last layer.
    """
    _, family = family_of(run)
    torch.manual_seed(seed)
    config = family.config_class().read(run / "config.json")
    family.model_class(head).from_config(config).save_pretrained(folder, overwrite=True)
    load_tokenizer(run).save_pretrained(folder)
    return folder
