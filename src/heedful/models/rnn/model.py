"""Translation with recurrent networks and additive attention (Bahdanau et al. 2015).

Shapes: B batch, E source length, S target length, N hypotheses or scored positions, M embedding
width, H hidden width, V target vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from heedful import losses
from heedful.decoding.search import Hypothesis, Search
from heedful.decoding.search import search as generate_texts
from heedful.layers.additive import KeysAndValues
from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear, linear
from heedful.layers.masks import from_attention_mask
from heedful.layers.recurrent import (
    AttentiveDecoder,
    BidirectionalEncoder,
    Decoded,
    DecoderState,
    Encoded,
    Readout,
)
from heedful.models.generation import lengths_of, regenerate_close_calls
from heedful.models.inputs import check_ids, check_sequences
from heedful.models.model import Model
from heedful.models.outputs import TranslationOutput
from heedful.models.pretrained import LoadReport
from heedful.models.rnn.config import RnnConfig
from heedful.models.translation import (
    check_same_batch,
    decoder_inputs,
    initial_coverage,
    search_options,
    shifted,
    takes_search,
    translation_loss,
)
from heedful.models.weights import allocate, check_weights


@dataclass(frozen=True, kw_only=True, slots=True)
class RnnState:
    """State of the hypotheses of a search."""

    carry: DecoderState
    item_indices: Tensor
    """Item number of each hypothesis. Shape (N,)."""
    items: KeysAndValues
    """Attention memory of each item, of shape (B, ...)."""
    memory: KeysAndValues
    """Attention memory of each hypothesis, copied from its item. Of shape (N, ...)."""
    coverage: Tensor | None
    """Sum of the attention weights on each source token so far, if the search uses a coverage
    penalty. Padding counts as covered. Shape (N, E)."""

    def select(self, rows: Tensor) -> "RnnState":
        """Return the state of the selected hypotheses, in the given order.

        Args:
            rows: row numbers of the hypotheses. 1-D, int64.
        """
        owners = self.item_indices.index_select(0, rows)
        # In most steps hypotheses change places only within their item, and no item finishes.
        same_owners = torch.equal(owners, self.item_indices)
        return RnnState(
            carry=self.carry.select(rows),
            item_indices=owners,
            items=self.items,
            memory=self.memory if same_owners else self.items.select(owners),
            coverage=None if self.coverage is None else self.coverage.index_select(0, rows),
        )


class RnnSearch(Model):
    """A bidirectional encoder, and a decoder with additive attention to it.

    Args:
        config: sizes and options.
    """

    config: RnnConfig

    def __init__(self, config: RnnConfig) -> None:
        super().__init__()
        self.config = config
        embedding, hidden = config.embedding_width, config.hidden_width
        self.embeddings = nn.Embedding(
            config.vocab_size, embedding, padding_idx=config.pad_token_id
        )
        self.target_embeddings = None
        if not config.share_encoder_decoder_embeddings:
            self.target_embeddings = nn.Embedding(
                config.decoder_vocab_size, embedding, padding_idx=config.pad_token_id
            )
        self.encoder = BidirectionalEncoder(embedding, hidden, config.cell)
        self.decoder = AttentiveDecoder(embedding, hidden, 2 * hidden, config.cell)
        self.readout = Readout(hidden, 2 * hidden, embedding, config.dropout)
        self.output = None
        if not config.tie_word_embeddings:
            self.output = Linear(embedding, config.decoder_vocab_size, bias=False)
        self.output_bias = nn.Parameter(torch.empty(config.decoder_vocab_size))
        self.dropout = Dropout(config.dropout)
        self._initialise()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the source embeddings."""
        return self.embeddings

    def set_file_weights(
        self,
        tensors: Mapping[str, Tensor],
        folder: Path,
        *,
        fresh_head: bool = False,
        ignore_mismatched_sizes: bool = False,
    ) -> LoadReport:
        """Set every weight; see ``Model.set_file_weights``."""
        check_weights(tensors, self.state_dict(), folder)
        allocate(self)
        self.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        return LoadReport(fresh=[], unused=[])

    def _initialise(self) -> None:
        """Initialise the weights at random.

        Recurrent weights are orthogonal, gate by gate, as in the paper (appendix B.1). Other
        weight matrices follow Glorot and Bengio (2010), as the paper's initialisation suits only
        its optimizer. An LSTM's forget gate starts open (Jozefowicz et al. 2015).
        """
        hidden = self.config.hidden_width
        for name, weight in self.named_parameters():
            if name == "decoder.attention.score" or name.endswith("embeddings.weight"):
                nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
            elif weight.ndim == 1:
                nn.init.zeros_(weight)
                if self.config.cell == "lstm" and _is_recurrent(name):
                    nn.init.ones_(weight[hidden : 2 * hidden])
            elif _is_recurrent(name):
                for gate in weight.chunk(len(weight) // hidden):
                    nn.init.orthogonal_(gate)
            else:
                nn.init.xavier_uniform_(weight)
        with torch.no_grad():
            self.embeddings.weight[self.config.pad_token_id].zero_()
            if self.target_embeddings is not None:
                self.target_embeddings.weight[self.config.pad_token_id].zero_()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        reduction: losses.Reduction = "mean",
        return_attentions: bool = False,
    ) -> TranslationOutput:
        """Return the next-token logits at every target position, or at the labelled positions.

        Args:
            input_ids: source token ids; each text ends with EOS. Shape (B, E).
            attention_mask: 1 for a token, 0 for the padding at the end. Shape (B, E).
            decoder_input_ids: target token ids, after ``decoder_start_token_id``. Shape (B, S).
            labels: target token ids, each text with its EOS; -100 is ignored in the loss. Shape
                (B, S). Without ``decoder_input_ids``, the decoder reads the labels, shifted to the
                right.
            reduction: whether the loss is the mean or the sum over the labels.
            return_attentions: whether to return the cross-attention weights.

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        decoder_input_ids, positions = decoder_inputs(
            input_ids, decoder_input_ids, labels, self.config
        )
        encoded, memory = self._encode(input_ids, attention_mask)
        vectors, decoded = self._decode(decoder_input_ids, encoded, memory)
        chosen = slice(None) if positions is None else positions
        readout = self.readout(
            # From one row per step, (S, B, ...), to one row per sequence, (B, S, ...).
            decoded.hidden.transpose(0, 1).flatten(0, 1)[chosen],
            decoded.contexts.transpose(0, 1).flatten(0, 1)[chosen],
            vectors.flatten(0, 1)[chosen],
        )
        logits = self.score(readout)
        smoothing = self.config.label_smoothing if self.training else 0.0
        loss = translation_loss(logits, labels, positions, smoothing, reduction)
        if labels is None:
            logits = logits.view(*decoder_input_ids.shape, -1)
        weights = decoded.weights.transpose(0, 1)[:, None]  # (B, 1, S, E)
        return TranslationOutput(
            loss=loss,
            logits=logits,
            positions=positions,
            encoder_last_hidden_state=memory.values,
            cross_attentions=(weights,) if return_attentions else None,
        )

    @takes_search
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        search: Search,
        item_seeds: Sequence[int] | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Generate a text for each source text; see ``decoding.search``.

        Args:
            input_ids: source token ids. Shape (B, E).
            attention_mask: mask of the source. Shape (B, E).
            search: search options. The padding token is never generated.
            item_seeds: see ``decoding.search``.
            prefixes: for each item, the token ids that its text must begin with.

        Raises:
            UserError: an argument has a wrong shape, type or value, or a text may become longer
                than the model supports.
        """
        options = search_options(search, self.config)
        encoded, memory = self._encode(input_ids, attention_mask)
        items = torch.arange(len(input_ids), device=input_ids.device)
        state = RnnState(
            carry=self.decoder.start(encoded.last, memory),
            item_indices=items,
            items=memory,
            memory=memory,
            coverage=initial_coverage(memory.values, memory.mask)
            if search.coverage_penalty
            else None,
        )
        first = torch.full_like(items, self.config.decoder_start_token_id)
        hypotheses = generate_texts(self._step, state, first, options, item_seeds, prefixes)
        return regenerate_close_calls(
            hypotheses, self, input_ids, attention_mask, search, item_seeds, prefixes
        )

    @torch.inference_mode()
    def align(self, input_ids: Tensor, attention_mask: Tensor | None, target_ids: Tensor) -> Tensor:
        """Return the attention weights on the source tokens when each target token is generated.

        Args:
            input_ids: source token ids. Shape (B, E).
            attention_mask: mask of the source. Shape (B, E).
            target_ids: target token ids, each text with its EOS, then -100. Shape (B, S).

        Returns:
            Shape (B, S, E); each row sums to 1.
        """
        encoded, memory = self._encode(input_ids, attention_mask)
        _, decoded = self._decode(shifted(target_ids, self.config), encoded, memory)
        weights: Tensor = decoded.weights.transpose(0, 1)
        return weights

    def _step(self, tokens: Tensor, state: RnnState) -> tuple[Tensor, RnnState]:
        """Return the next tokens' logits and the new state, as a ``ScoreFunction``."""
        vectors = self.embed_target(tokens)
        decoded = self.decoder(vectors[:, None], state.carry, state.memory)
        logits = self.score(self.readout(decoded.hidden[0], decoded.contexts[0], vectors))
        coverage = None if state.coverage is None else state.coverage + decoded.weights[0]
        return logits, replace(state, carry=decoded.carry, coverage=coverage)

    def _encode(
        self, input_ids: Tensor, attention_mask: Tensor | None
    ) -> tuple[Encoded, KeysAndValues]:
        """Encode the source, and prepare the attention memory."""
        check_ids("input_ids", input_ids, self.config.vocab_size)
        batch, length = self._check_shape("input_ids", input_ids)
        lengths = lengths_of(input_ids, attention_mask)
        mask = None
        if attention_mask is not None:
            mask = from_attention_mask(attention_mask, batch=batch, queries=1, keys=length)[:, 0, 0]
        vectors = self.dropout(self._to_compute_dtype(self.embeddings(input_ids)))
        encoded = self.encoder(vectors, lengths)
        states = self.dropout(encoded.states)
        return encoded, self.decoder.attention.prepare(states, mask)

    def _decode(
        self, ids: Tensor, encoded: Encoded, memory: KeysAndValues
    ) -> tuple[Tensor, Decoded]:
        """Run the decoder over the target.

        Returns:
            The target's embeddings, shape (B, S, M), and the decoder's output.
        """
        check_ids("decoder_input_ids", ids, self.config.decoder_vocab_size)
        self._check_shape("decoder_input_ids", ids)
        check_same_batch(encoded.last, ids)
        vectors = self.embed_target(ids)
        decoded: Decoded = self.decoder(vectors, self.decoder.start(encoded.last, memory), memory)
        return vectors, decoded

    def embed_target(self, ids: Tensor) -> Tensor:
        """Return the embeddings of target token ids. Shape (..., M) for shape (...)."""
        table = self.target_embeddings or self.embeddings
        dropped: Tensor = self.dropout(self._to_compute_dtype(table(ids)))
        return dropped

    def score(self, readout: Tensor) -> Tensor:
        """Return the logits. Shape (N, V) for shape (N, M)."""
        table = self.output or self.target_embeddings or self.embeddings
        return linear(readout, self._to_compute_dtype(table.weight), self.output_bias)

    def _to_compute_dtype(self, vectors: Tensor) -> Tensor:
        """Cast embeddings, whose table may have a wider dtype, to the dtype of the layers."""
        return vectors.to(self.output_bias.dtype)

    def _check_shape(self, name: str, ids: Tensor) -> tuple[int, int]:
        return check_sequences(name, ids, self.config.max_position_embeddings)


def _is_recurrent(name: str) -> bool:
    """Return whether a parameter belongs to a linear layer applied to the previous hidden state."""
    return name.startswith(
        ("encoder.forwards.hidden", "encoder.backwards.hidden", "decoder.hidden")
    )
