"""Load the preprocessor of a model folder: its tokenizer or its image processor."""

from pathlib import Path
from typing import Any

from heedful.images.processor import ViTImageProcessor
from heedful.models.loading import family_of, read_config
from heedful.tokens import TranslationTokenizer, load_tokenizer


def load_reader(folder: Path, *, outside: bool = False) -> Any:
    """Load the tokenizer or image processor of a folder.

    GPT-2 embeds token types as words and adds these vectors. If the reference library trained a
    GPT-2 with a tokenizer that returns token types, such as BERT's, single texts had token types
    too. In heedful's own runs they have none.

    Args:
        folder: a run or an equivalent folder.
        outside: whether another program trained the model.

    Raises:
        UserError: the folder has no tokenizer or image processor, or a file is damaged.
    """
    model_type, family = family_of(folder)
    if family.reads == "images":
        return ViTImageProcessor.from_pretrained(folder, channels=read_config(folder).num_channels)
    reader = load_tokenizer(folder)
    if outside and model_type == "gpt2" and not isinstance(reader, TranslationTokenizer):
        reader.enable_single_text_types()
    return reader
