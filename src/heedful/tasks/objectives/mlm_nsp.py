"""Masked language modelling and next-sentence prediction (Devlin et al. 2019, section 3.1)."""

from heedful.batches.sentence_pairs import sentence_pairs
from heedful.tasks.objectives.pairs import MaskedPairs

NEXT_SENTENCES = MaskedPairs(
    cut=sentence_pairs,
    metric="nsp_accuracy",
    tells="tells whether one sentence follows another",
    pairs_documents=True,
    many_false="have a random second part, since many documents have nothing to follow their first "
    "sentence; --documents says what ends a document (gap or file suits books)",
)
