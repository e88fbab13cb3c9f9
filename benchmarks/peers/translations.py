"""Translate texts in batches of 64 with a model in Marian's format."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.arm_process import Trial
from benchmarks.row import Arm

BATCH = 64
Translate = Callable[[list[str]], list[str]]


def run_laps(trial: Trial, translate: Translate) -> list[str]:
    """Run the laps with a function from texts to translations, and return all translations."""
    parts: list[list[str]] = trial.read("texts.json")
    translate(parts[0][:4])
    return [text for texts in trial.laps(parts) for text in translate(texts)]


def generate(
    folder: str,
    *,
    beam: int,
    longest: int,
    batch: int = BATCH,
    sort: bool = False,
    precision: str = "fp32",
    device: str = "cpu",
) -> Translate:
    """Return a function that translates with ``generate`` of transformers.

    Args:
        folder: Model folder in Marian's format.
        beam: Beam size.
        longest: Maximum number of tokens of a translation.
        batch: Batch size, in texts.
        sort: Whether to batch texts of similar length together.
        precision: ``"fp32"`` or ``"bf16"``.
        device: Name of the device.
    """
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = MarianMTModel.from_pretrained(folder).eval().to(device, dtype)

    @torch.inference_mode()
    def translate(texts: list[str]) -> list[str]:
        order = list(range(len(texts)))
        if sort:
            order.sort(key=lambda at: -len(texts[at]))
        translations = [""] * len(texts)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            inputs = tokenizer([texts[row] for row in rows], return_tensors="pt", padding=True)
            tokens = model.generate(
                **inputs.to(device), num_beams=beam, max_new_tokens=longest, do_sample=False
            )
            written = tokenizer.batch_decode(tokens, skip_special_tokens=True)
            for row, text in zip(rows, written, strict=True):
                translations[row] = text
        return translations

    return translate


def transformers(trial: Trial, *, tuned: bool) -> list[str]:
    """Translate with ``generate``: in fp32 in the given order, or in bf16 and sorted by length."""
    import torch

    torch.set_num_threads(trial.threads)
    facts = trial.read("facts.json")
    translate = generate(
        facts["folder"],
        beam=facts["beam"],
        longest=facts["longest"],
        sort=tuned,
        precision="bf16" if tuned else "fp32",
    )
    return run_laps(trial, translate)


def ctranslate2(trial: Trial, *, kind: str) -> list[str]:
    """Translate with CTranslate2, which sorts and batches the texts itself."""
    import ctranslate2 as library
    import sentencepiece
    from ctranslate2.converters import TransformersConverter

    facts = trial.read("facts.json")
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(Path(facts["folder"]) / f"{side}.spm"))
        for side in ("source", "target")
    )
    with tempfile.TemporaryDirectory() as work:
        converted = str(Path(work) / "converted")
        TransformersConverter(facts["folder"]).convert(converted)
        translator = library.Translator(
            converted, compute_type=kind, inter_threads=1, intra_threads=trial.threads
        )

    def translate(texts: list[str]) -> list[str]:
        pieces = [[*row, "</s>"] for row in source.encode(texts, out_type=str)]
        results = translator.translate_batch(
            pieces,
            beam_size=facts["beam"],
            max_decoding_length=facts["longest"],
            max_batch_size=BATCH,
        )
        return [target.decode(result.hypotheses[0]) for result in results]

    return run_laps(trial, translate)


def _arm(run: Callable[..., list[str]], **options: object) -> Callable[[Trial], list[str]]:
    return lambda trial: run(trial, **options)


PEERS = {
    "transformers": Arm(run=_arm(transformers, tuned=False), format="fp32"),
    "transformers bf16, sorted": Arm(run=_arm(transformers, tuned=True), format="bf16"),
    "CTranslate2 fp32": Arm(run=_arm(ctranslate2, kind="float32"), format="fp32"),
    "CTranslate2 int8": Arm(run=_arm(ctranslate2, kind="int8"), format="int8"),
}
