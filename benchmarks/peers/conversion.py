"""Convert a model to the format of another library, in a separate process.

``python -m benchmarks.peers.conversion LIBRARY FORMAT FOLDER HEAD OUT`` writes ``graph.onnx`` or
``ctranslate2``, and ``tokenizer.json``, to a folder. Because this is a separate process, its memory
does not count as the engines': they import neither torch nor transformers.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

HEADS = {
    "vectors": "AutoModel",
    "sequence": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
    "masked_words": "AutoModelForMaskedLM",
}
"""Heads, and the classes of transformers that load them.

``vectors`` is the mean over a text's tokens, normalized to length 1.
"""


def plain_model(folder: Path, head: str) -> "nn.Module":
    """Load the reference's model, with tensors only as inputs and outputs."""
    import torch
    import transformers
    from torch import nn

    # The traced graph's mask must not depend on the batch that it is traced with.
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


def write_graph(folder: Path, head: str, path: Path) -> None:
    """Trace the reference's model, for any number of texts of any length."""
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
        dynamo=False,  # The optimizer below expects the graphs of this exporter.
    )


def write_optimized_graph(folder: Path, head: str, path: Path, *, int8: bool) -> None:
    """Trace a model, fuse its layers with ONNX Runtime's own tool, and quantize it dynamically."""
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
        # The fused layers are not in the ONNX standard, so their types cannot be inferred.
        kinds = {"DefaultTensorType": TensorProto.FLOAT}
        quantize_dynamic(
            fused, path, per_channel=True, weight_type=QuantType.QInt8, extra_options=kinds
        )


def write_encoder(folder: Path, path: Path) -> None:
    """Convert the encoder of a model: CTranslate2 supports only the encoder of a BERT."""
    from ctranslate2.converters import TransformersConverter
    from transformers import AutoModel, AutoTokenizer

    with tempfile.TemporaryDirectory() as work:
        AutoModel.from_pretrained(folder).save_pretrained(work)
        AutoTokenizer.from_pretrained(folder).save_pretrained(work)
        TransformersConverter(work).convert(str(path))


def main() -> None:
    """Convert the model given on the command line."""
    from transformers import BertTokenizerFast

    library, number_format, source, head, target = sys.argv[1:]
    folder, out = Path(source), Path(target)
    tokenizer = BertTokenizerFast.from_pretrained(folder).backend_tokenizer
    tokenizer.save(str(out / "tokenizer.json"))
    if library == "CTranslate2":
        write_encoder(folder, out / "ctranslate2")
    elif library == "OpenVINO":
        write_graph(folder, head, out / "graph.onnx")
    else:
        write_optimized_graph(folder, head, out / "graph.onnx", int8=number_format == "int8")


if __name__ == "__main__":
    main()
