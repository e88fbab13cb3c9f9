"""Request and response formats of the tasks of Hugging Face's Inference API.

The formats are those of its clients. The content of an answer is as from ``heedful predict``.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field

from heedful.reading import Text
from heedful.serving.asking import Body, Reply, Several, ask
from heedful.serving.limits import check_characters, check_items
from heedful.serving.problem import Problem
from heedful.serving.service import MAX_ANSWERS, ServedRun, Service
from heedful.serving.vectors import shaped
from heedful.settings import PredictOptions, ServeSettings
from heedful.tasks.answer import Answer
from heedful.tasks.classify import Classify

Count = Field(default=None, ge=1)


class CallOptions(Body):
    """Service options that old clients send. They have no effect."""

    use_cache: bool | None = None
    wait_for_model: bool | None = None


# Classification.


class TextPair(Body):
    """A pair of texts."""

    text: str
    text_pair: str


class LabelParameters(Body):
    """Parameters of the labels and scores to return."""

    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = Field(
        default=None, description="How to turn logits into scores; default: as in training."
    )
    top_k: int | None = Count


class TextClassification(Body):
    """One or several texts to classify."""

    inputs: str | TextPair | Several[str] | Several[TextPair] = Field(
        examples=["the red cat sleeps"]
    )
    parameters: LabelParameters | None = None
    options: CallOptions | None = None


class ScoredLabel(Reply):
    """A label and its score."""

    label: str
    score: float


async def classify(service: Service, served: ServedRun, body: TextClassification) -> Any:
    """Return the labels of each text, most likely first."""
    texts = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    return await _labels(service, served, [_pair(text) for text in texts], body.parameters)


async def _labels(
    service: Service, served: ServedRun, items: Sequence[Text], parameters: LabelParameters | None
) -> list[list[dict[str, Any]]]:
    options = parameters or LabelParameters()
    assert isinstance(served.task, Classify)
    default_function = "sigmoid" if served.task.multi_label else "softmax"
    function = options.function_to_apply or default_function
    answers = await ask(service, served, items, raw=function != default_function)
    rows = []
    for answer in answers:
        scores = torch.tensor(list(answer.scores.values()))
        if function != default_function and function != "none":
            scores = scores.sigmoid() if function == "sigmoid" else scores.softmax(0)
        labels = zip(answer.scores, scores.tolist(), strict=True)
        best = sorted(labels, key=lambda item: -item[1])[: options.top_k]
        rows.append([{"label": label, "score": score} for label, score in best])
    return rows


def _pair(text: str | TextPair) -> Text:
    return text if isinstance(text, str) else (text.text, text.text_pair)


def can_classify(served: ServedRun, body: TextClassification) -> bool:
    """Return whether a run classifies the kind of input given: single texts, or pairs."""
    first = body.inputs[0] if isinstance(body.inputs, list) and body.inputs else body.inputs
    pairs = isinstance(first, TextPair)
    task = served.task
    return isinstance(task, Classify) and task.pairs in (pairs, None) and not task.pictures


class ImageClassification(Body):
    """An image to classify."""

    inputs: str = Field(description="The bytes of an image, in base64.")
    parameters: LabelParameters | None = None
    options: CallOptions | None = None


async def classify_image(service: Service, served: ServedRun, body: ImageClassification) -> Any:
    """Return the labels of an image, most likely first."""
    (row,) = await _labels(service, served, [body.inputs], body.parameters)
    return row


def reads_images(served: ServedRun, body: object = None) -> bool:
    """Return whether a run reads images."""
    return "see" in served.task.abilities


class ZeroShotParameters(Body):
    """Candidate labels, which the run need not have been trained on."""

    candidate_labels: Several[str] = Field(min_length=1, examples=[["food", "animal"]])
    hypothesis_template: str = Field(
        default="This example is {}.", description="A sentence about a label, which replaces {}."
    )
    multi_label: bool = Field(
        default=False, description="Whether each label is scored independently of the others."
    )


class ZeroShot(Body):
    """A text and its candidate labels."""

    inputs: str = Field(examples=["the red cat sleeps"])
    parameters: ZeroShotParameters
    options: CallOptions | None = None


class ZeroShotReply(Reply):
    """Labels and their scores, most likely first."""

    sequence: str
    labels: list[str]
    scores: list[float]


async def zero_shot(service: Service, served: ServedRun, body: ZeroShot) -> Any:
    """Score each label by the probability that the text entails its hypothesis (Yin et al. 2019).

    Raises:
        Problem: the template has no ``{}``, or a limit is exceeded.
    """
    parameters = body.parameters
    if "{}" not in parameters.hypothesis_template:
        raise Problem("validation", "hypothesis_template: write {} in place of the label")
    _check_labels(body, service.settings)
    hypotheses = [
        parameters.hypothesis_template.replace("{}", label) for label in parameters.candidate_labels
    ]
    entails, contradicts = entailment(served) or ("", "")
    answers = await ask(service, served, [(body.inputs, one) for one in hypotheses], raw=True)
    logits = torch.tensor([[a.scores[contradicts], a.scores[entails]] for a in answers])  # (L, 2)
    if parameters.multi_label or len(hypotheses) == 1:
        scores = logits.softmax(-1)[:, 1]
    else:
        scores = logits[:, 1].softmax(0)
    best = scores.argsort(descending=True, stable=True).tolist()
    return {
        "sequence": body.inputs,
        "labels": [parameters.candidate_labels[index] for index in best],
        "scores": [float(scores[index]) for index in best],
    }


def _check_labels(body: ZeroShot, settings: ServeSettings) -> None:
    """Check the number and total size of the hypotheses before they are built.

    Raises:
        Problem: there are too many labels, or too many characters with the text and the template.
    """
    labels, template = body.parameters.candidate_labels, body.parameters.hypothesis_template
    check_items(len(labels), settings)
    repeated = len(labels) * (len(body.inputs) + len(template))
    check_characters(repeated + template.count("{}") * sum(map(len, labels)), settings)


def entailment(served: ServedRun) -> tuple[str, str] | None:
    """Return a run's labels for entailment and contradiction, or None if it lacks one."""
    task = served.task
    if not isinstance(task, Classify) or task.pairs is False or task.multi_label:
        return None
    entails = [label for label in task.labels if label.lower().startswith("entail")]
    denies = [label for label in task.labels if label.lower().startswith("contradict")]
    others = [label for label in task.labels if label not in entails]
    if len(entails) == 1 and not denies and len(others) == 1:
        denies = others
    return (entails[0], denies[0]) if len(entails) == 1 and len(denies) == 1 else None


# Embeddings.


class FeatureExtraction(Body):
    """One or several texts to embed."""

    inputs: str | Several[str] = Field(examples=["the red cat sleeps"])
    normalize: bool | None = Field(default=None, description="Default: as in training.")
    truncate: bool | None = Field(
        default=None,
        description="Whether to truncate a text that is too long or to refuse it; default: read it "
        "in windows.",
    )
    truncation_direction: Literal["Left", "Right", "left", "right"] | None = None
    prompt_name: str | None = Field(default=None, description="Must be null: runs have no prompts.")
    dimensions: int | None = Field(default=None, description="Give only the first dimensions.")
    parameters: dict[str, Any] | None = Field(default=None, max_length=0)
    options: CallOptions | None = None


async def vectors(service: Service, served: ServedRun, body: FeatureExtraction) -> Any:
    """Return the embedding of each text."""
    if body.prompt_name is not None:
        raise Problem("validation", "prompt_name: runs have no prompts; write it into the texts")
    if body.truncate and (body.truncation_direction or "").lower() == "left":
        raise Problem(
            "validation", "truncation_direction Left: texts can only be truncated at the end"
        )
    options = PredictOptions(raw=body.normalize is False)
    if body.truncate is not None:
        options["long_text"] = "head" if body.truncate else "refuse"
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    normalise = bool(body.normalize) or (body.normalize is None and body.dimensions is not None)
    answers = await ask(service, served, texts, **options)
    return [shaped(a.vector, body.dimensions, normalise=normalise).tolist() for a in answers]


class Compared(Body):
    """A text, and the sentences to compare it with."""

    source_sentence: str = Field(examples=["the red cat"])
    sentences: Several[str] = Field(examples=[["a cat, red", "it is white"]])


class SentenceSimilarity(Body):
    """Texts to compare."""

    inputs: Compared
    parameters: dict[str, Any] | None = Field(default=None, max_length=0)
    options: CallOptions | None = None


async def similarities(service: Service, served: ServedRun, body: SentenceSimilarity) -> Any:
    """Return the cosine similarity of the source sentence and each other sentence."""
    texts = [body.inputs.source_sentence, *body.inputs.sentences]
    first, *others = await ask(service, served, texts)
    return [float(torch.cosine_similarity(first.vector, other.vector, dim=0)) for other in others]


# Question answering.


class QuestionInputs(Body):
    """A question, and the context to find the answer in."""

    question: str = Field(examples=["what sleeps?"])
    context: str = Field(examples=["the red cat sleeps. the sky is blue."])


class QuestionParameters(Body):
    """Parameters of the answers. Settings fixed when the run was trained cannot be changed."""

    top_k: int | None = Count
    max_seq_len: int | None = Field(
        default=None, ge=8, description="Maximum number of tokens per window."
    )
    handle_impossible_answer: bool | None = Field(
        default=None, description="Whether there may be no answer; default: as in training."
    )


class QuestionAnswering(Body):
    """A question to answer."""

    inputs: QuestionInputs
    parameters: QuestionParameters | None = None
    options: CallOptions | None = None


class Span(Reply):
    """An answer: a span of the context, empty if the context has no answer."""

    score: float
    start: int
    end: int
    answer: str


async def answer_question(service: Service, served: ServedRun, body: QuestionAnswering) -> Any:
    """Return the best answer, or a list of the best if ``top_k`` is above 1."""
    parameters = body.parameters or QuestionParameters()
    assert isinstance(served.task, Answer)
    if parameters.handle_impossible_answer and served.task.no_answer is False:
        message = "handle_impossible_answer: this run was trained without unanswerable questions"
        raise Problem("validation", message)
    top = parameters.top_k or 1
    # One more, since "no answer" may be dropped below.
    options = PredictOptions(top=max(top, min(top + 1, MAX_ANSWERS)))
    if parameters.max_seq_len is not None:
        options["max_length"] = parameters.max_seq_len
    if parameters.handle_impossible_answer and served.task.no_answer is None:
        options["no_answer_threshold"] = served.task.threshold
    pair = (body.inputs.question, body.inputs.context)
    (answer,) = await ask(service, served, [pair], **options)
    spans = [answer] if top == 1 else list(answer.n_best)
    if parameters.handle_impossible_answer is False:
        spans = [one for one in answer.n_best if one.answer is not None]
    rows = [
        {
            "score": one.score,
            "start": one.start or 0,
            "end": one.end or 0,
            "answer": one.answer or "",
        }
        for one in spans[:top]
    ]
    if top > 1:
        return rows
    return rows[0] if rows else {"score": 0.0, "start": 0, "end": 0, "answer": ""}


# Masked-token prediction.


class FillParameters(Body):
    """Parameters of the candidate words."""

    top_k: int | None = Count
    targets: Several[str] | None = Field(
        default=None, description="Choose among these.", examples=[["cat", "horse"]]
    )


class FillMask(Body):
    """A text with masks."""

    inputs: str = Field(examples=["the [MASK] is red."])
    parameters: FillParameters | None = None
    options: CallOptions | None = None


class FilledMask(Reply):
    """A candidate token for a mask."""

    score: float
    token: int
    token_str: str
    sequence: str


async def fill(service: Service, served: ServedRun, body: FillMask) -> Any:
    """Return the candidate tokens of the mask, or a list for each of several masks."""
    parameters = body.parameters or FillParameters()
    options = PredictOptions(targets=tuple(parameters.targets or ()))
    if parameters.top_k is not None:
        options["top"] = parameters.top_k
    ids = served.predictor.tokenizer.vocabulary.ids
    (answer,) = await ask(service, served, [body.inputs], **options)
    rows = [
        [
            {
                "score": one.score,
                "token": ids[one.token],
                "token_str": one.token,
                "sequence": one.text,
            }
            for one in blank.candidates
        ]
        for blank in answer.blanks
    ]
    return rows[0] if len(rows) == 1 else rows
