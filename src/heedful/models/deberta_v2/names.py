"""Names of DeBERTa v2's and v3's weights in checkpoints."""

from heedful.models.deberta.names import PREFIX as PREFIX
from heedful.models.deberta.names import SHARED

IN_FILES = SHARED | {
    "attention.self.query": "attention.self.query_proj",
    "attention.self.key": "attention.self.key_proj",
    "attention.self.value": "attention.self.value_proj",
    "attention.self.disentangled.key": "attention.self.pos_key_proj",
    "attention.self.disentangled.query": "attention.self.pos_query_proj",
}
"""Module names in a file, where they differ from the model's."""
