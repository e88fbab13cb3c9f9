"""What turns items into what a model reads: the tokenizer of a folder, or its image processor."""

from pathlib import Path
from typing import Any

from heedful.images.processor import ViTImageProcessor
from heedful.models.loading import family_of, read_config
from heedful.tokens import TranslationTokenizer, load_tokenizer


def load_reader(folder: Path, *, outside: bool = False) -> Any:
    """Load what a folder holds for its model.

    Types of tokens are words to a GPT-2, whose vectors it adds. One that the reference has trained
    beside a tokenizer that tells them, such as a BERT's, was told those of single texts, too. Our
    runs are not.

    Args:
        folder: a run, or what is like one.
        outside: whether another program has trained it.

    Raises:
        UserError: it has none, or a file is damaged.
    """
    model_type, family = family_of(folder)
    if family.reads == "pictures":
        return ViTImageProcessor.from_pretrained(folder, channels=read_config(folder).num_channels)
    reader = load_tokenizer(folder)
    if outside and model_type == "gpt2" and not isinstance(reader, TranslationTokenizer):
        reader.tell_types_alone()
    return reader
