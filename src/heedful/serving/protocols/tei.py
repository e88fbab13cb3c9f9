"""The API of text-embeddings-inference: embeddings, labels, reranking and tokens of texts."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch.nn.functional as F
from fastapi import APIRouter

from heedful import __version__
from heedful.serving.asking import (
    NamedRun,
    RunName,
    ask,
    for_each_run,
    problems,
    with_api_names,
)
from heedful.serving.limits import check_items, check_size, split_into_turns, too_many_tokens
from heedful.serving.problem import Kind, Problem
from heedful.serving.protocols import health
from heedful.serving.protocols.tei_shapes import (
    DecodeBody,
    EmbedAllBody,
    EmbedBody,
    Info,
    Label,
    PredictBody,
    Rank,
    RerankBody,
    SimilarityBody,
    TeiFailure,
    Token,
    TokenizeBody,
    Truncation,
)
from heedful.serving.service import ServedRun, Service
from heedful.serving.vectors import NEED, gives_vectors, shaped
from heedful.serving.wire import Json, JsonRoute, reply
from heedful.settings import LongText
from heedful.tasks.classify import Classify
from heedful.tasks.embed import Embed
from heedful.tasks.regress import Regress
from heedful.tokens.tokenizer import ModelTokenizer

_TYPES: dict[Kind, str] = {
    "overloaded": "Overloaded",
    "not ready": "Unhealthy",
    "unable": "Backend",
    "internal": "Backend",
    "empty": "Empty",
}
_STATUS: dict[Kind, int] = {"unable": 424, "empty": 400}

_NAMES = {"long_text": "truncate"}
"""heedful's option names to the API's."""


def render(problem: Problem) -> tuple[int, Any]:
    """Return the HTTP status and the JSON body for a problem."""
    problem = with_api_names(problem, _NAMES)
    kind = _TYPES.get(problem.kind, "Validation")
    status = _STATUS.get(problem.kind, problem.status)
    return status, {"error": problem.message, "error_type": kind}


def router(service: Service) -> APIRouter:
    """Return the routes."""

    def routes_for(named: Any) -> APIRouter:
        routes = APIRouter(
            route_class=JsonRoute,
            tags=["text-embeddings-inference"],
            responses=problems(TeiFailure, 400, 424),
        )
        _add_vectors(routes, service, named)
        _add_scores(routes, service, named)
        _add_tokens(routes, service, named)
        return routes

    routes = for_each_run(routes_for)
    _add_health(routes, service)
    return routes


def _add_health(routes: APIRouter, service: Service) -> None:
    about: dict[str, Any] = {
        "tags": ["text-embeddings-inference"],
        "response_model": health.Health,
        "responses": problems(TeiFailure),
    }

    @routes.get("/ping", **about)
    async def ping() -> Json:
        """Return 200 if every run is ready, else 503."""
        health.require_ready(service)
        return Json({"status": "ready"})

    @routes.get("/models/{run}", **about)
    @routes.get("/models/{run}/health", **about)
    async def run_health(run: RunName) -> Json:
        """Return 200 if the run is ready, else 503."""
        health.require_ready(service, run)
        return Json({"status": "ready"})


def _add_vectors(routes: APIRouter, service: Service, named: Any) -> None:
    @routes.post("/embed", response_model=list[list[float]])
    async def embed(body: EmbedBody, run: NamedRun = named) -> Json:
        """Return an embedding of each text."""
        served = service.find(run, gives_vectors, NEED)
        texts = await _texts(service, served, body.inputs)
        answers = await ask(
            service, served, texts, long_text=_long_text_rule(body), raw=not body.normalize
        )
        vectors = [shaped(a.vector, body.dimensions, normalise=body.normalize) for a in answers]
        return await reply(lambda: [vector.tolist() for vector in vectors], len(vectors))

    @routes.post("/embed_all", response_model=list[list[list[float]]])
    async def embed_all(body: EmbedAllBody, run: NamedRun = named) -> Json:
        """Return an embedding of each token of each text, including special tokens."""
        served = service.find(run, gives_vectors, NEED)
        texts = await _texts(service, served, body.inputs)
        answers = await ask(
            service, served, texts, long_text=_long_text_rule(body), token_vectors=True
        )
        rows = sum(len(answer.token_vectors[0]) for answer in answers)
        return await reply(lambda: [a.token_vectors[0].tolist() for a in answers], rows)

    @routes.post("/similarity", response_model=list[float])
    async def similarity(body: SimilarityBody, run: NamedRun = named) -> Json:
        """Return the cosine similarity of a text and each of the other texts."""
        served = service.find(run, gives_vectors, NEED)
        texts = [
            body.inputs.source_sentence,
            *_check_non_empty(body.inputs.sentences, "inputs.sentences"),
        ]
        first, *others = await ask(
            service, served, texts, long_text=_long_text_rule(body.parameters)
        )
        return Json([float(F.cosine_similarity(first.vector, o.vector, dim=0)) for o in others])


def _add_scores(routes: APIRouter, service: Service, named: Any) -> None:
    @routes.post("/predict", response_model=list[Label] | list[list[Label]])
    async def predict(body: PredictBody, run: NamedRun = named) -> Json:
        """Return all labels with their probabilities, most likely first."""
        inputs = _check_non_empty(body.inputs, "inputs")
        batch = not isinstance(inputs, str) and isinstance(inputs[0], list)
        sequences = [_sequence(text) for text in (inputs if batch else [inputs])]
        pairs = isinstance(sequences[0], tuple)
        if any(isinstance(text, tuple) != pairs for text in sequences):
            raise Problem("validation", "inputs: give single texts or pairs, not both")
        served = service.find(
            run,
            lambda served: _classifies(served, pairs=pairs),
            f"a run of classify on {'pairs of texts' if pairs else 'single texts'}",
        )
        answers = await ask(
            service, served, sequences, long_text=_long_text_rule(body), raw=body.raw_scores
        )
        rows = [_labels(answer.scores) for answer in answers]
        return await reply(lambda: rows if batch else rows[0], len(rows))

    @routes.post("/rerank", response_model=list[Rank])
    async def rerank(body: RerankBody, run: NamedRun = named) -> Json:
        """Rank texts by their relevance to the query, best first."""
        served = service.find(
            run,
            _is_reranker,
            "a run of regress, or of classify with one label, on pairs of texts",
        )
        pairs = [(body.query, text) for text in _check_non_empty(body.texts, "texts")]
        rule = _long_text_rule(body)
        if isinstance(served.task, Regress):
            answers = await ask(service, served, pairs, long_text=rule)
            scores = [answer.value for answer in answers]
        else:
            answers = await ask(service, served, pairs, long_text=rule, raw=body.raw_scores)
            scores = [next(iter(answer.scores.values())) for answer in answers]
        ranks = [
            {"index": number, "score": score, "text": text if body.return_text else None}
            for number, (score, text) in enumerate(zip(scores, body.texts, strict=True))
        ]
        ranks.sort(key=lambda rank: -scores[rank["index"]])
        return await reply(lambda: ranks, len(ranks))


def _add_tokens(routes: APIRouter, service: Service, named: Any) -> None:
    @routes.post("/tokenize", response_model=list[list[Token]])
    async def tokenize(body: TokenizeBody, run: NamedRun = named) -> Json:
        """Tokenize texts."""
        _refuse_prompt(body.prompt_name)
        tokenizer = _tokenizer(service, run)
        texts = (
            [body.inputs]
            if isinstance(body.inputs, str)
            else _check_non_empty(body.inputs, "inputs")
        )
        special = body.add_special_tokens
        rows = await _tokenized(service, texts, tokenizer, special=special)
        return await reply(lambda: rows, sum(map(len, rows)))

    @routes.post("/decode", response_model=list[str])
    async def decode(body: DecodeBody, run: NamedRun = named) -> Json:
        """Decode token ids to texts."""
        rows: Any = body.ids if body.ids and isinstance(body.ids[0], list) else [body.ids]
        tokenizer = _tokenizer(service, run)
        _check_ids(service, rows, tokenizer)
        decode = partial(tokenizer.batch_decode, skip_special_tokens=body.skip_special_tokens)
        return Json(await _decoded(service, rows, decode))

    @routes.get("/info", response_model=Info)
    async def info(run: NamedRun = named) -> Json:
        """Return information about a run and the server's limits."""
        served = service.find(run, lambda served: True, "a run")
        predictor, limits = served.predictor, service.settings
        about = Info(
            model_id=served.name,
            model_dtype=predictor.precision.name,
            served_model_name=served.name,
            model_type=_model_type(served),
            max_concurrent_requests=limits.connections,
            max_input_length=predictor.max_length,
            max_batch_tokens=limits.batch_tokens,
            max_client_batch_size=limits.max_items,
            version=__version__,
        )
        return Json(about.model_dump())


def _long_text_rule(body: Truncation | RerankBody) -> LongText:
    """Return how to handle texts that are too long.

    Raises:
        Problem: the request has a prompt name, or truncation on the left, which are unsupported.
    """
    if isinstance(body, Truncation):
        _refuse_prompt(body.prompt_name)
    if body.truncate and body.truncation_direction.lower() == "left":
        raise Problem(
            "validation", "truncation_direction Left: texts can only be truncated at the end"
        )
    return "head" if body.truncate else "refuse"


def _refuse_prompt(name: str | None) -> None:
    if name is not None:
        raise Problem("validation", "prompt_name: runs have no prompts; write it into the texts")


def _check_non_empty(items: Any, name: str) -> Any:
    """Return the items, checked not to be an empty list.

    Raises:
        Problem: the list is empty.
    """
    if isinstance(items, list) and not items:
        raise Problem("empty", f"{name} is empty")
    return items


def _sequence(text: str | list[str]) -> Any:
    """Return a text, or a pair as a tuple."""
    if isinstance(text, str):
        return text
    if len(text) not in (1, 2):
        raise Problem(
            "validation", f"inputs: expected a text or a pair, found a list of {len(text)} texts"
        )
    return tuple(text) if len(text) == 2 else text[0]


async def _texts(service: Service, served: ServedRun, inputs: Any) -> list[str]:
    """Return the input texts, decoding token ids."""
    inputs = _check_non_empty(inputs, "inputs")
    if isinstance(inputs, str):
        return [inputs]
    if all(isinstance(text, str) for text in inputs):
        return list(inputs)
    tokenizer = served.predictor.tokenizer
    rows = inputs if isinstance(inputs[0], list) else [inputs]
    _check_ids(service, rows, tokenizer)
    # Decode without cleaning up spaces or dropping unknown tokens and masks: otherwise the text
    # could be tokenized differently.
    decode = partial(tokenizer.batch_decode, clean_up_tokenization_spaces=False)
    return await _decoded(service, [_without_special_ids(row, tokenizer) for row in rows], decode)


def _without_special_ids(ids: list[int], tokenizer: ModelTokenizer) -> list[int]:
    """Return token ids without padding and without special tokens at the start and end."""
    ids = [token_id for token_id in ids if token_id != tokenizer.pad_token_id]
    begin, end = list(tokenizer.layout.begin), list(tokenizer.layout.end)
    if begin and ids[: len(begin)] == begin:
        ids = ids[len(begin) :]
    if end and ids[-len(end) :] == end:
        ids = ids[: -len(end)]
    return ids


def _labels(scores: dict[str, float]) -> list[dict[str, Any]]:
    """Return labels with their scores, highest first."""
    best_first = sorted(scores.items(), key=lambda item: -item[1])
    return [{"label": label, "score": score} for label, score in best_first]


def _classifies(served: ServedRun, *, pairs: bool) -> bool:
    """Return whether a run classifies single texts, or pairs."""
    task = served.task
    return isinstance(task, Classify) and task.pairs in (pairs, None) and not task.pictures


def _is_reranker(served: ServedRun) -> bool:
    """Return whether a run predicts a single score for pairs."""
    task = served.task
    if isinstance(task, Classify):
        return task.pairs is not False and len(task.labels) == 1
    return isinstance(task, Regress) and task.pairs is not False


def _tokenizer(service: Service, run: str | None) -> ModelTokenizer:
    served = service.find(
        run,
        lambda served: isinstance(served.predictor.tokenizer, ModelTokenizer),
        "the tokenizer of an encoder",
    )
    tokenizer: ModelTokenizer = served.predictor.tokenizer
    return tokenizer


async def _tokenized(
    service: Service, texts: list[str], tokenizer: ModelTokenizer, *, special: bool
) -> list[list[dict[str, Any]]]:
    """Return the tokens of texts, encoded in parts so that other requests take turns.

    Raises:
        Problem: there are too many texts, characters or tokens.
    """
    check_size(texts, service.settings)
    max_tokens = service.settings.max_tokens
    rows: list[list[dict[str, Any]]] = []
    for part in split_into_turns(texts):
        for text in part:
            await service.check_tokens(text, tokenizer)
        rows += await service.run_in_encoder(
            partial(_tokenize_batch, part, tokenizer, special=special)
        )
        if sum(map(len, rows)) > max_tokens:
            raise too_many_tokens(max_tokens)
    return rows


def _tokenize_batch(
    texts: Sequence[str], tokenizer: ModelTokenizer, *, special: bool
) -> list[list[dict[str, Any]]]:
    """Return the tokens of texts. Runs in the encoder thread."""
    return [_tokenize(text, tokenizer, special) for text in texts]


def _tokenize(text: str, tokenizer: ModelTokenizer, special: bool) -> list[dict[str, Any]]:
    """Return the tokens of a text."""
    pieces = tokenizer.pieces(text)
    tokens: list[dict[str, Any]] = [
        {"id": token_id, "text": text[start:end], "special": False, "start": start, "stop": end}
        for token_id, (start, end) in zip(pieces.ids, pieces.offsets, strict=True)
    ]
    if not special:
        return tokens
    layout = tokenizer.layout
    return [
        *(_special(token_id, tokenizer) for token_id in layout.begin),
        *tokens,
        *(_special(token_id, tokenizer) for token_id in layout.end),
    ]


def _special(token_id: int, tokenizer: ModelTokenizer) -> dict[str, Any]:
    text = tokenizer.vocabulary.token(token_id)
    return {"id": token_id, "text": text, "special": True, "start": None, "stop": None}


def _check_ids(service: Service, rows: list[list[int]], tokenizer: ModelTokenizer) -> None:
    """Check token ids before decoding.

    Raises:
        Problem: there are too many rows or ids, or an id is out of range.
    """
    check_items(len(rows), service.settings)
    if sum(map(len, rows)) > service.settings.max_tokens:
        raise too_many_tokens(service.settings.max_tokens)
    for token_id in chain.from_iterable(rows):
        if not 0 <= token_id < len(tokenizer):
            last = len(tokenizer) - 1
            raise Problem(
                "validation", f"{token_id} is not a token id of this run; ids are 0 to {last}"
            )


async def _decoded(
    service: Service, rows: list[list[int]], decode: Callable[[Sequence[list[int]]], list[str]]
) -> list[str]:
    """Return the text of each row of token ids."""
    texts: list[str] = []
    for part in split_into_turns(rows):
        texts += await service.run_in_encoder(partial(decode, part))
    return texts


def _model_type(served: ServedRun) -> dict[str, dict[str, Any]]:
    task = served.task
    if isinstance(task, Embed):
        return {"embedding": {"pooling": task.pooling}}
    names = task.labels if isinstance(task, Classify) else ("value",)
    labels = {
        "id2label": {str(number): label for number, label in enumerate(names)},
        "label2id": {label: number for number, label in enumerate(names)},
    }
    if _is_reranker(served):
        return {"reranker": labels}
    return {"classifier": labels} if isinstance(task, Classify) else {task.name: {}}
