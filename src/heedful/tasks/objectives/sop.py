"""Masked language modelling and sentence-order prediction (Lan et al. 2020, section 3.1)."""

from heedful.batches.sentence_pairs import ordered_pairs
from heedful.tasks.objectives.pairs import MaskedPairs

SENTENCE_ORDER = MaskedPairs(
    cut=ordered_pairs,
    metric="sop_accuracy",
    pair_prediction="whether two texts are in order",
    pairs_documents=False,
)
