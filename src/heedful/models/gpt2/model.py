"""GPT-2 (Radford et al. 2019): a pre-norm decoder.

Shapes: B batch, S length, D model width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.models import continuing, forwards
from heedful.models.encoder import Encoder, Variant
from heedful.models.gpt2 import names
from heedful.models.gpt2.config import GPT2Config
from heedful.models.gpt2.double import ChoiceSummary, DoubleHead, predict_next_and_choose
from heedful.models.heads import SpanHead, SummaryHead, TokenHead
from heedful.models.language_heads import LanguageHead
from heedful.models.with_head import ModelWithHead


class NoGenerateError(UserError, AttributeError):
    """A method that a model does not have; Python calls it an `AttributeError`."""


class GPT2Model(Encoder):
    """GPT-2 without a head.

    Args:
        config: sizes and options.
    """

    config: GPT2Config
    prefix = names.PREFIX
    file_names = names.IN_FILES

    def __init__(self, config: GPT2Config) -> None:
        variant = Variant(
            score_factors=config.score_factors,
            is_pre_norm=True,
            word_types=True,
            embedding_dropout=config.embd_pdrop,
            train_padding_vector=True,
        )
        super().__init__(config, add_pooling_layer=False, variant=variant)
        # Keeps the sum of 2 L residual branches as large as one of them at the start (section 2.3).
        with torch.no_grad():
            for block in self.encoder.distinct:
                for part in (block.attention.output, block.output):
                    part.dense.weight.mul_((2 * config.n_layer) ** -0.5)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; ``h`` replaces the blocks."""
        if name == "h":
            self.encoder.layer = value
        else:
            super().__setattr__(name, value)

    @property
    def h(self) -> nn.Module:
        """The blocks, by their name in the reference."""
        return self.encoder.layer

    @property
    def wte(self) -> nn.Embedding:
        """The word embeddings, by their name in the reference."""
        return self.get_input_embeddings()

    def keep_blocks(self, indices: Sequence[int]) -> None:
        """Keep only the given blocks, with the score factors of their new numbers."""
        super().keep_blocks(indices)
        factors = self.config.score_factors
        for block, factor in zip(self.encoder.distinct, factors, strict=True):
            block.attention.self.score_factor = factor

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Split the joined weights of a file, and transpose those stored transposed."""
        return names.split(tensors)

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Undo ``from_file_layout``."""
        return names.join(weights)


def _language_head(config: GPT2Config) -> LanguageHead:
    return LanguageHead(
        None,
        piece_width=config.n_embd,
        vocab_size=config.vocab_size,
        tied=config.tie_word_embeddings,
        biased=False,
    )


class GPT2LMHeadModel(ModelWithHead):
    """GPT-2 that predicts the next token."""

    transformer: GPT2Model
    head_in_files = names.LANGUAGE_HEAD

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(GPT2Model(config), _language_head(config), at="lm_head")

    forward = forwards.causal_lm
    generate = continuing.generate


class GPT2DoubleHeadsModel(ModelWithHead):
    """GPT-2 that predicts the next token, and which of several texts is the right one.

    The options ``summary_...`` of the configuration control how a text's logit is computed. Here
    ``summary_type`` selects among the tokens of a text. In the reference all types but
    ``cls_index`` select among the texts of an example, and fail with a shape mismatch.
    """

    transformer: GPT2Model
    head_in_files = names.TWO_HEADS

    def __init__(self, config: GPT2Config) -> None:
        if config.num_labels != 1:
            config = replace(config, num_labels=1, id2label={})
        head = DoubleHead(_language_head(config), ChoiceSummary(config))
        super().__init__(GPT2Model(config), head, at="heads")

    forward = predict_next_and_choose

    def __getattr__(self, name: str) -> Any:
        if name == "generate":
            raise NoGenerateError(
                "GPT2DoubleHeadsModel does not generate; GPT2LMHeadModel.from_pretrained of the "
                "same folder does"
            )
        return super().__getattr__(name)


class GPT2ForSequenceClassification(ModelWithHead):
    """GPT-2 with a linear classifier or regression on the last token, which has seen all others.

    This is the last token that is not padding. Padding is given by the mask, or without a mask by
    ``pad_token_id`` if the configuration sets it.
    """

    transformer: GPT2Model

    def __init__(self, config: GPT2Config) -> None:
        head = SummaryHead(
            config.n_embd,
            config.num_labels,
            kind="last",
            project=False,
            activation=None,
            dropout=0.0,
            problem_type=config.problem_type,
            bias=False,
            padding_by_id=True,
        )
        super().__init__(GPT2Model(config), head, at="score")

    forward = forwards.classify


class GPT2ForTokenClassification(ModelWithHead):
    """GPT-2 with a linear classifier on every token, which sees only earlier tokens."""

    transformer: GPT2Model

    def __init__(self, config: GPT2Config) -> None:
        head = TokenHead(config.n_embd, config.num_labels, dropout=config.head_dropout)
        super().__init__(GPT2Model(config), head, at="classifier")

    forward = forwards.classify


class GPT2ForQuestionAnswering(ModelWithHead):
    """GPT-2 that predicts the start and end of an answer span.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    transformer: GPT2Model

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(
            GPT2Model(config), SpanHead(config.n_embd, config.num_labels), at="qa_outputs"
        )

    forward = forwards.find_span
