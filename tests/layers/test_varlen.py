"""Texts that attend to each other's tokens without padding compute what padded ones do.

The kernel is a GPU's. Here another computes in its place, text by text, which takes what torch's
takes; and torch's own is called on the device ``meta``, which knows shapes and holds no numbers.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests import tiny, tiny_folders
from torch import Tensor, nn

from heedful import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    Transformer,
    TransformerConfig,
)
from heedful.batches.packing import packing_mask
from heedful.compiled import model as compiled
from heedful.compiled.model import compile_model
from heedful.layers import multihead, varlen
from heedful.layers.packing import packing_of_texts
from heedful.models import FAMILIES
from heedful.models.model import Model

LENGTHS = torch.tensor([9, 3, 5, 1, 7])
MASK = torch.arange(9) < LENGTHS[:, None]
PLAIN = {"albert", "bert", "distilbert", "electra", "ernie", "gpt2", "roberta", "xlm-roberta"}
"""The families whose positions add nothing to the scores, and which read all of a text."""
HEADS = ("body", "sequence", "token", "span", "masked_lm", "causal_lm")

Kernels = Callable[[], AbstractContextManager[list[bool]]]
"""Has the stand-in compute for a while; gives a list of whether each of its calls was causal."""


def by_text(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    dropout: float,
    causal: bool,
    shown: bool,
) -> tuple[Tensor]:
    """Compute what torch's kernel computes, one text after the other."""
    assert (dropout, shown) == (0.0, False)
    sizes = []
    for tensor, bounds, longest in ((query, cu_seq_q, max_q), (key, cu_seq_k, max_k)):
        assert bounds.dtype == torch.int32
        lengths = bounds.diff()
        assert bounds[0] == 0
        assert bounds[-1] == len(tensor)
        assert lengths.max() == longest
        assert tensor.stride(-1) == 1
        sizes.append(lengths.tolist())
    assert len(key) == len(value)
    mixed = []
    parts = [
        torch.split(tensor, lengths)
        for tensor, lengths in ((query, sizes[0]), (key, sizes[1]), (value, sizes[1]))
    ]
    for queries, keys, values in zip(*parts, strict=True):
        one, other, third = (x.transpose(0, 1)[None] for x in (queries, keys, values))
        assert not causal or len(queries) == len(keys)
        text = F.scaled_dot_product_attention(one, other, third, is_causal=causal)
        mixed.append(text[0].transpose(0, 1))
    return (torch.cat(mixed),)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """Return a context in which the stand-in computes."""

    @contextmanager
    def standing_in() -> Iterator[list[bool]]:
        calls: list[bool] = []

        def counted(*arguments: Any) -> tuple[Tensor]:
            calls.append(arguments[8])
            return by_text(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(varlen, "flash_attention", counted)
            patched.setattr(multihead, "has_kernel", lambda *about: True)
            yield calls

    return standing_in


def learn(model: nn.Module, loss: Callable[[], Tensor]) -> dict[str, Tensor]:
    """Return the loss and its gradients."""
    model.zero_grad()
    value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    named = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": value.detach(), **named}


def check_alike(
    model: nn.Module, loss: Callable[[], Tensor], kernels: Kernels, *, causal: int = 0
) -> int:
    """Compare values and gradients with those of a padded batch; return the number of calls."""
    with kernels() as calls:
        ours = learn(model, loss)
    plain = learn(model, loss)
    assert ours.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-9, atol=1e-12)
    assert sum(calls) == causal
    return len(calls)


def small(family: str, head: Any, **options: Any) -> Model:
    """Return a model of a family, in training and without dropout."""
    names = tiny_folders.OTHER_KEYS.get(family, {})
    sizes = tiny_folders.SIZES | tiny_folders.OPTIONS.get(family, {}) | options
    kind = FAMILIES[family].config_class()
    config = kind(**{names.get(name, name): value for name, value in sizes.items()})
    config = replace(config, **dict.fromkeys(kind.DROPOUTS, 0.0))
    torch.manual_seed(0)
    model: Model = FAMILIES[family].model_class(head).from_config(config).double().train()
    return model


def answers(output: object) -> Tensor:
    """Return one number that depends on all outputs except those for padding."""
    total = torch.zeros((), dtype=torch.float64)
    for name in ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits"):
        value = getattr(output, name, None)
        if value is not None:
            total = total + (value[MASK] if value.shape[1:2] == (9,) else value).sin().sum()
    return total


@pytest.mark.parametrize(
    ("family", "head"),
    [
        (family, head)
        for family in FAMILIES
        for head in HEADS
        if family != "vit" and head in FAMILIES[family].models
    ],
)
def test_every_family_learns_the_same(family: str, head: Any, kernels: Kernels) -> None:
    decoder = head == "causal_lm" or family == "gpt2"
    told = decoder and family != "gpt2"
    plain = family in PLAIN or (family == "big_bird" and decoder)  # which reads as BERT does
    model = small(family, head, **({"is_decoder": True} if told else {}))
    ids = torch.randint(5, 50, (5, 9))
    attended = check_alike(
        model,
        lambda: answers(model(ids, MASK)),
        kernels,
        causal=2 if decoder and plain else 0,
    )
    assert attended == (2 if plain else 0)


CONFIG = BertConfig(**tiny.SIZES, **tiny.STILL)
LABELS = torch.tensor([0, 1, 0, 1, 1])


def bert(kind: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    return kind(replace(CONFIG, **options)).double().train()


@pytest.mark.parametrize("mask", [MASK, MASK.long(), MASK.flip(1), torch.rand(5, 9) < 0.6])
@pytest.mark.parametrize("kind", [BertForSequenceClassification, BertForTokenClassification])
def test_padding_may_stand_anywhere(mask: Tensor, kind: Any, kernels: Kernels) -> None:
    mask = mask.clone()
    mask[:, 0] = 1  # a classifier reads it
    model, ids, types = bert(kind), torch.randint(5, 50, (5, 9)), torch.randint(2, (5, 9))

    def loss() -> Tensor:
        logits: Tensor = model(ids, mask, types).logits
        return (logits if logits.ndim == 2 else logits[mask.bool()]).sin().sum()

    assert check_alike(model, loss, kernels) == 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", [torch.bool, torch.int64])
def test_several_texts_in_a_sequence(
    causal: bool, padded: bool, kind: torch.dtype, kernels: Kernels
) -> None:
    ids = torch.randint(5, 50, (5, 9))
    ids[:, 0] = ids[0, 4] = ids[2, 1] = ids[2, 4] = ids[4, 6] = 2
    real = MASK if padded else None
    told = packing_mask(ids, real, 2, causal=causal)
    mask, positions = told["attention_mask"].to(kind), told["position_ids"]
    model = bert(BertForTokenClassification, is_decoder=causal)
    tokens = MASK if padded else torch.ones_like(MASK)
    ids = ids.masked_fill(~tokens, CONFIG.pad_token_id or 0)

    def loss() -> Tensor:
        logits: Tensor = model(ids, mask, position_ids=positions).logits
        return logits[tokens].sin().sum()

    assert check_alike(model, loss, kernels, causal=2 if causal else 0) == 2


def test_a_sequence_whose_first_token_decides_is_one_text(kernels: Kernels) -> None:
    ids = torch.randint(5, 50, (5, 9))
    ids[:, 0] = ids[:, 4] = 2
    mask = packing_mask(ids, None, 2)["attention_mask"]
    model = bert(BertForSequenceClassification)
    assert check_alike(model, lambda: model(ids, mask, labels=LABELS).loss, kernels) == 0


@pytest.mark.parametrize(
    "change",
    [
        "nothing",
        "a token that only asks",
        "a token more",
        "a token less",
        "a text in another",
        "causal",
        "padding",
    ],
)
def test_a_mask_that_says_anything_else_is_read(change: str, kernels: Kernels) -> None:
    ids = torch.randint(5, 50, (5, 9))
    numbers = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2]).expand(5, 9).clone()
    if change == "a text in another":
        numbers[3] = torch.tensor([0, 1, 0, 1, 1, 2, 2, 2, 2])
    mask = numbers[:, :, None] == numbers[:, None]
    if change == "a token more":
        mask[1, 4, 0] = True
    elif change == "a token that only asks":
        mask[2, :, 8] = False
    elif change == "a token less":
        mask[4, 0, 2] = False
    elif change == "causal":
        mask = mask.tril()
    elif change == "padding":
        mask[:] = False
    model = bert(BertForTokenClassification)
    attended = check_alike(model, lambda: model(ids, mask).logits.sin().sum(), kernels)
    assert attended == (2 if change == "nothing" else 0)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("chunk", [0, 4])
def test_with_other_options(checkpointing: bool, chunk: int, kernels: Kernels) -> None:
    model = bert(BertForMaskedLM, chunk_size_feed_forward=chunk)
    model.prune_heads({0: [1, 3], 1: [0]})
    model.gradient_checkpointing = checkpointing
    ids, labels = torch.randint(5, 50, (5, 9)), torch.randint(5, 50, (5, 9))
    labels = labels.masked_fill(~MASK, -100)
    masks = torch.rand(4, dtype=torch.float64)
    attended = check_alike(
        model, lambda: model(ids, MASK, head_mask=masks, labels=labels).loss, kernels
    )
    assert attended == (4 if checkpointing else 2)


def test_a_decoder_that_decides_from_its_first_token(kernels: Kernels) -> None:
    model = bert(BertForSequenceClassification, is_decoder=True)
    ids = torch.randint(5, 50, (5, 9))
    assert check_alike(model, lambda: model(ids, MASK, labels=LABELS).loss, kernels) == 0


def test_a_text_of_no_tokens_sends_no_gradient(kernels: Kernels) -> None:
    model, mask = bert(BertForTokenClassification), MASK.clone()
    mask[2] = False
    ids = torch.randint(5, 50, (5, 9))
    assert check_alike(model, lambda: model(ids, mask).logits[mask].sin().sum(), kernels) == 2


@pytest.mark.parametrize("decoder", [False, True])
def test_answers_that_the_first_token_gives(decoder: bool, kernels: Kernels) -> None:
    model = bert(BertForSequenceClassification, is_decoder=decoder).eval()
    ids = torch.randint(5, 50, (5, 9))
    with kernels() as calls:
        ours = model(ids, MASK).logits
    torch.testing.assert_close(ours, model(ids, MASK).logits, rtol=1e-10, atol=1e-12)
    assert len(calls) == (0 if decoder else 2)
    with kernels() as calls:
        model(ids, MASK, output_hidden_states=True)
    assert not calls


def test_what_stands_for_padding_is_zeros(kernels: Kernels) -> None:
    model, ids = bert(BertModel), torch.randint(5, 50, (5, 9))
    with kernels():
        hidden = model(ids, MASK).last_hidden_state
    assert hidden[~MASK].eq(0).all()
    assert hidden[MASK].ne(0).all()


@pytest.mark.parametrize(
    "case", ["evaluation", "weights", "states", "no mask", "a mask of each query"]
)
def test_where_it_is_padded(case: str, kernels: Kernels) -> None:
    model, ids = bert(BertModel), torch.randint(5, 50, (5, 9))
    mask: Tensor | None = MASK
    options = {}
    if case == "evaluation":
        model.eval()
    elif case == "no mask":
        mask = None
    elif case == "a mask of each query":
        mask = torch.rand(5, 9, 9) < 0.6
    else:
        name = {"weights": "output_attentions", "states": "output_hidden_states"}[case]
        options[name] = True
    with kernels() as calls:
        output = model(ids, mask, output_kernels=True, **options)
    assert not calls
    assert "varlen" not in output.kernels


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", sorted(PLAIN))
def test_answers_leave_padding_out(
    family: str, head: Any, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    if head not in FAMILIES[family].models:
        pytest.skip("the family has no such head")
    monkeypatch.setattr(compiled.kernels, "encoder_kernel", lambda *about: ("plain", "on a GPU"))
    decoder = head == "causal_lm" and family != "gpt2"
    model = small(family, head, **({"is_decoder": True} if decoder else {})).eval()
    ids = torch.randint(5, 50, (5, 9))
    with torch.inference_mode():
        right = answers(model(ids, MASK))
        with kernels() as calls:
            made = compile_model(model)
            ours = answers(made.model(ids, MASK))
            assert len(calls) == 2
            made.model(ids)  # without padding it is as it was
            made.model.body(ids, torch.rand(5, 9, 9) < 0.6)
            assert len(calls) == 2
        model(ids, MASK)
    assert made.kernel == "unpadded"
    assert not model.body.packs_at_inference
    torch.testing.assert_close(ours, right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", ["deberta", "xlnet", "mpnet"])
def test_what_looks_at_places_answers_as_it_is(
    family: str, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled.kernels, "encoder_kernel", lambda *about: ("plain", "on a GPU"))
    model = small(family, "sequence").eval()
    with kernels():
        assert compile_model(model).model is model


@pytest.mark.parametrize(("training", "told"), [(True, 0.25), (False, 0.0)])
def test_the_kernel_drops_weights_in_training(
    training: bool, told: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[float] = []

    def kernel(*arguments: Any) -> tuple[Tensor]:
        dropped.append(arguments[7])
        return by_text(*arguments[:7], 0.0, *arguments[8:])

    monkeypatch.setattr(varlen, "flash_attention", kernel)
    monkeypatch.setattr(multihead, "has_kernel", lambda *about: True)
    model = bert(BertModel, attention_probs_dropout_prob=0.25).train(training)
    model(torch.randint(5, 50, (5, 9)), MASK, only_first=True)
    assert dropped == [told, told]


def test_the_kernel_has_a_name(kernels: Kernels) -> None:
    with kernels():
        output = bert(BertModel)(torch.randint(5, 50, (5, 9)), MASK, output_kernels=True)
    assert output.kernels == ("varlen", "varlen")


@pytest.mark.parametrize("mask", [None, MASK, torch.zeros_like(MASK)])
@pytest.mark.parametrize("norm_before", [False, True])
@pytest.mark.parametrize("silent", [False, True])
def test_a_translator_learns_the_same(
    mask: Tensor | None, norm_before: bool, silent: bool, kernels: Kernels
) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=40,
        decoder_vocab_size=40,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        dropout=0.0,
        normalize_before=norm_before,
    )
    model = Transformer(config).double().train()
    ids, labels = torch.randint(3, 40, (5, 9)), torch.randint(3, 40, (5, 7))
    labels[torch.arange(7) >= torch.tensor([2, 7, 4, 6, 1])[:, None]] = -100
    if silent:
        labels[3] = -100
    reads = mask is None or bool(mask.any())
    attended = check_alike(
        model,
        lambda: model(ids, mask, labels=labels).loss,
        kernels,
        causal=2 if reads else 0,
    )
    # Two encoder blocks, and two decoder blocks twice; all padded where there is nothing to read.
    assert attended == (6 if reads else 0)


def test_a_batch_without_tokens_is_padded() -> None:
    assert packing_of_texts(torch.zeros(2, 4, dtype=torch.bool), torch.device("cpu")) is None


@pytest.mark.parametrize("causal", [False, True])
def test_torch_takes_what_it_is_given(causal: bool) -> None:
    meta, half = torch.device("meta"), torch.bfloat16
    made = packing_of_texts(MASK, meta)
    assert made is not None
    assert made.bounds is not None
    query, key, value = (
        torch.randn(1, 2, 25, 8, device=meta, dtype=half, requires_grad=True) for _ in range(3)
    )
    mixed = varlen.attend_varlen(
        query, key, value, queries=made.bounds, keys=made.bounds, causal=causal
    )
    assert (mixed.shape, mixed.dtype) == ((1, 2, 25, 8), half)
    mixed.sum().backward()  # type: ignore[no-untyped-call]
    assert query.grad is not None
    assert query.grad.shape == query.shape
    first = torch.randn(5, 2, 1, 8, device=meta, dtype=half)
    bounds = made.bounds
    mixed = varlen.attend_varlen(
        first, key, value, queries=bounds.single, keys=bounds, causal=False
    )
    assert mixed.shape == first.shape


@pytest.mark.parametrize(
    ("device", "dtype", "width"),
    [("cpu", torch.bfloat16, 64), ("meta", torch.bfloat16, 64), ("cpu", torch.float32, 64)],
)
def test_it_is_for_a_gpu_alone(device: str, dtype: torch.dtype, width: int) -> None:
    assert not varlen.has_kernel(torch.device(device), dtype, width)


@pytest.mark.parametrize(
    ("dtype", "width", "there"),
    [
        (torch.bfloat16, 64, True),
        (torch.float16, 256, True),
        (torch.float32, 64, False),
        (torch.bfloat16, 12, False),
        (torch.bfloat16, 264, False),
    ],
)
@pytest.mark.parametrize(
    ("generation", "built"), [((8, 0), True), ((9, 0), True), ((7, 5), True), ((8, 0), False)]
)
def test_which_gpus_have_it(
    dtype: torch.dtype,
    width: int,
    there: bool,
    generation: tuple[int, int],
    built: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    varlen.has_kernel.cache_clear()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: generation)
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: built)
    known = varlen.has_kernel(torch.device("cuda"), dtype, width)
    varlen.has_kernel.cache_clear()
    assert known == (there and built and generation >= (8, 0))
