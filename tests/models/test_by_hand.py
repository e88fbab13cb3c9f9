"""Code for the reference calls layers alone, and uses the reference's helpers for their masks."""

import copy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers
from tests.exact import assert_same_bits
from torch import Tensor, nn

import heedful
from heedful.errors import UserError

IDS = torch.arange(5, 17).view(2, 6)
MASK = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
SIZES: dict[str, Any] = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a BERT for both libraries."""
    path = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    heedful.BertForPreTraining(heedful.BertConfig(**SIZES)).save_pretrained(path)
    return path


def stack(model: Any) -> Any:
    """Call the stack with the mask of the model."""
    hidden = model.embeddings(IDS)
    mask = model.get_extended_attention_mask(MASK, MASK.shape)
    output = model.encoder(hidden, mask)
    vectors = model.embeddings(inputs_embeds=model.get_input_embeddings()(IDS))
    torch.testing.assert_close(vectors, hidden)
    return output[0], model.pooler(output.last_hidden_state)


def states(model: Any) -> Any:
    """Ask the stack for states and weights, with a factor on each head."""
    heads = model.get_head_mask(torch.tensor([1.0, 0.5]), 3)
    output = model.encoder(
        model.embeddings(IDS),
        attention_mask=(1.0 - MASK[:, None, None, :]) * -10000.0,
        head_mask=heads,
        output_hidden_states=True,
        output_attentions=True,
    )
    plain = model.encoder(model.embeddings(IDS), head_mask=[None] * 3, return_dict=False)
    return output.hidden_states, output.attentions, [*output.keys()], plain, heads


def layers(model: Any) -> Any:
    """Call one layer after the other."""
    hidden, mask = model.embeddings(IDS), (1.0 - MASK[:, None, None, :]) * -10000.0
    for layer in model.encoder.layer[:2]:
        hidden = layer(hidden, mask)[0]
    last = model.encoder.layer[2](hidden, mask, output_attentions=True)
    masked = model.encoder.layer[0](hidden, head_mask=torch.zeros(1, 2, 1, 1))[0]
    return hidden, last, masked


def helpers(model: Any) -> Any:
    """Use what the reference's models have besides their calls."""
    per_query = MASK[:, None, :].expand(2, 6, 6)
    return [
        model.get_extended_attention_mask(per_query, MASK.shape),
        model.get_extended_attention_mask(MASK, MASK.shape, dtype=torch.float64),
        *(model.invert_attention_mask(MASK), model.invert_attention_mask(per_query)),
        *(model.get_head_mask(None, 2), model.base_model_prefix, model.base_model is model),
        *(model.num_parameters(exclude_embeddings=True), model.get_output_embeddings()),
    ]


def parts(result: Any) -> list[Any]:
    """Return the values of nested results."""
    values = result.to_tuple() if hasattr(result, "to_tuple") else result
    if not isinstance(values, tuple | list):
        return [values]
    return [one for value in values for one in parts(value)]


def compare(ours: Any, theirs: Any) -> None:
    """Compare nested results."""
    for our, their in zip(parts(ours), parts(theirs), strict=True):
        if isinstance(their, Tensor):
            torch.testing.assert_close(our, their)
        else:
            assert our == their


@pytest.mark.parametrize("call", [stack, states, layers, helpers])
def test_layers_alone_compute_what_the_reference_does(
    folder: Path, call: Callable[[Any], Any]
) -> None:
    options = {"attn_implementation": "eager"}
    libraries: tuple[ModuleType, ...] = (heedful, transformers)
    compare(*(call(lib.BertModel.from_pretrained(folder, **options)) for lib in libraries))


def decode(model: Any) -> Any:
    """Call the layers of a decoder with cross-attention."""
    body, encoded = model.bert, torch.linspace(-1, 1, 80).view(2, 5, 8)
    mask = body.get_extended_attention_mask(MASK, MASK.shape)
    seen = body.invert_attention_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]))
    hidden = body.embeddings(IDS)
    whole = body.encoder(hidden, mask, None, encoded, seen, use_cache=False)
    return mask, whole[0], body.encoder.layer[0](hidden, mask, None, encoded, seen)[0]


def test_a_decoders_layers(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = heedful.BertConfig(**SIZES, is_decoder=True, add_cross_attention=True)
    heedful.BertLMHeadModel(config).save_pretrained(tmp_path)
    ours = heedful.BertLMHeadModel.from_pretrained(tmp_path)
    compare(decode(ours), decode(transformers.BertLMHeadModel.from_pretrained(tmp_path)))
    # Without a mask, attention is causal.
    hidden, encoded = ours.bert.embeddings(IDS), torch.zeros(2, 5, 8)
    whole = ours.bert.encoder(hidden, encoder_hidden_states=encoded, use_cache=True)
    part = ours.bert.encoder(hidden[:, :4], encoder_hidden_states=encoded, use_cache=True)
    torch.testing.assert_close(whole[0][:, :4], part[0])
    past = part.past_key_values
    rest = ours.bert.encoder(hidden[:, 4:], past_key_values=past, encoder_hidden_states=encoded)
    torch.testing.assert_close(whole[0][:, 4:], rest[0])


def test_a_mask_of_ones_is_not_taken_for_scores(folder: Path) -> None:
    model = heedful.BertModel.from_pretrained(folder)
    hidden = model.embeddings(IDS)
    with pytest.raises(UserError, match=r"shape \(2, 6\); layers called alone take four dimens"):
        model.encoder(hidden, MASK)
    with pytest.raises(UserError, match=r"as model\.invert_attention_mask"):
        model.encoder.layer[0](hidden, encoder_attention_mask=MASK)
    with pytest.raises(UserError, match="alone has no argument 'atention_mask'"):
        model.encoder.layer[0](hidden, atention_mask=None)
    with pytest.raises(UserError, match="give either input_ids or inputs_embeds"):
        model.embeddings(IDS, inputs_embeds=hidden)
    with pytest.raises(UserError, match="it must have 2 or 3 dimensions"):
        model.get_extended_attention_mask(MASK[0])
    seen = MASK[:, None, None, :].bool()
    expected = model(IDS, attention_mask=MASK)[0][1]
    torch.testing.assert_close(model.encoder(hidden, seen)[0][1], expected)


def test_init_weights_draws_only_new_modules(folder: Path) -> None:
    for library in (heedful, transformers):
        model = library.BertForSequenceClassification.from_pretrained(folder)
        before = copy.deepcopy(model.state_dict())
        model.init_weights()
        model.classifier = nn.Linear(8, 3)
        nn.init.constant_(model.classifier.weight, 7)
        model.post_init()
        assert model.classifier.weight.abs().max() < 1
        assert model.classifier.bias.tolist() == [0, 0, 0]
        for name, value in model.bert.state_dict().items():
            assert_same_bits(value, before[f"bert.{name}"], "stored")
        model.apply(model._init_weights)
        changed = model.bert.pooler.dense.weight - before["bert.pooler.dense.weight"]
        assert changed.abs().max() > 1e-3


def test_the_output_layer_shares_its_weights(folder: Path) -> None:
    model = heedful.BertForMaskedLM.from_pretrained(folder)
    layer = model.get_output_embeddings()
    assert layer is not None
    assert layer.weight is model.get_input_embeddings().weight
    assert layer.bias is model.cls.predictions.bias
    hidden = model.bert(IDS)[0]
    logits = layer(model.cls.predictions.transform(hidden))
    torch.testing.assert_close(logits, model(IDS).logits)


@pytest.mark.parametrize("family", ["Roberta", "Electra", "MPNet", "Albert", "DebertaV2", "GPT2"])
def test_a_stack_alone_computes_what_the_model_does(family: str) -> None:
    torch.manual_seed(0)
    of_gpt2 = {"vocab_size": 20, "n_embd": 8, "n_layer": 3, "n_head": 2, "n_positions": 12}
    config = getattr(heedful, f"{family}Config")(**(of_gpt2 if family == "GPT2" else SIZES))
    model = getattr(heedful, f"{family}Model")(config).eval()
    hidden, mask = model.embeddings(IDS), model.get_extended_attention_mask(MASK)
    found, expected = model.encoder(hidden, mask)[0], model(IDS, attention_mask=MASK)[0]
    kept = MASK.bool()
    torch.testing.assert_close(found[kept], expected[kept])
    torch.testing.assert_close(model.encoder(hidden)[0], model(IDS)[0])
