"""Translators learn to copy and to reverse; the recurrent one also learns its alignment."""

import pytest
import torch
from torch import Tensor, nn

from heedful.decoding.search import Search
from heedful.models import RnnConfig, RnnSearch, Transformer, TransformerConfig

pytestmark = pytest.mark.slow

EOS, PAD, PIECES, LONGEST = 0, 1, 20, 8


def sequences(count: int, seed: int, backwards: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sequences of 3 to 8 pieces; return them, their mask, and the targets."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, LONGEST + 1, (count, 1), generator=generator)
    drawn = torch.randint(2, PIECES, (count, LONGEST + 1), generator=generator)
    places = torch.arange(LONGEST + 1)
    sources = (lengths - 1 - places).clamp(min=0) if backwards else places.expand_as(drawn)
    wanted = drawn.gather(1, sources).masked_fill(places == lengths, EOS)
    ids = drawn.masked_fill(places == lengths, EOS).masked_fill(places > lengths, PAD)
    return ids, (places <= lengths).long(), wanted.masked_fill(places > lengths, -100)


def learn(
    model: RnnSearch | Transformer, backwards: bool, *, steps: int, rate: float, beta: float
) -> None:
    """Train a model on new random sequences in each step."""
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.9, beta), fused=True)
    model.train()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(step / 50, 1 - step / steps)
        ids, mask, labels = sequences(64, 100 + step, backwards)
        optimizer.zero_grad()
        model(ids, mask, labels=labels).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


def share_right(model: RnnSearch | Transformer, backwards: bool, num_beams: int) -> float:
    """Return the share of new random sequences that the model translates correctly."""
    ids, mask, labels = sequences(500, 1, backwards)
    search = Search(eos_token_id=EOS, max_new_tokens=LONGEST + 2, num_beams=num_beams)
    found = model.generate(ids, mask, search=search)
    right = [[word for word in row if word not in (EOS, -100)] for row in labels.tolist()]
    exact = [list(text[0].tokens) == row for text, row in zip(found, right, strict=True)]
    return sum(exact) / len(exact)


@pytest.mark.parametrize(
    ("cell", "backwards"), [("gru", False), ("lstm", True)], ids=["gru copies", "lstm reverses"]
)
def test_the_recurrent_model_learns(cell: str, backwards: bool) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": PIECES, "embedding_width": 32, "hidden_width": 64}
    model = RnnSearch(RnnConfig(**sizes, cell=cell, dropout=0.0, pad_token_id=PAD))
    learn(model, backwards, steps=300, rate=5e-3, beta=0.999)
    assert share_right(model, backwards, num_beams=1) > 0.99

    # Each piece is written while its source is looked at.
    ids, mask, labels = sequences(500, 1, backwards)
    looked = model.align(ids, mask, labels).argmax(2)
    aligned = ids.gather(1, looked) == labels
    written = (labels != -100) & (labels != EOS)
    assert aligned[written].float().mean() > 0.9


@pytest.mark.parametrize(
    ("normalize_before", "backwards"),
    [(False, False), (True, True)],
    ids=["post-norm copies", "pre-norm reverses"],
)
def test_the_transformer_learns(normalize_before: bool, backwards: bool) -> None:
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            vocab_size=PIECES,
            d_model=64,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            dropout=0.0,
            pad_token_id=PAD,
            normalize_before=normalize_before,
        )
    )
    learn(model, backwards, steps=450, rate=2e-3, beta=0.98)
    assert share_right(model, backwards, num_beams=2) > 0.99
