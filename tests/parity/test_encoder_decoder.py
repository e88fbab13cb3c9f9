"""Encoder-decoders equal the reference's: values, gradients, folders and generated texts."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from tests.parity.deberta import keep_float64
from tests.parity.equal import assert_equal
from tests.parity.families import ROWS, by_file_name
from torch import Tensor, nn

from heedful import models
from heedful.decoding.search import Search
from heedful.files import read_tensors
from heedful.models import FAMILIES, BertConfig, BertEncoderDecoder, BertLMHeadModel, BertModel

B, E, S, V, START = 3, 6, 5, 50, 2
SIZES = {**tiny.SIZES, **tiny.STILL, "max_position_embeddings": 16}
WRITES = {"is_decoder": True, "add_cross_attention": True}


def _models(reference: ModuleType, width: int = 24) -> tuple[BertEncoderDecoder, Any]:
    encoder, decoder = {**SIZES, "hidden_size": width}, {**SIZES, **WRITES}
    theirs = reference.EncoderDecoderModel(
        encoder=reference.BertModel(reference.BertConfig(**encoder, attn_implementation="eager")),
        decoder=reference.BertLMHeadModel(
            reference.BertConfig(**decoder, attn_implementation="eager")
        ),
    )
    theirs.config.decoder_start_token_id = START
    theirs.config.pad_token_id = 0
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = BertEncoderDecoder(
        BertModel(BertConfig(**encoder)),
        BertLMHeadModel(BertConfig(**decoder)),
        decoder_start_token_id=START,
    )
    names = {name for name, _ in theirs.named_parameters()}
    ours.load_state_dict({name: x for name, x in theirs.state_dict().items() if name in names})
    return ours.double().eval(), theirs.double().eval()


def _batch() -> dict[str, Tensor]:
    torch.manual_seed(1)
    return {
        "input_ids": torch.randint(V, (B, E)),
        "attention_mask": (torch.arange(E) < torch.tensor([[6], [4], [1]])).long(),
    }


def _labels() -> Tensor:
    labels = torch.randint(1, V, (B, S))
    return labels.masked_fill(torch.arange(S) >= torch.tensor([[5], [3], [2]]), -100)


@pytest.mark.parametrize("width", [24, 16])
@pytest.mark.filterwarnings("ignore")  # the reference warns of itself
def test_labels_alone(reference: ModuleType, width: int) -> None:
    ours, theirs = _models(reference, width)
    batch = _batch() | {"labels": _labels()}
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.loss, expected.loss)
    assert_equal(output.logits, expected.logits[batch["labels"] != -100])
    assert_equal(output.encoder_last_hidden_state, expected.encoder_last_hidden_state)
    output.loss.backward()
    expected.loss.backward()
    found = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        assert (found[name].grad is None) == (parameter.grad is None), name
        if parameter.grad is not None:
            assert_equal(found[name].grad, parameter.grad)  # type: ignore[arg-type]


def test_everything_that_is_returned(reference: ModuleType) -> None:
    ours, theirs = _models(reference)
    batch = _batch() | {
        "decoder_input_ids": torch.randint(V, (B, S)),
        "decoder_attention_mask": (torch.arange(S) < torch.tensor([[5], [3], [2]])).long(),
    }
    options = {"output_attentions": True, "output_hidden_states": True, "use_cache": False}
    output, expected = ours(**batch, **options), theirs(**batch, **options)
    assert output.keys() == list(expected.keys())
    for key, value in expected.items():
        pairs = (
            zip(output[key], value, strict=True)
            if isinstance(value, tuple)
            else [(output[key], value)]
        )
        for one, right in pairs:
            assert_equal(one, right)
    again = ours(**batch, encoder_outputs=ours.encoder(**_batch()))
    assert_equal(again.logits, expected.logits)
    start = ours(**_batch(), decoder_input_ids=batch["decoder_input_ids"][:, :2], use_cache=True)
    rest = ours(
        **_batch(),
        decoder_input_ids=batch["decoder_input_ids"][:, 2:],
        past_key_values=start.past_key_values,
    )
    assert_equal(rest.logits[0], expected.logits[0, 2:])


@pytest.mark.parametrize("width", [24, 16])
def test_folders_both_ways(reference: ModuleType, tmp_path: Path, width: int) -> None:
    ours, theirs = (model.float() for model in _models(reference, width))
    ours.save_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    written, given = (read_tensors(tmp_path / x / "model.safetensors") for x in ("ours", "theirs"))
    assert_same_bits(written, given, "stored")
    batch = _batch() | {"decoder_input_ids": torch.randint(V, (B, S))}
    again = BertEncoderDecoder.from_pretrained(tmp_path / "theirs")
    assert again.config == ours.config
    assert_same_bits(again(**batch).logits, ours(**batch).logits, "stored")
    read = reference.EncoderDecoderModel.from_pretrained(tmp_path / "ours").eval()
    assert read.config.decoder_start_token_id == START
    torch.testing.assert_close(read(**batch).logits, theirs(**batch).logits)


def test_a_start_that_the_search_alone_is_told(reference: ModuleType, tmp_path: Path) -> None:
    ours, theirs = (model.float() for model in _models(reference, 24))
    theirs.config.decoder_start_token_id = None
    theirs.generation_config.decoder_start_token_id = START
    theirs.save_pretrained(tmp_path)
    again = BertEncoderDecoder.from_pretrained(tmp_path)
    assert again.config == ours.config
    ids = _batch()["input_ids"][:1]
    read = reference.EncoderDecoderModel.from_pretrained(tmp_path).eval()
    expected = read.generate(ids, do_sample=False, max_new_tokens=4, eos_token_id=1)
    ((written,),) = again.generate(ids, search=Search(eos_token_id=1, max_new_tokens=4))
    assert [START, *written.tokens] == expected[0].tolist()[: len(written.tokens) + 1]


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 9},
        {"max_new_tokens": 7, "num_beams": 3, "num_return_sequences": 2},
        {"max_length": 7, "min_length": 5, "repetition_penalty": 1.5},
        {"no_repeat_ngram_size": 1, "num_beams": 2, "eos_token_id": None, "max_new_tokens": 5},
    ],
    ids=str,
)
def test_the_references_call_of_generate(
    reference: ModuleType, tmp_path: Path, options: Any
) -> None:
    _, theirs = _models(reference)
    theirs = theirs.float()
    batch = _batch() | {"token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 1]] * B)}
    theirs.generation_config.decoder_start_token_id = START
    theirs.generation_config.pad_token_id = 3  # with 0, its beam search pads with the end token
    plain = theirs.generate(**batch, max_new_tokens=5)
    for end in (1, int(plain[0, 3])):
        theirs.generation_config.eos_token_id = end
        theirs.save_pretrained(tmp_path)
        ours = BertEncoderDecoder.from_pretrained(tmp_path)
        expected = theirs.generate(**batch, **options)
        assert_same_bits(ours.generate(**batch, **options), expected, "whole numbers")
    ours.decoder_start_token_id = 5
    ours.save_pretrained(tmp_path / "changed")
    assert BertEncoderDecoder.from_pretrained(tmp_path / "changed").decoder_start_token_id == 5


def test_a_warm_start(
    reference: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = reference.BertForMaskedLM(reference.BertConfig(**SIZES)).eval()
    theirs.save_pretrained(tmp_path)
    ours = BertEncoderDecoder.from_encoder_decoder_pretrained(
        tmp_path, tmp_path, decoder_start_token_id=START
    )
    assert "crossattention" in caplog.text
    assert "cls." not in caplog.text
    ids = _batch()["input_ids"]
    expected = theirs.bert(ids).last_hidden_state
    torch.testing.assert_close(ours.encoder(ids).last_hidden_state, expected)
    assert ours.config.decoder.is_decoder
    assert ours.config.decoder.add_cross_attention
    found = ours.decoder.state_dict()
    for name, tensor in theirs.state_dict().items():
        if "decoder." not in name:
            assert_same_bits(found[name], tensor, "stored")
    fresh = found["bert.encoder.layer.0.crossattention.self.query.weight"]
    assert 0.01 < fresh.std() < 0.03


READS_AND_WRITES = [
    *((family, family) for family in ("electra", "ernie", "roberta", "xlm-roberta")),
    *(("albert", "bert"), ("bert", "gpt2"), ("deberta-v2", "roberta"), ("distilbert", "electra")),
    *(("mpnet", "bert"), ("roberta", "gpt2"), ("big_bird", "bert")),
]


def _mixed(reference: ModuleType, family: str, writer: str) -> tuple[BertEncoderDecoder, Any]:
    if family.startswith("deberta"):
        keep_float64()
    parts = []
    for kind, head, more in ((family, "body", {}), (writer, "causal_lm", WRITES)):
        values = ROWS[kind].sizes | more
        if kind == "gpt2":
            values = {name: values[name] for name in values if name != "is_decoder"}
        config, names = FAMILIES[kind].config, FAMILIES[kind].models
        theirs = getattr(reference, config)(**values, attn_implementation="eager")
        parts.append(
            (
                getattr(models, names[head])(getattr(models, config)(**values)),  # type: ignore[index]
                getattr(reference, names[head])(theirs),  # type: ignore[index]
            )
        )
    (our_encoder, their_encoder), (our_decoder, their_decoder) = parts
    theirs = reference.EncoderDecoderModel(encoder=their_encoder, decoder=their_decoder)
    theirs.config.decoder_start_token_id = START
    theirs.config.pad_token_id = our_decoder.config.pad_token_id
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = BertEncoderDecoder(our_encoder, our_decoder, decoder_start_token_id=START)
    weights = {name: value.detach().clone() for name, value in theirs.named_parameters()}
    report = ours.set_file_weights(weights, Path())
    assert report.fresh == report.unused == []
    return ours.double().eval(), theirs.double().eval()


@pytest.mark.parametrize(("family", "writer"), READS_AND_WRITES)
@pytest.mark.filterwarnings("ignore")  # the reference warns of itself
def test_parts_of_other_families(
    reference: ModuleType, tmp_path: Path, family: str, writer: str
) -> None:
    """Values and gradients, folders both ways, and generation from a cache."""
    ours, theirs = _mixed(reference, family, writer)
    batch = _batch()
    batch["input_ids"] = batch["input_ids"].clamp(min=4)
    written = torch.randint(4, V, (B, S))
    output = ours(**batch, decoder_input_ids=written, labels=written)
    expected = theirs(**batch, decoder_input_ids=written)
    assert_equal(output.logits.view(B, S, -1), expected.logits)
    expected.logits.sin().sum().backward()
    output.logits.sin().sum().backward()
    for part in ("encoder", "decoder"):
        mine = getattr(ours, part)
        grads = by_file_name(mine, {name: x.grad for name, x in mine.named_parameters()})
        for name, parameter in getattr(theirs, part).named_parameters():
            if parameter.grad is not None:
                assert_equal(grads[name], parameter.grad)
    start = ours(**batch, decoder_input_ids=written[:, :2], use_cache=True)
    rest = ours(**batch, decoder_input_ids=written[:, 2:], past_key_values=start.past_key_values)
    assert_equal(rest.logits, expected.logits[:, 2:])
    ours.float().save_pretrained(tmp_path / "ours")
    theirs.float().save_pretrained(tmp_path / "theirs")
    again = BertEncoderDecoder.from_pretrained(tmp_path / "theirs")
    read = reference.EncoderDecoderModel.from_pretrained(
        tmp_path / "ours", attn_implementation="eager"
    )
    for model in (again, read.eval()):
        torch.testing.assert_close(
            model(**batch, decoder_input_ids=written).logits, expected.logits.float()
        )


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_what_is_written(reference: ModuleType, num_beams: int, length_penalty: float) -> None:
    ours, theirs = _models(reference)
    options = {"num_beams": num_beams, "num_return_sequences": num_beams, "max_new_tokens": 7}
    end = 9
    with torch.no_grad():  # so that texts end
        ours.decoder.cls["predictions"].bias[end] += 1.0
        theirs.decoder.cls.predictions.bias[end] += 1.0
    given: dict[str, Any] = {}
    if num_beams > 1:
        given = {"length_penalty": length_penalty, "early_stopping": True}
    expected = theirs.generate(
        **_batch(),
        **options,
        **given,
        decoder_start_token_id=START,
        eos_token_id=end,
        pad_token_id=0,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
    )
    search = Search(eos_token_id=end, length_penalty=length_penalty, **options)
    found = [text for texts in ours.generate(**_batch(), search=search) for text in texts]
    for text, row in zip(found, expected.sequences.tolist(), strict=True):
        right = row[1 : row.index(end)] if end in row else row[1:]  # what follows is padding
        assert list(text.tokens) == right
        assert text.ended == (end in row)
    if num_beams > 1:
        scores = torch.tensor([text.score for text in found], dtype=torch.float64)
        torch.testing.assert_close(scores, expected.sequences_scores.double(), rtol=1e-5, atol=1e-5)
