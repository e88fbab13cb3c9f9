"""Export a run's graphs to OpenVINO with OpenVINO's own ONNX converter."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.errors import UserError
from heedful.extras import missing
from heedful.interop.checking import Check
from heedful.interop.onnx.runtime import OnnxModel, Outputs, open_model
from heedful.interop.onnx.usage import Engine, Port, write_usage
from heedful.interop.onnx.writing import compare, write_graphs
from heedful.interop.source import Source
from heedful.models import RnnSearch
from heedful.settings import ExportSettings

SUFFIX = ".xml"

_CODE = """\
import openvino

def open_graph(name):
    options = {"INFERENCE_PRECISION_HINT": "f32"}  # the default is bf16, if the CPU supports it
    return openvino.compile_model(f"{name}.xml", "CPU", options)

def compute(graph, inputs):
    inputs = {one.any_name: inputs[one.any_name] for one in graph.inputs}
    return {one.any_name: array for one, array in graph(inputs).items()}
"""


def export(source: Source, folder: Path, settings: ExportSettings) -> Check:
    """Write a run's graphs with its tokenizer, and compare them in OpenVINO.

    Raises:
        UserError: a package is missing, or the graphs compute different outputs.
    """
    openvino = _library()
    if isinstance(source.model, RnnSearch):
        raise UserError(
            f"{source.folder}: a recurrent network, whose loops OpenVINO's converter does not "
            "support; use --format onnx"
        )
    write_graphs(source, folder)
    for path in sorted(folder.glob("*.onnx")):
        model = openvino.convert_model(path)
        openvino.save_model(model, path.with_suffix(SUFFIX), compress_to_fp16=False)
        path.unlink()
    check = compare(source, open_exported(source, folder), f"OpenVINO {version('openvino')}")
    write_usage(source, folder, Engine(name="OpenVINO", suffix=SUFFIX, code=_CODE, ports=_ports))
    return check


def open_exported(source: Source, folder: Path) -> OnnxModel:
    """Open the graphs of a folder as a replacement for the original model."""
    return open_model(source, folder, _Compiled, SUFFIX)


def _ports(path: Path) -> list[Port]:
    graph = _library().Core().read_model(path)
    return [
        (kind, port.get_any_name(), port.element_type.get_type_name(), shape)
        for kind, ports in (("input", graph.inputs), ("output", graph.outputs))
        for port in ports
        for shape in [", ".join(map(str, port.partial_shape))]
    ]


def _library() -> Any:
    try:
        import openvino
    except ImportError:
        raise missing("openvino") from None
    return openvino


class _Compiled:
    """A compiled OpenVINO graph that computes in float32."""

    def __init__(self, path: Path) -> None:
        options = {"INFERENCE_PRECISION_HINT": "f32"}
        self._model = _library().Core().compile_model(path, "CPU", options)
        self.inputs = [port.get_any_name() for port in self._model.inputs]

    def __call__(self, tensors: Mapping[str, Tensor]) -> Outputs:
        inputs = {}
        for name in self.inputs:
            tensor = tensors[name].cpu()
            inputs[name] = (tensor.long() if tensor.dtype == torch.bool else tensor).numpy()
        computed = self._model(inputs)
        return {
            output.get_any_name(): torch.from_numpy(computed[output].copy())
            for output in self._model.outputs
        }
