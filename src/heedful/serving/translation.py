"""The task translation of Hugging Face's Inference API."""

from typing import Any, Literal

from pydantic import Field

from heedful.serving.asking import Body, Reply, Several, ask
from heedful.serving.pipelines import CallOptions, Count
from heedful.serving.problem import Problem
from heedful.serving.service import Served, Service


class GenerateParameters(Body):
    """How a translation is looked for."""

    num_beams: int | None = Count
    num_return_sequences: int | None = Count
    max_new_tokens: int | None = Count
    min_new_tokens: int | None = None
    length_penalty: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None


_GENERATING = {
    "num_beams": "beam",
    "num_return_sequences": "top",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "do_sample": "sample",
}
"""What heedful calls those that it calls otherwise."""

NAMES = {ours: theirs for theirs, ours in _GENERATING.items()} | {"long_text": "truncation"}
"""What clients call options of heedful."""


class TranslationParameters(Body):
    """How texts are translated."""

    truncation: Literal["do_not_truncate", "longest_first", "only_first"] | None = Field(
        default=None,
        description="Refuse a text that is too long, or read its start; by default it is "
        "translated sentence by sentence.",
    )
    clean_up_tokenization_spaces: Literal[False] | None = Field(
        default=None, description="Translations need none."
    )
    generate_parameters: GenerateParameters | None = None


class Translation(Body):
    """A text, or several, to translate."""

    inputs: str | Several[str] = Field(examples=["Das hund ist rot!"])
    parameters: TranslationParameters | None = None
    options: CallOptions | None = None


class Translated(Reply):
    """A translation."""

    translation_text: str


async def translate(service: Service, served: Served, body: Translation) -> Any:
    """Return the translation of each text; or several of each, as many as are asked for.

    Raises:
        Problem: a search does not keep so many.
    """
    asked = body.parameters or TranslationParameters()
    generating = asked.generate_parameters or GenerateParameters()
    options: Any = {
        _GENERATING.get(name, name): value
        for name, value in generating.model_dump(exclude_none=True).items()
    }
    if asked.truncation is not None:
        options["long_text"] = "refuse" if asked.truncation == "do_not_truncate" else "head"
    several, settings = generating.num_return_sequences or 1, served.settings(**options)
    if several > settings.beam and not settings.sample:
        raise Problem(
            "validation",
            f"num_return_sequences {several}: a search keeps num_beams {settings.beam} texts; "
            "give a larger num_beams",
        )
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    answers = await ask(service, served, texts, **options)
    return [{"translation_text": one.text} for answer in answers for one in answer.n_best[:several]]
