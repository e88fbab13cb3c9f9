"""Models computed by ONNX Runtime: the model interface of tasks, backed by exported graphs.

The same evaluation code can thus score a run with its own model and with ONNX Runtime.

Shapes: B batch, S length, E encoder length, N scored positions, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from heedful.decoding.search import Hypothesis, Search
from heedful.interop.onnx.graphs import (
    DECODER,
    DECODER_WITH_PAST,
    ENCODER,
    FILES,
    MODEL,
    PAST,
    PRESENT,
)
from heedful.interop.source import Source
from heedful.models import BertEncoderDecoder, RnnSearch, Transformer, generation
from heedful.models.decoders import EncoderOutput
from heedful.models.labels import labelled_positions
from heedful.models.model import Model
from heedful.models.outputs import (
    BertModelOutput,
    ClassifierOutput,
    LanguageModelOutput,
    Output,
    PreTrainingOutput,
    QuestionAnsweringOutput,
    SentenceOrderOutput,
)
from heedful.models.translation import decoder_inputs, search_options

Outputs = dict[str, Tensor]


class Session:
    """A loaded graph in ONNX Runtime."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only
        options.intra_op_num_threads = torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [port.name for port in self._session.get_inputs()]
        self.outputs = [port.name for port in self._session.get_outputs()]

    def __call__(self, tensors: Mapping[str, Tensor]) -> Outputs:
        """Compute all outputs. Tensors that are not inputs of the graph are ignored."""
        inputs = {}
        for name in self.inputs:
            tensor = tensors[name].cpu()
            inputs[name] = (tensor.long() if tensor.dtype == torch.bool else tensor).numpy()
        computed = self._session.run(None, inputs)
        return {
            name: torch.from_numpy(array)
            for name, array in zip(self.outputs, computed, strict=True)
        }


class RunnableGraph(Protocol):
    """A graph that a runtime computes."""

    inputs: list[str]

    def __call__(self, tensors: Mapping[str, Tensor]) -> Outputs:
        """Compute all outputs. Tensors that are not inputs of the graph are ignored."""


def open_model(
    source: Source,
    folder: Path,
    open_graph: Callable[[Path], RunnableGraph] = Session,
    suffix: str = ".onnx",
) -> "OnnxModel":
    """Open the graphs of a folder as a replacement for the original model.

    Args:
        source: the source with the model.
        folder: the folder with the graphs.
        open_graph: opens a graph file.
        suffix: the file extension of the graphs.
    """
    files = {name: (folder / name).with_suffix(suffix) for name in FILES}
    graphs = {name: open_graph(path) for name, path in files.items() if path.is_file()}
    if ENCODER in graphs or source.generates:
        return OnnxGenerator(source.model, graphs)
    if source.reads_images:
        return OnnxImageModel(source.model, graphs[MODEL])
    return OnnxEncoder(source.model, graphs[MODEL])


class OnnxImageModel:
    """An image model with a head.

    Args:
        model: the original model.
        graph: the graph of the model.
    """

    def __init__(self, model: Model, graph: RunnableGraph) -> None:
        self.config = model.config
        self._session = graph

    def outputs(self, batch: Mapping[str, Tensor]) -> Outputs:
        """Return all outputs for a batch."""
        return self._session(batch)

    def __call__(self, pixel_values: Tensor) -> Output:
        """Compute the output of the model's ``forward``; see ``models/images.py``."""
        return _as_output(self._session({"pixel_values": pixel_values}), None)


class OnnxEncoder:
    """An encoder with a head.

    Args:
        model: the original model.
        graph: the graph of the model.
    """

    def __init__(self, model: Model, graph: RunnableGraph) -> None:
        self.config = model.config
        self._session = graph

    def outputs(self, batch: Mapping[str, Tensor]) -> Outputs:
        """Return all outputs for a batch with all inputs."""
        return self._session(batch)

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Output:
        """Compute the output of the model's ``forward``; see ``models/forwards.py``."""
        if position_ids is not None:
            texts = _Apart.of(input_ids, attention_mask, position_ids)
            inputs = {"input_ids": texts.ids, "attention_mask": texts.mask}
            outputs = self._session(inputs | {"token_type_ids": torch.zeros_like(texts.ids)})
            return _as_output({"logits": texts.together(outputs["logits"])}, positions)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        outputs = self._session(
            {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": types}
        )
        return _as_output(outputs, positions)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Apart:
    """The texts of packed rows, unpacked into one row per text."""

    ids: Tensor
    """Shape (N, T)."""
    mask: Tensor
    """1 for a token, 0 for padding. Shape (N, T)."""
    inside: Tensor
    """True for positions that are in the packed rows. Shape (N, T), bool."""
    shape: torch.Size
    """(B, S)."""

    @classmethod
    def of(cls, ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor) -> "_Apart":
        """Unpack rows into texts.

        Args:
            ids: shape (B, S).
            attention_mask: one row per query. Shape (B, S, S).
            position_ids: at the start of each text the same first position, which is not 0 in
                every family. Shape (B, S).
        """
        assert attention_mask is not None
        real = attention_mask.diagonal(dim1=1, dim2=2)  # (B, S): no padding attends to itself
        starts = (position_ids.flatten() == position_ids[0, 0]).nonzero().squeeze(1)
        texts = [*torch.tensor_split(torch.stack([ids.flatten(), real.flatten()], 1), starts[1:])]
        padded = nn.utils.rnn.pad_sequence(texts, batch_first=True)  # (N, T, 2)
        inside = nn.utils.rnn.pad_sequence([text[:, 0] * 0 + 1 for text in texts], True).bool()
        tokens, mask = padded.unbind(2)
        return cls(ids=tokens, mask=mask, inside=inside, shape=ids.shape)

    def together(self, logits: Tensor) -> Tensor:
        """Pack the logits of the texts, shape (N, T, ...), into rows, (B, S, ...)."""
        return logits[self.inside].view(*self.shape, *logits.shape[2:])


def _as_output(outputs: Outputs, positions: Tensor | None) -> Output:
    """Return the outputs in the model's output class; token logits only at ``positions``."""
    if "last_hidden_state" in outputs:
        return BertModelOutput(last_hidden_state=outputs["last_hidden_state"])
    if "start_logits" in outputs:
        return QuestionAnsweringOutput(
            start_logits=outputs["start_logits"], end_logits=outputs["end_logits"]
        )
    if "sop_logits" in outputs:
        return SentenceOrderOutput(
            prediction_logits=_at(outputs["prediction_logits"], positions),
            sop_logits=outputs["sop_logits"],
            positions=positions,
        )
    if "prediction_logits" in outputs:
        return PreTrainingOutput(
            prediction_logits=_at(outputs["prediction_logits"], positions),
            seq_relationship_logits=outputs["seq_relationship_logits"],
            positions=positions,
        )
    if positions is None:
        return ClassifierOutput(logits=outputs["logits"])
    return LanguageModelOutput(logits=_at(outputs["logits"], positions), positions=positions)


def _at(logits: Tensor, positions: Tensor | None) -> Tensor:
    return logits if positions is None else logits.flatten(0, 1)[positions]


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxPast:
    """The cache of a decoder."""

    tensors: Outputs
    """Cached tensors, by the graphs' input names."""

    def select(self, rows: Tensor) -> "OnnxPast":
        """Return the sequences at the given indices, shape (N,), possibly with repetitions."""
        return OnnxPast(
            tensors={name: tensor.index_select(0, rows) for name, tensor in self.tensors.items()}
        )


class OnnxGenerator:
    """A model that generates text.

    Args:
        model: the original model.
        graphs: the graphs of the model, by file name.
    """

    def __init__(self, model: Any, graphs: Mapping[str, RunnableGraph]) -> None:
        self._model = model
        self.config = model.config
        self.max_positions: int = model.max_positions
        self._encoder = graphs.get(ENCODER)
        self._decoder = graphs[MODEL if self._encoder is None else DECODER]
        self._decoder_with_past = graphs[MODEL if self._encoder is None else DECODER_WITH_PAST]

    @property
    def max_target_positions(self) -> int:
        """Maximum number of tokens to generate."""
        max_tokens: int = self._model.max_target_positions
        return max_tokens

    def parameters(self) -> Any:
        """Return the weights of the original model."""
        return self._model.parameters()

    def encode(self, batch: Mapping[str, Tensor]) -> EncoderOutput | None:
        """Encode a batch with all inputs; return None without an encoder."""
        if self._encoder is None:
            return None
        hidden = self._encoder(batch)["last_hidden_state"]
        return EncoderOutput(hidden=hidden, mask=batch["attention_mask"])

    def decode(
        self,
        ids: Tensor,
        past: OnnxPast | None,
        encoded: EncoderOutput | None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, OnnxPast]:
        """Return the next-token logits of each token, shape (B, S, V), and the new cache.

        Args:
            ids: the newest tokens. Shape (B, S).
            past: the cache of an earlier call.
            encoded: the result of ``encode``.
            mask: mask of all tokens so far, for a decoder without an encoder. Shape (B, P + S).
        """
        inputs = {"input_ids": ids}
        if encoded is not None:
            assert encoded.mask is not None
            inputs |= {"encoder_attention_mask": encoded.mask}
            inputs |= {"encoder_hidden_states": encoded.hidden}
        elif past is None:
            past = self._empty(len(ids))
        kept = {} if past is None else past.tensors
        if mask is None and encoded is None:
            length = next(iter(kept.values())).shape[2] + ids.shape[1]
            mask = torch.ones(len(ids), length, dtype=torch.int64)
        if mask is not None:
            inputs["attention_mask"] = mask
        outputs = (self._decoder if past is None else self._decoder_with_past)({**inputs, **kept})
        logits = outputs.pop("logits")
        new = {name.replace(PRESENT, PAST, 1): tensor for name, tensor in outputs.items()}
        return logits, OnnxPast(tensors={**kept, **new})

    def _empty(self, batch: int) -> OnnxPast:
        """Return an empty cache."""
        widths = {
            f"{PAST}{number}.{kind}": (
                len(block.attention.self.heads),
                block.attention.self.head_width,
            )
            for number, block in enumerate(self._model.body.encoder.blocks)
            for kind in ("key", "value")
        }
        return OnnxPast(
            tensors={
                name: torch.zeros(batch, heads, 0, width) for name, (heads, width) in widths.items()
            }
        )

    def outputs(self, batch: Mapping[str, Tensor]) -> Outputs:
        """Return the logits of a batch with all inputs, in one pass and step by step."""
        encoded = self.encode(batch)
        ids = batch["input_ids" if encoded is None else "decoder_input_ids"]
        mask = batch["attention_mask"] if encoded is None else None
        logits, _ = self.decode(ids, None, encoded, mask)
        steps, past, num_tokens = [], None, 0
        for part in torch.tensor_split(ids, [*range(2, ids.shape[1])], dim=1):
            num_tokens += part.shape[1]
            prefix_mask = None if mask is None else mask[:, :num_tokens]
            step, past = self.decode(part, past, encoded, prefix_mask)
            steps.append(step)
        return {"logits": logits, "logits by steps": torch.cat(steps, 1)}

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        position_ids: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> LanguageModelOutput:
        """Score known texts at their labels, or at ``positions`` for a decoder-only model."""
        if position_ids is not None:
            texts = _Apart.of(input_ids, attention_mask, position_ids)
            logits, _ = self.decode(texts.ids, None, None, texts.mask)
            at_positions = _at(texts.together(logits), positions)
            return LanguageModelOutput(logits=at_positions, positions=positions)
        batch = _complete(input_ids, attention_mask, token_type_ids)
        encoded, ids, mask = self.encode(batch), input_ids, batch["attention_mask"]
        if labels is not None:
            ids, positions = self._to_write(labels)
        logits, _ = self.decode(ids, None, encoded, mask if encoded is None else None)
        return LanguageModelOutput(logits=_at(logits, positions), positions=positions)

    def _to_write(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the token before each label, and the positions of labels."""
        if not isinstance(self._model, BertEncoderDecoder):
            return decoder_inputs(labels, None, labels, self.config)
        ids = self._model.shifted(labels)
        size = self._model.decoder.config.vocab_size
        return ids, labelled_positions(labels, None, (ids.shape[0], ids.shape[1]), size)

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        search: Search,
        item_seeds: Sequence[int] | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Generate a text for each input, or continue the input; see ``models/generation.py``."""
        assert prefixes is None, "texts are scored without prefixes"
        encoded = self.encode(_complete(input_ids, attention_mask, token_type_ids))
        decoder: Any = _Decoder(self)
        if encoded is None:
            return generation.generate(decoder, input_ids, attention_mask, search, None, item_seeds)
        if isinstance(self._model, Transformer | RnnSearch):
            search = search_options(search, self.config)
            start = self.config.decoder_start_token_id
        else:
            start = self._model.decoder_start_token_id
        first = torch.full((len(input_ids), 1), start)
        return generation.generate(decoder, first, None, search, encoded, item_seeds)


class _Decoder:
    """The decoder interface for ``generation.generate``."""

    def __init__(self, model: OnnxGenerator) -> None:
        self._model = model
        self.config = _DecoderConfig()
        read = model.config if hasattr(model.config, "max_position_embeddings") else None
        self.max_positions = model.max_target_positions if read is None else model.max_positions

    def __call__(
        self,
        ids: Tensor,
        *,
        token_type_ids: None,
        past_key_values: OnnxPast | None,
        encoder_hidden_states: Tensor | None,
        encoder_attention_mask: Tensor | None,
        use_cache: bool,
    ) -> LanguageModelOutput:
        encoded = None
        if encoder_attention_mask is not None:
            hidden = (
                encoder_attention_mask if encoder_hidden_states is None else encoder_hidden_states
            )
            encoded = EncoderOutput(hidden=hidden, mask=encoder_attention_mask)
        logits, past = self._model.decode(ids, past_key_values, encoded)
        cache: Any = past
        return LanguageModelOutput(logits=logits, past_key_values=cache)


@dataclass(frozen=True, slots=True)
class _DecoderConfig:
    is_decoder: bool = True


def _complete(ids: Tensor, mask: Tensor | None, types: Tensor | None) -> dict[str, Tensor]:
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids) if mask is None else mask,
        "token_type_ids": torch.zeros_like(ids) if types is None else types,
    }


OnnxModel: TypeAlias = OnnxEncoder | OnnxImageModel | OnnxGenerator
"""A replacement for a model, computed from graphs."""
