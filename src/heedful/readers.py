"""What turns items into what a model reads: the tokenizer of a folder, or its image processor."""

from pathlib import Path
from typing import Any

from heedful.images.processor import ViTImageProcessor
from heedful.models.loading import family_of, read_config
from heedful.tokens import load_tokenizer


def load_reader(folder: Path) -> Any:
    """Load what a folder holds for its model.

    Raises:
        UserError: it has none, or a file is damaged.
    """
    if family_of(folder)[1].reads == "pictures":
        return ViTImageProcessor.from_pretrained(folder, channels=read_config(folder).num_channels)
    return load_tokenizer(folder)
