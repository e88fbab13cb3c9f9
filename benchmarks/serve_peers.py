"""The servers that heedful's is compared with: what a user would write with FastAPI in an hour.

``python -m benchmarks.serve_peers pipeline|onnx FOLDER PORT`` starts one. Both accept
``{"texts": [...]}`` at ``/predict`` and return a label and its score for each text.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

Classify = Callable[[list[str]], list[dict[str, Any]]]


class PredictRequest(BaseModel):
    """Texts to classify."""

    texts: list[str]


def load_pipeline(folder: Path) -> Classify:
    """Return a function that classifies with the reference's pipeline."""
    from transformers import BertForSequenceClassification, BertTokenizerFast, pipeline

    model = BertForSequenceClassification.from_pretrained(folder)
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    classifier = pipeline("text-classification", model=model, tokenizer=tokenizer)
    length = model.config.max_position_embeddings

    def classify(texts: list[str]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = classifier(texts, truncation=True, max_length=length)
        return rows

    return classify


def load_onnx(folder: Path) -> Classify:
    """Return a function that classifies with ONNX Runtime, with weights in int8."""
    import numpy as np
    import onnxruntime
    from transformers import BertConfig, BertTokenizerFast

    config = BertConfig.from_pretrained(folder)
    names = config.id2label or {}
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    session = onnxruntime.InferenceSession(folder / "int8.onnx")

    def classify(texts: list[str]) -> list[dict[str, Any]]:
        batch = tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=config.max_position_embeddings,
            return_tensors="np",
        )
        (logits,) = session.run(None, {name: ids.astype(np.int64) for name, ids in batch.items()})
        exponents = np.exp(logits - logits.max(-1, keepdims=True))
        scores = exponents / exponents.sum(-1, keepdims=True)
        return [{"label": names[int(row.argmax())], "score": float(row.max())} for row in scores]

    return classify


def write_onnx(folder: Path) -> None:
    """Write a classifier as an ONNX file in int8, to the folder of its run."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager")
    model.eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    ids = torch.ones((2, 8), dtype=torch.long)
    with torch.no_grad():
        torch.onnx.export(
            model,
            (ids, ids, 0 * ids),
            folder / "fp32.onnx",
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
            dynamo=False,
        )
    quantize_dynamic(folder / "fp32.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8)


def application(classify: Classify) -> FastAPI:
    """Return a server as in tutorials: it computes each request alone, in a thread."""
    app = FastAPI()

    @app.post("/predict")
    def predict(request: PredictRequest) -> dict[str, Any]:
        return {"answers": classify(request.texts)}

    @app.get("/health")
    def health() -> dict[str, Any]:
        return {}

    return app


KINDS = {"pipeline": load_pipeline, "onnx": load_onnx}

if __name__ == "__main__":
    kind, folder, port = sys.argv[1:]
    uvicorn.run(
        application(KINDS[kind](Path(folder))),
        host="127.0.0.1",
        port=int(port),
        log_level="error",
        access_log=False,
    )
