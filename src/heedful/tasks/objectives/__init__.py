"""Pre-training objectives on plain text: one file and one table entry each."""

from heedful.settings.tasks import ObjectiveName as ObjectiveName
from heedful.tasks.objectives.clm import NextWords
from heedful.tasks.objectives.mlm import MaskedWords
from heedful.tasks.objectives.mlm_nsp import NEXT_SENTENCES
from heedful.tasks.objectives.objective import Objective
from heedful.tasks.objectives.plm import PermutedWords
from heedful.tasks.objectives.rtd import ReplacedTokens
from heedful.tasks.objectives.sop import SENTENCE_ORDER

OBJECTIVES: dict[ObjectiveName, Objective] = {
    "mlm+nsp": NEXT_SENTENCES,
    "mlm": MaskedWords(),
    "sop": SENTENCE_ORDER,
    "rtd": ReplacedTokens(),
    "clm": NextWords(),
    "plm": PermutedWords(),
}
"""All objectives, by their user-visible names."""
