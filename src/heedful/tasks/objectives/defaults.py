"""The default pre-training objective: the one in the paper of the model family."""

from dataclasses import replace

from heedful.models.loading import family_of
from heedful.settings import PretrainSettings
from heedful.settings.tasks import ObjectiveName
from heedful.sources import resolve
from heedful.task import Recipe
from heedful.training.distil import teacher_record

_DEFAULTS: dict[str, ObjectiveName] = {
    "albert": "sop",
    "bert": "mlm+nsp",
    "electra": "rtd",
    "ernie": "mlm+nsp",
    "gpt2": "clm",
    "xlnet": "plm",
}
"""By family. All other families use masked language modelling."""


def with_default_objective(recipe: Recipe) -> Recipe:
    """Return a pre-training recipe with its objective set; return any other recipe unchanged.

    A student uses the objective of its teacher.

    Raises:
        UserError: the model to continue from or the teacher does not exist.
    """
    data, options = recipe.data, recipe.options
    if not isinstance(options, PretrainSettings) or options.objective is not None:
        return recipe
    objective: ObjectiveName
    if (teacher := teacher_record(recipe.teaching, "pretrain")) is not None:
        objective = teacher.goal["objective"]
    elif options.preset is not None:
        objective = _DEFAULTS.get(options.arch, "mlm")
    else:
        objective = _DEFAULTS.get(family_of(resolve(data.model, data.revision))[0], "mlm")
    return replace(recipe, options=replace(options, objective=objective))
