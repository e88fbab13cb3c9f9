"""How BigBird differs from BERT: it reads long texts by blocks, each text as if alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests import tiny
from tests.tiny_folders import write_folder
from torch import Tensor

import heedful
from heedful.compiled.kernels import encoder_kernel
from heedful.compiled.model import compile_model
from heedful.errors import UserError
from heedful.models import (
    FAMILIES,
    BertConfig,
    BertModel,
    BigBirdConfig,
    BigBirdForQuestionAnswering,
    BigBirdForSequenceClassification,
    BigBirdModel,
    load_model,
)

LENGTHS = [64, 29, 28, 40, 5]
"""Of which two are read as a whole."""


def _config(**changes: Any) -> BigBirdConfig:
    torch.manual_seed(0)
    blocks = {"block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 64}
    sizes = tiny.SIZES | tiny.STILL | blocks | {"initializer_range": 0.3, "sep_token_id": 3}
    return BigBirdConfig(**sizes | changes)


def _inputs() -> dict[str, Tensor]:
    torch.manual_seed(1)
    mask = torch.arange(64) < torch.tensor(LENGTHS)[:, None]
    return {"input_ids": torch.randint(50, mask.shape), "attention_mask": mask}


def test_published_sizes() -> None:
    sizes = FAMILIES["big_bird"].presets()
    for name, parameters in (("base", 127_468_800), ("large", 359_123_968)):
        with torch.device("meta"):
            assert BigBirdModel(BigBirdConfig(**sizes[name])).num_parameters() == parameters


@pytest.mark.parametrize("training", [False, True])
def test_a_text_gets_the_same_whatever_it_is_read_with(training: bool) -> None:
    model = BigBirdModel(_config()).double().train(training)
    inputs = _inputs()
    together = model(**inputs).last_hidden_state
    for row, length in enumerate(LENGTHS):  # long ones after short ones, and the reverse
        alone = model(inputs["input_ids"][row : row + 1, :length]).last_hidden_state
        torch.testing.assert_close(together[row, :length], alone[0])
    first = model(**inputs, only_first=True).last_hidden_state
    torch.testing.assert_close(first, together[:, :1])


def test_recomputing_gives_the_same_gradients() -> None:
    model = BigBirdModel(_config()).double().train()
    gradients = []
    for recompute in (False, True):
        model.gradient_checkpointing = recompute
        model.zero_grad()
        model(**_inputs()).pooler_output.square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*gradients)


def test_a_pruned_head_is_one_that_is_masked() -> None:
    model = BigBirdModel(_config()).double().train()
    mask = torch.ones(2, 4)
    mask[0, 1] = mask[1, 2] = 0
    masked = model(**_inputs(), head_mask=mask).last_hidden_state
    model.prune_heads({0: [1], 1: [2]})
    real = _inputs()["attention_mask"]
    torch.testing.assert_close(model(**_inputs()).last_hidden_state[real], masked[real])


@pytest.mark.parametrize("training", [False, True])
def test_the_map_of_a_long_text_says_what_was_read(training: bool) -> None:
    model = BigBirdModel(_config()).double().train(training)
    ids = _inputs()["input_ids"][:1]
    output = model(ids, output_attentions=True)
    torch.testing.assert_close(output.last_hidden_state, model(ids).last_hidden_state)
    for number, weights in enumerate(output.attentions):
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        blocks = weights.unflatten(3, (16, 4)).unflatten(2, (16, 4)).sum((3, 5)) > 0  # (1, H, N, N)
        drawn = model.encoder.blocks[number].attention.self.sparse.drawn(16)
        for head in range(4):
            for row in range(16):
                read = {0, 15, max(row - 1, 0), row, min(row + 1, 15)}
                if row in (0, 15):
                    read = {*range(16)}
                elif training:
                    read |= {*drawn[head, row - 1].tolist()}
                assert {*blocks[0, head, row].nonzero().squeeze(1).tolist()} == read


def test_where_texts_are_read_as_a_whole_it_is_a_bert() -> None:
    sizes = tiny.SIZES | tiny.STILL | {"max_position_embeddings": 64, "hidden_act": "gelu_new"}
    decoder = {"is_decoder": True, "add_cross_attention": True}
    inputs, encoded = _inputs(), torch.randn(5, 3, 24)
    for changes in ({"attention_type": "original_full"}, decoder):
        model = BigBirdModel(_config(**changes)).eval()
        own = {name: value for name, value in changes.items() if name in decoder}
        bert = BertModel(BertConfig(**sizes, **own)).eval()
        bert.load_state_dict(model.state_dict())
        more = {"encoder_hidden_states": encoded} if own else {}
        found, right = (one(**inputs, **more).last_hidden_state for one in (model, bert))
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_compiled_form_reads_by_blocks_too(precision: torch.dtype) -> None:
    if encoder_kernel(precision, torch.device("cpu"))[0] == "plain":
        pytest.skip("this CPU has no fast kernels")
    model = BigBirdForSequenceClassification(_config(num_labels=3, initializer_range=0.1))
    model = model.to(precision).eval()
    compiled = compile_model(model)
    body = compile_model(model.body)
    with torch.inference_mode():
        found, right = (one(**_inputs()).logits for one in (compiled.model, model))
        torch.testing.assert_close(found, right, rtol=0.05, atol=0.02)
        states, expected = (
            one(**_inputs()).last_hidden_state[_inputs()["attention_mask"]]
            for one in (body.model, model.body)
        )
    near = torch.cosine_similarity(states.float(), expected.float(), dim=-1)
    assert near.min() > (0.9999 if precision == torch.float32 else 0.98)


def test_a_student_draws_by_its_own_numbers() -> None:
    model = BigBirdModel(_config()).double().train()
    model.keep_blocks([1])
    short = BigBirdModel(model.config).double().train()
    short.load_state_dict(model.state_dict())
    real = _inputs()["attention_mask"]
    found, right = (one(**_inputs()).last_hidden_state[real] for one in (model, short))
    torch.testing.assert_close(found, right)


def test_no_answer_is_in_the_question() -> None:
    model = BigBirdForQuestionAnswering(_config(num_labels=2)).eval()
    ids = torch.tensor([[2, 7, 8, 3, 9, 10, 11, 3]])
    output = model(ids)
    assert (output.start_logits[0, 1:4] < -1e5).all()
    assert (output.end_logits[0, [0, 4, 5, 6, 7]] > -1e5).all()
    types = torch.tensor([[0] * 4 + [1] * 4])
    told = model(ids, question_lengths=torch.tensor([[4]]), token_type_ids=types)
    torch.testing.assert_close(told.start_logits, output.start_logits)
    vectors = model.get_input_embeddings()(ids)
    assert (model(inputs_embeds=vectors).start_logits > -1e5).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_type": "sparse"}, "unknown attention_type 'sparse'.*block_sparse"),
        ({"block_size": 0}, "block_size is 0"),
        ({"num_random_blocks": -1}, "num_random_blocks is -1"),
        ({"use_bias": 1}, "use_bias is 1; it must be true or false"),
        ({"position_embedding_type": "relative_key"}, "a BigBird supports only 'absolute'"),
        ({"sep_token_id": None}, "sep_token_id is None"),
    ],
)
def test_wrong_configurations_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)


def test_questions_are_answered(tmp_path: Path) -> None:
    write_folder("big_bird", tmp_path / "model", head="span", max_position_embeddings=64)
    model = load_model(tmp_path / "model")
    tokenizer = heedful.load_tokenizer(tmp_path / "model")
    batch = tokenizer("who sang?", "it was bob who sang.", return_tensors="pt")
    assert [*batch] == ["input_ids", "attention_mask"]
    hidden = model(**batch).start_logits[0] < -1e5
    question = batch["input_ids"][0].tolist().index(tokenizer.sep_token_id)
    assert hidden.tolist() == [False, *[True] * question, *[False] * (len(hidden) - 1 - question)]
