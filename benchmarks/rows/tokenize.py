"""Tokenize English and Chinese texts: to ids only, or with all outputs of the usual call.

heedful's tokenizer builds tables on its first large input and caches what it has seen, so there are
three arms: a new tokenizer; one that has seen only other texts; and one that has seen the same
texts before, as in the second epoch of training. The peer has no cache. All arms return complete
lists, and the garbage collector stays on.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.arm_process import Trial
from benchmarks.row import Arm, Plan, Row, Scores

TEXTS, OTHERS = 7600, 2000
CALLS: dict[str, dict[str, Any]] = {
    "call": {},
    "tensors": {"padding": True, "truncation": True, "max_length": 128, "return_tensors": "pt"},
    "offsets": {"return_offsets_mapping": True},
}
"""Options of each way to call the tokenizer."""
SAME, OTHER = "texts.json", "others.json"
Encode = Callable[[list[str]], Any]


def heedful(call: str, seen: str | None, trial: Trial) -> str:
    """Tokenize with heedful, after it has seen the texts of the file ``seen``."""
    from heedful.tokens import load_tokenizer

    def encoder() -> Encode:
        tokenizer: Any = load_tokenizer(Path(trial.read("folder.json")))
        return tokenizer.encode_batch if call == "ids" else partial(tokenizer, **CALLS[call])

    return _laps(trial, encoder, seen)


def peer(call: str, trial: Trial) -> str:
    """Tokenize with the reference: its Rust tokenizer alone, or the call that users make."""
    from transformers import AutoTokenizer

    def encoder() -> Encode:
        tokenizer = AutoTokenizer.from_pretrained(trial.read("folder.json"), use_fast=True)
        if call != "ids":
            return partial(tokenizer, **CALLS[call])
        bare = tokenizer.backend_tokenizer
        bare.no_truncation()
        bare.no_padding()
        return lambda texts: [
            encoding.ids for encoding in bare.encode_batch_fast(texts, add_special_tokens=False)
        ]

    return _laps(trial, encoder, SAME)


def _laps(trial: Trial, encoder: Callable[[], Encode], seen: str | None) -> str:
    """Run the laps with encoders that have seen the texts of the file ``seen``; return a digest."""
    texts: list[str] = trial.read(SAME)
    if seen == SAME:
        encoders = [encoder()] * trial.number_of_laps
    else:
        encoders = [encoder() for _ in range(trial.number_of_laps)]
    if seen is not None:
        for encode in set(encoders):
            encode(trial.read(seen))
    for encode in trial.laps(encoders):
        encoded = encode(texts)
    return _digest(encoded)


def _digest(encoded: Any) -> str:
    """Return a hash of an encoding, to compare encodings."""
    if not isinstance(encoded, list):
        encoded = {
            key: rows if isinstance(rows, list) else rows.tolist() for key, rows in encoded.items()
        }
    return hashlib.sha256(json.dumps(encoded, sort_keys=True).encode()).hexdigest()


def prepare(language: str, folder: Path, laps: int, share: float) -> Plan:
    """Write the texts and the path of the tokenizer."""
    from heedful.tokens import TranslationTokenizer, load_tokenizer

    source, texts = SOURCES[language](folder)
    texts, others = texts[: round(TEXTS * share)], texts[TEXTS : TEXTS + OTHERS]
    (folder / SAME).write_text(json.dumps(texts), encoding="utf-8")
    (folder / OTHER).write_text(json.dumps(others), encoding="utf-8")
    (folder / "folder.json").write_text(json.dumps(str(source)))
    tokenizer = load_tokenizer(source)
    assert not isinstance(tokenizer, TranslationTokenizer)
    tokens = sum(len(ids) for ids in tokenizer.encode_batch(texts))
    return Plan(amounts=[float(tokens)] * laps)


def _news(folder: Path) -> tuple[Path, list[str]]:
    from heedful.sources import resolve

    return Path(resolve("minilm")), _texts_of_news()


def _texts_of_news() -> list[str]:
    from benchmarks.data import ag_news

    return [record.text for record in (*ag_news("test"), *ag_news("train_pool", OTHERS))]


def _reviews(vocabulary: str, folder: Path) -> tuple[Path, list[str]]:
    from benchmarks.data import FOLDER
    from heedful.reading import read_records
    from heedful.settings import ColumnSettings

    source = folder / "chinese"
    source.mkdir()
    family = "xlnet" if vocabulary.endswith(".model") else "bert"
    (source / "config.json").write_text(json.dumps({"model_type": family}))
    content = (FOLDER / vocabulary).read_bytes()
    if family == "xlnet":
        (source / "spiece.model").write_bytes(content)
    else:
        content = gzip.decompress(content) if vocabulary.endswith(".gz") else content
        (source / "vocab.txt").write_bytes(content)
        settings = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
        (source / "tokenizer_config.json").write_text(json.dumps(settings))
    (file,) = (FOLDER / "zh/chnsenticorp").glob("train.tsv*")
    records = read_records([file], ColumnSettings(text="text_a", label="label"))
    return source, [record.text for record in records]


def _bytes(folder: Path) -> tuple[Path, list[str]]:
    from benchmarks.data import FOLDER

    source = folder / "roberta"
    source.mkdir()
    (source / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    for name in ("vocab.json", "merges.txt", "tokenizer.json"):
        with gzip.open(FOLDER / f"tokenizers/roberta-base/{name}.gz") as packed:
            (source / name).write_bytes(packed.read())
    return source, _texts_of_news()


def _pieces(family: str, folder: Path) -> tuple[Path, list[str]]:
    from benchmarks.data import FOLDER

    source = folder / family
    source.mkdir()
    (source / "config.json").write_text(json.dumps({"model_type": family}))
    model = (FOLDER / f"tokenizers/{family}/spiece.model").read_bytes()
    (source / "spiece.model").write_bytes(model)
    return source, _texts_of_news()


def score(folder: Path, outputs: Mapping[str, str]) -> Scores:
    """Return whether the outputs of each arm are equal to the reference's."""
    truth = next((output for name, output in outputs.items() if name in PEERS), None)
    if truth is None:
        return {}
    return {name: {"equal": float(output == truth)} for name, output in outputs.items()}


SOURCES: dict[str, Callable[[Path], tuple[Path, list[str]]]] = {
    "en": _news,
    "zh": partial(_reviews, "zh/vocab.txt"),
    "zh-multilingual": partial(_reviews, "tokenizers/multilingual-cased/vocab.txt.gz"),
    "zh-xlnet": partial(_reviews, "tokenizers/xlnet-chinese/spiece.model"),
    "bytes": _bytes,
    "albert": partial(_pieces, "albert"),
    "xlnet": partial(_pieces, "xlnet"),
}
CLASSES = {
    "bytes": "RobertaTokenizerFast",
    "zh-xlnet": "XLNetTokenizerFast",
    "xlnet": "XLNetTokenizerFast",
    "albert": "AlbertTokenizerFast",
}
PEERS = ("tokenizers", "BertTokenizerFast", *CLASSES.values())


def arms(language: str, call: str) -> dict[str, Arm]:
    """Return the arms for one language and one way to call the tokenizer."""
    name = CLASSES.get(language, "BertTokenizerFast")
    return {
        "heedful, first time": Arm(run=partial(heedful, call, None), peer=False),
        "heedful, new texts": Arm(run=partial(heedful, call, OTHER), peer=False),
        "heedful, later times": Arm(run=partial(heedful, call, SAME), peer=False),
        "tokenizers" if call == "ids" else name: Arm(run=partial(peer, call)),
    }


TITLES = {
    "ids": "ids only",
    "call": "the call, with masks and types",
    "tensors": "the call with padding to tensors",
    "offsets": "the call with offsets",
}
LANGUAGES = {
    "en": "AG News",
    "zh": "Chinese reviews",
    "zh-multilingual": "Chinese reviews with the multilingual vocabulary",
    "zh-xlnet": "Chinese reviews with XLNet's vocabulary",
    "bytes": "AG News with RoBERTa's vocabulary",
    "albert": "AG News with ALBERT's vocabulary",
    "xlnet": "AG News with XLNet's vocabulary",
}
ROWS = {
    f"tokenize-{language}-{call}": Row(
        title=f"tokenizing {LANGUAGES[language]}: {text}",
        arms=arms(language, call),
        prepare=partial(prepare, language),
        score=score,
        unit="tokens/s",
    )
    for language in LANGUAGES
    for call, text in TITLES.items()
}
