"""Inference engines: load a model folder as a tokenizer and a function from batches to outputs.

All engines use the same weights. The graphs for ONNX Runtime and OpenVINO are traced from
transformers and optimized with each library's own tools.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.row import Format

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
    Engine = Callable[[Array, Array, Array], tuple[Array, ...]]
    """From ids, mask and types, each (B, S) int64, to the outputs of the head."""

ENGINES: dict[str, Format] = {
    "transformers fp32": "fp32",
    "transformers bf16": "bf16",
    "ONNX Runtime fp32": "fp32",
    "ONNX Runtime int8": "int8",
    "OpenVINO fp32": "fp32",
    "OpenVINO bf16": "bf16",
    "CTranslate2 fp32": "fp32",
    "CTranslate2 int8": "int8",
}
"""Engines, and the number format that each computes in."""


def load(
    name: str, folder: Path, head: str, threads: int, *, longest: int, **truncation: Any
) -> "tuple[Engine, Any]":
    """Load an engine and its tokenizer.

    Args:
        name: Name of the engine.
        folder: Folder of the model.
        head: A key of `conversion.HEADS`.
        threads: Number of threads.
        longest: Maximum number of tokens; the tokenizer truncates longer texts. It does not pad.
        truncation: Other options for truncation.
    """
    with tempfile.TemporaryDirectory() as work:
        if name.startswith("transformers"):
            from transformers import BertTokenizerFast

            engine = _transformers(folder, head, name, threads)
            tokenizer = BertTokenizerFast.from_pretrained(folder).backend_tokenizer
        else:
            from tokenizers import Tokenizer

            convert(name, folder, head, Path(work))
            engine = converted_engine(name, folder, head, Path(work), threads)
            tokenizer = Tokenizer.from_file(str(Path(work) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest, **truncation)
    return engine, tokenizer


def convert(name: str, folder: Path, head: str, out: Path) -> None:
    """Convert a model for an engine, in a separate process."""
    library, _, number_format = name.rpartition(" ")
    words = [library, number_format, str(folder), head, str(out)]
    subprocess.run([sys.executable, "-m", "benchmarks.peers.conversion", *words], check=True)


def converted_engine(name: str, folder: Path, head: str, converted: Path, threads: int) -> "Engine":
    """Load an engine from the files that `convert` wrote."""
    if name.startswith("CTranslate2"):
        return _ctranslate2(folder, head, name, converted, threads)
    return _graph_engine(name, converted / "graph.onnx", threads)


def _transformers(folder: Path, head: str, name: str, threads: int) -> "Engine":
    import torch

    from benchmarks.peers.conversion import plain_model

    torch.set_num_threads(threads)
    model = plain_model(folder, head)
    if name.endswith("bf16"):
        model = model.to(torch.bfloat16)

    @torch.inference_mode()
    def engine(ids: "Array", mask: "Array", types: "Array") -> "tuple[Array, ...]":
        outputs = model(*(torch.from_numpy(array) for array in (ids, mask, types)))
        return tuple(output.float().numpy() for output in outputs)

    return engine


def _graph_engine(name: str, path: Path, threads: int) -> "Engine":
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


def _ctranslate2(folder: Path, head: str, name: str, converted: Path, threads: int) -> "Engine":
    """Compute the hidden states with CTranslate2, and the head, which it lacks, with numpy."""
    import ctranslate2
    import numpy as np
    from safetensors.numpy import load_file

    encoder = ctranslate2.Encoder(
        str(converted / "ctranslate2"),
        compute_type="int8" if name.endswith("int8") else "float32",
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
