"""Configure and train JoeyNMT and translate with it, in the peers' environment.

    python -m benchmarks.peers.joey FOLDER

Input files in FOLDER:

- `train`, `dev` and optionally `test`, one file of pieces for each language;
- `pieces.txt`, the vocabulary;
- `job.json` with the ``languages``, the sizes of the ``model``, the peak learning ``rate`` of the
  Noam schedule, its ``warmup``, the ``steps``, the ``beam`` for the test data, and ``every``: the
  number of steps between greedy translations of the development data.

Output files: `answers.pieces`, one translation per line; `model/STEP.hyps`, the translations of the
development data; and `facts.json`, with the steps and the seconds of training before each of them.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SKIPPED_STEPS = 20


def settings(
    folder: Path, languages: tuple[str, str], model: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """Return JoeyNMT's configuration of a Transformer with one shared vocabulary.

    Args:
        folder: Folder with the pieces and texts.
        languages: Source and target language, which are the suffixes of the files.
        model: ``width``, ``heads``, ``blocks``, ``dropout`` and ``layer_norm``.
        training: Training settings, with JoeyNMT's names.
    """
    side = {"level": "word", "voc_file": str(folder / "pieces.txt")}
    stack = {
        "type": "transformer",
        "num_layers": model["blocks"],
        "num_heads": model["heads"],
        "embeddings": {"embedding_dim": model["width"], "scale": True},
        "hidden_size": model["width"],
        "ff_size": 4 * model["width"],
        "dropout": model["dropout"],
        "layer_norm": model["layer_norm"],
    }
    return {
        "name": "race",
        "use_cuda": False,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "src": {"lang": languages[0], **side},
            "trg": {"lang": languages[1], **side},
        },
        "testing": {},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "clip_grad_norm": 1.0,
            "normalization": "tokens",
            **training,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "normal",
            "embed_init_weight": model["width"] ** -0.5,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }


def main(folder: Path) -> None:
    """Train as ``job.json`` says, and translate the test data if there are any."""
    import torch
    from joeynmt.config import parse_global_args, set_validation_args
    from joeynmt.prediction import predict, prepare
    from joeynmt.training import TrainManager

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    logging.disable(logging.WARNING)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    training = {
        "scheduling": "noam",
        "learning_rate": 0.0,
        "learning_rate_min": 0.0,  # otherwise training stops before the warm-up is over
        "learning_rate_factor": job["rate"] * (job["model"]["width"] * job["warmup"]) ** 0.5,
        "learning_rate_warmup": job["warmup"],
        "label_smoothing": 0.1,
        "batch_size": 64,
        "epochs": 10**6,
        "updates": job["steps"],
        "logging_freq": job["every"],
        "validation_freq": job["every"],
    }
    config = settings(folder, tuple(job["languages"]), job["model"], training)
    config["testing"] = {"beam_size": job["beam"], "beam_alpha": 1.0, "batch_size": 64}
    has_test = (folder / f"test.{job['languages'][0]}").exists()
    if has_test:
        config["data"]["test"] = str(folder / "test")
    (folder / "model").mkdir(exist_ok=True)
    args = parse_global_args({**config, "model_dir": str(folder / "model")}, mode="train")
    model, train, dev, test = prepare(args, rank=0, mode="train")
    manager = TrainManager(
        rank=0,
        model=model,
        model_dir=args.model_dir,
        device=args.device,
        autocast=args.autocast,
        seed=args.seed,
        train_args=args.train,
        dev_args=set_validation_args(args.test),
    )
    step, validate = manager._train_step, manager._validate
    step_starts: list[float] = []
    points: list[tuple[int, float]] = []
    paused = 0.0

    def timed_step(batch: Any) -> Any:
        step_starts.append(time.perf_counter() - paused)
        return step(batch)

    def untimed_validation(*arguments: Any) -> None:
        nonlocal paused
        begin = time.perf_counter()
        points.append((len(step_starts), begin - paused - step_starts[0]))
        validate(*arguments)
        paused += time.perf_counter() - begin

    manager._train_step, manager._validate = timed_step, untimed_validation
    manager.train_and_validate(train, dev)
    timed = step_starts[SKIPPED_STEPS:] if len(step_starts) > 2 * SKIPPED_STEPS else step_starts
    facts = {
        "steps": len(step_starts),
        "seconds_of_a_step": (timed[-1] - timed[0]) / (len(timed) - 1),
        "points": points,
    }
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    if not has_test:
        return
    model.eval()
    _, _, _, answers, _, _ = predict(
        model, test, args.device, 0, args=args.test, autocast=args.autocast
    )
    lines = "".join(f"{' '.join(map(str, answer))}\n" for answer in answers)
    (folder / "answers.pieces").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
