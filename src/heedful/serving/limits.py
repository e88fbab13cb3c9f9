"""Limits on the size of a request, checked before any expensive work."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from heedful.errors import UserError
from heedful.images.opening import count_pixels
from heedful.reading.images import ImageRecord
from heedful.serving.problem import Problem
from heedful.settings import PredictSettings, ServeSettings
from heedful.tokens import TranslationTokenizer

ItemT = TypeVar("ItemT")

_ITEMS_PER_TURN = 32
"""Maximum number of items of one request encoded before another request takes its turn."""
_CHARACTERS_PER_TURN = 2**16
"""Maximum number of characters of several items encoded before another request takes its turn."""
_CHARACTERS_PER_TOKEN = 8
"""Upper bound of characters per token: natural language and source code have fewer."""
_TIMES_READ = 8
"""How often the characters of a body may be read: a query is read with each of its texts."""
_SLICE = 2**14
"""Number of characters of a long text whose tokens are counted at once."""
_SLACK = 16
"""Number of tokens that cutting a text into slices may add per slice."""
_LISTS, _VALUES = 2**12, 2**16
"""Extra lists and objects, and extra values, beyond those needed for items and token ids."""
_TEXTS = ("text", "text_pair", "question", "context")
"""Names of the text attributes of records, except choices."""


def check_values(content: bytes, settings: ServeSettings) -> None:
    """Reject JSON with more values than any request needs, since parsing it blocks all requests.

    An item has few lists and objects, and token ids are plain numbers.

    Raises:
        Problem: there are too many values, or too many lists and objects.
    """
    lists = _LISTS + 8 * settings.max_items
    values = _VALUES + 8 * settings.max_items + settings.max_tokens
    if content.count(b",") <= values and content.count(b"[") + content.count(b"{") <= lists:
        return
    unescaped = content.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(unescaped.split(b'"')[::2])  # outside string literals
    for count, limit, name in (
        (outside.count(b"[") + outside.count(b"{"), lists, "lists and objects"),
        (outside.count(b","), values, "commas between values"),
    ):
        if count > limit:
            raise Problem("too many", f"{count:,} {name}; a request may have {limit:,}")


def check_items(count: int, settings: ServeSettings) -> None:
    """Check the number of items.

    Raises:
        Problem: there are more than the limit.
    """
    if count > settings.max_items:
        message = f"{count:,} texts; a request may have {settings.max_items:,}"
        raise Problem("too many", message)


def check_lists(body: Any, settings: ServeSettings) -> None:
    """Check the number of items of a body before each is validated.

    Only top-level lists with a nested list or object are counted, since their validation is slow.
    Lists of texts or of token ids may be subject to other limits.

    Args:
        body: the parsed JSON.
        settings: the limits.

    Raises:
        Problem: there are too many items.
    """
    for value in body.values() if isinstance(body, dict) else ():
        if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
            check_items(len(value), settings)


def check_size(items: Sequence[Any], settings: ServeSettings) -> None:
    """Reject items that would be slow even to encode.

    Args:
        items: texts, or records of a task.
        settings: the limits.

    Raises:
        Problem: there are too many texts (choices included), or too many characters.
    """
    check_items(len(items), settings)
    check_items(sum(len(_choices(item)) or 1 for item in items), settings)
    sizes = [_count_characters(item) for item in items]
    limit = max(_CHARACTERS_PER_TOKEN * settings.max_tokens, _CHARACTERS_PER_TURN)
    if (longest := max(sizes, default=0)) > limit:
        raise Problem("too many", f"a text of {longest:,} characters; it may have {limit:,}")
    check_characters(sum(sizes), settings)


def num_characters(items: Sequence[Any]) -> int:
    """Return the total number of characters. An item without text, such as an image, counts 1."""
    return sum(max(1, _count_characters(item)) for item in items)


def check_characters(count: int, settings: ServeSettings) -> None:
    """Check the number of characters. A text counts once for each pair that contains it.

    Raises:
        Problem: there are more than the limit.
    """
    limit = _TIMES_READ * settings.max_body
    if count > limit:
        message = f"{count:,} characters, counted once for each pair that a text is in"
        raise Problem("too many", f"{message}; a request may have {limit:,}")


def check_pixels(items: Sequence[Any], settings: ServeSettings) -> None:
    """Check the number of pixels of images: a body of 2 MB can hold billions.

    Raises:
        Problem: there are more than the limit.
    """
    images = [item.content for item in items if isinstance(item, ImageRecord)]
    count = sum(count_pixels(content) for content in images if isinstance(content, bytes))
    if count > settings.max_pixels:
        message = f"{count:,} pixels of images; a request may have {settings.max_pixels:,}"
        raise Problem("too many", f"{message}; send them in several requests")


def check_fill_mask(
    records: Sequence[Any],
    predicting: PredictSettings,
    mask: str,
    vocabulary: int,
    settings: ServeSettings,
) -> None:
    """Check the size of a fill-mask answer, which repeats the whole text for each candidate.

    Args:
        records: the records, with their texts.
        predicting: the settings, with the number of candidates.
        mask: the mask token.
        vocabulary: size of the vocabulary.
        settings: the limits.

    Raises:
        Problem: the answer would have more characters than the limit.
    """
    candidates = min(predicting.top, len(predicting.targets) or vocabulary)
    texts = [record.text for record in records if record.text_pair is None]
    count = sum(text.count(mask) * candidates * len(text) for text in texts)
    if count > settings.max_filled:
        message = f"{count:,} characters of texts with masks filled in"
        limit = f"an answer may have {settings.max_filled:,}"
        raise Problem(
            "too many", f"{message}; {limit}: ask for fewer candidates, or send shorter texts"
        )


def check_token_vectors(tokens: int, width: int, settings: ServeSettings) -> None:
    """Check the size of an answer with a vector for each token: hundreds of times its text.

    Args:
        tokens: number of tokens of the request.
        width: number of values of a vector.
        settings: the limits.

    Raises:
        Problem: the vectors would have more values than the limit.
    """
    if tokens * width > settings.max_values:
        message = f"{tokens:,} tokens with vectors of {width:,} values"
        limit = f"an answer may have {settings.max_values // width:,} such tokens"
        raise Problem("too many", f"{message}; {limit}: send the texts in several requests")


async def check_tokens(item: Any, tokenizer: Any, most: float, encoder: Executor) -> None:
    """Check that no single text of an item has too many tokens, even if it will be truncated.

    A long text is cut into slices, and the tokens of each slice are counted separately. Each slice
    is fast, and other requests take turns in between.

    Args:
        item: a text, or a record.
        tokenizer: the tokenizer of the run.
        most: maximum number of tokens of a text.
        encoder: the thread that encodes.

    Raises:
        Problem: a text has more tokens.
    """
    for text in _texts(item):
        if len(text) <= most:
            continue
        tokens = 0
        for start in range(0, len(text), _SLICE):
            piece = text[start : start + _SLICE]
            loop = asyncio.get_running_loop()
            tokens += await loop.run_in_executor(encoder, _count_tokens, piece, tokenizer) - _SLACK
            if tokens > most:
                raise too_many_tokens(most)


def too_many_tokens(most: float) -> Problem:
    """Return the problem for a request with too many tokens."""
    message = f"the texts have over {most:,} tokens"
    return Problem("too many", f"{message}; send them in several requests")


def split_into_turns(items: Sequence[ItemT]) -> Iterator[Sequence[ItemT]]:
    """Split the items of a request into parts. Other requests take turns between two parts.

    An image is a part of its own: a few kilobytes can be 50 million pixels.
    """
    start = size = 0
    for index, item in enumerate(items):
        characters = _turn_size(item)
        if index > start and (
            index - start == _ITEMS_PER_TURN or size + characters > _CHARACTERS_PER_TURN
        ):
            yield items[start:index]
            start, size = index, 0
        size += characters
    if items:
        yield items[start:]


def _turn_size(item: Any) -> int:
    return _CHARACTERS_PER_TURN if isinstance(item, ImageRecord) else _count_characters(item)


def _count_tokens(text: str, tokenizer: Any) -> int:
    """Return the number of tokens of a slice of a text."""
    if isinstance(tokenizer, TranslationTokenizer):
        tokenizer = tokenizer.source
    try:
        (ids,) = tokenizer.encode_batch([text])
    except UserError:  # encoding the whole text reports it, with its position
        return 0
    return len(ids)


def _texts(item: Any) -> list[str]:
    """Return the texts of an item; an image has none."""
    if isinstance(item, str):
        return [item]
    named = (getattr(item, name, None) for name in _TEXTS)
    return [*(text for text in named if isinstance(text, str)), *_choices(item)]


def _choices(item: Any) -> tuple[str, ...]:
    choices = getattr(item, "choices", ())
    return choices if isinstance(choices, tuple) else ()


def _count_characters(item: Any) -> int:
    """Return the number of characters to encode. A question counts once for each of its choices."""
    if isinstance(item, str):
        return len(item)
    repeated = len(item.question) * (len(item.choices) - 1) if _choices(item) else 0
    return repeated + sum(map(len, _texts(item)))
