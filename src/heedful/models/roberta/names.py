"""What RoBERTa's weights are called in folders."""

PREFIX = "roberta"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

IN_FILES = {
    "lm_head.transform.dense": "lm_head.dense",
    "lm_head.transform.LayerNorm": "lm_head.layer_norm",
}
"""Parts of a model that have another name in a file."""
