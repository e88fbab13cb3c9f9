"""Words of a text, as users name them."""

from collections.abc import Sequence


def words_named(text: str, spans: Sequence[tuple[int, int]], name: str) -> range | None:
    """Return the numbers of the words, in a row, that make up the first such slice of a text.

    Args:
        text: which the words are slices of.
        spans: where each word starts and ends.
        name: one word, or several with what stands between them.

    Returns:
        None if there are no such words.
    """
    firsts = {start: number for number, (start, _) in enumerate(spans)}
    lasts = {end: number for number, (_, end) in enumerate(spans)}
    start = text.find(name) if name else -1
    while start >= 0:
        end = start + len(name)
        if start in firsts and end in lasts:
            return range(firsts[start], lasts[end] + 1)
        start = text.find(name, start + 1)
    return None
