"""How fast one device translates beside the reference: the same weights, texts and search.

    python -m benchmarks.gpu_search [--preset base] [--beam 5] [--tokens 64] [--batch 64] [--laps 5]
        [--precision bf16]

A Transformer with random weights reads random texts, and both sides write ``--tokens`` tokens for
each: none may end sooner. The reference is `MarianMTModel.generate` with its fastest attention. The
two take turns, and each lap ends when all texts are there. The last column is the share of texts
that are equal; in bf16 both sides round, and random weights decide by little. ``--device cpu
--preset tiny`` shows that it runs.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from heedful.decoding.search import Search
from heedful.models import Transformer, TransformerConfig
from heedful.models.transformer import names
from heedful.models.transformer.presets import PRESETS
from heedful.training.device import choose_device

VOCABULARY, PAD, END = 32000, 31999, 0
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16}
Texts = list[list[int]]


def models(preset: str, most: int) -> tuple[Transformer, Any]:
    """Return heedful's model and the reference's, with the same random weights."""
    config = TransformerConfig(
        **PRESETS[preset],
        vocab_size=VOCABULARY,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        max_position_embeddings=most,
    )
    sizes = {name: value for name, value in asdict(config).items() if name in SHARED}
    its = transformers.MarianMTModel(
        transformers.MarianConfig(**sizes, forced_eos_token_id=None, attn_implementation="sdpa")
    )
    torch.manual_seed(0)
    for name, parameter in its.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, float("layer_norm.weight" in name), std=0.05)
    mine = Transformer(config)
    mine.load_state_dict(names.from_file(its.state_dict(), mine.state_dict(), config, Path()))
    return mine.eval(), its.eval()


SHARED = (
    *PRESETS["base"],
    *("vocab_size", "pad_token_id", "eos_token_id", "decoder_start_token_id"),
    *("max_position_embeddings", "activation_function", "scale_embedding"),
)
"""What both configurations have."""


def texts_of(options: argparse.Namespace) -> list[tuple[Tensor, Tensor]]:
    """Draw texts of a quarter to all of the length, and make batches of similar lengths."""
    draw = torch.Generator().manual_seed(0)
    size, count, length = options.batch, options.batches, options.tokens
    lengths = torch.randint(max(length // 4, 1), length + 1, (size * count,), generator=draw)
    batches = []
    for rows in lengths.sort().values.view(count, size):
        mask = torch.arange(int(rows.max())) < rows[:, None]
        ids = torch.randint(1, PAD, mask.shape, generator=draw).masked_fill(~mask, PAD)
        batches.append((ids, mask.long()))
    return batches


def arms(options: argparse.Namespace, device: torch.device) -> dict[str, Callable[[], Texts]]:
    """Return what translates all texts once."""
    most = options.tokens
    mine, its = models(options.preset, most + 1)
    for model in (mine, its):
        model.to(device, FORMATS[options.precision])
    batches = [(ids.to(device), mask.to(device)) for ids, mask in texts_of(options)]
    # Without penalties of length, which both sides count otherwise.
    search = Search(
        eos_token_id=END,
        max_new_tokens=most,
        min_new_tokens=most - 1,
        num_beams=options.beam,
        length_penalty=0.0,
    )

    def heedful() -> Texts:
        found = [mine.generate(ids, mask, search=search) for ids, mask in batches]
        return [list(texts[0].tokens) for batch in found for texts in batch]

    @torch.inference_mode()
    def reference() -> Texts:
        rows = [
            its.generate(
                input_ids=ids,
                attention_mask=mask,
                num_beams=options.beam,
                max_new_tokens=most,
                min_new_tokens=most - 1,
                length_penalty=0.0,
                do_sample=False,
                bad_words_ids=[[PAD]],
            ).tolist()
            for ids, mask in batches
        ]
        return [[token for token in row[1:] if token != END] for batch in rows for row in batch]

    return {"heedful": heedful, "reference": reference}


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", default="base", choices=[*PRESETS])
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64, help="of each text that is written")
    parser.add_argument("--batch", type=int, default=64, help="texts at once")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--precision", default="bf16", choices=[*FORMATS])
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(words)
    device = choose_device(options.device)
    laps = arms(options, device)
    times: dict[str, list[float]] = {"heedful": [], "reference": []}
    texts: dict[str, Texts] = {}
    for number in range(options.laps + 1):
        for name, lap in laps.items():
            started = time.perf_counter()
            texts[name] = lap()
            if number:  # the first prepares
                times[name].append(time.perf_counter() - started)
    ratios = [its / mine for mine, its in zip(times["heedful"], times["reference"], strict=True)]
    tokens = sum(map(len, texts["heedful"]))
    rates = [tokens / median(times[name]) for name in ("heedful", "reference")]
    pairs = zip(texts["heedful"], texts["reference"], strict=True)
    equal = sum(ours == its for ours, its in pairs) / len(texts["heedful"])
    print("| size | beam | heedful, tokens/s | reference | times as fast | equal texts |")
    print("|---|---|---|---|---|---|")
    print(
        f"| {options.preset} | {options.beam} | {rates[0]:,.0f} | {rates[1]:,.0f} | "
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {equal:.0%} |"
    )


if __name__ == "__main__":
    main()
