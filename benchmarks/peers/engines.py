"""Engines: a model's folder to a function from a padded batch to what the model computes.

All read the same folder of weights. The graphs for ONNX Runtime and OpenVINO are traced from
transformers and go through what each library has to make them faster.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    Array = np.ndarray[Any, np.dtype[Any]]
    Engine = Callable[[Array, Array, Array], tuple[Array, ...]]
    """Ids, mask and types (B, S), int64, to what the head gives."""

HEADS = {
    "vectors": "AutoModel",
    "sequence": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
    "blanks": "AutoModelForMaskedLM",
}
"""Heads, and who reads them. ``vectors`` is the mean over a text's tokens, of length 1."""
ENGINES = {
    "transformers fp32": "fp32",
    "transformers bf16": "bf16",
    "ONNX Runtime fp32": "fp32",
    "ONNX Runtime int8": "int8",
    "OpenVINO fp32": "fp32",
    "OpenVINO bf16": "bf16",
    "CTranslate2 fp32": "fp32",
    "CTranslate2 int8": "int8",
}
"""Engines, and the format that each computes in."""


def load(name: str, folder: Path, head: str, threads: int) -> "Engine":
    """Make an engine."""
    library, _, number_format = name.rpartition(" ")
    loaders = {
        "transformers": _transformers,
        "ONNX Runtime": _onnx_runtime,
        "OpenVINO": _openvino,
        "CTranslate2": _ctranslate2,
    }
    return loaders[library](folder, head, number_format, threads)


def plain_model(folder: Path, head: str) -> "nn.Module":
    """Load the reference's model, which takes and gives tensors alone."""
    import torch
    import transformers
    from torch import nn

    # As a graph is traced, its mask must not depend on the batch it is traced with.
    model = getattr(transformers, HEADS[head]).from_pretrained(
        folder, **({"add_pooling_layer": False} if head == "vectors" else {})
    )

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            token_type_ids: torch.Tensor,
        ) -> tuple[torch.Tensor, ...]:
            output = self.model(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            )
            if head == "vectors":
                real = attention_mask[..., None].to(output[0].dtype)
                mean = (output[0] * real).sum(1) / real.sum(1)
                return (nn.functional.normalize(mean, dim=-1),)
            return (output[0], output[1]) if head == "answer" else (output[0],)

    return Plain().eval()


def _transformers(folder: Path, head: str, number_format: str, threads: int) -> "Engine":
    import torch

    torch.set_num_threads(threads)
    model = plain_model(folder, head)
    if number_format == "bf16":
        model = model.to(torch.bfloat16)

    @torch.inference_mode()
    def engine(ids: "Array", mask: "Array", types: "Array") -> "tuple[Array, ...]":
        outputs = model(*(torch.from_numpy(array) for array in (ids, mask, types)))
        return tuple(output.float().numpy() for output in outputs)

    return engine


def write_graph(folder: Path, head: str, path: Path) -> None:
    """Trace the reference's model, with any number of texts of any length."""
    import torch

    model = plain_model(folder, head)
    ids = torch.ones(2, 8, dtype=torch.long)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        model,
        (ids, ids, torch.zeros_like(ids)),
        str(path),
        input_names=names,
        output_names=["first", "second"] if head == "answer" else ["first"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
        opset_version=17,
        dynamo=False,  # the optimizer below knows the graphs of this exporter
    )


def write_optimized_graph(folder: Path, head: str, path: Path, *, int8: bool) -> None:
    """Trace a model, fuse its layers with ONNX Runtime's own tool, and quantise it dynamically."""
    import json

    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as work:
        plain, fused = Path(work) / "plain.onnx", Path(work) / "fused.onnx"
        write_graph(folder, head, plain)
        model = optimizer.optimize_model(
            str(plain),
            model_type="bert",
            num_heads=config["num_attention_heads"],
            hidden_size=config["hidden_size"],
        )
        if not int8:
            model.save_model_to_file(str(path))
            return
        model.save_model_to_file(str(fused))
        # The fused layers are not in the standard by which types are inferred.
        kinds = {"DefaultTensorType": TensorProto.FLOAT}
        quantize_dynamic(
            fused, path, per_channel=True, weight_type=QuantType.QInt8, extra_options=kinds
        )


def _onnx_runtime(folder: Path, head: str, number_format: str, threads: int) -> "Engine":
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "graph.onnx"
        write_optimized_graph(folder, head, path, int8=number_format == "int8")
        return graph_engine(f"ONNX Runtime {number_format}", path, threads)


def _openvino(folder: Path, head: str, number_format: str, threads: int) -> "Engine":
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "graph.onnx"
        write_graph(folder, head, path)
        return graph_engine(f"OpenVINO {number_format}", path, threads)


def graph_engine(name: str, path: Path, threads: int) -> "Engine":
    """Make an engine from a graph that has been written."""
    if name.startswith("ONNX Runtime"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        names = [item.name for item in session.get_inputs()]
        return lambda *arrays: tuple(session.run(None, dict(zip(names, arrays, strict=True))))

    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if name.endswith("bf16") else "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
    }
    compiled = core.compile_model(core.read_model(path), "CPU", settings)
    request = compiled.create_infer_request()

    def engine(*arrays: "Array") -> "tuple[Array, ...]":
        outputs = request.infer(list(arrays))
        return tuple(outputs[number].copy() for number in range(len(compiled.outputs)))

    return engine


def _ctranslate2(folder: Path, head: str, number_format: str, threads: int) -> "Engine":
    """Compute the hidden states; the head, which the library has not, is a product in numpy."""
    import ctranslate2
    import numpy as np
    from ctranslate2.converters import TransformersConverter
    from safetensors.numpy import load_file

    with tempfile.TemporaryDirectory() as work:
        encoder_folder = _with_encoder_alone(folder, Path(work) / "encoder")
        converted = str(Path(work) / "converted")
        TransformersConverter(encoder_folder).convert(converted)
        encoder = ctranslate2.Encoder(
            converted,
            compute_type={"fp32": "float32", "int8": "int8"}[number_format],
            inter_threads=1,
            intra_threads=threads,
        )
    weights = load_file(folder / "model.safetensors")

    def engine(ids: "Array", mask: "Array", types: "Array") -> "tuple[Array, ...]":
        lengths = mask.sum(1)
        storage = ctranslate2.StorageView.from_array
        output = encoder.forward_batch(
            storage(ids.astype(np.int32)), storage(lengths.astype(np.int32)), types.tolist()
        )
        hidden = np.array(output.last_hidden_state)  # (B, S, D)
        if head == "vectors":
            mean = (hidden * mask[..., None]).sum(1) / lengths[:, None]
            return (mean / np.linalg.norm(mean, axis=-1, keepdims=True),)
        name = "qa_outputs" if head == "answer" else "classifier"
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        if head == "sequence":
            pooled = np.tanh(
                hidden[:, 0] @ weights["bert.pooler.dense.weight"].T
                + weights["bert.pooler.dense.bias"]
            )
            return (pooled @ weight.T + bias,)
        logits = hidden @ weight.T + bias
        return (logits[..., 0], logits[..., 1]) if head == "answer" else (logits,)

    return engine


def _with_encoder_alone(folder: Path, target: Path) -> str:
    """Write the encoder of a model with its tokenizer, which the converter asks for."""
    from transformers import AutoModel, AutoTokenizer

    AutoModel.from_pretrained(folder).save_pretrained(target)
    AutoTokenizer.from_pretrained(folder).save_pretrained(target)
    return str(target)
