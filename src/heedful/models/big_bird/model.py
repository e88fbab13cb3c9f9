"""BigBird (Zaheer et al. 2020): BERT's blocks, with block-sparse attention to long texts.

Shapes: B batch, S length, D model width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from heedful.layers.blocksparse import BlockSparse
from heedful.layers.feedforward import Intermediate
from heedful.layers.multihead import BIASES
from heedful.layers.residual import BlockOptions, Residual
from heedful.models import continuing, forwards, pretraining
from heedful.models.big_bird.config import BigBirdConfig
from heedful.models.encoder import Encoder, Variant, language_head
from heedful.models.heads import DenseSequenceHead, SequenceHead, SpanHead, TokenHead
from heedful.models.language_heads import PreTrainingHead
from heedful.models.outputs import QuestionAnsweringOutput
from heedful.models.with_head import ModelWithHead

_IN_FILES = {"pooler.dense": "pooler"}
"""Module names in a file, where they differ from the model's."""


class BigBirdModel(Encoder):
    """BigBird without a head.

    The output for a text does not depend on other texts of the batch, or on earlier calls. A
    decoder uses full attention for all texts.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to add a pooler.
    """

    config: BigBirdConfig
    prefix = "bert"
    file_names = _IN_FILES

    def __init__(self, config: BigBirdConfig, add_pooling_layer: bool = True) -> None:
        variant = Variant(
            attention_biases=BIASES if config.use_bias else frozenset({"output"}),
            word_scale=config.hidden_size**0.5 if config.rescale_embeddings else 1.0,
            sparse=_sparse(config),
        )
        super().__init__(config, add_pooling_layer, variant)

    def keep_blocks(self, indices: Sequence[int]) -> None:
        """Keep only the given blocks, and renumber their sparse attention; see ``Model``."""
        super().keep_blocks(indices)
        for number, block in enumerate(self.encoder.distinct):
            block.attention.self.set_block_index(number)


def _sparse(config: BigBirdConfig) -> BlockSparse | None:
    """Return the sparse attention to long texts; None if all texts get full attention."""
    sparse = BlockSparse(
        block_size=config.block_size,
        num_random=config.num_random_blocks,
        num_heads=config.num_attention_heads,
        positions=config.max_position_embeddings,
    )
    full = config.is_decoder or config.attention_type == "original_full"
    return None if full or config.max_position_embeddings <= sparse.max_full_length else sparse


class BigBirdForSequenceClassification(ModelWithHead):
    """BigBird with a two-layer classifier or regression on the first token."""

    bert: BigBirdModel

    def __init__(self, config: BigBirdConfig) -> None:
        head = DenseSequenceHead(
            config.hidden_size,
            config.num_labels,
            dropout=config.head_dropout,
            problem_type=config.problem_type,
            activation=config.hidden_act,
        )
        super().__init__(BigBirdModel(config), head, at="classifier")

    forward = forwards.classify


class BigBirdForMultipleChoice(ModelWithHead):
    """BigBird that scores each choice; a softmax runs over the choices of an example."""

    bert: BigBirdModel

    def __init__(self, config: BigBirdConfig) -> None:
        head = SequenceHead(config.hidden_size, 1, dropout=config.hidden_dropout_prob)
        super().__init__(BigBirdModel(config), head, at="classifier")

    forward = forwards.choose


class BigBirdForTokenClassification(ModelWithHead):
    """BigBird with a linear classifier on every token."""

    bert: BigBirdModel

    def __init__(self, config: BigBirdConfig) -> None:
        head = TokenHead(config.hidden_size, config.num_labels, dropout=config.head_dropout)
        super().__init__(BigBirdModel(config), head, at="classifier")

    forward = forwards.classify


class _AnswerHead(nn.Module):
    """Return start and end logits of each token, after one more feed-forward layer."""

    def __init__(self, config: BigBirdConfig) -> None:
        super().__init__()
        options = BlockOptions(
            width=config.hidden_size,
            head_width=config.hidden_size // config.num_attention_heads,
            inner_width=config.intermediate_size,
            activation=config.hidden_act,
            dropout=config.hidden_dropout_prob,
            attention_dropout=0.0,
            eps=config.layer_norm_eps,
        )
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.intermediate = Intermediate(options.width, options.inner_width, options.activation)
        self.output = Residual(options.inner_width, options)
        self.qa_outputs = SpanHead(config.hidden_size, config.num_labels)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits of shape (B, S, 2) for shape (B, S, D)."""
        inner = self.intermediate(self.dropout(hidden))
        logits: Tensor = self.qa_outputs(self.output(inner, hidden))
        return logits

    def loss(self, logits: Tensor, positions: Tensor) -> Tensor:
        """Return the mean loss of the start or of the end; see ``SpanHead``."""
        return self.qa_outputs.loss(logits, positions)


class BigBirdForQuestionAnswering(ModelWithHead):
    """BigBird that predicts the start and end of an answer span.

    An answer cannot start or end in the question, so the question's tokens get very low logits. The
    first token is an exception: it means that there is no answer.

    Raises:
        UserError: ``num_labels`` is not 2, one each for start and end.
    """

    bert: BigBirdModel

    def __init__(self, config: BigBirdConfig, add_pooling_layer: bool = False) -> None:
        body = BigBirdModel(config, add_pooling_layer)
        super().__init__(body, _AnswerHead(config), at="qa_classifier")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        question_lengths: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> QuestionAnsweringOutput:
        """Return the start and end logits of the answer; see ``forwards.find_span``.

        ``question_lengths`` are the numbers of tokens of the questions, special tokens included.
        Shape (B, 1). None counts the tokens up to the first ``sep_token_id``; with
        ``inputs_embeds``, no token then counts as part of a question. ``token_type_ids`` default to
        0 in the question and 1 after it, if the question lengths are known.
        """
        tokens = inputs_embeds if input_ids is None else input_ids
        if question_lengths is None and input_ids is not None:
            question_lengths = _question_lengths(input_ids, self.config.sep_token_id)
        in_question = None
        if question_lengths is not None and tokens is not None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
            in_question = positions < question_lengths  # (B, S)
            if token_type_ids is None:
                token_type_ids = (~in_question).long()
        encoded = self.body(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            head_mask=head_mask,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        logits = self.head(encoded.last_hidden_state)  # (B, S, 2)
        if in_question is not None:
            logits = logits - 1e6 * (in_question & (positions > 0))[..., None]
        return forwards.span_output(self, encoded, logits, start_positions, end_positions)


def _question_lengths(ids: Tensor, sep_id: int) -> Tensor:
    """Return the lengths up to the first separator, shape (B, 1), for ids of shape (B, S)."""
    return ids.eq(sep_id).int().argmax(1, keepdim=True) + 1


class BigBirdForMaskedLM(ModelWithHead):
    """BigBird that predicts the tokens at masked positions."""

    bert: BigBirdModel

    def __init__(self, config: BigBirdConfig) -> None:
        super().__init__(BigBirdModel(config), language_head(config), at="cls.predictions")

    forward = forwards.masked_lm


class BigBirdForCausalLM(ModelWithHead):
    """BigBird that predicts the next token, for a configuration with ``is_decoder``."""

    bert: BigBirdModel

    def __init__(self, config: BigBirdConfig) -> None:
        super().__init__(BigBirdModel(config), language_head(config), at="cls.predictions")

    forward = forwards.causal_lm
    generate = continuing.generate


class BigBirdForPreTraining(ModelWithHead):
    """BigBird with BERT's two pre-training heads: masked language model and next sentence."""

    bert: BigBirdModel

    def __init__(self, config: BigBirdConfig) -> None:
        head = PreTrainingHead(language_head(config), config.hidden_size)
        super().__init__(BigBirdModel(config), head, at="cls")

    forward = pretraining.pretrain
