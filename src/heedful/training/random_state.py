"""The states of all random number generators that a step uses, as tensors."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from heedful.training import ranks


def seed_apart(seed: int, step: int = 0) -> None:
    """Seed each rank but the first differently, so that ranks draw different random numbers."""
    if not ranks.is_first():
        torch.manual_seed(hash((seed, step, ranks.rank())) % 2**63)


def random_tensors() -> dict[str, Tensor]:
    """Return torch's RNG states: of the CPU on each rank, and of each GPU on this rank."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda:{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    if ranks.size() > 1:
        states_of_ranks = [torch.empty_like(states["cpu"]) for _ in range(ranks.size())]
        dist.all_gather(states_of_ranks, states["cpu"])
        states |= {_name(rank): state for rank, state in enumerate(states_of_ranks)}
    return states


def load_random_tensors(states: Mapping[str, Tensor], *, seed: int, step: int) -> None:
    """Restore the states of :func:`random_tensors`; skip GPUs that this machine does not have.

    A rank without a stored state gets a different seed.
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
    """Return the states of the generators that this process uses on a device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states of :func:`of_device`."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def _name(rank: int) -> str:
    return f"cpu/{rank}" if rank else "cpu"
