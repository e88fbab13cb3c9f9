"""The Transformer learns to copy and to reverse."""

import pytest
import torch
from tests.system.test_rnn_learns import EOS, LONGEST, PAD, PIECES, sequences
from torch import nn

from heedful.decoding.search import Search
from heedful.models import Transformer, TransformerConfig


@pytest.mark.parametrize(
    ("normalize_before", "backwards"),
    [(False, False), (True, True)],
    ids=["post-norm copies", "pre-norm reverses"],
)
def test_it_learns(normalize_before: bool, backwards: bool) -> None:
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
    steps, rate = 450, 2e-3
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.9, 0.98), fused=True)
    model.train()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(step / 50, 1 - step / steps)
        ids, mask, labels = sequences(64, 100 + step, backwards)
        optimizer.zero_grad()
        model(ids, mask, labels=labels).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    model.eval()
    ids, mask, labels = sequences(500, 1, backwards)  # drawn apart from those that were learnt
    search = Search(eos_token_id=EOS, max_new_tokens=LONGEST + 2, num_beams=2)
    found = model.generate(ids, mask, search=search)
    right = [[word for word in row if word not in (EOS, -100)] for row in labels.tolist()]
    exact = [list(text[0].tokens) == row for text, row in zip(found, right, strict=True)]
    assert sum(exact) > 0.99 * len(exact)
