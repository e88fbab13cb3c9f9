"""Attribution by leaving words out and computing again."""

from collections import defaultdict

import numpy as np

from heedful.explanations.gradients import Scores
from heedful.explanations.subject import Subject


def leave_one_out(subject: Subject) -> Scores:
    """Return how far the output falls when each word is left out, shared out to its tokens.

    A word at which the output stands, such as the one that is tagged, is masked instead.
    Special tokens have the score 0.
    """
    words: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, side in enumerate(subject.aim.sides):
        for index, token in enumerate(side.tokens):
            if token.word is not None:
                words[number, token.word].append(index)
    scores = tuple(np.zeros(len(side.tokens)) for side in subject.aim.sides)
    variants = [subject.whole]
    for (number, _), tokens in words.items():
        dropped = [np.zeros(len(one), dtype=np.bool_) for one in scores]
        dropped[number][tokens] = True
        variants.append(subject.without(dropped))
    whole, *left = subject.scores(variants).tolist()
    for ((number, _), tokens), output in zip(words.items(), left, strict=True):
        scores[number][tokens] = (whole - output) / len(tokens)
    return scores
