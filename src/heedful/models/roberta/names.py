"""Names of RoBERTa's weights in checkpoints."""

PREFIX = "roberta"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

IN_FILES = {
    "lm_head.transform.dense": "lm_head.dense",
    "lm_head.transform.LayerNorm": "lm_head.layer_norm",
}
"""Module names in a file, where they differ from the model's."""
