"""GPT-2 (Radford et al. 2019): a decoder whose blocks normalise what they read.

Shapes: B batch, S length, D model width.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from heedful.models import forwards
from heedful.models.encoder import Encoder, Variant
from heedful.models.gpt2 import names
from heedful.models.gpt2.config import GPT2Config
from heedful.models.gpt2.double import ChoiceSummary, DoubleHead, predict_next_and_choose
from heedful.models.heads import LanguageHead, SpanHead, SummaryHead, TokenHead
from heedful.models.with_head import WithHead


class GPT2Model(Encoder):
    """GPT-2 without a head.

    Args:
        config: its sizes and options.
    """

    config: GPT2Config
    prefix = names.PREFIX
    in_files = names.IN_FILES

    def __init__(self, config: GPT2Config) -> None:
        variant = Variant(
            score_factors=config.score_factors,
            norm_before=True,
            word_types=True,
            embedding_dropout=config.embd_pdrop,
            learns_padding=True,
        )
        super().__init__(config, add_pooling_layer=False, variant=variant)
        # What 2 L parts add up to starts no larger than what one adds (section 2.3).
        with torch.no_grad():
            for block in self.encoder.distinct:
                for part in (block.attention.output, block.output):
                    part.dense.weight.mul_((2 * config.n_layer) ** -0.5)

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Take apart what a file keeps in one tensor, and turn what it keeps transposed."""
        return names.split(tensors)

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Do the reverse."""
        return names.join(weights)


def _next_words(config: GPT2Config) -> LanguageHead:
    return LanguageHead(
        None,
        piece_width=config.n_embd,
        vocab_size=config.vocab_size,
        tied=config.tie_word_embeddings,
        biased=False,
    )


class GPT2LMHeadModel(WithHead):
    """GPT-2 that says which token comes next."""

    transformer: GPT2Model
    head_in_files = names.LANGUAGE_HEAD

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(GPT2Model(config), _next_words(config), at="lm_head")

    forward = forwards.predict_next
    generate = forwards.generate


class GPT2DoubleHeadsModel(WithHead):
    """GPT-2 that says which token comes next, and which of several texts is the right one.

    The options ``summary_...`` of its configuration say what the number of a text is made of.
    ``summary_type`` is about the tokens of a text (in the reference all kinds but ``cls_index`` are
    about the texts of an item, and shapes do not fit).
    """

    transformer: GPT2Model
    head_in_files = names.TWO_HEADS

    def __init__(self, config: GPT2Config) -> None:
        if config.num_labels != 1:
            config = replace(config, num_labels=1, id2label={})
        head = DoubleHead(_next_words(config), ChoiceSummary(config))
        super().__init__(GPT2Model(config), head, at="heads")

    forward = predict_next_and_choose


class GPT2ForSequenceClassification(WithHead):
    """GPT-2 with a linear classifier, or regression, of the last token, which has read all.

    The last is the last that is not padding: by the mask, or without one by ``pad_token_id``, if
    the configuration has that.
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
            pad_id=config.pad_token_id,
        )
        super().__init__(GPT2Model(config), head, at="score")

    forward = forwards.classify


class GPT2ForTokenClassification(WithHead):
    """GPT-2 with a linear classifier of every token, which knows those before it."""

    transformer: GPT2Model

    def __init__(self, config: GPT2Config) -> None:
        head = TokenHead(config.n_embd, config.num_labels, dropout=config.head_dropout)
        super().__init__(GPT2Model(config), head, at="classifier")

    forward = forwards.classify


class GPT2ForQuestionAnswering(WithHead):
    """GPT-2 that says where in a text an answer starts and ends.

    Raises:
        UserError: ``num_labels`` is not 2, one for each end.
    """

    transformer: GPT2Model

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(
            GPT2Model(config), SpanHead(config.n_embd, config.num_labels), at="qa_outputs"
        )

    forward = forwards.find_span
