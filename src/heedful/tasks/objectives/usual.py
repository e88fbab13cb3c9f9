"""What pre-training learns where users do not say: what the paper of a family teaches it."""

from dataclasses import replace

from heedful.models.loading import family_of
from heedful.settings import PretrainSettings
from heedful.settings.tasks import ObjectiveName
from heedful.sources import resolve
from heedful.task import Recipe
from heedful.training.distil import teacher_record

_USUAL: dict[str, ObjectiveName] = {
    "albert": "sop",
    "bert": "mlm+nsp",
    "electra": "rtd",
    "ernie": "mlm+nsp",
    "gpt2": "clm",
    "xlnet": "plm",
}
"""By family. All others learn masked words alone."""


def with_objective(recipe: Recipe) -> Recipe:
    """Return a recipe of pre-training with its objective; any other as it is.

    A student learns what its teacher has learnt.

    Raises:
        UserError: there is no such model to go on from, or no such teacher.
    """
    data, options = recipe.data, recipe.options
    if not isinstance(options, PretrainSettings) or options.objective is not None:
        return recipe
    objective: ObjectiveName
    if (teacher := teacher_record(recipe.teaching, "pretrain")) is not None:
        objective = teacher.goal["objective"]
    elif options.preset is not None:
        objective = _USUAL.get(options.arch, "mlm")
    else:
        objective = _USUAL.get(family_of(resolve(data.model, data.revision))[0], "mlm")
    return replace(recipe, options=replace(options, objective=objective))
