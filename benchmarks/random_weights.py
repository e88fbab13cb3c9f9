"""Untrained models, as a baseline for pre-trained ones."""

from pathlib import Path

import torch

from heedful.models import Head
from heedful.models.loading import family_of
from heedful.tokens.loading import load_tokenizer


def write_random_model(run: Path, folder: Path, seed: int, head: Head) -> Path:
    """Write a model with the configuration and tokenizer of a run, but with random weights.

    Args:
        run: Folder of the run.
        folder: Output folder.
        seed: Seed of the random weights.
        head: Head of the model.

    Returns:
        The output folder.
    """
    _, family = family_of(run)
    torch.manual_seed(seed)
    config = family.config_class().read(run / "config.json")
    family.model_class(head).from_config(config).save_pretrained(folder, overwrite=True)
    load_tokenizer(run).save_pretrained(folder)
    return folder
