"""What the weights of DeBERTa v2 and v3 are called in folders."""

from heedful.models.deberta.names import PREFIX as PREFIX
from heedful.models.deberta.names import SHARED

IN_FILES = SHARED | {
    "attention.self.query": "attention.self.query_proj",
    "attention.self.key": "attention.self.key_proj",
    "attention.self.value": "attention.self.value_proj",
    "attention.self.disentangled.key": "attention.self.pos_key_proj",
    "attention.self.disentangled.query": "attention.self.pos_query_proj",
}
"""Parts of a model that have another name in a file."""
