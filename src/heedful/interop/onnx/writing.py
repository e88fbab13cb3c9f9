"""Write a model as ONNX, and compare it in ONNX Runtime."""

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.extras import missing
from heedful.files import write_json
from heedful.interop.checking import (
    INT8_TOLERANCE,
    TOLERANCE,
    Check,
    Comparison,
    outputs_of,
    sample_batches,
)
from heedful.interop.onnx.graphs import Graph, graphs_of, text_embedding
from heedful.interop.onnx.runtime import OnnxModel, open_model
from heedful.interop.onnx.usage import ONNX, write_usage
from heedful.interop.source import Source
from heedful.layers.block import Block
from heedful.models.model import Model
from heedful.models.pretrained import CONFIG
from heedful.settings import ExportSettings

_MIN_TORCH = "2.8"
"""Older versions of torch cannot convert their graphs with a current onnxscript."""


def export(source: Source, folder: Path, settings: ExportSettings) -> Check:
    """Write a run's graphs with its tokenizer, and compare them in ONNX Runtime.

    Raises:
        UserError: a package is missing, or the graphs compute different outputs.
    """
    write_graphs(source, folder)
    consumer = f"ONNX Runtime {version('onnxruntime')}"
    check = compare(source, open_model(source, folder), consumer)
    if settings.int8:
        _quantise(folder)
        in_int8 = f"{consumer} in int8"
        coarse = compare(source, open_model(source, folder), in_int8, tolerance=INT8_TOLERANCE)
        check = replace(check, int8=coarse.difference)
    write_usage(source, folder, ONNX, int8=settings.int8)
    return check


def write_graphs(source: Source, folder: Path) -> None:
    """Write a run's graphs, configuration and tokenizer.

    Raises:
        UserError: a package is missing, or torch is too old.
    """
    if torch.__version__ < _MIN_TORCH:
        raise UserError(
            f"torch {torch.__version__} is too old to export ONNX graphs; update it to "
            f"{_MIN_TORCH} or newer"
        )
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise missing("onnx") from None
    with torch.no_grad(), _quiet():
        _disable_chunking(source.model)
        for graph in graphs_of(source):
            write_graph(graph, folder)
    config = {"architectures": [type(source.model).__name__], **source.model.config.to_dict()}
    write_json(folder / CONFIG, config)
    source.tokenizer.save_pretrained(folder)


def _disable_chunking(model: nn.Module) -> None:
    """Disable chunking in feed-forward layers, which does not change the outputs."""
    for part in model.modules():
        if isinstance(part, Block):
            part.chunk = 0


def write_graph(graph: Graph, folder: Path) -> None:
    """Trace the function of a graph, and write the traced graph."""
    from onnx_ir.passes.common import (
        ClearMetadataAndDocStringPass,
        RemoveUnusedNodesPass,
    )

    dynamic = [
        {number: name for number, name in enumerate(graph.axes[name_in]) if name is not None}
        for name_in in graph.inputs
    ]
    program = torch.onnx.export(
        _Traced(graph.model, graph.compute),
        tuple(graph.inputs.values()),
        dynamo=True,
        input_names=[*graph.inputs],
        output_names=graph.outputs,
        dynamic_shapes={"tensors": tuple(dynamic)},
        verbose=False,
    )
    assert program is not None
    # Remove the origin of each node: source lines and local paths, which should stay private.
    ClearMetadataAndDocStringPass()(program.model)
    # ONNX Runtime warns about unused constants.
    RemoveUnusedNodesPass()(program.model)
    program.save(folder / graph.file)


class _Traced(nn.Module):
    """A module that calls a function with the model and positional tensors."""

    def __init__(self, model: Model, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model.eval()
        self.compute = compute

    def forward(self, *tensors: Tensor) -> Any:
        return self.compute(self.model, *tensors)


def compare(
    source: Source, model: OnnxModel, consumer: str, *, tolerance: float = TOLERANCE
) -> Check:
    """Compare the outputs of exported graphs with the model's outputs.

    Args:
        source: the source with the model.
        model: the exported graphs.
        consumer: the program and its version.
        tolerance: maximum relative difference of outputs.

    Raises:
        UserError: the outputs differ.
    """
    comparison = Comparison(source, consumer, tolerance=tolerance)
    for batch in sample_batches(source):
        comparison.add(batch, _expected(source, batch), model.outputs(batch))
    return comparison.result()


def _expected(source: Source, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the expected outputs of a model's graphs."""
    outputs = outputs_of(source, batch)
    if source.record.task == "embed":
        hidden = outputs["last_hidden_state"]
        vector = text_embedding(hidden, batch["attention_mask"], source.record.goal)
        return {"last_hidden_state": hidden, "sentence_embedding": vector}
    if "decoder_input_ids" in batch or source.generates:
        return {"logits": outputs["logits"], "logits by steps": outputs["logits"]}
    return outputs


def _quantise(folder: Path) -> None:
    """Replace the graphs of a folder with graphs whose matrix products have 8-bit weights."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    for path in sorted(folder.glob("*.onnx")):
        model = onnx.load(path)
        # Delete recorded weight shapes: the library transposes weights, then reports a mismatch.
        del model.graph.value_info[:]
        _copy_shared_weights(model.graph)
        with _quiet():
            quantize_dynamic(model, path, weight_type=QuantType.QInt8)


def _copy_shared_weights(graph: Any) -> None:
    """Copy shared weights of Gemm nodes, because the library transposes a weight for all users."""
    nodes = list(_nodes(graph))
    uses = Counter(name for node in nodes for name in node.input)
    weights = {weight.name: weight for weight in graph.initializer}
    for number, node in enumerate(nodes):
        if node.op_type == "Gemm" and uses[node.input[1]] > 1 and node.input[1] in weights:
            weight = graph.initializer.add()
            weight.CopyFrom(weights[node.input[1]])
            weight.name = node.input[1] = f"{node.input[1]}.{number}"


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress log messages and warnings that only library developers can act on."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
