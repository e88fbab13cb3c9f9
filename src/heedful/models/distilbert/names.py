"""What DistilBERT's weights are called in folders."""

PREFIX = "distilbert"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

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
"""Parts of the body that have another name in a file."""

DENSE_HEAD = {"classifier.dense": "pre_classifier", "classifier.out_proj": "classifier"}
"""Parts of a head of two layers that have another name in a file."""

LANGUAGE_HEAD = {
    "vocab_projector.transform.dense": "vocab_transform",
    "vocab_projector.transform.LayerNorm": "vocab_layer_norm",
    "vocab_projector.decoder.weight": "vocab_projector.weight",
}
"""Parts of a head that scores pieces that have another name in a file."""
