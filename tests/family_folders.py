"""A folder with a tiny random model of each family, and its tokenizer."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tests import tiny

from heedful import models
from heedful.models import FAMILIES, Head
from heedful.tokens.bpe import ALPHABET

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "initializer_range": 0.2,
}

BYTES = ["<s>", "<pad>", "</s>", "<unk>", *ALPHABET, "<mask>"]
"""Of a byte-level tokenizer that joins none of them."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = [*tiny.SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), *".,?!0123456789"]
"""Of a WordPiece tokenizer for English."""


def _write_bytes(folder: Path) -> None:
    ids = {token: number for number, token in enumerate(BYTES)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")


def _write_pieces(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")


def _write(
    folder: Path,
    *,
    family: str,
    head: Head = "masked_lm",
    write_tokenizer: Callable[[Path], None],
    sizes: Mapping[str, Any],
) -> None:
    torch.manual_seed(0)
    config = FAMILIES[family].config_class()(**sizes)
    getattr(models, FAMILIES[family].models[head])(config).save_pretrained(folder)
    write_tokenizer(folder)


FOLDERS: dict[str, Callable[[Path], None]] = {
    "bert": partial(
        _write,
        family="bert",
        write_tokenizer=_write_pieces,
        sizes={**SIZES, "vocab_size": len(PIECES)},
    ),
    "roberta": partial(
        _write,
        family="roberta",
        write_tokenizer=_write_bytes,
        sizes={**SIZES, "vocab_size": len(BYTES), "max_position_embeddings": 42},
    ),
}
"""By ``model_type``: what writes a folder whose model takes 40 tokens."""
