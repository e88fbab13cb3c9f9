"""Names of MPNet's weights in checkpoints."""

PREFIX = "mpnet"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

IN_FILES = {
    "attention.self.query": "attention.attn.q",
    "attention.self.key": "attention.attn.k",
    "attention.self.value": "attention.attn.v",
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "lm_head.transform.dense": "lm_head.dense",
    "lm_head.transform.LayerNorm": "lm_head.layer_norm",
}
"""Module names in a file, where they differ from the model's."""
