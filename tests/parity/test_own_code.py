"""Code of a user's own inside a model sees and changes what it does in the reference's."""

import copy
import pickle
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import HEADS, ROWS, B, C, H, L, S, V, pair_of_models
from torch import Tensor, nn

from heedful import ViTConfig, ViTForImageClassification
from heedful.errors import UserError
from heedful.models.weights import renamed

SEQUENCE = [
    name for name, (family, kind) in HEADS.items() if kind == "sequence" and family != "xlnet"
]
POOLED = [name for name in SEQUENCE if name.startswith(("Bert", "Albert", "Ernie"))]


def _batch(class_name: str, *, padded: bool = True) -> dict[str, Tensor]:
    torch.manual_seed(3)
    batch = {"input_ids": torch.randint(2, V - 1, (B, S))}
    row = ROWS[HEADS[class_name][0]]
    if padded and not row.needs_text and row.pads_with is None:
        batch["attention_mask"] = torch.ones(B, S, dtype=torch.int64)
        batch["attention_mask"][1, S - 3 :] = 0
    return batch


def _pair(reference: ModuleType, class_name: str, *, training: bool) -> tuple[Any, Any]:
    return pair_of_models(reference, HEADS[class_name][0], class_name, training=training)


def _block(model: Any, number: int) -> nn.Module:
    return model.body.encoder.layer[number]  # type: ignore[no-any-return]


def _its_block(theirs: nn.Module, ours: Any, number: int) -> nn.Module:
    name = renamed(f"{ours.body.prefix}.encoder.layer.{number}", ours.file_names)
    assert name is not None
    return theirs.get_submodule(name)


class MeanPooler(nn.Module):
    """The mean of all tokens, of padding, too."""

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden.mean(1)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("class_name", POOLED)
def test_another_pooler_reads_all_tokens(
    reference: ModuleType, class_name: str, training: bool
) -> None:
    ours, theirs = _pair(reference, class_name, training=training)
    batch = _batch(class_name)
    ours.body.pooler = MeanPooler()
    theirs.base_model.pooler = MeanPooler()
    if class_name.startswith("Albert"):  # whose pooler there is a linear layer on the first token
        theirs.base_model.pooler_activation = nn.Identity()
        theirs.base_model.pooler.forward = lambda first: first
        ours.body.pooler.forward = lambda hidden: hidden[:, 0]
    assert_equal(ours(**batch).logits, theirs(**batch).logits)


def test_another_forward_of_the_pooler_reads_all_tokens(reference: ModuleType) -> None:
    ours, theirs = _pair(reference, "BertForSequenceClassification", training=False)
    for body in (ours.bert, theirs.bert):
        body.pooler.forward = lambda hidden: hidden.mean(1)
    batch = _batch("BertForSequenceClassification")
    assert_equal(ours(**batch).logits, theirs(**batch).logits)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("class_name", SEQUENCE)
def test_hooks_see_and_change_the_states_of_all_tokens(
    reference: ModuleType, class_name: str, training: bool
) -> None:
    ours, theirs = _pair(reference, class_name, training=training)
    batch = _batch(class_name)
    seen: dict[str, list[Tensor]] = {"ours": [], "theirs": []}

    def steer(states: list[Tensor]) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            hidden = output[0] if isinstance(output, tuple) else output
            states.append(hidden)
            moved = hidden + 0.5
            return (moved, *output[1:]) if isinstance(output, tuple) else moved

        return hook

    for number in range(L):
        _block(ours, number).register_forward_hook(steer(seen["ours"]))
        _its_block(theirs, ours, number).register_forward_hook(steer(seen["theirs"]))
    logits, expected = ours(**batch).logits, theirs(**batch).logits
    assert_equal(logits, expected)
    for one, right in zip(seen["ours"], seen["theirs"], strict=True):
        assert_equal(one, right)


def test_a_hook_of_an_image_model_sees_all_patches() -> None:
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=8,
        patch_size=4,
    )
    model = ViTForImageClassification(config).eval()
    pixels, shapes = torch.rand(2, 3, 8, 8), []
    expected = model(pixels).logits
    block = model.body.get_submodule("encoder.layer.0")
    block.register_forward_hook(lambda module, inputs, output: shapes.append(output[0].shape))
    torch.testing.assert_close(model(pixels).logits, expected)
    assert shapes == [(2, 5, 16)]


def test_what_a_hook_of_a_block_may_return(reference: ModuleType) -> None:
    ours, theirs = _pair(reference, "BertForSequenceClassification", training=False)
    batch = _batch("BertForSequenceClassification")
    returned: list[Any] = []
    for model in (ours, theirs):
        model.bert.encoder.layer[0].register_forward_hook(lambda *_: returned[-1])
    returned.append((torch.ones(B, S, 24).double(),))
    assert_equal(ours(**batch).logits, theirs(**batch).logits)
    returned.append("nothing")
    with pytest.raises(UserError, match=r"a hook of a block returned a str; return the block's"):
        ours(**batch)
    returned.append(torch.ones(B, S, 24).double())
    ours(**batch)
    with pytest.raises(UserError, match=r"a hook of a block returned a Tensor; return the block's"):
        ours(**batch, output_attentions=True)


@pytest.mark.parametrize("class_name", list(HEADS))
def test_every_dropout_can_be_switched_on_alone(reference: ModuleType, class_name: str) -> None:
    """As for uncertainty by dropout at test time (Gal and Ghahramani 2016)."""
    ours, _ = _pair(reference, class_name, training=False)
    batch = _batch(class_name, padded=False)
    if HEADS[class_name][1] in ("choice", "double"):
        batch = {"input_ids": batch["input_ids"][:, None].expand(B, C, S)}
    first = ours(**batch)[0]
    assert_equal(ours(**batch)[0], first)
    layers = [layer for layer in ours.modules() if isinstance(layer, nn.Dropout)]
    in_attention = [name for name, _ in ours.named_modules() if name.endswith("self.dropout")]
    assert len(in_attention) >= L
    for layer in layers:
        layer.p = 0.5
        layer.train()
    assert (ours(**batch)[0] - first).abs().max() > 0


def test_a_dropout_of_a_users_own_in_a_block(reference: ModuleType) -> None:
    ours, theirs = _pair(reference, "BertForSequenceClassification", training=True)
    batch = _batch("BertForSequenceClassification")
    for model in (ours, theirs):
        for number in range(L):
            model.bert.encoder.layer[number].output.dropout = nn.Identity()
            model.bert.encoder.layer[number].attention.output.dropout = nn.Dropout(0.0)
    ours.gradient_checkpointing_enable()
    logits, expected = ours(**batch).logits, theirs(**batch).logits
    assert_equal(logits, expected)
    logits.sum().backward()
    expected.sum().backward()
    name = "bert.embeddings.word_embeddings.weight"
    assert_equal(ours.get_parameter(name).grad, theirs.get_parameter(name).grad)


@pytest.mark.parametrize("class_name", list(HEADS))
def test_state_dicts_of_the_reference(reference: ModuleType, class_name: str) -> None:
    ours, theirs = _pair(reference, class_name, training=False)
    expected = {name: weight.clone() for name, weight in ours.state_dict().items()}
    for weight in ours.parameters():
        nn.init.zeros_(weight)
    state = theirs.state_dict()
    report = ours.load_state_dict(state)
    assert (report.missing_keys, report.unexpected_keys) == ([], [])
    for name, weight in ours.state_dict().items():
        assert_equal(weight, expected[name], name)
    missing = next(name for name in state if name.endswith("bias"))
    del state[missing]
    state["more.weight"] = torch.zeros(2)
    with pytest.raises(RuntimeError, match="Missing key"):
        ours.load_state_dict(state)
    report = ours.load_state_dict(state, strict=False)
    assert len(report.missing_keys) == 1
    assert report.unexpected_keys == ["more.weight"]
    for weight in ours.parameters():
        nn.init.zeros_(weight)
    report = ours.load_state_dict({**expected, "more.weight": torch.zeros(2)}, strict=False)
    assert (report.missing_keys, report.unexpected_keys) == ([], ["more.weight"])
    for name, weight in ours.state_dict().items():
        assert_equal(weight, expected[name], name)


def test_a_state_dict_of_a_body_does_not_fit_a_model_with_a_head(reference: ModuleType) -> None:
    ours, theirs = _pair(reference, "DistilBertForSequenceClassification", training=False)
    state = theirs.base_model.state_dict()
    with pytest.raises(RuntimeError, match="Unexpected key"):
        ours.load_state_dict(state)
    assert len(ours.load_state_dict(state, strict=False).unexpected_keys) == len(state)
    ours.body.load_state_dict(state)


def test_a_cache_is_read_and_given_as_pairs(reference: ModuleType) -> None:
    ours, theirs = pair_of_models(reference, "gpt2", "GPT2LMHeadModel")
    torch.manual_seed(4)
    ids = torch.randint(2, V - 1, (B, S))
    cache = ours(ids, use_cache=True).past_key_values
    its = theirs(ids, use_cache=True).past_key_values
    assert len(cache) == len(its) == L
    assert cache.get_seq_length() == its.get_seq_length() == S
    for pair, right in zip(cache, its.to_legacy_cache(), strict=True):
        assert_equal(pair[0], right[0])
        assert_equal(pair[1], right[1])
    assert cache[0][0].shape == (B, H, S, 24 // H)
    assert cache[-1][1] is cache.to_legacy_cache()[-1][1]
    later = torch.randint(2, V - 1, (B, 1))
    expected = theirs(later, past_key_values=its).logits
    assert_equal(ours(later, past_key_values=cache.to_legacy_cache()).logits, expected)
    assert_equal(ours(later, past_key_values=[*cache]).logits, expected)
    with pytest.raises(UserError, match=r"past_key_values is a dict; give what an earlier call"):
        ours(later, past_key_values={})
    with pytest.raises(UserError, match=r"past_key_values is a tuple; give what an earlier call"):
        ours(later, past_key_values=((ids,),))


class Wrapper(nn.Module):
    """A module that changes what another returns, whatever its arguments."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any, **options: Any) -> Any:
        output = self.inner(*inputs, **options)
        return (output[0] + 0.5, *output[1:]) if isinstance(output, tuple) else output + 0.5


def _wrap(model: Any, name: str) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, Wrapper(model.get_submodule(name)))


_LAYER = "bert.encoder.layer.0"
PARTS = [_LAYER, f"{_LAYER}.intermediate", f"{_LAYER}.output", f"{_LAYER}.output.LayerNorm"]
PARTS += [f"{_LAYER}.attention.output", "bert.embeddings", "bert.embeddings.LayerNorm"]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_in_a_module_of_a_users_own(
    reference: ModuleType, part: str, recompute: bool
) -> None:
    ours, theirs = _pair(reference, "BertForSequenceClassification", training=recompute)
    batch = _batch("BertForSequenceClassification")
    for model in (ours, theirs):
        _wrap(model, part)
    if recompute:
        ours.gradient_checkpointing_enable()
    logits, expected = ours(**batch).logits, theirs(**batch).logits
    assert_equal(logits, expected)
    logits.square().sum().backward()
    expected.square().sum().backward()
    gradient = theirs.bert.encoder.layer[1].output.dense.weight.grad
    assert_equal(ours.bert.encoder.layer[1].output.dense.weight.grad, gradient)
    gradient = theirs.get_parameter("bert.pooler.dense.weight").grad
    assert_equal(ours.get_parameter("bert.pooler.dense.weight").grad, gradient)


@pytest.mark.parametrize("part", ["attention", "attention.self"])
def test_attention_in_a_module_of_a_users_own_is_refused(reference: ModuleType, part: str) -> None:
    ours, _ = _pair(reference, "BertForSequenceClassification", training=False)
    _wrap(ours, f"{_LAYER}.{part}")
    with pytest.raises(UserError, match="the attention of a block was replaced; only its layers"):
        ours(**_batch("BertForSequenceClassification"))


@pytest.mark.parametrize("part", ["intermediate", "output", "attention.output", "attention.self"])
def test_hooks_of_the_parts_of_a_block_see_what_they_return(
    reference: ModuleType, part: str
) -> None:
    ours, theirs = _pair(reference, "BertForSequenceClassification", training=False)
    batch = _batch("BertForSequenceClassification")
    seen: list[Tensor] = []

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    for model in (ours, theirs):
        model.get_submodule(f"{_LAYER}.{part}").register_forward_hook(hook)
        model(**batch)
    assert_equal(*seen)


@pytest.mark.parametrize("part", ["attention", "attention.self"])
@pytest.mark.parametrize("values", [1, 2])
def test_hooks_of_attention_may_return_fewer_values(
    reference: ModuleType, part: str, values: int
) -> None:
    ours, theirs = _pair(reference, "BertForSequenceClassification", training=False)
    batch = _batch("BertForSequenceClassification")
    for model in (ours, theirs):
        for block in model.bert.encoder.layer:
            block.get_submodule(part).register_forward_hook(
                lambda module, inputs, output: (output[0] * 0.5, None)[:values]
            )
    assert_equal(ours(**batch).logits, theirs(**batch).logits)


@pytest.mark.parametrize("part", ["attention", "attention.self"])
def test_what_a_hook_of_attention_may_not_return(reference: ModuleType, part: str) -> None:
    ours, _ = _pair(reference, "BertForSequenceClassification", training=False)
    returned: list[Any] = [torch.ones(1), ()]
    ours.get_submodule(f"{_LAYER}.{part}").register_forward_hook(lambda *_: returned[-1])
    with pytest.raises(UserError, match="a hook of attention returned a tuple; return a tuple of"):
        ours(**_batch("BertForSequenceClassification"))
    returned.pop()
    with pytest.raises(UserError, match="a hook of attention returned a Tensor; return a tuple of"):
        ours(**_batch("BertForSequenceClassification"))


def test_another_activation(reference: ModuleType) -> None:
    ours, theirs = _pair(reference, "BertForSequenceClassification", training=False)
    batch = _batch("BertForSequenceClassification")
    for model in (ours, theirs):
        model.bert.encoder.layer[0].intermediate.intermediate_act_fn = nn.ReLU()
    assert_equal(ours(**batch).logits, theirs(**batch).logits)
    assert isinstance(ours.bert.encoder.layer[0].intermediate.intermediate_act_fn, nn.ReLU)


@pytest.mark.parametrize("class_name", ["DebertaV2ForSequenceClassification", *POOLED[:1]])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_trace_with_gradients_passes_torchs_check(reference: ModuleType, class_name: str) -> None:
    ours, _ = _pair(reference, class_name, training=False)
    ids = _batch(class_name, padded=False)["input_ids"]

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = ours

        def forward(self, ids: Tensor) -> Tensor:
            return self.model(ids).logits  # type: ignore[no-any-return]

    traced = torch.jit.trace(Logits(), (ids,))
    assert_equal(traced(ids), ours(ids).logits)


LANGUAGE = [
    name
    for name, (_, kind) in HEADS.items()
    if kind in ("masked_lm", "causal_lm", "pretraining", "lm") or "ForMaskedLM" in name
]


@pytest.mark.parametrize("class_name", LANGUAGE)
def test_a_language_model_head_can_be_called_alone(class_name: str, reference: ModuleType) -> None:
    ours, _ = _pair(reference, class_name, training=False)
    hidden = torch.randn(B, S, ours.config.hidden_size, dtype=torch.float64)
    head = getattr(ours.head, "predictions", ours.head)
    embeddings = ours.get_input_embeddings()
    expected = head(hidden, embeddings)
    assert_equal(head(hidden), expected)
    assert head.decoder.weight is embeddings.weight
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        decoder = getattr(again.head, "predictions", again.head).decoder
        assert decoder.weight is again.get_input_embeddings().weight
        assert decoder.weight is not embeddings.weight
    ours.resize_token_embeddings(V + 3)
    assert head.decoder.weight is ours.get_input_embeddings().weight
    assert head(hidden).shape[-1] == V + 3


def test_both_heads_of_pretraining_as_one(reference: ModuleType) -> None:
    ours, theirs = _pair(reference, "BertForPreTraining", training=False)
    hidden, pooled = torch.randn(B, S, 24).double(), torch.randn(B, 24).double()
    for one, right in zip(ours.cls(hidden, pooled), theirs.cls(hidden, pooled), strict=True):
        assert_equal(one, right)
    ours, theirs = _pair(reference, "BertForMaskedLM", training=False)
    assert_equal(ours.cls(hidden), theirs.cls(hidden))
    assert_equal(ours.cls.predictions(hidden), theirs.cls.predictions(hidden))
    assert_equal(ours.cls.predictions.decoder(hidden), theirs.cls.predictions.decoder(hidden))
