"""What MPNet's weights are called in folders."""

PREFIX = "mpnet"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

IN_FILES = {
    "attention.self.query": "attention.attn.q",
    "attention.self.key": "attention.attn.k",
    "attention.self.value": "attention.attn.v",
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "lm_head.transform.dense": "lm_head.dense",
    "lm_head.transform.LayerNorm": "lm_head.layer_norm",
}
"""Parts of a model that have another name in a file."""
