"""JoeyNMT's own program: how it is configured, trained and asked, in the peers' environment.

    python -m benchmarks.peers.joey FOLDER

FOLDER holds `train`, `dev` and maybe `test`, each a file of pieces a language, the list
`pieces.txt`, and `job.json`: the ``languages``, the sizes of the ``model``, the highest ``rate`` of
Noam's schedule, its ``warmup``, the ``steps``, the ``beam`` for the test data, and after how many
steps, ``every``, the development data is translated greedily. What comes of it stands there, too:
`answers.pieces`, a line each; `model/STEP.hyps`; and `facts.json`, with the steps and seconds of
training before each of those.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SKIPPED = 20


def settings(
    folder: Path, languages: tuple[str, str], model: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what its configuration file would say, of a Transformer with one table of pieces.

    Args:
        folder: of the pieces and texts.
        languages: of the source and of the target, which are the endings of the files.
        model: ``width``, ``heads``, ``blocks``, ``dropout`` and ``layer_norm``.
        training: how it learns, by JoeyNMT's names.
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
    """Train as ``job.json`` says, and translate the test data if there is any."""
    import torch
    from joeynmt.config import parse_global_args, set_validation_args
    from joeynmt.prediction import predict, prepare
    from joeynmt.training import TrainManager

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    logging.disable(logging.WARNING)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    learning = {
        "scheduling": "noam",
        "learning_rate": 0.0,
        "learning_rate_min": 0.0,  # else training ends before it has warmed up
        "learning_rate_factor": job["rate"] * (job["model"]["width"] * job["warmup"]) ** 0.5,
        "learning_rate_warmup": job["warmup"],
        "label_smoothing": 0.1,
        "batch_size": 64,
        "epochs": 10**6,
        "updates": job["steps"],
        "logging_freq": job["every"],
        "validation_freq": job["every"],
    }
    config = settings(folder, tuple(job["languages"]), job["model"], learning)
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
    ends: list[float] = []
    points: list[tuple[int, float]] = []
    paused = 0.0

    def clocked(batch: Any) -> Any:
        ends.append(time.perf_counter() - paused)
        return step(batch)

    def pausing(*arguments: Any) -> None:
        nonlocal paused
        begin = time.perf_counter()
        points.append((len(ends), begin - paused - ends[0]))
        validate(*arguments)
        paused += time.perf_counter() - begin

    manager._train_step, manager._validate = clocked, pausing
    manager.train_and_validate(train, dev)
    timed = ends[SKIPPED:] if len(ends) > 2 * SKIPPED else ends
    facts = {
        "steps": len(ends),
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
