"""A folder with a tiny random model of each family, and a tokenizer of its kind."""

import json
import struct
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tests import tiny

from heedful.models import FAMILIES, Head
from heedful.tokens.bpe import ALPHABET

ENCODERS = [
    name for name, family in FAMILIES.items() if "body" in family.models and family.reads == "texts"
]
"""Families that give hidden states of texts for tasks to decide from."""

BYTE_LEVEL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MPNET = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz.?,!"]


ALBERT = [("<pad>", 3), ("<unk>", 2), ("[CLS]", 3), ("[SEP]", 3), ("[MASK]", 4)]
"""The first pieces of ALBERT's files, each with its kind: unknown (2), control (3) or text (4)."""

XLNET = [
    *(("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<cls>", 3), ("<sep>", 3), ("<pad>", 3)),
    *(("<mask>", 4), ("<eod>", 4), ("<eop>", 4)),
]
"""The same of XLNet's."""


def _wordpiece(folder: Path, special: Sequence[str] = tiny.SPECIAL) -> int:
    tokens = [*special, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return len(tokens)


def _byte_level(folder: Path, special: Sequence[str] = BYTE_LEVEL) -> int:
    tokens = [*special, *ALPHABET]
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    return len(tokens)


def _unigram(
    folder: Path,
    name: str = "spiece.model",
    controls: Sequence[tuple[str, int]] = ALBERT,
    more: int = 0,
) -> int:
    pieces = [*controls, ("▁", 1), ("▁a", 1), *((letter, 1) for letter in LETTERS)]
    messages = [_message(token.encode(), kind) for token, kind in pieces]
    # Of the trainer, the kind of model (field 3) and the unknown piece (field 40).
    unknown = [kind for _, kind in controls].index(2)
    trainer = b"\x12\x05\x18\x01\xc0\x02" + bytes([unknown])
    (folder / name).write_bytes(b"".join(messages) + trainer)
    return len(pieces) + more


def _message(piece: bytes, kind: int) -> bytes:
    """Return a piece of a SentencePiece model: its text, its score and its kind."""
    fields = b"\x0a" + bytes([len(piece)]) + piece + b"\x15" + struct.pack("<f", -1.0)
    fields += b"\x18" + bytes([kind])
    return b"\x0a" + bytes([len(fields)]) + fields


WRITERS: dict[str, Callable[[Path], int]] = {
    "WordPiece": _wordpiece,
    "WordPiece between `<s>` and `</s>`": partial(_wordpiece, special=MPNET),
    "byte-level BPE": _byte_level,
    "byte-level BPE between `[CLS]` and `[SEP]`": partial(_byte_level, special=tiny.SPECIAL),
    "byte-level BPE without tokens around texts": partial(_byte_level, special=["<|endoftext|>"]),
    "SentencePiece unigram": _unigram,
    "SentencePiece unigram between `[CLS]` and `[SEP]`": partial(
        _unigram, controls=[*ALBERT, ("<s>", 3), ("</s>", 3)]
    ),
    "SentencePiece unigram of `spm.model`": partial(
        _unigram,
        name="spm.model",
        controls=[("[PAD]", 3), ("[CLS]", 3), ("[SEP]", 3), ("[UNK]", 2)],
        more=1,  # [MASK] is in no file
    ),
    "SentencePiece unigram between `<s>` and `</s>`": partial(
        _unigram,
        name="sentencepiece.bpe.model",
        controls=[("<unk>", 2), ("<s>", 3), ("</s>", 3)],
        more=2,  # <pad> and <mask> are in no file
    ),
    "SentencePiece unigram with the class token last": partial(_unigram, controls=XLNET),
}
"""By the kind of a tokenizer: what writes one of a token for each letter, and how many it has."""

TOKENIZERS = {
    "albert": "SentencePiece unigram",
    "bert": "WordPiece",
    "big_bird": "SentencePiece unigram between `[CLS]` and `[SEP]`",
    "deberta": "byte-level BPE between `[CLS]` and `[SEP]`",
    "deberta-v2": "SentencePiece unigram of `spm.model`",
    "distilbert": "WordPiece",
    "electra": "WordPiece",
    "ernie": "WordPiece",
    "gpt2": "byte-level BPE without tokens around texts",
    "mpnet": "WordPiece between `<s>` and `</s>`",
    "roberta": "byte-level BPE",
    "xlm-roberta": "SentencePiece unigram between `<s>` and `</s>`",
    "xlnet": "SentencePiece unigram with the class token last",
}
"""The kind of tokenizer that each family was published with."""

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 42,
    "initializer_range": 0.2,
}

OTHER_KEYS: dict[str, dict[str, str]] = {
    "distilbert": {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
    },
    "gpt2": {
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "n_inner",
        "max_position_embeddings": "n_positions",
    },
    "xlnet": {
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "d_inner",
        "max_position_embeddings": "mem_len",
    },
}
"""By family: what its configuration calls some of ``SIZES``."""


_DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
}
OPTIONS: dict[str, dict[str, Any]] = {
    # Texts of more than 5 tokens are read by blocks.
    "big_bird": {"block_size": 1, "num_random_blocks": 0, "sep_token_id": 3},
    "deberta": {**_DISENTANGLED, "legacy": False},
    "deberta-v2": {
        **_DISENTANGLED,
        "position_buckets": 8,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "conv_kernel_size": 3,
    },
}
"""By family: what its published models say, where that is not the default."""
PRETRAINED: tuple[Head, ...] = ("masked_lm", "causal_lm", "permuted_lm")
"""What models are pre-trained with."""


def write_folder(family: str, folder: Path, *, head: Head | None = None, **options: Any) -> None:
    """Write a tiny random model of a family, with a tokenizer.

    Args:
        family: its ``model_type``.
        folder: where to; it is made.
        head: of the model; None for what it was pre-trained with.
        options: of the configuration, besides ``SIZES``.
    """
    folder.mkdir(parents=True)
    size = WRITERS[TOKENIZERS[family]](folder)
    torch.manual_seed(0)
    names = OTHER_KEYS.get(family, {})
    sizes = SIZES | OPTIONS.get(family, {}) | options
    values = {names.get(name, name): value for name, value in sizes.items()}
    config = FAMILIES[family].config_class()(**values | {"vocab_size": size})
    heads = FAMILIES[family].models
    head = head or next(each for each in PRETRAINED if each in heads)
    FAMILIES[family].model_class(head).from_config(config).save_pretrained(folder)
