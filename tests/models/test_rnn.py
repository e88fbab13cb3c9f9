"""The recurrent model against plain loops over one sentence at a time, in float64."""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.exact import assert_same_bits
from torch import Tensor, nn
from torch.func import functional_call
from torch.testing import assert_close

from heedful.decoding.search import Search
from heedful.models import RnnConfig, RnnSearch
from heedful.training.gradients import NarrowWeights

SIZES: dict[str, Any] = {"vocab_size": 13, "embedding_width": 6, "hidden_width": 8, "dropout": 0.0}
SEPARATE = {
    "share_encoder_decoder_embeddings": False,
    "tie_word_embeddings": False,
    "decoder_vocab_size": 11,
}
PAD, EOS = 10, 0
SOURCE_LENGTHS, TARGET_LENGTHS = (5, 7, 1, 3), (4, 2, 6, 1)


def model_of(options: dict[str, Any] | None = None) -> RnnSearch:
    torch.manual_seed(0)
    model = RnnSearch(RnnConfig(**{**SIZES, "pad_token_id": PAD, **(options or {})})).double()
    for parameter in model.parameters():
        # Large enough to tell one hypothesis from another, biases too.
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Return sources, their mask, and labels, padded on both sides."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, PAD, (4, 7), generator=generator)
    labels = torch.randint(1, PAD, (4, 6), generator=generator)
    mask = torch.zeros(4, 7, dtype=torch.long)
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        mask[row, :source] = 1
        ids[row, source:] = PAD
        ids[row, source - 1] = EOS
        labels[row, target - 1] = EOS
        labels[row, target:] = -100
    return ids, mask, labels


def read_alone(model: RnnSearch, vectors: Tensor) -> Tensor:
    """Run the encoder's cells over one sentence, forwards and backwards. Shape (E, 2 H)."""
    width = model.config.hidden_width
    cell: Any = (nn.GRUCell if model.config.cell == "gru" else nn.LSTMCell)(vectors.shape[1], width)
    both = []
    for backwards in (False, True):
        direction = model.encoder.backwards if backwards else model.encoder.forwards
        weights = {
            "weight_ih": direction.input.weight,
            "weight_hh": direction.hidden.weight,
            "bias_ih": direction.input.bias,
            "bias_hh": direction.hidden.bias,
        }
        state, states = None, []
        for vector in vectors.flip(0) if backwards else vectors:
            state = functional_call(cell, weights, (vector, state))
            states.append(state if isinstance(state, Tensor) else state[0])
        both.append(torch.stack(states[::-1] if backwards else states))
    return torch.cat(both, 1)


def write_alone(model: RnnSearch, ids: list[int], words: list[int]) -> tuple[Tensor, Tensor]:
    """Return the logits after each word, (S, V), and the attention, (S, E)."""
    config, decoder, readout = model.config, model.decoder, model.readout
    width = config.hidden_width
    states = read_alone(model, model.embeddings.weight[ids])
    initial = torch.tanh(decoder.initial.weight @ states[0, width:] + decoder.initial.bias)
    hidden, kept = initial[:width], initial[width:]
    table = (model.target_embeddings or model.embeddings).weight
    scores = table if model.output is None else model.output.weight
    cell: Any = nn.GRUCell if config.cell == "gru" else nn.LSTMCell
    cell = cell(config.embedding_width + 2 * width, width)
    weights = {
        "weight_ih": torch.cat([decoder.word.weight, decoder.context.weight], 1),
        "weight_hh": decoder.hidden.weight,
        "bias_ih": decoder.word.bias,
        "bias_hh": decoder.hidden.bias,
    }
    context, logits, attended = states.new_zeros(2 * width), [], []
    for word in words:
        vector = F.embedding(torch.tensor(word), table, padding_idx=PAD)
        given = torch.cat([vector, context])
        if config.cell == "gru":
            hidden = functional_call(cell, weights, (given, hidden))
        else:
            hidden, kept = functional_call(cell, weights, (given, (hidden, kept)))
        attention = decoder.attention
        compared = attention.query(hidden) + attention.key(states)  # (E, A)
        attended.append((torch.tanh(compared) @ attention.score).softmax(0))
        context = attended[-1] @ states
        pairs = readout.hidden(hidden) + readout.context(context) + readout.word(vector)
        best = pairs.view(2, -1).amax(0)
        logits.append(scores @ best + model.output_bias)
    return torch.stack(logits), torch.stack(attended)


def plain_loss(model: RnnSearch, smoothing: float = 0.0) -> Tensor:
    ids, _, labels = batch()
    total = torch.zeros((), dtype=torch.float64)
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        right = labels[row, :target]
        words = [PAD, *right[:-1].tolist()]
        logits, _ = write_alone(model, ids[row, :source].tolist(), words)
        total += F.cross_entropy(logits, right, reduction="sum", label_smoothing=smoothing)
    return total / sum(TARGET_LENGTHS)


def gradients(model: RnnSearch, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("tie", [True, False])
def test_it_is_a_plain_loop_over_each_sentence(cell: str, share: bool, tie: bool) -> None:
    options = {"share_encoder_decoder_embeddings": share, "tie_word_embeddings": tie}
    model = model_of({"cell": cell, **options})
    ids, mask, labels = batch()
    output = model(ids, mask, labels=labels, return_attentions=True)
    expected = plain_loss(model)
    assert_close(output.loss, expected)
    right = gradients(model, expected)
    for name, gradient in gradients(model, output.loss).items():
        assert_close(gradient, right[name], msg=lambda text, name=name: f"{name}: {text}")
    start = 0
    for row, target in enumerate(TARGET_LENGTHS):
        source = SOURCE_LENGTHS[row]
        words = [PAD, *labels[row, : target - 1].tolist()]
        logits, attended = write_alone(model, ids[row, :source].tolist(), words)
        assert_close(output.logits[start : start + target], logits)
        places = torch.arange(target) + row * labels.shape[1]
        assert_same_bits(output.positions[start : start + target], places, "whole numbers")
        weights = output.cross_attentions[0][row, 0, :target]
        assert_close(weights[:, :source], attended)
        assert not weights[:, source:].any()
        start += target


@pytest.mark.parametrize("training", [True, False])
def test_labels_are_smoothed_in_training_alone(training: bool) -> None:
    model = model_of({"label_smoothing": 0.2}).train(training)
    ids, mask, labels = batch()
    loss = model(ids, mask, labels=labels).loss
    assert_close(loss, plain_loss(model, 0.2 if training else 0.0))
    total = model(ids, mask, labels=labels, reduction="sum").loss
    assert_close(total, loss * (labels != -100).sum())


def test_target_words_may_be_given_apart_from_labels() -> None:
    model = model_of()
    ids, mask, labels = batch()
    scored = model(ids, mask, labels=labels)
    words = torch.cat([torch.full((4, 1), PAD), labels[:, :-1]], 1)
    words[words == -100] = PAD
    whole = model(ids, mask, decoder_input_ids=words)
    assert whole.logits.shape == (4, 6, 13)
    assert (whole.loss, whole.positions, whole.cross_attentions) == (None, None, None)
    assert_close(whole.logits.flatten(0, 1)[scored.positions], scored.logits)
    both = model(ids, mask, decoder_input_ids=words, labels=labels)
    assert_close(both.loss, scored.loss)
    assert_close(both.logits, scored.logits)
    others = model(ids, mask, decoder_input_ids=words.flip(1), labels=labels)
    assert not torch.allclose(others.logits, scored.logits)


def test_dropout_is_drawn_in_training_alone() -> None:
    model = model_of({"dropout": 0.5})
    ids, mask, labels = batch()

    def loss(seed: int) -> float:
        torch.manual_seed(seed)
        return model(ids, mask, labels=labels).loss.item()

    assert_same_bits(loss(0), loss(1), "same code")
    model.train()
    assert_same_bits(loss(0), loss(0), "same code")
    assert loss(0) != pytest.approx(loss(1))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("apart", [{}, SEPARATE])
def test_narrow_copies_of_the_weights_train_it(cell: str, apart: dict[str, Any]) -> None:
    model = model_of({"cell": cell, **apart}).float().train()
    ids, mask, labels = batch()
    loss = model(ids, mask, labels=labels).loss
    right = gradients(model, loss)
    narrow = NarrowWeights(model, torch.bfloat16)
    output: Any = narrow.forward(input_ids=ids, attention_mask=mask, labels=labels)
    assert output.logits.dtype == torch.bfloat16
    assert output.loss.item() == pytest.approx(loss.item(), rel=0.02)
    output.loss.backward()
    narrow.collect()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        alike = F.cosine_similarity(parameter.grad.flatten(), right[name].flatten(), 0)
        assert alike > 0.99, name


# What is written.

LONGEST = 3


def all_texts(model: RnnSearch) -> list[tuple[tuple[int, ...], bool]]:
    """Return every text that can be generated, and whether it ends."""
    words = [n for n in range(model.config.decoder_vocab_size) if n not in (PAD, EOS)]
    texts = []
    for length in range(LONGEST + 1):
        texts += [(text, length < LONGEST) for text in itertools.product(words, repeat=length)]
    return texts


def log_probabilities(
    model: RnnSearch, ids: Tensor, texts: list[tuple[tuple[int, ...], bool]]
) -> tuple[Tensor, Tensor]:
    """Score texts as a whole; also return the summed attention to each source token."""
    rows = [[*text, *([EOS] if ended else [])] for text, ended in texts]
    labels = torch.tensor([row + [-100] * (LONGEST - len(row)) for row in rows])
    source = ids.expand(len(rows), -1)
    output = model(source, labels=labels, return_attentions=True)
    scores = output.logits.log_softmax(-1).new_zeros(labels.numel())
    right = labels.flatten()[output.positions]
    found = output.logits.log_softmax(-1).gather(1, right[:, None]).squeeze(1)
    scores[output.positions] = found
    attended = output.cross_attentions[0].squeeze(1) * (labels != -100)[..., None]
    return scores.view_as(labels).sum(1), attended.sum(1)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("coverage", [0.0, 0.3])
@torch.inference_mode()
def test_a_beam_that_holds_all_finds_the_likeliest(cell: str, coverage: float) -> None:
    model = model_of({"cell": cell, "vocab_size": 6, "pad_token_id": 5})
    ids = torch.tensor([[4, 2, 3, EOS], [1, 1, EOS, 5]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    options = Search(
        eos_token_id=EOS,
        max_new_tokens=LONGEST,
        num_beams=100,
        num_return_sequences=5,
        coverage_penalty=coverage,
    )
    for row, found in enumerate(model.generate(ids, mask, search=options)):
        alone = ids[row : row + 1, : int(mask[row].sum())]
        texts = [text for text in all_texts(model) if 5 not in text[0]]
        log_probability, attended = log_probabilities(model, alone, texts)
        lengths = torch.tensor([len(text) + ended for text, ended in texts])
        scores = log_probability / lengths
        scores = scores + coverage * attended.clamp(max=1).log().sum(1)
        best = scores.topk(5)
        assert [(h.tokens, h.ended) for h in found] == [texts[n] for n in best.indices.tolist()]
        assert [h.score for h in found] == pytest.approx(best.values.tolist())
        expected = log_probability[best.indices].tolist()
        assert [h.log_probability for h in found] == pytest.approx(expected)


@torch.inference_mode()
def test_a_beam_of_one_takes_the_likeliest_word_each_time() -> None:
    model = model_of()
    ids, mask, _ = batch()
    options = Search(eos_token_id=EOS, max_new_tokens=8)
    for row, (found,) in enumerate(model.generate(ids, mask, search=options)):
        source = ids[row : row + 1, : SOURCE_LENGTHS[row]]
        words = [PAD]
        while len(words) < 9 and (words[-1] != EOS or len(words) == 1):
            logits = model(source, decoder_input_ids=torch.tensor([words])).logits[0, -1]
            logits[PAD] = -torch.inf
            words.append(int(logits.argmax()))
        assert [*found.tokens, *([EOS] if found.ended else [])] == words[1:]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_text_does_not_depend_on_its_neighbours(beam: int) -> None:
    model = model_of()
    ids, mask, _ = batch()
    options = Search(
        eos_token_id=EOS, max_new_tokens=20, num_beams=beam, coverage_penalty=0.2 * (beam > 1)
    )
    together = model.generate(ids, mask, search=options)
    assert len({text[0].tokens for text in together}) == 4
    for row, length in enumerate(SOURCE_LENGTHS):
        (alone,) = model.generate(ids[row : row + 1, :length], search=options)
        assert alone[0].tokens == together[row][0].tokens
        assert alone[0].score == pytest.approx(together[row][0].score)


def test_texts_begin_with_their_prefixes_and_go_on_from_them() -> None:
    model = model_of()
    ids, mask, _ = batch()
    prefixes = [[3, 4], [], [5], [1, 2, 3]]
    options = Search(eos_token_id=EOS, max_new_tokens=6)
    for row, (found,) in enumerate(model.generate(ids, mask, search=options, prefixes=prefixes)):
        prefix = tuple(prefixes[row])
        assert found.tokens[: len(prefix)] == prefix
        labels = torch.tensor([[*found.tokens, *([EOS] if found.ended else [])]])
        source = ids[row : row + 1, : SOURCE_LENGTHS[row]]
        loss = model(source, labels=labels).loss * labels.numel()
        assert found.log_probability == pytest.approx(-loss.item())


def test_draws_depend_on_the_number_of_the_item_alone() -> None:
    model = model_of()
    ids, mask, _ = batch()
    options = Search(eos_token_id=EOS, max_new_tokens=8, do_sample=True, num_return_sequences=3)
    four = model.generate(ids, mask, search=options)
    rows = torch.tensor([2, 0])
    two = model.generate(ids[rows], mask[rows], search=options, item_seeds=[2, 0])
    assert [[text.tokens for text in item] for item in two] == [
        [text.tokens for text in four[row]] for row in (2, 0)
    ]


def test_targets_are_aligned_with_sources() -> None:
    model = model_of()
    ids, mask, labels = batch()
    aligned = model.align(ids, mask, labels)
    assert_close(aligned.sum(2), torch.ones(4, 6, dtype=torch.float64))
    assert not aligned.masked_select(mask[:, None] == 0).any()
    assert_close(
        aligned, model(ids, mask, labels=labels, return_attentions=True).cross_attentions[0][:, 0]
    )
