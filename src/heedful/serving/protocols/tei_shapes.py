"""Request and response bodies of text-embeddings-inference."""

from typing import Any, Literal

from pydantic import Field

from heedful.serving.asking import Body, Reply, Several

Direction = Literal["Left", "Right", "left", "right"]
Ids = Several[int]


class Truncation(Body):
    """How to handle texts that are too long."""

    truncate: bool | None = Field(
        default=False, description="Truncate a text that is too long; else refuse it."
    )
    truncation_direction: Direction = Field(
        default="Right", description="The side to truncate: only Right."
    )
    prompt_name: str | None = Field(default=None, description="Must be null: runs have no prompts.")


class EmbedAllBody(Truncation):
    """Texts whose tokens to embed."""

    inputs: str | Several[str] | Ids | Several[Ids] = Field(
        description="A text, several, or the same as ids, which POST /decode turns into texts.",
        examples=["the red cat sleeps", ["the red cat", "it is white"]],
    )


class EmbedBody(EmbedAllBody):
    """Texts to embed."""

    normalize: bool = Field(default=True, description="Give vectors of length 1.")
    dimensions: int | None = Field(default=None, description="Give only the first dimensions.")


class PredictBody(Truncation):
    """Texts or pairs of texts to classify."""

    inputs: str | Several[str] | Several[Several[str]] = Field(
        description='A text; ["a", "b"] is one pair; [["a"], ["b"]] are two texts and '
        '[["a", "b"], ["c", "d"]] two pairs.',
        examples=["the red cat sleeps", [["the red cat"], ["it is white"]]],
    )
    raw_scores: bool = Field(default=False, description="Give logits, not probabilities.")


class RerankBody(Body):
    """Texts to rank by their relevance to a query."""

    query: str = Field(examples=["a red cat"])
    texts: Several[str] = Field(examples=[["the cat is red", "it is white"]])
    raw_scores: bool = Field(
        default=False, description="Give logits; a run of regress gives its number in any case."
    )
    return_text: bool = False
    truncate: bool | None = False
    truncation_direction: Direction = "Right"


class Sentences(Body):
    """A text, and the sentences to compare it with."""

    source_sentence: str = Field(examples=["the red cat"])
    sentences: Several[str] = Field(examples=[["a cat, red", "it is white"]])


class SimilarityBody(Body):
    """Texts to compare."""

    inputs: Sentences
    parameters: Truncation = Truncation()


class TokenizeBody(Body):
    """Texts to tokenize."""

    inputs: str | Several[str] = Field(examples=["the red cat"])
    add_special_tokens: bool = True
    prompt_name: str | None = Field(default=None, description="Must be null: runs have no prompts.")


class DecodeBody(Body):
    """Token ids to decode."""

    ids: Ids | Several[Ids] = Field(examples=[[2, 10, 11, 3]])
    skip_special_tokens: bool = True


class Label(Reply):
    """A label and its probability, or its logit."""

    label: str
    score: float


class Rank(Reply):
    """The index of a text, and its relevance to the query."""

    index: int
    score: float
    text: str | None = None


class Token(Reply):
    """A token, with its character offsets in the text. A special token has no offsets."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class Info(Reply):
    """Information about a run and the server's limits."""

    model_id: str
    model_sha: None = None
    model_dtype: str
    served_model_name: str
    model_type: dict[str, dict[str, Any]] = Field(
        description="classifier, embedding, reranker, or the task of the run.",
        examples=[{"embedding": {"pooling": "mean"}}],
    )
    max_concurrent_requests: int | None = None
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: None = None
    max_client_batch_size: int
    auto_truncate: Literal[False] = False
    tokenization_workers: int = 1
    version: str
    sha: None = None
    docker_label: None = None


class TeiFailure(Reply):
    """The body of an error response."""

    error: str
    error_type: Literal["Backend", "Empty", "Overloaded", "Unhealthy", "Validation"]
