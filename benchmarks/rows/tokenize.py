"""Texts to ids, alone and with all that the usual call gives, in English and Chinese.

heedful's tokenizer makes tables when it first has much to do, and remembers what it has met, so it
stands there three times: a new one; one that has seen other texts alone; and one that has seen the
same texts before, as in the second epoch of training. The peer remembers nothing. Lists are made in
full, and the garbage collector stays on.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.row import Arm, Plan, Row, Scores
from benchmarks.trial import Trial

TEXTS, OTHERS = 7600, 2000
CALLS: dict[str, dict[str, Any]] = {
    "call": {},
    "tensors": {"padding": True, "truncation": True, "max_length": 128, "return_tensors": "pt"},
    "offsets": {"return_offsets_mapping": True},
}
"""What the tokenizer is called with."""
SAME, OTHER = "texts.json", "others.json"
Encode = Callable[[list[str]], Any]


def heedful(what: str, seen: str | None, trial: Trial) -> str:
    """Tokenize with heedful, which has seen what a file holds."""
    from heedful.tokens import load_tokenizer

    def encoder() -> Encode:
        tokenizer: Any = load_tokenizer(Path(trial.read("folder.json")))
        return tokenizer.encode_batch if what == "ids" else partial(tokenizer, **CALLS[what])

    return _laps(trial, encoder, seen)


def peer(what: str, trial: Trial) -> str:
    """Tokenize with the compiled tokenizer of the reference: bare, or called as users call it."""
    from transformers import AutoTokenizer

    def encoder() -> Encode:
        tokenizer = AutoTokenizer.from_pretrained(trial.read("folder.json"), use_fast=True)
        if what != "ids":
            return partial(tokenizer, **CALLS[what])
        bare = tokenizer.backend_tokenizer
        bare.no_truncation()
        bare.no_padding()
        return lambda texts: [
            encoding.ids for encoding in bare.encode_batch_fast(texts, add_special_tokens=False)
        ]

    return _laps(trial, encoder, SAME)


def _laps(trial: Trial, encoder: Callable[[], Encode], seen: str | None) -> str:
    """Take the laps, each with an encoder that has seen some texts or none; return a digest."""
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
    """Return what is the same for two encodings if and only if these are."""
    if not isinstance(encoded, list):
        encoded = {
            key: rows if isinstance(rows, list) else rows.tolist() for key, rows in encoded.items()
        }
    return hashlib.sha256(json.dumps(encoded, sort_keys=True).encode()).hexdigest()


def prepare(language: str, folder: Path, laps: int, share: float) -> Plan:
    """Write the texts, and a folder of the tokenizer."""
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


def score(folder: Path, answers: Mapping[str, str]) -> Scores:
    """Say whether all that was returned is what the reference returns."""
    truth = next((answer for name, answer in answers.items() if name in PEERS), None)
    if truth is None:
        return {}
    return {name: {"equal": float(answer == truth)} for name, answer in answers.items()}


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


def arms(language: str, what: str) -> dict[str, Arm]:
    """Return the arms for one way to call."""
    name = CLASSES.get(language, "BertTokenizerFast")
    return {
        "heedful, first time": Arm(run=partial(heedful, what, None), peer=False),
        "heedful, new texts": Arm(run=partial(heedful, what, OTHER), peer=False),
        "heedful, later times": Arm(run=partial(heedful, what, SAME), peer=False),
        "tokenizers" if what == "ids" else name: Arm(run=partial(peer, what)),
    }


TITLES = {
    "ids": "ids alone",
    "call": "the call, with masks and types",
    "tensors": "the call with padding to tensors",
    "offsets": "the call with offsets",
}
LANGUAGES = {
    "en": "AG News",
    "zh": "Chinese reviews",
    "zh-multilingual": "Chinese reviews by the multilingual vocabulary",
    "zh-xlnet": "Chinese reviews by XLNet's vocabulary",
    "bytes": "AG News by RoBERTa's vocabulary",
    "albert": "AG News by ALBERT's vocabulary",
    "xlnet": "AG News by XLNet's vocabulary",
}
ROWS = {
    f"tokenize-{language}-{what}": Row(
        title=f"{LANGUAGES[language]} to tokens: {text}",
        arms=arms(language, what),
        prepare=partial(prepare, language),
        score=score,
        unit="tokens/s",
    )
    for language in LANGUAGES
    for what, text in TITLES.items()
}
