"""The optimizer: AdamW with decoupled weight decay, and none of it on biases and normalisation."""

from collections.abc import Iterable, Mapping
from inspect import unwrap

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.host import waits
from heedful.models.model import Model

STATE_NAMES = ("step", "exp_avg", "exp_avg_sq")


class AdamW(torch.optim.AdamW):
    """torch's AdamW, without the wrappers that keep torch's compiler away from it.

    The first call of each imports the compiler, which takes seconds and is never used here.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)
    state_dict = unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))


def parameter_groups(
    model: Model,
    *,
    learning_rate: float,
    head: Iterable[nn.Parameter],
    head_learning_rate: float,
    weight_decay: float,
) -> list[dict[str, object]]:
    """Split the trainable parameters by learning rate and by whether they decay.

    Biases and the gains and offsets of normalisation are vectors, except the biases of distances;
    everything that multiplies is a matrix. No decay on them is the rule of the original code of
    BERT and XLNet.

    Args:
        model: what is trained.
        learning_rate: of all but the head.
        head: what learns at a rate of its own.
        head_learning_rate: that rate.
        weight_decay: of what decays.
    """
    of_head = {id(parameter) for parameter in head}
    slow: list[nn.Parameter] = []
    fast: list[nn.Parameter] = []
    decaying: set[int] = set()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (fast if id(parameter) in of_head else slow).append(parameter)
            if parameter.ndim > 1 and "bias" not in name:
                decaying.add(id(parameter))
    return [
        {
            "params": [p for p in parameters if (id(p) in decaying) == decayed],
            "lr": rate,
            "weight_decay": weight_decay if decayed else 0.0,
        }
        for parameters, rate in ((slow, learning_rate), (fast, head_learning_rate))
        for decayed in (True, False)
    ]


def adamw(
    model: Model,
    *,
    learning_rate: float,
    head: Iterable[nn.Parameter] = (),
    head_learning_rate: float | None = None,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
) -> AdamW:
    """Build AdamW (Loshchilov and Hutter 2019) with BERT's constants unless told otherwise.

    The fused kernel reads each number once; on a CPU it is several times faster than the loop.
    """
    groups = parameter_groups(
        model,
        learning_rate=learning_rate,
        head=head,
        head_learning_rate=head_learning_rate or learning_rate,
        weight_decay=weight_decay,
    )
    return AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=True)


def step_unless(stopped: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Take a step unless a flag says that the run stopped.

    Args:
        stopped: on the device of the parameters, where the fused kernel reads it. Shape (), bool.
        optimizer: made by `adamw`.
    """
    if not waits(stopped.device):
        if not stopped:
            optimizer.step()
        return
    # By these two attributes torch's loss scaling, too, has the fused kernel leave all as it is.
    optimizer.grad_scale, optimizer.found_inf = None, stopped.float()  # type: ignore[attr-defined]
    optimizer.step()
    del optimizer.grad_scale, optimizer.found_inf  # type: ignore[attr-defined]


def _ordered_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Return the parameters' names in the order the optimizer numbers them."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as tensors under ``parameter/state`` names."""
    states = optimizer.state_dict()["state"]
    return {
        f"{name}/{key}": states[index][key]
        for index, name in enumerate(_ordered_names(model, optimizer))
        if index in states
        for key in STATE_NAMES
    }


def load_optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what :func:`optimizer_tensors` returned, shared out as the parameters are.

    Raises:
        UserError: the tensors are not those of this model's parameters.
    """
    names = _ordered_names(model, optimizer)
    # Before the first step there is no state at all, and never one of what gets no gradient, such
    # as the table of positions of a model that counts distances.
    learnt = {name.rpartition("/")[0] for name in tensors} & {*names}
    wanted = {f"{name}/{key}" for name in learnt for key in STATE_NAMES}
    if wanted != set(tensors):
        odd = sorted(wanted ^ set(tensors))[0]
        raise UserError(f"optimizer state does not fit the model: {odd!r} is on one side only")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    whole = optimizer.state_dict()
    whole["state"] = {
        index: {key: _like(tensors[f"{name}/{key}"], parameter) for key in STATE_NAMES}
        for index, (name, parameter) in enumerate(zip(names, parameters, strict=True))
        if name in learnt
    }
    optimizer.load_state_dict(whole)


def _like(state: Tensor, parameter: Tensor) -> Tensor:
    """Divide a state as its parameter is, if that is divided among processes."""
    if state.ndim == 0 or not hasattr(parameter, "full_tensor"):
        return state
    from heedful.training import sharding

    return sharding.share(state, parameter)
