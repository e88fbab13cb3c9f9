"""The parity tests' table of encoder families: a new family needs only a row here.

Every model is tiny: B sequences of S tokens, width D, L blocks of H heads, V tokens in the
vocabulary. Classes are looked up by their names, which are the reference's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from tests import tiny
from tests.parity.deberta import keep_float64
from torch import Tensor, nn

from heedful import models
from heedful.models import FAMILIES
from heedful.models.model import Model
from heedful.models.weights import renamed

B, C, S, D, H, L, V = 3, 2, 7, 24, 4, 2, 50
_NOWHERE = Path()


@dataclass(frozen=True, kw_only=True)
class Row:
    """Properties of a family."""

    sizes: dict[str, Any]
    """Of its tiny model without dropout, by the keys of its configuration."""
    types: int = 0
    """Number of token types; 0 where it has none."""
    lacks: frozenset[str] = frozenset()
    """Options of ``test_options_grid.OPTIONS``, or single values of them (``name=value``), that it
    or its reference has not."""
    config_options: dict[str, list[Any]] = field(default_factory=dict)
    """Further keys of its configuration and their values, of which the first is the default."""
    extra_ids: dict[str, int] = field(default_factory=dict)
    """Further arguments of a call, which are ids of shape (B, S), and the first id out of range."""
    positions_after: int | None = None
    """The id of padding if positions are counted from it."""
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options that must survive a folder both ways, under a name for the test."""
    pads_with: int | None = None
    """The id of padding if its reference tells padding by that, and not by the mask."""
    needs_text: bool = False
    """Whether its reference computes nonsense for padding, so that only the rest is compared."""
    pads_left: bool = False
    """Whether its reference takes the last token of a row for the last of the text."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that its heads call otherwise: the usual name, and its own."""
    own_heads: frozenset[str] = frozenset()
    """Heads that its reference has not."""
    own_grid: bool = False
    """Whether a file of its own compares its options, which are others."""
    every_pair: bool = False
    """Whether the grid has all pairs of options, rather than each alone and some pairs."""


_BERT_SIZES = {**tiny.SIZES, **tiny.STILL, "type_vocab_size": 3, "hidden_act": "gelu_new"}
_BERT_FOLDERS: dict[str, dict[str, Any]] = {
    "pruned": {"pruned_heads": {0: [1, 3], 1: [2]}},
    "relative": {"position_embedding_type": "relative_key_query"},
    "decoder": {"is_decoder": True, "add_cross_attention": True, "use_cache": False},
    "chunks and own output": {"chunk_size_feed_forward": 5, "tie_word_embeddings": False},
    "all": {
        "pruned_heads": {1: [0, 2]},
        "position_embedding_type": "relative_key",
        "is_decoder": True,
        "add_cross_attention": True,
    },
}

_DISTILBERT_SIZES = {
    "vocab_size": V,
    "max_position_embeddings": 12,
    "n_layers": L,
    "n_heads": H,
    "dim": D,
    "hidden_dim": 40,
    "activation": "relu",
    **dict.fromkeys(("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"), 0.0),
}

_GPT2_SIZES = {
    "vocab_size": V,
    "n_positions": 12,
    "n_layer": L,
    "n_head": H,
    "n_embd": D,
    "pad_token_id": 49,
    "use_cache": False,
    **dict.fromkeys(("embd_pdrop", "resid_pdrop", "attn_pdrop", "classifier_dropout"), 0.0),
}

_DEBERTA_SIZES = {
    **tiny.SIZES,
    **tiny.STILL,
    "cls_dropout": 0.0,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "max_relative_positions": 5,
    "position_biased_input": False,
    "hidden_act": "gelu_new",
}
_DEBERTA_LACKS = frozenset(
    {"token_type_ids", "positions", "decoder", "encoder", "cache", "pooler", "mask=row a query"}
    | {"head_mask", "pruned"}  # its reference has no head masks, and cannot prune heads
)
_DEBERTA_OPTIONS: dict[str, list[Any]] = {
    "relative_attention": [True, False],
    "pos_att_type": [["c2p", "p2c"], ["c2p"], ["p2c"], None, "p2c|c2p"],
    "max_relative_positions": [5, -1],
    "position_biased_input": [False, True],
    "type_vocab_size": [0, 3],
    "embedding_size": [D, 16],
    "layer_norm_eps": [1e-7, 1e-5],
}

_XLNET_SIZES = {
    "vocab_size": V,
    "n_layer": L,
    "n_head": H,
    "d_model": D,
    "d_inner": 40,
    "ff_activation": "gelu_new",
    **dict.fromkeys(("dropout", "summary_last_dropout"), 0.0),
    **dict.fromkeys(("use_mems_eval", "use_mems_train"), False),
}

ROWS: dict[str, Row] = {
    "albert": Row(
        sizes={
            **_BERT_SIZES,
            "embedding_size": 16,
            "num_hidden_groups": 2,
            "classifier_dropout_prob": 0.0,
        },
        types=3,
        lacks=frozenset({"mask=row a query", "decoder", "encoder", "cache"}),
        config_options={"num_hidden_groups": [2, 1], "embedding_size": [16, D]},
        folders={
            "shared": {"num_hidden_groups": 1, "hidden_act": "relu", "layer_norm_eps": 1e-5},
            "inner": {"num_hidden_groups": 1, "inner_group_num": 2, "embedding_size": D},
            "pruned": {"pruned_heads": {0: [1, 3], 1: [2]}},
            "relative": {"position_embedding_type": "relative_key_query"},
            "own output": {"tie_word_embeddings": False, "classifier_dropout_prob": 0.3},
        },
        labels={"next_sentence_label": "sentence_order_label"},
    ),
    "bert": Row(sizes=_BERT_SIZES, types=3, folders=_BERT_FOLDERS, every_pair=True),
    "big_bird": Row(
        sizes={**tiny.SIZES, **tiny.STILL, "type_vocab_size": 3, "sep_token_id": 3},
        types=3,
        # Its reference prunes no heads, and with an encoder its tokens do not see each other.
        lacks=frozenset({"positions", "encoder", "pruned"}),
        config_options={
            "attention_type": ["block_sparse", "original_full"],
            "use_bias": [True, False],
            "rescale_embeddings": [False, True],
            "hidden_act": ["gelu_new", "relu"],
        },
        folders={
            "without biases": {"use_bias": False, "sep_token_id": 5},
            "blocks": {"block_size": 2, "num_random_blocks": 1, "rescale_embeddings": True},
            "own output": {"tie_word_embeddings": False, "chunk_size_feed_forward": 5},
        },
    ),
    "deberta": Row(
        sizes=_DEBERTA_SIZES,
        lacks=_DEBERTA_LACKS,
        config_options=_DEBERTA_OPTIONS | {"talking_head": [False, True]},
        needs_text=True,
        own_heads=frozenset({"replaced"}),
        folders={
            "talks": {"talking_head": True, "pos_att_type": ["p2c"]},
            "positions": {"position_biased_input": True, "embedding_size": 16},
            "types": {"relative_attention": False, "type_vocab_size": 2},
        },
    ),
    "deberta-v2": Row(
        sizes=_DEBERTA_SIZES,
        lacks=_DEBERTA_LACKS,
        config_options=_DEBERTA_OPTIONS
        | {
            "position_buckets": [-1, 4],
            "share_att_key": [False, True],
            "norm_rel_ebd": ["none", "layer_norm"],
            "conv_kernel_size": [0, 3],
        },
        needs_text=True,
        own_heads=frozenset({"replaced"}),
        folders={
            "version 3": {
                "position_buckets": 4,
                "share_att_key": True,
                "norm_rel_ebd": "layer_norm",
                "legacy": False,
            },
            "xxlarge": {"conv_kernel_size": 3, "conv_act": "gelu", "conv_groups": 2},
        },
    ),
    "distilbert": Row(
        sizes=_DISTILBERT_SIZES,
        lacks=frozenset(
            {"token_type_ids", "position_ids", "positions", "decoder", "encoder", "cache"}
            | {"pooler", "mask=row a query"}
        ),
        config_options={"sinusoidal_pos_embds": [False, True], "activation": ["relu", "gelu"]},
        folders={
            "pruned": {"pruned_heads": {0: [1, 3], 1: [2]}},
            "sinusoids": {"sinusoidal_pos_embds": True},
            "chunks and own output": {"chunk_size_feed_forward": 5, "tie_word_embeddings": False},
        },
    ),
    "electra": Row(
        sizes={**_BERT_SIZES, "embedding_size": 16, "summary_last_dropout": 0.0},
        types=3,
        lacks=frozenset({"pooler"}),
        config_options={"embedding_size": [16, D]},
        folders=_BERT_FOLDERS
        | {
            "wide embeddings": {"embedding_size": D},
            "summary": {"summary_type": "mean", "summary_use_proj": False},
        },
    ),
    "ernie": Row(
        sizes={**_BERT_SIZES, "use_task_id": True, "task_type_vocab_size": 4},
        types=3,
        config_options={"layer_norm_eps": [1e-12, 1e-5]},
        extra_ids={"task_type_ids": 4},
        folders=_BERT_FOLDERS | {"without tasks": {"use_task_id": False}},
    ),
    "gpt2": Row(
        sizes=_GPT2_SIZES,
        types=V,
        lacks=frozenset({"positions", "decoder", "pooler", "mask=row a query"}),
        config_options={
            "scale_attn_weights": [True, False],
            "scale_attn_by_inverse_layer_idx": [False, True],
            "n_inner": [None, 40],
            "activation_function": ["gelu_new", "relu"],
        },
        pads_with=49,
        own_heads=frozenset({"double"}),
        folders={
            "pruned": {"pruned_heads": {0: [1, 3], 1: [2]}},
            "reads an encoder": {"add_cross_attention": True, "use_cache": True},
            "own output": {"tie_word_embeddings": False, "n_inner": 40},
        },
    ),
    "roberta": Row(
        sizes=_BERT_SIZES,
        types=3,
        positions_after=1,
        folders=_BERT_FOLDERS,
    ),
    "xlm-roberta": Row(
        sizes={**_BERT_SIZES, "type_vocab_size": 1},
        types=1,
        positions_after=1,
        folders={"all": _BERT_FOLDERS["all"]},
    ),
    "mpnet": Row(
        sizes={**tiny.SIZES, **tiny.STILL},
        # The reference cannot add its bias to the scores of fewer heads.
        lacks=frozenset({"token_type_ids", "positions", "decoder", "encoder", "cache", "pruned"}),
        config_options={
            "relative_attention_num_buckets": [32, 40],
            "hidden_act": ["gelu", "relu"],
            "layer_norm_eps": [1e-12, 1e-5],
        },
        positions_after=1,
        folders={"everything": {"relative_attention_num_buckets": 40, "hidden_act": "relu"}},
    ),
    "xlnet": Row(
        sizes=_XLNET_SIZES,
        types=3,
        lacks=frozenset({"position_ids", "positions", "decoder", "encoder", "cache", "pooler"}),
        pads_left=True,
        own_grid=True,
        folders={
            "everything": {
                "attn_type": "uni",
                "mem_len": 7,
                "reuse_len": 3,
                "same_length": True,
                "clamp_len": 4,
                "untie_r": False,
                "summary_type": "mean",
                "summary_use_proj": False,
                "start_n_top": 2,
            },
            "own output": {"tie_word_embeddings": False},
        },
    ),
}
"""By ``model_type``."""

HEADS: dict[str, tuple[str, str]] = {
    class_name: (family, head)
    for family in ROWS
    for head, class_name in FAMILIES[family].models.items()
    if head != "body" and head not in ROWS[family].own_heads
}
"""Every class with a head: its family, and what kind of head that is."""


def pair_of_models(
    reference: ModuleType,
    family: str,
    class_name: str,
    *,
    training: bool = False,
    add_pooling_layer: bool | None = None,
    chunk: int = 0,
    **changes: Any,
) -> tuple[Any, Any]:
    """Return ours and the reference's, in float64, with the same random weights.

    Args:
        reference: the library.
        family: a key of ``ROWS``.
        class_name: of both models.
        training: whether they are in training mode.
        add_pooling_layer: an argument of the body's constructor; None leaves it out.
        chunk: ``chunk_size_feed_forward`` of ours; the reference takes only one that divides S.
        changes: keys of the configuration beside those of ``Row.sizes``.
    """
    if family.startswith("deberta"):
        keep_float64()
    values = ROWS[family].sizes | changes
    config = FAMILIES[family].config
    more = {} if add_pooling_layer is None else {"add_pooling_layer": add_pooling_layer}
    theirs = getattr(reference, class_name)(
        getattr(reference, config)(
            **values,
            chunk_size_feed_forward=chunk if chunk and S % chunk == 0 else 0,
            attn_implementation="eager",
        ),
        **more,
    )
    ours = getattr(models, class_name)(
        getattr(models, config)(**values, **({"chunk_size_feed_forward": chunk} if chunk else {})),
        **more,
    )
    same_random_weights(ours, theirs)
    return ours.double().train(training), theirs.double().train(training)


def same_random_weights(ours: Model, theirs: nn.Module) -> None:
    """Draw all trained weights of the reference's model, and copy them into ours."""
    ours.float()
    theirs.float()  # which pruning makes of its weights, too
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.3)  # zeros and ones would hide mistakes
    report = ours.set_file_weights(
        {name: value.detach().clone() for name, value in theirs.named_parameters()}, _NOWHERE
    )
    assert report.fresh == report.unused == []


def by_file_name(ours: Model, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the keys of a dict from our parameter names to those of the reference."""
    named = {renamed(name, ours.file_names): value for name, value in tensors.items()}
    there = {name: value for name, value in named.items() if value is not None}
    rest = dict.fromkeys(named.keys() - there.keys(), torch.zeros(1))
    layout = ours.body.to_file_layout
    return {**layout(there), **dict.fromkeys(layout(rest), None)}


def random_positions(family: str, shape: tuple[int, ...]) -> Tensor:
    """Return positions of tokens."""
    if family == "gpt2":  # whose reference takes those that do not go on for another text's
        return torch.randint(12 - S, (*shape[:-1], 1)) + torch.arange(shape[-1])
    return torch.randint(12, shape)


def random_ids(family: str, shape: tuple[int, ...], *, everything: bool) -> dict[str, Tensor]:
    """Return the ids of a call: only tokens, or also everything that goes with each token."""
    row = ROWS[family]
    ids = {"input_ids": torch.randint(V, shape)}
    if everything:
        if row.types:
            ids["token_type_ids"] = torch.randint(row.types, shape)
        if "position_ids" not in row.lacks:
            ids["position_ids"] = random_positions(family, shape)
        for name, limit in row.extra_ids.items():
            ids[name] = torch.randint(limit, shape)
    return ids
