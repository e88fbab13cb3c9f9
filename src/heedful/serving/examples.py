"""Example requests and responses for the OpenAPI document. A test sends each request."""

from typing import Any

TEXT = "my card was stolen"
_VECTOR = [0.0612, -0.0154, 0.0721]
_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
"""A white pixel as PNG, in base64."""

_LABELS = [{"label": "card", "score": 0.97}, {"label": "transfer", "score": 0.03}]
_SPAN = {"score": 0.93, "start": 0, "end": 3, "answer": "Ann"}
_ENTITY = {"entity_group": "PER", "score": 0.99, "word": "Ann", "start": 0, "end": 3}
_FILLED = {"score": 0.41, "token": 16, "token_str": "cat", "sequence": "the cat is red."}
_MODEL = {"id": "minilm", "object": "model", "created": 1795302866, "owned_by": "heedful"}
_EMBEDDINGS = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": _VECTOR}],
    "model": "minilm",
    "usage": {"prompt_tokens": 4, "total_tokens": 4},
}
_COMPARED = {"source_sentence": TEXT, "sentences": ["somebody took my card", "hello"]}
_BYTES = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [TEXT]}
_READY = {"status": "ready"}
_METADATA = {
    "name": "tickets",
    "versions": ["1"],
    "platform": "heedful",
    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
    "outputs": [{"name": "label", "datatype": "BYTES", "shape": [-1]}],
}
_INFERRED = {
    "model_name": "tickets",
    "model_version": "1",
    "outputs": [{"name": "label", "shape": [1], "datatype": "BYTES", "data": ["card"]}],
}
_RUN = {
    "name": "tickets",
    "task": "classify",
    "about": "Gives each text one of 2 labels: card, transfer.",
    "abilities": [],
    "inputs": [{"name": "text", "optional": False, "several": False}],
    "options": ["raw"],
    "mask": None,
    "max_length": 128,
    "ready": True,
}
_INFO = {
    "model_id": "minilm",
    "model_sha": None,
    "model_dtype": "float32",
    "served_model_name": "minilm",
    "model_type": {"embedding": {"pooling": "mean"}},
    "max_concurrent_requests": None,
    "max_input_length": 256,
    "max_batch_tokens": 2048,
    "max_batch_requests": None,
    "max_client_batch_size": 1024,
    "auto_truncate": False,
    "tokenization_workers": 1,
    "version": "0.1.0",
    "sha": None,
    "docker_label": None,
}

REPLIES: dict[str, Any] = {
    "GET /": _READY,
    "GET /api/runs": {"runs": [_RUN]},
    "GET /health": _READY,
    "GET /health/live": {"status": "alive"},
    "GET /metrics": "heedful_items_total 3.0\n",
    "GET /ping": _READY,
    "GET /info": _INFO,
    "GET /v1/models": {"object": "list", "data": [_MODEL]},
    "GET /v1/models/{model}": _MODEL,
    "GET /v2": {"name": "heedful", "version": "0.1.0", "extensions": ["binary_tensor_data"]},
    "GET /v2/health/live": {"live": True},
    "GET /v2/health/ready": {"ready": True},
    "GET /v2/models/{model}": _METADATA,
    "GET /v2/models/{model}/ready": {"name": "tickets", "ready": True},
}
"""Responses to requests without a body, by method and path. They hold under a run's path too."""

EXCHANGES: dict[str, tuple[Any, Any]] = {
    "/api/runs/{run}/predict": (
        {"texts": [TEXT]},
        {"answers": [{"label": "card", "score": 0.97, "tokens_total": 4, "tokens_used": 4}]},
    ),
    "/api/runs/{run}/explain": (
        {"text": TEXT},
        {
            "task": "classify",
            "model": "tickets",
            "answer": {"label": "card", "score": 0.97},
            "sides": [],
            "attributions": [],
            "attention": [],
            "notes": [],
        },
    ),
    "/embed": ({"inputs": [TEXT]}, [_VECTOR]),
    "/embed_all": ({"inputs": [TEXT]}, [[_VECTOR, _VECTOR]]),
    "/predict": ({"inputs": TEXT}, _LABELS),
    "/rerank": (
        {"query": "a stolen card", "texts": [TEXT, "hello"]},
        [{"index": 0, "score": 0.9, "text": None}, {"index": 1, "score": 0.1, "text": None}],
    ),
    "/similarity": ({"inputs": _COMPARED}, [0.86, 0.08]),
    "/tokenize": (
        {"inputs": "card", "add_special_tokens": False},
        [[{"id": 4003, "text": "card", "special": False, "start": 0, "stop": 4}]],
    ),
    "/decode": ({"ids": [10, 11]}, ["ben bird"]),
    "/embeddings": ({"input": TEXT}, _EMBEDDINGS),
    "/v1/embeddings": ({"input": TEXT}, _EMBEDDINGS),
    "/": ({"inputs": TEXT}, [_LABELS]),
    "/invocations": ({"inputs": TEXT}, [_LABELS]),
    "/pipeline/text-classification": ({"inputs": TEXT, "parameters": {"top_k": 2}}, [_LABELS]),
    "/pipeline/image-classification": ({"inputs": _IMAGE}, _LABELS),
    "/pipeline/zero-shot-classification": (
        {"inputs": TEXT, "parameters": {"candidate_labels": ["money", "sport"]}},
        {"sequence": TEXT, "labels": ["money", "sport"], "scores": [0.9, 0.1]},
    ),
    "/pipeline/token-classification": ({"inputs": "Ann is in Paris"}, [_ENTITY]),
    "/pipeline/question-answering": (
        {"inputs": {"question": "who eats?", "context": "Ann eats cheese."}},
        _SPAN,
    ),
    "/pipeline/fill-mask": ({"inputs": "the [MASK] is red."}, [_FILLED]),
    "/pipeline/translation": (
        {"inputs": "Das Pferd ist rot!"},
        [{"translation_text": "The horse is red!"}],
    ),
    "/pipeline/feature-extraction": ({"inputs": TEXT}, [_VECTOR]),
    "/pipeline/sentence-similarity": ({"inputs": _COMPARED}, [0.86, 0.08]),
    "/v2/models/{model}/infer": ({"inputs": [_BYTES], "outputs": [{"name": "label"}]}, _INFERRED),
}
"""Request and response bodies of POST requests, by path. They hold under a run's path too."""
