"""Every source of randomness a step draws from, as tensors."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from heedful.training import ranks


def seed_apart(seed: int, step: int = 0) -> None:
    """Have each rank but the first draw numbers of its own."""
    if not ranks.is_first():
        torch.manual_seed(hash((seed, step, ranks.rank())) % 2**63)


def random_tensors() -> dict[str, Tensor]:
    """Return the state of torch's generators: the CPU's of each rank, and each GPU's of this."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda:{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    if ranks.size() > 1:
        everyone = [torch.empty_like(states["cpu"]) for _ in range(ranks.size())]
        dist.all_gather(everyone, states["cpu"])
        states |= {_name(rank): state for rank, state in enumerate(everyone)}
    return states


def load_random_tensors(states: Mapping[str, Tensor], *, seed: int, step: int) -> None:
    """Put back what :func:`random_tensors` returned; GPUs that are not here are left out.

    A rank that there was not yet draws numbers of its own.
    """
    state_of_rank = states.get(_name(ranks.rank()))
    if state_of_rank is not None:
        torch.set_rng_state(state_of_rank)
    else:
        seed_apart(seed, step)
    for name, state in states.items():
        if name.startswith("cuda:") and int(name[5:]) < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, name)


def of_device(device: torch.device) -> dict[str, Tensor]:
    """Return the state of the generators that this process draws from on a device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Put back what :func:`of_device` returned."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def _name(rank: int) -> str:
    return f"cpu/{rank}" if rank else "cpu"
