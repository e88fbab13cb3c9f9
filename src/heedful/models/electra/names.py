"""What ELECTRA's weights are called in folders."""

PREFIX = "electra"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

IN_FILES = {
    "embeddings.project": "embeddings_project",
    "generator_lm_head.transform.dense": "generator_predictions.dense",
    "generator_lm_head.transform.LayerNorm": "generator_predictions.LayerNorm",
    "generator_lm_head.decoder.weight": "generator_lm_head.weight",
    "classifier.summary": "sequence_summary.summary",
}
"""Parts of a model, or weights, that have another name in a file."""
