import dataclasses
from typing import Any

import pytest
import torch
from tests.alike import assert_same_texts
from torch import Tensor, nn

from heedful.decoding.search import Search
from heedful.errors import UserError
from heedful.models import BertConfig, BertEncoderDecoder, BertLMHeadModel, BertModel

END = 3


def _decoder(still: BertConfig, **changes: Any) -> BertLMHeadModel:
    changes = {"is_decoder": True, "max_position_embeddings": 16} | changes
    model = BertLMHeadModel(dataclasses.replace(still, **changes)).double().eval()
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def _greedy(model: BertLMHeadModel, prompt: list[int], length: int) -> list[int]:
    """Recompute the whole text for each token, without a cache."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + length:
        word = int(model(torch.tensor([tokens])).logits[0, -1].argmax())
        if word == END:
            break
        tokens.append(word)
    return tokens[len(prompt) :]


@pytest.mark.parametrize("positions", ["absolute", "relative_key", "relative_key_query"])
def test_a_cached_text_is_the_one_without_a_cache(still: BertConfig, positions: str) -> None:
    model = _decoder(still, position_embedding_type=positions)
    prompts = [[2], [2, 7, 9, 4], [2, 5], [2, 8, 30, 6]]
    ids = nn.utils.rnn.pad_sequence([torch.tensor(prompt) for prompt in prompts], batch_first=True)
    mask = torch.arange(4) < torch.tensor([[len(prompt)] for prompt in prompts])
    search = Search(eos_token_id=END, max_new_tokens=8)
    found = model.generate(ids, mask, search=search)
    for prompt, (text,) in zip(prompts, found, strict=True):
        assert list(text.tokens) == _greedy(model, prompt, 8)
        assert_same_texts(model.generate(torch.tensor([prompt]), search=search), [[text]])


OPTIONS: list[dict[str, Any]] = [
    {"num_beams": 3, "num_return_sequences": 2},
    {"do_sample": True, "num_return_sequences": 2, "top_k": 20, "top_p": 0.95},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_scores_are_the_models(still: BertConfig, options: dict[str, Any]) -> None:
    model = _decoder(still)
    search = Search(eos_token_id=END, max_new_tokens=6, **options)
    for (start, *_), texts in zip(
        [[2], [7]], model.generate(torch.tensor([[2], [7]]), search=search), strict=True
    ):
        for text in texts:
            whole = torch.tensor([[start, *text.tokens, *([END] if text.ended else [])]])
            scores = model(whole).logits[0, :-1].log_softmax(-1)
            total = scores.gather(1, whole[0, 1:, None]).sum().item()
            assert text.log_probability == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_written_text_does_not_depend_on_its_neighbours(
    still: BertConfig, options: dict[str, Any]
) -> None:
    decoder = _decoder(still, add_cross_attention=True)
    encoder = BertModel(still).double().eval()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.3)
    model = BertEncoderDecoder(encoder, decoder, decoder_start_token_id=2).eval()
    ids = torch.randint(5, 50, (4, 9))
    lengths = torch.tensor([9, 3, 6, 1])
    mask = torch.arange(9) < lengths[:, None]
    search = Search(eos_token_id=END, max_new_tokens=6, **options)
    found = model.generate(ids, mask, search=search)
    if search.do_sample:  # the draws follow the number of an item
        found, ids, lengths = found[:1], ids[:1], lengths[:1]
    for row, length, texts in zip(ids, lengths.tolist(), found, strict=True):
        assert_same_texts(model.generate(row[None, :length], search=search), [texts])


IDS = torch.tensor([[2, 5, 6]])


@pytest.mark.parametrize(
    ("changes", "mask", "longest", "message"),
    [
        ({"is_decoder": False}, None, 4, "is_decoder is false in this model's config"),
        ({}, None, 15, "a prompt of 3 tokens and max_new_tokens 15 need 17 positions; .* has 16"),
        ({}, torch.tensor([[0, 1, 1]]), 4, "row 0 must be ones, then zeros, with at least a one"),
        ({}, torch.tensor([[0, 0, 0]]), 4, "row 0 must be ones, then zeros, with at least a one"),
        ({}, torch.tensor([[1, 1]]), 4, r"attention_mask has shape \(1, 2\); it must be \(1, 3\)"),
    ],
)
def test_what_cannot_be_continued_is_named(
    still: BertConfig, changes: dict[str, Any], mask: Tensor | None, longest: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        _decoder(still, **changes).generate(
            IDS, mask, search=Search(eos_token_id=END, max_new_tokens=longest)
        )


def test_as_many_tokens_as_there_are_positions(still: BertConfig) -> None:
    model = _decoder(still)
    search = Search(eos_token_id=END, max_new_tokens=14, min_new_tokens=13)
    ((text,),) = model.generate(IDS, search=search)
    assert len(text.tokens) >= 13
