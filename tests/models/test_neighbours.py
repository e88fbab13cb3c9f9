"""A translation does not depend on its batch: the guarantee of ``generate``, in float32."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits

from heedful import (
    BertConfig,
    BertEncoderDecoder,
    BertLMHeadModel,
    BertModel,
    RnnConfig,
    RnnSearch,
    Search,
    Transformer,
    TransformerConfig,
)
from heedful.decoding.search import Hypothesis
from heedful.models import generation

PIECES, PAD, END = 60, 59, 0
Texts = list[list[Hypothesis]]
Model = Transformer | RnnSearch | BertEncoderDecoder | BertLMHeadModel


def transformer() -> Transformer:
    torch.manual_seed(1)
    config = TransformerConfig(
        vocab_size=PIECES,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
    )
    model = Transformer(config)
    _liven(model)
    return model.eval()


def recurrent() -> RnnSearch:
    torch.manual_seed(1)
    model = RnnSearch(RnnConfig(vocab_size=PIECES, embedding_width=16, hidden_width=16))
    _liven(model)
    return model.eval()


def _bert(**changes: bool) -> BertConfig:
    return BertConfig(
        vocab_size=PIECES,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        initializer_range=0.6,
        **changes,
    )


def reader_and_writer() -> BertEncoderDecoder:
    torch.manual_seed(1)
    writer = BertLMHeadModel(_bert(is_decoder=True, add_cross_attention=True))
    return BertEncoderDecoder(BertModel(_bert()), writer, decoder_start_token_id=1).eval()


def writer() -> BertLMHeadModel:
    torch.manual_seed(1)
    return BertLMHeadModel(_bert(is_decoder=True)).eval()


def _liven(model: torch.nn.Module) -> None:
    """Make the output depend on the input."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight *= 2


def sentences(count: int) -> list[list[int]]:
    draw = random.Random(0)
    return [[*draw.choices(range(1, PAD), k=draw.randrange(1, 7)), END] for _ in range(count)]


def in_batches(
    model: Model,
    texts: Sequence[list[int]],
    order: list[int],
    size: int,
    beam: int,
    sample: bool = False,
) -> Texts:
    search = Search(
        eos_token_id=END,
        max_new_tokens=4,
        num_beams=1 if sample else beam,
        num_return_sequences=beam,
        do_sample=sample,
    )
    found: dict[int, list[Hypothesis]] = {}
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        rows = [torch.tensor(texts[number]) for number in batch]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        mask = ids != PAD
        written = model.generate(ids, None if mask.all() else mask, search=search, item_seeds=batch)
        found |= dict(zip(batch, written, strict=True))
    return [found[number] for number in range(len(texts))]


@pytest.mark.parametrize(
    ("model", "beam"),
    [(transformer(), 3), (recurrent(), 2)],
    ids=["transformer", "recurrent"],
)
def test_many_sentences(model: Transformer | RnnSearch, beam: int) -> None:
    texts = sentences(400)
    order = list(range(400))
    alone = in_batches(model, texts, order, 1, beam)
    shuffled = random.Random(1).sample(order, 400)
    for places, size in ((order, 7), (shuffled, 64)):
        beside = in_batches(model, texts, places, size, beam)
        for one, other in zip(alone, beside, strict=True):
            assert [(text.tokens, text.ended) for text in one] == [
                (text.tokens, text.ended) for text in other
            ]
            for text, same in zip(one, other, strict=True):
                assert text.score == pytest.approx(same.score, abs=generation.MAX_ROUNDING_ERROR)
    assert len({texts[0].tokens for texts in alone}) > 50


def _count_calls(model: type[Model], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of texts of each call."""
    sizes: list[int] = []
    whole = model.generate

    def generate(self: Model, ids: torch.Tensor, *rest: Any, **named: Any) -> Texts:
        sizes.append(len(ids))
        return whole(self, ids, *rest, **named)

    monkeypatch.setattr(model, "generate", generate)
    return sizes


@pytest.mark.parametrize("sample", [False, True], ids=["beam", "sample"])
@pytest.mark.parametrize("make", [transformer, recurrent, reader_and_writer, writer])
def test_what_rounding_may_decide_is_written_alone(
    make: Callable[[], Model], sample: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, texts, order = make(), sentences(40), list(range(40))
    alone = in_batches(model, texts, order, 1, 3, sample)
    monkeypatch.setattr(generation, "MAX_ROUNDING_ERROR", 0.05)
    sizes = _count_calls(type(model), monkeypatch)
    beside = in_batches(model, texts, order, 20, 3, sample)
    close = [item for item in order if min(text.margin for text in beside[item]) < 0.05]
    assert 5 < len(close) < 35
    assert sorted(sizes) == [*[1] * len(close), 20, 20]
    for item in close:
        assert_same_bits(beside[item], alone[item], "same code")


def test_the_mask_that_was_given_stays_as_it_was() -> None:
    model = transformer()
    texts = [torch.tensor(text) for text in sentences(20)]
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PAD)
    mask = ids != PAD
    search = Search(eos_token_id=END, max_new_tokens=8, num_beams=2)
    found = model.generate(ids, mask, search=search)
    assert len({len(one.tokens) for (one,) in found}) > 2  # some items ended before others
    assert_same_bits(mask, ids != PAD, "whole numbers")


def test_half_precision_stays_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # It rounds so coarsely that most items would be written twice, and still not the same.
    monkeypatch.setattr(generation, "MAX_ROUNDING_ERROR", 1e9)
    sizes = _count_calls(Transformer, monkeypatch)
    ids = torch.tensor([[3, 4, END], [5, 6, END]])
    search = Search(eos_token_id=END, max_new_tokens=5)
    for dtype, calls in ((torch.bfloat16, [2]), (torch.float32, [2, 1, 1])):
        sizes.clear()
        transformer().to(dtype).generate(ids, search=search)
        assert sizes == calls


def test_prefixes_and_options_reach_what_is_written_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer()
    ids = torch.tensor([[5, 6, 7, END], [8, END, PAD, PAD]])
    search = Search(eos_token_id=END, max_new_tokens=5, num_beams=2, num_return_sequences=2)
    prefixes = [[3], [4, 9]]
    plain = model.generate(ids, ids != PAD, search=search, prefixes=prefixes)
    monkeypatch.setattr(generation, "MAX_ROUNDING_ERROR", 1e9)
    again = model.generate(ids, ids != PAD, search=search, prefixes=prefixes)
    for one, other, prefix in zip(plain, again, prefixes, strict=True):
        assert [text.tokens for text in one] == [text.tokens for text in other]
        assert all(list(text.tokens[: len(prefix)]) == prefix for text in other)


def test_token_types_reach_what_is_written_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader_and_writer()
    ids, kinds = torch.tensor([[5, 6, 7, 8], [9, 4, PAD, PAD]]), torch.tensor([[0, 0, 1, 1]] * 2)
    search = Search(eos_token_id=END, max_new_tokens=5)
    plain = model.generate(ids, ids != PAD, kinds, search=search)
    monkeypatch.setattr(generation, "MAX_ROUNDING_ERROR", 1e9)
    again = model.generate(ids, ids != PAD, kinds, search=search)
    assert [texts[0].tokens for texts in again] == [texts[0].tokens for texts in plain]
    other = model.generate(ids, ids != PAD, search=search)
    assert other[0][0].tokens != again[0][0].tokens
    assert other[1][0].tokens == again[1][0].tokens
