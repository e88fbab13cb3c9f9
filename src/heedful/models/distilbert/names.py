"""Names of DistilBERT's weights in checkpoints."""

PREFIX = "distilbert"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

IN_FILES = {
    "encoder": "transformer",
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}
"""The body's module names in a file, where they differ from the model's."""

DENSE_HEAD = {"classifier.dense": "pre_classifier", "classifier.out_proj": "classifier"}
"""Module names in a file of a two-layer head."""

LANGUAGE_HEAD = {
    "vocab_projector.transform.dense": "vocab_transform",
    "vocab_projector.transform.LayerNorm": "vocab_layer_norm",
    "vocab_projector.decoder.weight": "vocab_projector.weight",
}
"""Names in a file of the language model head's modules and weights."""
