"""Measure the machine's peak rate of matrix products in each number format, over many kernels.

``python -m benchmarks.ceiling THREADS`` runs in the peers' environment, which has all kernels, and
prints GFLOP/s as JSON: by number format, then by kernel.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

SHAPES = ((2048, 2048, 2048), (4096, 1024, 1024), (2048, 384, 1536))
"""Shapes of the products: rows of the left matrix, inner size, columns of the right matrix."""
Kernel = Callable[[], Any]


def best(kernel: Kernel, operations: int, *, seconds: float = 0.4) -> float:
    """Run a kernel repeatedly, and return its best rate in GFLOP/s."""
    kernel()
    end, shortest = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end:
        started = time.perf_counter()
        kernel()
        shortest = min(shortest, time.perf_counter() - started)
    return operations / shortest / 1e9


def torch_kernels(m: int, k: int, n: int) -> Iterator[tuple[str, str, Kernel]]:
    """Yield PyTorch's kernels: the number format, the name and the product."""
    import torch

    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        left, right = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
        yield name, "torch.matmul", partial(torch.matmul, left, right.T)
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(right, m)
            linear = torch.ops.mkldnn._linear_pointwise
        except (AttributeError, RuntimeError):
            continue
        yield (
            name,
            "mkldnn, packed",
            partial(linear, left, packed, None, "none", [], ""),
        )
    try:
        left8 = torch.randint(0, 255, (m, k), dtype=torch.uint8)
        right8 = torch.randint(-127, 127, (n, k), dtype=torch.int8)
        packed8 = torch.ops.onednn.qlinear_prepack(right8, [m, k])
        scales, zeros = torch.ones(n), torch.zeros(n, dtype=torch.long)
        product = torch.ops.onednn.qlinear_pointwise
    except (AttributeError, RuntimeError):
        return
    yield (
        "int8",
        "onednn, packed",
        lambda: product(
            *(left8, 1.0, 128, packed8, scales, zeros, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        ),
    )


def onnx_kernels(m: int, k: int, n: int, threads: int) -> Iterator[tuple[str, str, Kernel]]:
    """Yield the kernels of ONNX Runtime and, from the same graph, of OpenVINO."""
    import numpy as np
    import onnxruntime
    import openvino
    from onnx import TensorProto, helper, numpy_helper

    def graph(operator: str, kind: int, weight: Any, result: int) -> bytes:
        node = helper.make_node(operator, ["left", "right"], ["out"])
        inputs = [helper.make_tensor_value_info("left", kind, [m, k])]
        outputs = [helper.make_tensor_value_info("out", result, [m, n])]
        weights = [numpy_helper.from_array(weight, "right")]
        model = helper.make_model(
            helper.make_graph([node], "product", inputs, outputs, weights),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=9,
        )
        return bytes(model.SerializeToString())

    random = np.random.default_rng(0)
    left = random.standard_normal((m, k), dtype=np.float32)
    right = random.standard_normal((k, n), dtype=np.float32)
    single = graph("MatMul", TensorProto.FLOAT, right, TensorProto.FLOAT)
    right8 = random.integers(-127, 127, (k, n), dtype=np.int8)
    whole = graph("MatMulInteger", TensorProto.UINT8, right8, TensorProto.INT32)
    left8 = random.integers(0, 255, (m, k), dtype=np.uint8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    for name, model, array in (("fp32", single, left), ("int8", whole, left8)):
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        yield (
            name,
            "ONNX Runtime",
            partial(session.run, None, {"left": array}),
        )
    core = openvino.Core()
    for name, hint in (("fp32", "f32"), ("bf16", "bf16")):
        settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads}
        compiled = core.compile_model(core.read_model(single), "CPU", settings)
        request = compiled.create_infer_request()
        yield name, "OpenVINO", partial(request.infer, [left], share_inputs=True)


def main() -> None:
    """Measure all kernels with all shapes, and print the best rate of each."""
    import torch

    threads = int(sys.argv[1])
    torch.set_num_threads(threads)
    rates: dict[str, dict[str, float]] = {}
    for m, k, n in SHAPES:
        for kernels in (torch_kernels(m, k, n), onnx_kernels(m, k, n, threads)):
            for name, library, kernel in kernels:
                by_kernel = rates.setdefault(name, {})
                rate = best(kernel, 2 * m * k * n)
                by_kernel[library] = round(max(by_kernel.get(library, 0.0), rate), 1)
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
