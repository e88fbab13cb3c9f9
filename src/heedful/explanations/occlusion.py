"""Attribution by removing words and recomputing the output (occlusion)."""

from collections import defaultdict

import numpy as np

from heedful.explanations.gradients import Scores
from heedful.explanations.subject import Subject


def leave_one_out(subject: Subject) -> Scores:
    """Return the drop of the output when each word is removed, divided among its tokens.

    A word at an output position, such as the tagged word, is masked instead of removed. Special
    tokens have the score 0.
    """
    words: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for side_index, side in enumerate(subject.target.sides):
        for index, token in enumerate(side.tokens):
            if token.word is not None:
                words[side_index, token.word].append(index)
    scores = tuple(np.zeros(len(side.tokens)) for side in subject.target.sides)
    variants = [subject.whole]
    for (side_index, _), tokens in words.items():
        dropped = [np.zeros(len(side_scores), dtype=np.bool_) for side_scores in scores]
        dropped[side_index][tokens] = True
        variants.append(subject.without(dropped))
    full_output, *outputs = subject.scores(variants).tolist()
    for ((side_index, _), tokens), output in zip(words.items(), outputs, strict=True):
        scores[side_index][tokens] = (full_output - output) / len(tokens)
    return scores
