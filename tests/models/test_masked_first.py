"""A text that begins with padding is computed independently in training, as in evaluation."""

import torch

from heedful.models import BertConfig, BertForSequenceClassification


def test_a_row_whose_first_token_is_padding_reads_no_other_text() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(
        **sizes,
        vocab_size=50,
        intermediate_size=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForSequenceClassification(config).double()
    ids = torch.randint(1, 50, (3, 6))
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    other = ids.clone()
    other[0] = (other[0] + 7) % 49 + 1
    with torch.no_grad():
        plain = model.eval()(ids, mask).logits
        trained, beside = (model.train()(rows, mask).logits for rows in (ids, other))
    torch.testing.assert_close(trained, plain)
    torch.testing.assert_close(beside[1:], plain[1:])
