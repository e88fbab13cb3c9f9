"""The tasks of Hugging Face's Inference API: what each is asked, and what it answers.

The shapes are those of its clients. What an answer holds is what ``heedful predict`` gives.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field

from heedful.reading import Text
from heedful.serving.asking import Body, Reply, Several, ask
from heedful.serving.limits import check_characters, check_items
from heedful.serving.problem import Problem
from heedful.serving.service import MOST_ANSWERS, Served, Service
from heedful.serving.vectors import shaped
from heedful.settings import PredictOptions, ServeSettings
from heedful.tasks.answer import Answer
from heedful.tasks.classify import Classify

Count = Field(default=None, ge=1)


class CallOptions(Body):
    """What old clients say of the service; there is nothing of it here to choose."""

    use_cache: bool | None = None
    wait_for_model: bool | None = None


# Labels of texts.


class TextPair(Body):
    """Two texts that are read together."""

    text: str
    text_pair: str


class LabelParameters(Body):
    """What labels are wanted, and their scores."""

    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = Field(
        default=None, description="What turns logits into scores; by default what the run learnt."
    )
    top_k: int | None = Count


class TextClassification(Body):
    """A text, or several, whose labels are wanted."""

    inputs: str | TextPair | Several[str] | Several[TextPair] = Field(
        examples=["the red cat sleeps"]
    )
    parameters: LabelParameters | None = None
    options: CallOptions | None = None


class ScoredLabel(Reply):
    """A label and its score."""

    label: str
    score: float


async def classify(service: Service, served: Served, body: TextClassification) -> Any:
    """Return the labels of each text, the likeliest first."""
    texts = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    return await _labels(service, served, [_pair(text) for text in texts], body.parameters)


async def _labels(
    service: Service, served: Served, items: Sequence[Text], parameters: LabelParameters | None
) -> list[list[dict[str, Any]]]:
    asked = parameters or LabelParameters()
    assert isinstance(served.task, Classify)
    usual = "sigmoid" if served.task.multi_label else "softmax"
    apply = asked.function_to_apply or usual
    answers = await ask(service, served, items, raw=apply != usual)
    rows = []
    for answer in answers:
        scores = torch.tensor(list(answer.scores.values()))
        if apply != usual and apply != "none":
            scores = scores.sigmoid() if apply == "sigmoid" else scores.softmax(0)
        labels = zip(answer.scores, scores.tolist(), strict=True)
        best = sorted(labels, key=lambda item: -item[1])[: asked.top_k]
        rows.append([{"label": label, "score": score} for label, score in best])
    return rows


def _pair(text: str | TextPair) -> Text:
    return text if isinstance(text, str) else (text.text, text.text_pair)


def classifies(served: Served, body: TextClassification) -> bool:
    """Tell whether a classifier reads what is given: single texts, or pairs."""
    first = body.inputs[0] if isinstance(body.inputs, list) and body.inputs else body.inputs
    pairs = isinstance(first, TextPair)
    task = served.task
    return isinstance(task, Classify) and task.pairs in (pairs, None) and not task.pictures


class ImageClassification(Body):
    """A picture whose labels are wanted."""

    inputs: str = Field(description="The bytes of a picture, as base64.")
    parameters: LabelParameters | None = None
    options: CallOptions | None = None


async def classify_picture(service: Service, served: Served, body: ImageClassification) -> Any:
    """Return the labels of a picture, the likeliest first."""
    (row,) = await _labels(service, served, [body.inputs], body.parameters)
    return row


def sees(served: Served, body: object = None) -> bool:
    """Tell whether a classifier reads pictures."""
    return "see" in served.task.abilities


class ZeroShotParameters(Body):
    """Labels that the run never saw."""

    candidate_labels: Several[str] = Field(min_length=1, examples=[["food", "animal"]])
    hypothesis_template: str = Field(
        default="This example is {}.", description="What is said of a label, which stands for {}."
    )
    multi_label: bool = Field(default=False, description="Whether each label stands for itself.")


class ZeroShot(Body):
    """A text and labels for it."""

    inputs: str = Field(examples=["the red cat sleeps"])
    parameters: ZeroShotParameters
    options: CallOptions | None = None


class ZeroShotReply(Reply):
    """Labels with their scores, the likeliest first."""

    sequence: str
    labels: list[str]
    scores: list[float]


async def zero_shot(service: Service, served: Served, body: ZeroShot) -> Any:
    """Score each label by how surely the text entails what is said of it (Yin et al. 2019)."""
    asked = body.parameters
    if "{}" not in asked.hypothesis_template:
        raise Problem("validation", "hypothesis_template: write {} where the label belongs")
    _check_labels(body, service.settings)
    said = [asked.hypothesis_template.replace("{}", label) for label in asked.candidate_labels]
    entails, contradicts = entailment(served) or ("", "")
    answers = await ask(service, served, [(body.inputs, one) for one in said], raw=True)
    logits = torch.tensor([[a.scores[contradicts], a.scores[entails]] for a in answers])  # (L, 2)
    if asked.multi_label or len(said) == 1:
        scores = logits.softmax(-1)[:, 1]
    else:
        scores = logits[:, 1].softmax(0)
    best = scores.argsort(descending=True, stable=True).tolist()
    return {
        "sequence": body.inputs,
        "labels": [asked.candidate_labels[number] for number in best],
        "scores": [float(scores[number]) for number in best],
    }


def _check_labels(body: ZeroShot, settings: ServeSettings) -> None:
    """Refuse labels of which too much would be said, before that is in memory.

    Raises:
        Problem: there are too many, or too many characters with the text and the template.
    """
    labels, template = body.parameters.candidate_labels, body.parameters.hypothesis_template
    check_items(len(labels), settings)
    repeated = len(labels) * (len(body.inputs) + len(template))
    check_characters(repeated + template.count("{}") * sum(map(len, labels)), settings)


def entailment(served: Served) -> tuple[str, str] | None:
    """Return a run's label of what a text says, and of what it denies, if it has both."""
    task = served.task
    if not isinstance(task, Classify) or task.pairs is False or task.multi_label:
        return None
    entails = [label for label in task.labels if label.lower().startswith("entail")]
    denies = [label for label in task.labels if label.lower().startswith("contradict")]
    others = [label for label in task.labels if label not in entails]
    if len(entails) == 1 and not denies and len(others) == 1:
        denies = others
    return (entails[0], denies[0]) if len(entails) == 1 and len(denies) == 1 else None


# Vectors of texts.


class FeatureExtraction(Body):
    """A text, or several, that are wanted as vectors."""

    inputs: str | Several[str] = Field(examples=["the red cat sleeps"])
    normalize: bool | None = Field(default=None, description="By default as the run learnt.")
    truncate: bool | None = Field(
        default=None,
        description="Read the start of a text that is too long, or refuse it; by default it is "
        "read in windows.",
    )
    truncation_direction: Literal["Left", "Right", "left", "right"] | None = None
    prompt_name: str | None = Field(default=None, description="Runs have no prompts: null.")
    dimensions: int | None = Field(default=None, description="Give only the first dimensions.")
    parameters: dict[str, Any] | None = Field(default=None, max_length=0)
    options: CallOptions | None = None


async def vectors(service: Service, served: Served, body: FeatureExtraction) -> Any:
    """Return a vector of each text."""
    if body.prompt_name is not None:
        raise Problem("validation", "prompt_name: runs have no prompts; write it into the texts")
    if body.truncate and (body.truncation_direction or "").lower() == "left":
        raise Problem("validation", "truncation_direction Left: only the end can be cut off")
    options = PredictOptions(raw=body.normalize is False)
    if body.truncate is not None:
        options["long_text"] = "head" if body.truncate else "refuse"
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    normalise = bool(body.normalize) or (body.normalize is None and body.dimensions is not None)
    answers = await ask(service, served, texts, **options)
    return [shaped(a.vector, body.dimensions, normalise=normalise).tolist() for a in answers]


class Compared(Body):
    """A text, and those to compare it with."""

    source_sentence: str = Field(examples=["the red cat"])
    sentences: Several[str] = Field(examples=[["a cat, red", "it is white"]])


class SentenceSimilarity(Body):
    """Texts whose similarity is wanted."""

    inputs: Compared
    parameters: dict[str, Any] | None = Field(default=None, max_length=0)
    options: CallOptions | None = None


async def similarities(service: Service, served: Served, body: SentenceSimilarity) -> Any:
    """Return the cosine of the source and each sentence."""
    texts = [body.inputs.source_sentence, *body.inputs.sentences]
    first, *others = await ask(service, served, texts)
    return [float(torch.cosine_similarity(first.vector, other.vector, dim=0)) for other in others]


# Answers to questions.


class QuestionInputs(Body):
    """A question, and the text that answers it."""

    question: str = Field(examples=["what sleeps?"])
    context: str = Field(examples=["the red cat sleeps. the sky is blue."])


class QuestionParameters(Body):
    """Which answers are wanted. What a run decided when it was trained cannot be asked for."""

    top_k: int | None = Count
    max_seq_len: int | None = Field(default=None, ge=8, description="Tokens read at once.")
    handle_impossible_answer: bool | None = Field(
        default=None, description="Whether there may be none; by default as the run learnt."
    )


class QuestionAnswering(Body):
    """A question to answer."""

    inputs: QuestionInputs
    parameters: QuestionParameters | None = None
    options: CallOptions | None = None


class Span(Reply):
    """An answer: a slice of the context, empty where the context holds none."""

    score: float
    start: int
    end: int
    answer: str


async def answer_question(service: Service, served: Served, body: QuestionAnswering) -> Any:
    """Return the answer, or the best ones where several are wanted."""
    asked = body.parameters or QuestionParameters()
    assert isinstance(served.task, Answer)
    if asked.handle_impossible_answer and served.task.no_answer is False:
        message = "handle_impossible_answer: this run learnt from no question without an answer"
        raise Problem("validation", message)
    top = asked.top_k or 1
    options = PredictOptions(top=max(top, min(top + 1, MOST_ANSWERS)))  # one may be left out
    if asked.max_seq_len is not None:
        options["max_length"] = asked.max_seq_len
    if asked.handle_impossible_answer and served.task.no_answer is None:
        options["no_answer_threshold"] = served.task.threshold
    pair = (body.inputs.question, body.inputs.context)
    (answer,) = await ask(service, served, [pair], **options)
    spans = [answer] if top == 1 else list(answer.n_best)
    if asked.handle_impossible_answer is False:
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


# Words behind masks.


class FillParameters(Body):
    """Which words are wanted."""

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
    """A token that may stand behind a mask."""

    score: float
    token: int
    token_str: str
    sequence: str


async def fill(service: Service, served: Served, body: FillMask) -> Any:
    """Return tokens for the mask; of several masks, a list for each."""
    asked = body.parameters or FillParameters()
    options = PredictOptions(targets=tuple(asked.targets or ()))
    if asked.top_k is not None:
        options["top"] = asked.top_k
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
