"""Check the options that a caller gives for answers."""

from dataclasses import fields, replace

from heedful.errors import UserError, option_of, with_article
from heedful.settings import PredictOptions, PredictSettings, checked_options
from heedful.task import AnyTask

_DEFAULT = PredictSettings()

_COMMON_OPTIONS = frozenset(
    {"precision", "device", "long_text", "max_length", "batch_size", "batch_tokens"}
)


def check_options(task: AnyTask, settings: PredictSettings) -> None:
    """Refuse an option that would have no effect.

    Raises:
        UserError: the task has no such option, or a sampling option is given without sampling.
    """
    for field in fields(PredictSettings):
        option = option_of(field.name)
        if getattr(settings, field.name) == field.default or field.name in _COMMON_OPTIONS:
            continue
        if field.name not in task.answer_options:
            raise UserError(f"{option} has no effect on {with_article(task.name)} run")
        if field.name in ("temperature", "top_k", "top_p", "seed") and not settings.sample:
            raise UserError(f"{option} needs --sample")
        if field.name in ("beam", "length_penalty", "coverage_penalty") and settings.sample:
            raise UserError(f"{option} is for a search, not for --sample; leave one of them out")
    if "write" in task.abilities and not settings.sample:
        top, beam = settings.top, settings.beam
        if top != _DEFAULT.top and top > beam:
            raise UserError(
                f"--top {top}: a search with --beam {beam} finds only {beam} texts; give a larger "
                "--beam"
            )


def with_options(settings: PredictSettings, options: PredictOptions) -> PredictSettings:
    """Return settings with the options of a call.

    Raises:
        UserError: an option is misspelt, out of range, or fixed when the run is loaded.
    """
    for name in ("precision", "device"):
        if name in options:
            raise UserError(f"--{name} is set when a run is loaded: heedful.load(run, {name}=...)")
    return replace(settings, **checked_options(options)) if options else settings
