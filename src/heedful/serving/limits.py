"""How much a request may ask for, checked before anything is made of it."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from heedful.errors import UserError
from heedful.serving.problem import Problem
from heedful.settings import PredictSettings, ServeSettings
from heedful.tokens import TranslationTokenizer

ItemT = TypeVar("ItemT")

_TOGETHER = 32
"""Items of one request that are encoded before it is another request's turn..."""
_CHARACTERS_TOGETHER = 2**16
"""...and their characters, where there are several."""
_CHARACTERS_A_TOKEN = 8
"""A text of a natural language has fewer to a token, of source code too."""
_TIMES_READ = 8
"""How often all characters of a body may be read: a query is read with each of its texts."""
_SLICE = 2**14
"""Characters of a long text whose tokens are counted at once."""
_SLACK = 16
"""Tokens that cutting a slice off may add."""
_LISTS, _VALUES = 2**12, 2**16
"""Lists and objects of a body, and all values, beside those of its items and their tokens."""
_TEXTS = ("text", "text_pair", "question", "context")
"""Names of the texts that records hold, beside choices."""


def check_values(content: bytes, settings: ServeSettings) -> None:
    """Refuse JSON of more values than any request needs: to read it holds up all others.

    Items have few lists and objects, and ids of tokens are numbers.

    Raises:
        Problem: there are more than the limit.
    """
    lists = _LISTS + 8 * settings.max_items
    values = _VALUES + 8 * settings.max_items + settings.max_tokens
    if content.count(b",") <= values and content.count(b"[") + content.count(b"{") <= lists:
        return
    plain = content.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(plain.split(b'"')[::2])  # of texts
    for count, most, what in (
        (outside.count(b"[") + outside.count(b"{"), lists, "lists and objects"),
        (outside.count(b","), values, "commas between values"),
    ):
        if count > most:
            raise Problem("too many", f"{count:,} {what}; a request may have {most:,}")


def check_items(count: int, settings: ServeSettings) -> None:
    """Refuse too many items.

    Raises:
        Problem: there are more than the limit.
    """
    if count > settings.max_items:
        message = f"{count:,} texts; a request may have {settings.max_items:,}"
        raise Problem("too many", message)


def check_lists(body: Any, settings: ServeSettings) -> None:
    """Refuse a body of too many items before each is looked at.

    Args:
        body: what its JSON says. Items are what a list at its top holds, if some have parts: those
            are what takes long, and not a list of texts or of ids, which may be another limit's.
        settings: the limits.

    Raises:
        Problem: there are too many.
    """
    for value in body.values() if isinstance(body, dict) else ():
        if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
            check_items(len(value), settings)


def check_size(items: Sequence[Any], settings: ServeSettings) -> None:
    """Refuse what would take long even to be encoded.

    Args:
        items: texts, or records of a task.
        settings: the limits.

    Raises:
        Problem: there are too many texts, choices among them, or characters.
    """
    check_items(len(items), settings)
    check_items(sum(len(_choices(item)) or 1 for item in items), settings)
    sizes = [_characters(item) for item in items]
    most = max(_CHARACTERS_A_TOKEN * settings.max_tokens, _CHARACTERS_TOGETHER)
    if (longest := max(sizes, default=0)) > most:
        raise Problem("too many", f"a text of {longest:,} characters; it may have {most:,}")
    check_characters(sum(sizes), settings)


def size_of(items: Sequence[Any]) -> int:
    """Return how many characters items have; one without any, as a picture, counts for one."""
    return sum(max(1, _characters(item)) for item in items)


def check_characters(count: int, settings: ServeSettings) -> None:
    """Refuse too many characters, those of a text counted for each pair that it is in.

    Raises:
        Problem: there are more than the limit.
    """
    most = _TIMES_READ * settings.max_body
    if count > most:
        message = f"{count:,} characters, counted once for each pair that a text is in"
        raise Problem("too many", f"{message}; a request may have {most:,}")


def check_filled(
    records: Sequence[Any],
    asked: PredictSettings,
    mask: str,
    vocabulary: int,
    settings: ServeSettings,
) -> None:
    """Refuse texts whose masks have too many candidates: each is given with its whole text.

    Args:
        records: the texts.
        asked: how many candidates are wanted.
        mask: what stands for a missing word.
        vocabulary: how many words there are.
        settings: the limits.

    Raises:
        Problem: the answer would have more characters than the limit.
    """
    candidates = min(asked.top, len(asked.targets) or vocabulary)
    texts = [record.text for record in records if record.text_pair is None]
    count = sum(text.count(mask) * candidates * len(text) for text in texts)
    if count > settings.max_filled:
        message = f"{count:,} characters of texts with masks filled in"
        most = f"an answer may have {settings.max_filled:,}"
        raise Problem(
            "too many", f"{message}; {most}: ask for fewer candidates, or send shorter texts"
        )


async def check_tokens(item: Any, tokenizer: Any, most: float, encoder: Executor) -> None:
    """Refuse an item with a text that alone has too many tokens, however much of it is read.

    A long text is cut into slices, whose tokens are counted one by one: that is soon done, and
    others have their turns in between.

    Args:
        item: a text, or a record.
        tokenizer: encodes it.
        most: tokens that it may have.
        encoder: the thread that encodes.

    Raises:
        Problem: it has more.
    """
    for text in _texts(item):
        if len(text) <= most:
            continue
        tokens = 0
        for start in range(0, len(text), _SLICE):
            piece = text[start : start + _SLICE]
            loop = asyncio.get_running_loop()
            tokens += await loop.run_in_executor(encoder, _count, piece, tokenizer) - _SLACK
            if tokens > most:
                raise too_many_tokens(most)


def too_many_tokens(most: float) -> Problem:
    """Return what is told to who sends too many."""
    message = f"the texts have over {most:,} tokens"
    return Problem("too many", f"{message}; send them in several requests")


def turns(items: Sequence[ItemT]) -> Iterator[Sequence[ItemT]]:
    """Cut the items of a request into parts, each encoded before it is another request's turn."""
    start = size = 0
    for number, item in enumerate(items):
        more = _characters(item)
        if number > start and (number - start == _TOGETHER or size + more > _CHARACTERS_TOGETHER):
            yield items[start:number]
            start, size = number, 0
        size += more
    if items:
        yield items[start:]


def _count(text: str, tokenizer: Any) -> int:
    """Return how many tokens a slice of a text has."""
    if isinstance(tokenizer, TranslationTokenizer):
        tokenizer = tokenizer.source
    try:
        (ids,) = tokenizer.encode_batch([text])
    except UserError:  # who encodes the text says it, and where
        return 0
    return len(ids)


def _texts(item: Any) -> list[str]:
    """Return the texts of an item, of a picture none."""
    if isinstance(item, str):
        return [item]
    named = (getattr(item, name, None) for name in _TEXTS)
    return [*(text for text in named if isinstance(text, str)), *_choices(item)]


def _choices(item: Any) -> tuple[str, ...]:
    choices = getattr(item, "choices", ())
    return choices if isinstance(choices, tuple) else ()


def _characters(item: Any) -> int:
    """Return how many characters are encoded, those of a question with each of its choices."""
    if isinstance(item, str):
        return len(item)
    again = len(item.question) * (len(item.choices) - 1) if _choices(item) else 0
    return again + sum(map(len, _texts(item)))
