"""Embeddings for OpenAI's own client, and for LangChain through it."""

import base64

import httpx
import numpy as np
import pytest
import torch
from tests.serving.conftest import Live

openai = pytest.importorskip("openai", reason="needs openai's client")

TEXTS = ["the red cat sleeps", "a soup, green"]


@pytest.fixture(scope="module")
def client(live: Live) -> "openai.OpenAI":
    return openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0)


def vectors(live: Live) -> torch.Tensor:
    return torch.stack([answer.vector for answer in live.load("embed")(TEXTS)])


def close(one: object, other: object) -> bool:
    return torch.allclose(torch.as_tensor(one), torch.as_tensor(other), atol=1e-5)


def test_it_asks_for_base64_by_default(client: "openai.OpenAI", live: Live) -> None:
    reply = client.embeddings.create(model="embed", input=TEXTS)
    assert close([row.embedding for row in reply.data], vectors(live))
    assert [row.index for row in reply.data] == [0, 1]
    assert reply.model == "embed"
    tokens = sum(answer.tokens_total for answer in live.load("embed")(TEXTS))
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (tokens, tokens)


def test_floats_and_dimensions(client: "openai.OpenAI", live: Live) -> None:
    reply = client.embeddings.create(
        model="embed", input=TEXTS[0], encoding_format="float", dimensions=8
    )
    short = vectors(live)[0, :8]
    assert close(reply.data[0].embedding, short / short.norm())


def test_base64_is_of_little_endian_floats(live: Live) -> None:
    body = {"input": TEXTS[0], "encoding_format": "base64"}
    reply = httpx.post(f"{live.url}/models/embed/v1/embeddings", json=body).json()
    numbers = np.frombuffer(base64.b64decode(reply["data"][0]["embedding"]), "<f4")
    assert close(numbers.copy(), vectors(live)[0])


def test_models(client: "openai.OpenAI") -> None:
    names = [model.id for model in client.models.list()]
    assert names[:2] == ["classify", "many"]
    assert client.models.retrieve("embed").id == "embed"
    with pytest.raises(openai.NotFoundError, match="no run of that name"):
        client.models.retrieve("gpt-4")


@pytest.mark.parametrize("ids", [[1, 2], [[1, 2], [3]]])
def test_ids_are_refused(client: "openai.OpenAI", ids: list[int] | list[list[int]]) -> None:
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        client.embeddings.create(model="embed", input=ids)


def test_errors(client: "openai.OpenAI") -> None:
    with pytest.raises(openai.NotFoundError, match="no run of that name") as error:
        client.embeddings.create(model="text-embedding-3-small", input="a")
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="tag is a tag run"):
        client.embeddings.create(model="tag", input="a")
    with pytest.raises(openai.BadRequestError, match="input is empty"):
        client.embeddings.create(model="embed", input=[])
    with pytest.raises(openai.BadRequestError, match="did you mean 'user'"):
        client.embeddings.create(model="embed", input="a", extra_body={"users": "x"})


def test_langchain(live: Live) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="needs LangChain")
    embeddings = langchain.OpenAIEmbeddings(
        base_url=f"{live.url}/v1", api_key="none", model="embed", check_embedding_ctx_length=False
    )
    assert close(embeddings.embed_documents(TEXTS), vectors(live))
    assert close(embeddings.embed_query(TEXTS[1]), vectors(live)[1])
