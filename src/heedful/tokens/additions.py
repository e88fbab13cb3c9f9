"""Add tokens to a vocabulary."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from heedful.arguments import suggest_in_construction
from heedful.errors import UserError, did_you_mean
from heedful.tokens.vocabulary import Vocabulary

ADDITIONAL = "additional_special_tokens"
"""The key of special tokens without a name."""
SWITCHES = ("lstrip", "rstrip", "single_word", "normalized")
"""The matching options of added tokens."""


@suggest_in_construction
@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is matched whole before a text is split into words.

    Args:
        content: the text of the token.
        single_word: whether it matches only as a whole word.
        lstrip: whether it absorbs the white space before it.
        rstrip: whether it absorbs the white space after it.
        normalized: whether it is matched in the normalized text, so in any case if the tokenizer
            lowercases. None means: unless it is special.
        special: whether it is a special token.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool | None = None
    special: bool = False

    def __str__(self) -> str:
        return self.content


NewToken = str | AddedToken
NewTokens = Sequence[NewToken]


class NewSpecialTokens(TypedDict, total=False):
    """Special tokens by name; a tokenizer has some of the names."""

    bos_token: NewToken
    eos_token: NewToken
    unk_token: NewToken
    sep_token: NewToken
    pad_token: NewToken
    cls_token: NewToken
    mask_token: NewToken
    additional_special_tokens: NewTokens


def as_added(token: NewToken, *, special: bool) -> AddedToken:
    """Return a token with all its options settled.

    Args:
        token: the token.
        special: whether it is special, if it does not say so itself.

    Raises:
        UserError: it is not a token.
    """
    if isinstance(token, str):
        token = AddedToken(token)
    if not isinstance(token, AddedToken):
        raise UserError(f"added token {token!r}: must be a string or an AddedToken")
    special = special or token.special
    normalized = not special if token.normalized is None else token.normalized
    return replace(token, special=special, normalized=normalized)


def described(vocabulary: Vocabulary) -> dict[str, AddedToken]:
    """Return all tokens of a vocabulary that are never split, with their options."""
    special = vocabulary.special
    return {
        token: AddedToken(
            token,
            single_word=token in special.single_word,
            lstrip=token in special.lstrip,
            rstrip=token in special.rstrip,
            normalized=token in special.normalized,
            special=token not in special.ordinary,
        )
        for token in vocabulary.added_ids()
    }


def extended(vocabulary: Vocabulary, new: Iterable[AddedToken]) -> Vocabulary:
    """Return a vocabulary with further added tokens.

    A token of the vocabulary keeps its id. Others get the next ids. A token that was special before
    stays so.
    """
    special, known = vocabulary.special, vocabulary.special_ids()
    tokens = {token.content: token for token in new}
    switches = {
        switch: (getattr(special, switch) - tokens.keys())
        | {content for content, token in tokens.items() if getattr(token, switch)}
        for switch in SWITCHES
    }
    more = [content for content, token in tokens.items() if token.special and content not in known]
    ordinary = [
        *(token for token in special.ordinary if token not in more),
        *(
            content
            for content, token in tokens.items()
            if not token.special and content not in known and content not in special.ordinary
        ),
    ]
    appended = [content for content in tokens if content not in vocabulary.ids]
    return Vocabulary(
        [*vocabulary.tokens, *appended],
        replace(
            special,
            additional_special_tokens=(*special.additional_special_tokens, *more),
            ordinary=tuple(ordinary),
            **switches,
        ),
        source=vocabulary.source,
        added=vocabulary.added + len(appended),
    )


def renamed(vocabulary: Vocabulary, named: Mapping[str, str]) -> Vocabulary:
    """Return a vocabulary with other named special tokens. The old ones stay special.

    Args:
        vocabulary: the tokens.
        named: field of `SpecialTokens` -> the token.

    Raises:
        UserError: a token is not in the vocabulary.
    """
    for name, token in named.items():
        if token not in vocabulary.ids:
            raise UserError(
                f"{name} {token!r} is not in the vocabulary{did_you_mean(token, vocabulary.ids)}; "
                f"add_special_tokens({{{name!r}: {token!r}}}) adds it"
            )
    before = vocabulary.special
    values: dict[str, Any] = {**before.named(), **named}
    others = [
        token
        for token in dict.fromkeys((*before.named().values(), *before.additional_special_tokens))
        if token in vocabulary.ids and token not in values.values()
    ]
    special = replace(
        before,
        **values,
        additional_special_tokens=tuple(others),
        ordinary=tuple(token for token in before.ordinary if token not in values.values()),
    )
    return Vocabulary(vocabulary.tokens, special, source=vocabulary.source, added=vocabulary.added)


def read_new_special(
    new: Mapping[str, NewToken | NewTokens], names: Mapping[str, str]
) -> tuple[list[AddedToken], dict[str, str]]:
    """Read the argument of ``add_special_tokens``.

    Args:
        new: name -> token, or `ADDITIONAL` -> a list of tokens.
        names: the names that the tokenizer has -> the field of `SpecialTokens`.

    Returns:
        All tokens in order, and field of `SpecialTokens` -> the token.

    Raises:
        UserError: a name is unknown, or a value is not a token.
    """
    tokens: list[AddedToken] = []
    named: dict[str, str] = {}
    for name, value in new.items():
        if name not in (*names, ADDITIONAL):
            near = did_you_mean(name, (*names, ADDITIONAL))
            raise UserError(
                f"{name!r} is not a special token of this tokenizer{near}; it has "
                f"{', '.join(names)} and {ADDITIONAL}"
            )
        if name == ADDITIONAL:
            if isinstance(value, str | AddedToken):
                raise UserError(f"{ADDITIONAL} {value!r}: must be a list of tokens")
            tokens += [as_added(token, special=True) for token in value]
        elif isinstance(value, str | AddedToken):
            tokens.append(as_added(value, special=True))
            if named.setdefault(names[name], str(value)) != str(value):
                raise UserError(
                    f"{name} {str(value)!r}: this tokenizer has one token for {name} and another "
                    f"name, which is to be {named[names[name]]!r}"
                )
        else:
            raise UserError(f"{name} {value!r}: must be one token")
    return tokens, named
