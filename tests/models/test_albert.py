"""How ALBERT differs from BERT: layers share blocks, which exist once."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from tests.tiny_folders import write_folder

import heedful
from heedful.compiled import int8
from heedful.compiled.int8_layers import calibration_rows
from heedful.compiled.kernels import encoder_kernel
from heedful.compiled.model import compile_model
from heedful.errors import UserError
from heedful.files import read_json, read_tensors, write_json
from heedful.models import (
    FAMILIES,
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
    AlbertModel,
    BertConfig,
    BertModel,
    load_model,
)
from heedful.training.gradients import NarrowWeights

L, D, H = 3, 24, 4
SIZES: dict[str, Any] = {**tiny.SIZES, **tiny.STILL, "num_hidden_layers": L, "embedding_size": D}
CPU = torch.device("cpu")


def _config(**changes: Any) -> AlbertConfig:
    torch.manual_seed(0)
    sizes = SIZES | {"initializer_range": 0.3, "classifier_dropout_prob": 0.0}
    return AlbertConfig(**sizes | changes)


def _inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    mask = torch.arange(9) < torch.tensor([[9], [4], [2], [7]])
    return {"input_ids": torch.randint(50, (4, 9)), "attention_mask": mask.long()}


def _as_bert(model: AlbertModel) -> BertModel:
    """Return a BERT whose layers have the same weights, each its own copy."""
    with torch.no_grad():
        assert model.embeddings.project is not None
        model.embeddings.project.weight.copy_(torch.eye(D))
        model.embeddings.project.bias.zero_()
    sizes = {name: value for name, value in SIZES.items() if name != "embedding_size"}
    bert = BertModel(BertConfig(**sizes, hidden_act="gelu_new")).to(next(model.parameters()).dtype)
    weights = {n: x for n, x in model.state_dict().items() if not n.startswith("embeddings.proj")}
    for number, block in enumerate(model.config.block_numbers):
        start = f"encoder.layer.{block}."
        for name, weight in model.state_dict().items():
            if name.startswith(start):
                weights[f"encoder.layer.{number}.{name.removeprefix(start)}"] = weight
    bert.load_state_dict(weights)
    return bert


def test_published_sizes() -> None:
    sizes = FAMILIES["albert"].presets()
    for name, parameters in (
        ("base", 11_683_584),
        ("large", 17_683_968),
        ("xlarge", 58_724_864),
        ("xxlarge", 222_595_584),
    ):
        with torch.device("meta"):
            assert AlbertModel(AlbertConfig(**sizes[name])).num_parameters() == parameters


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("only_first", [False, True])
def test_gradients_of_shared_weights_are_the_sums_of_a_berts(
    only_first: bool, recompute: bool
) -> None:
    albert = AlbertModel(_config()).double().train()
    bert = _as_bert(albert).train()
    albert.gradient_checkpointing = recompute
    mask = torch.rand(H, dtype=torch.float64)
    outputs = []
    for model in (albert, bert):  # padding is left out where the first token is all that is wanted
        output = model(**_inputs(), head_mask=mask, only_first=only_first)
        rows = slice(None) if only_first else _inputs()["attention_mask"] == 1
        outputs.append(output.last_hidden_state[rows])
        outputs[-1].square().sum().backward()
    torch.testing.assert_close(*outputs)
    theirs = dict(bert.named_parameters())
    for name, parameter in albert.encoder.layer[0].named_parameters():
        each = [theirs[f"encoder.layer.{layer}.{name}"].grad for layer in range(L)]
        assert all(grad is not None for grad in each)
        torch.testing.assert_close(parameter.grad, sum(each), rtol=1e-8, atol=1e-10)


def test_options_beyond_the_reference_are_those_of_bert() -> None:
    albert = AlbertModel(_config(chunk_size_feed_forward=2)).double().eval()
    bert = _as_bert(albert).eval()
    ids = _inputs()["input_ids"]
    rows = (torch.rand(4, 9, 9) < 0.5).long()  # one row a query, some with nothing to attend to
    found, right = (model(ids, rows).last_hidden_state for model in (albert, bert))
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("recompute", [False, True])
def test_narrow_copies_of_shared_weights(recompute: bool) -> None:
    model = AlbertForSequenceClassification(_config(num_labels=3)).train()
    batch = {**_inputs(), "labels": torch.tensor([0, 1, 2, 0])}
    model(**batch).loss.backward()
    wide = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    model.gradient_checkpointing = recompute
    narrow = NarrowWeights(model, torch.bfloat16)
    output: Any = narrow.forward(**batch)
    output.loss.backward()
    narrow.collect()
    for name, parameter in model.named_parameters():
        right = wide[name]
        assert right is not None
        if right.norm() > 1e-3:
            likeness = torch.cosine_similarity(parameter.grad.flatten(), right.flatten(), dim=0)
            assert likeness > 0.98, name
            assert 0.9 < parameter.grad.norm() / right.norm() < 1.1, name


@pytest.mark.parametrize("head", ["body", "sequence", "token"])
def test_a_shared_block_is_compiled_once(head: Any) -> None:
    if encoder_kernel(torch.float32, CPU)[0] == "plain":
        pytest.skip("this CPU has no fast kernels")
    config = _config(num_hidden_layers=4, num_hidden_groups=2)
    model = FAMILIES["albert"].model_class(head)(config).eval()
    compiled = compile_model(model)
    blocks = compiled.model.body.encoder.blocks  # type: ignore[union-attr, attr-defined]
    assert [blocks.index(block) for block in blocks] == [0, 0, 2, 2]
    with torch.inference_mode():
        found, right = (one(**_inputs())[0] for one in (compiled.model, model))
    if found.shape[1] == 9:
        found, right = (states[_inputs()["attention_mask"] == 1] for states in (found, right))
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)


def test_a_shared_block_is_made_whole_numbers_once() -> None:
    if not int8.is_supported(CPU)[0]:
        pytest.skip(int8.is_supported(CPU)[1])
    model = AlbertForSequenceClassification(_config(num_labels=3, initializer_range=0.1)).eval()
    rows = calibration_rows([2], [3], vocab_size=50, positions=12)
    compiled = compile_model(model, lambda: rows)
    assert compiled.kernel == "int8"
    blocks = compiled.model.body.encoder.blocks  # type: ignore[union-attr, attr-defined]
    assert len(blocks) == L
    assert len({id(block) for block in blocks}) == 1
    with torch.inference_mode():
        found, right = (one(**_inputs()).logits for one in (compiled.model, model))
    assert torch.cosine_similarity(found.flatten(), right.flatten(), dim=0) > 0.99


def test_a_head_is_pruned_in_every_layer_that_shares_it() -> None:
    model = AlbertModel(_config(num_hidden_groups=2)).eval()  # layers 0 and 1, and layer 2
    assert model.config.block_numbers == (0, 0, 1)
    assert model.head_masks() == {"head_mask": (2, H)}
    mask = torch.ones(2, H)
    mask[0, 2] = 0
    masked = model(**_inputs(), head_mask=mask).last_hidden_state
    model.prune_heads({0: [2]})
    assert model.config.pruned_heads == {0: [2]}
    torch.testing.assert_close(model(**_inputs()).last_hidden_state, masked)
    attentions = model(**_inputs(), output_attentions=True).attentions
    assert [weights.shape[1] for weights in attentions] == [H - 1, H - 1, H]
    with pytest.raises(UserError, match=r"there is no block 2 to prune; there are 0 to 1"):
        model.prune_heads({2: [0]})
    with pytest.raises(UserError, match=r"head_mask has shape \(3, 4\); it must be \(4,\) or"):
        model(**_inputs(), head_mask=torch.ones(3, H))


def test_a_folder_with_published_keys(tmp_path: Path) -> None:
    model = AlbertForPreTraining(_config(embedding_size=8)).eval()
    model.save_pretrained(tmp_path / "model")
    assert "encoder.albert_layer_groups.0.albert_layers.0.ffn.weight" in "\n".join(
        read_tensors(tmp_path / "model" / "model.safetensors")
    )
    path = tmp_path / "model" / "config.json"
    values = read_json(path)
    assert "is_decoder" not in values
    old = {"gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0, "layers_to_keep": []}
    write_json(path, values | old | {"down_scale_factor": 1, "bos_token_id": 2})
    again = load_model(tmp_path / "model")
    assert again.config == model.config
    assert_same_bits(again.state_dict(), model.state_dict(), "stored")
    words = AlbertForMaskedLM.from_pretrained(tmp_path / "model")
    labels = torch.tensor([0, 1, 0, 1])
    output = again(**_inputs(), sentence_order_label=labels)
    torch.testing.assert_close(words(**_inputs()).logits, output.prediction_logits)
    right = torch.nn.functional.cross_entropy(output.sop_logits, labels)
    torch.testing.assert_close(output.loss, right)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_groups": 4}, "num_hidden_groups is 4; there are 3 layers"),
        ({"inner_group_num": 0}, "inner_group_num"),
        ({"is_decoder": True}, "is_decoder is True; albert supports only False"),
        ({"classifier_dropout_prob": 1.0}, "classifier_dropout_prob"),
        ({"pruned_heads": {1: [0]}}, "pruned_heads"),
    ],
)
def test_wrong_configurations_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)


def test_explanations_show_the_attention_of_every_layer(tmp_path: Path) -> None:
    write_folder("albert", tmp_path / "model", num_hidden_layers=3, hidden_dropout_prob=0.0)
    rows = [{"text": word, "label": word} for word in ("red", "blue")] * 4
    out, options = tmp_path / "run", {"batch_size": 4, "precision": "fp32"}
    heedful.train(
        "classify", train=rows, out=out, model=str(tmp_path / "model"), steps=2, **options
    )
    more = tmp_path / "pruned"
    heedful.train("classify", train=rows, out=more, model=str(out), steps=2, prune=0.5, **options)
    run = heedful.load(more)
    assert [len(heads) for heads in run.model.config.pruned_heads.values()] == [1]
    (head,) = run.model.config.pruned_heads[0]
    explanation = heedful.explain(run, "red", method="gradient-x-input", attention=True)
    attention = explanation.attention[0]
    assert attention.weights.shape[:2] == (3, 2)
    assert attention.gone == ((0, head), (1, head), (2, head))
