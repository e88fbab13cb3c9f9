"""Masked language modelling and next-sentence prediction (Devlin et al. 2019, section 3.1)."""

from heedful.batches.sentence_pairs import sentence_pairs
from heedful.tasks.objectives.pairs import MaskedPairs

NEXT_SENTENCES = MaskedPairs(
    cut=sentence_pairs,
    metric="nsp_accuracy",
    pair_prediction="whether one sentence follows another",
    pairs_documents=True,
    negatives_warning="have a random second part, because many documents have only one sentence; "
    "choose what ends a document with --documents (gap or file suits books)",
)
