"""The tiny BERT that most tests compute with, its special tokens, and recipes to train it."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from heedful.settings import TASKS, ColumnSettings, RunSettings
from heedful.task import Recipe
from heedful.tokens import RobertaTokenizer, Vocabulary
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.bytelevel_folder import ROBERTA

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 12,
}
STILL: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""No dropout."""

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def byte_level_tokenizer() -> RobertaTokenizer:
    """Return a byte-level tokenizer of few tokens: ids 4 to 259 are bytes, then come pairs."""
    merges = [("Ġ", "a"), ("l", "o"), ("Ġ", "lo"), ("Ġlo", "w"), ("e", "r"), ("Ġ", "Ġ")]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *ALPHABET, *map("".join, merges), "<mask>"]
    return RobertaTokenizer(Vocabulary(tokens, ROBERTA), merges, model_max_length=16)


def recipe(task: str, train: Sequence[Path] = (), **settings: Any) -> Recipe:
    """Return the settings of a training run, as the command makes them.

    Args:
        task: its name.
        train: training files.
        settings: fields of any group.
    """
    entry, left = TASKS[task], dict(settings)

    def group(kind: Any, **more: Any) -> Any:
        names = [field.name for field in fields(kind) if field.name in left]
        return kind(**more, **{name: left.pop(name) for name in names})

    made = Recipe(
        data=group(entry.data, train=list(train)),
        options=group(entry.options),
        columns=group(ColumnSettings),
        training=group(entry.training),
        run=group(RunSettings, **({} if "out" in left else {"out": Path("run")})),
    )
    assert not left, f"no such settings: {left}"
    return made
