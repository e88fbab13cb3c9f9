"""Find words of a text by their names in user input."""

from collections.abc import Sequence


def words_named(text: str, spans: Sequence[tuple[int, int]], name: str) -> range | None:
    """Return the indices of the consecutive words at the first occurrence of a string in a text.

    Args:
        text: the text.
        spans: start and end of each word.
        name: a word, or several with the text between them.

    Returns:
        None if no occurrence consists of whole words.
    """
    word_by_start = {start: number for number, (start, _) in enumerate(spans)}
    word_by_end = {end: number for number, (_, end) in enumerate(spans)}
    start = text.find(name) if name else -1
    while start >= 0:
        end = start + len(name)
        if start in word_by_start and end in word_by_end:
            return range(word_by_start[start], word_by_end[end] + 1)
        start = text.find(name, start + 1)
    return None
