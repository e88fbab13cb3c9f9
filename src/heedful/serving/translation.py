"""The translation task of Hugging Face's Inference API."""

from typing import Any, Literal

from pydantic import Field

from heedful.serving.asking import Body, Reply, Several, ask
from heedful.serving.pipelines import CallOptions, Count
from heedful.serving.problem import Problem
from heedful.serving.service import ServedRun, Service


class GenerateParameters(Body):
    """Parameters of beam search and sampling."""

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


_OPTION_NAMES = {
    "num_beams": "beam",
    "num_return_sequences": "top",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "do_sample": "sample",
}
"""The client's parameter names to heedful's option names, where they differ."""

NAMES = {ours: theirs for theirs, ours in _OPTION_NAMES.items()} | {"long_text": "truncation"}
"""heedful's option names to the client's."""


class TranslationParameters(Body):
    """Parameters of a translation."""

    truncation: Literal["do_not_truncate", "longest_first", "only_first"] | None = Field(
        default=None,
        description="Whether to refuse or truncate a text that is too long; default: translate it "
        "sentence by sentence.",
    )
    clean_up_tokenization_spaces: Literal[False] | None = Field(
        default=None, description="Must be false: translations need no cleaning up."
    )
    generate_parameters: GenerateParameters | None = None


class Translation(Body):
    """One or several texts to translate."""

    inputs: str | Several[str] = Field(examples=["Das hund ist rot!"])
    parameters: TranslationParameters | None = None
    options: CallOptions | None = None


class Translated(Reply):
    """A translation."""

    translation_text: str


async def translate(service: Service, served: ServedRun, body: Translation) -> Any:
    """Return the translation of each text, or several of each if ``num_return_sequences`` is set.

    Raises:
        Problem: more translations are requested than the beam has hypotheses.
    """
    parameters = body.parameters or TranslationParameters()
    generating = parameters.generate_parameters or GenerateParameters()
    options: Any = {
        _OPTION_NAMES.get(name, name): value
        for name, value in generating.model_dump(exclude_none=True).items()
    }
    if parameters.truncation is not None:
        options["long_text"] = "refuse" if parameters.truncation == "do_not_truncate" else "head"
    if options.get("sample"):
        options.setdefault("top", 1)  # the other samples would not be returned
    num_returned, settings = generating.num_return_sequences or 1, served.settings(**options)
    if num_returned > settings.beam and not settings.sample:
        raise Problem(
            "validation",
            f"num_return_sequences {num_returned}: a search with num_beams {settings.beam} finds "
            f"only {settings.beam} texts; give a larger num_beams",
        )
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    answers = await ask(service, served, texts, **options)
    return [
        {"translation_text": one.text} for answer in answers for one in answer.n_best[:num_returned]
    ]
