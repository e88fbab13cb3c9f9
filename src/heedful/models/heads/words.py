"""BERT that says which words stand where: masked ones, the next one.

The arguments that ``BertModel.forward`` has too are explained there. Logits are computed only where
they are asked for: at the places with a label, or at those in ``positions``.

Shapes: B batch, S length, V vocabulary, N places that are scored.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from heedful import losses
from heedful.decoding.search import Hypothesis, Search
from heedful.layers.cache import Cache
from heedful.models import generation, pretrained
from heedful.models.bert.config import BertConfig
from heedful.models.bert.model import BertModel
from heedful.models.heads import word_scores
from heedful.models.heads.body import WithHead
from heedful.models.heads.labels import class_loss
from heedful.models.outputs import LanguageModelOutput, PreTrainingOutput


class BertForMaskedLM(WithHead):
    """BERT that says which words stand at masked places (Devlin et al. 2019, section 3.1).

    Args:
        config: its sizes and options.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)
        self.cls = nn.ModuleDict({"predictions": word_scores.of_config(config)})
        pretrained.initialise(self.cls, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForMaskedLM]]" = classmethod(
        pretrained.from_pretrained
    )
    set_input_embeddings = word_scores.set_input_embeddings
    resize_token_embeddings = word_scores.resize_token_embeddings
    get_output_embeddings = word_scores.get_output_embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        positions: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> LanguageModelOutput:
        """Score the words at every place, logits of shape (B, S, V), or at some, shape (N, V).

        ``labels`` are the right words, or -100 for a place that is not scored. Shape (B, S).
        ``positions`` are the places to score where there are no labels, in the batch laid out as
        one row of B * S tokens. Shape (N,), int64.

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            head_mask=head_mask,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=encoder_attention_mask,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        hidden = encoded.last_hidden_state
        loss, logits, positions = word_scores.score_words(self, hidden, labels, positions)
        return LanguageModelOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
            cross_attentions=encoded.cross_attentions,
            positions=positions,
        )


class BertLMHeadModel(WithHead):
    """BERT that says which word comes next, for a configuration with ``is_decoder``.

    Args:
        config: its sizes and options.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)
        self.cls = nn.ModuleDict({"predictions": word_scores.of_config(config)})
        pretrained.initialise(self.cls, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertLMHeadModel]]" = classmethod(
        pretrained.from_pretrained
    )
    set_input_embeddings = word_scores.set_input_embeddings
    resize_token_embeddings = word_scores.resize_token_embeddings
    get_output_embeddings = word_scores.get_output_embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
        labels: Tensor | None = None,
        positions: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> LanguageModelOutput:
        """Score what follows every place, logits of shape (B, S, V), or some, shape (N, V).

        ``labels`` are the words of the text itself, or -100 for a word that is not scored. Shape
        (B, S). Each is scored at the place before it, so the first counts for nothing.
        ``positions`` are the places to score where there are no labels, in the batch laid out as
        one row of B * S tokens. Shape (N,), int64.

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            head_mask=head_mask,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=encoder_attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        if labels is not None:
            labels = F.pad(labels[:, 1:], (0, 1), value=losses.IGNORED)  # (B, S): of the next place
        hidden = encoded.last_hidden_state
        loss, logits, positions = word_scores.score_words(self, hidden, labels, positions)
        return LanguageModelOutput(
            loss=loss,
            logits=logits,
            past_key_values=encoded.past_key_values,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
            cross_attentions=encoded.cross_attentions,
            positions=positions,
        )

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        search: Search,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Continue each prompt; see ``generation.generate``.

        Args:
            input_ids: the prompts. Shape (B, S), S at least 1.
            attention_mask: 1 for a token and 0 for the padding after the last. Shape (B, S).
            search: how to look.
            numbers: see ``generation.generate``.
        """
        found = generation.generate(
            self, self.config, input_ids, attention_mask, search, numbers=numbers
        )
        return generation.settle_alone(found, self, input_ids, attention_mask, search, numbers)


class BertForPreTraining(WithHead):
    """BERT with the two heads that it was pre-trained with: masked words, next sentence.

    Args:
        config: its sizes and options.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config)
        self.cls = nn.ModuleDict(
            {
                "predictions": word_scores.of_config(config),
                "seq_relationship": nn.Linear(config.hidden_size, 2),
            }
        )
        pretrained.initialise(self.cls, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertForPreTraining]]" = classmethod(
        pretrained.from_pretrained
    )
    set_input_embeddings = word_scores.set_input_embeddings
    resize_token_embeddings = word_scores.resize_token_embeddings
    get_output_embeddings = word_scores.get_output_embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        positions: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> PreTrainingOutput:
        """Score words, at every place or some, and whether the second text follows the first.

        ``labels`` and ``positions`` are those of ``BertForMaskedLM``. ``next_sentence_label`` is 0
        where the second text follows the first, 1 where it does not. Shape (B,). Each kind of label
        may be given alone, and then decides the loss alone (the reference has no loss then).

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            head_mask=head_mask,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        hidden = encoded.last_hidden_state
        loss, logits, positions = word_scores.score_words(self, hidden, labels, positions)
        follows = self.cls["seq_relationship"](encoded.pooler_output)  # (B, 2)
        if next_sentence_label is not None:
            total, count = class_loss(follows, next_sentence_label)
            loss = total / count if loss is None else loss + total / count
        return PreTrainingOutput(
            loss=loss,
            prediction_logits=logits,
            seq_relationship_logits=follows,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
            positions=positions,
        )
