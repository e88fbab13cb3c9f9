"""Tell the user if the model to fine-tune has random weights."""

from heedful.models.model import Model
from heedful.task import Recipe, Say


def say_if_untrained(model: Model, recipe: Recipe, say: Say) -> None:
    """Say that the weights below the head are untrained, and what to give then.

    At the rate and the length for pre-trained models, random weights learn next to nothing. Nothing
    is said of a model from scratch, or if the user gives a learning rate.
    """
    training = recipe.training
    if recipe.from_scratch or training.learning_rate is not None or not is_untrained(model):
        return
    scratch, rate = training.scratch, f"{training.scratch.learning_rate:g}"
    rate_of_head = f", --head-learning-rate {rate}" if trains_head(model) else ""
    say(
        "the weights of the model are random, not pre-trained: every bias is 0; to train from "
        f"scratch, give --learning-rate {rate}{rate_of_head} and --steps {scratch.min_steps} or "
        "more"
    )


def trains_head(model: Model) -> bool:
    """Return whether a model has a head that is not frozen."""
    return any(parameter.requires_grad for parameter in model.head_parameters())


def is_untrained(model: Model) -> bool:
    """Return whether all biases below the head and the pooler are 0, as before any training."""
    head = {id(parameter) for parameter in model.head_parameters()}
    biases = [
        parameter
        for name, parameter in model.named_parameters()
        if name.endswith("bias") and parameter.ndim == 1 and id(parameter) not in head
    ]
    return bool(biases) and not any(bias.any() for bias in biases)
