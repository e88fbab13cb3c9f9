"""Names of ELECTRA's weights in checkpoints."""

PREFIX = "electra"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

IN_FILES = {
    "embeddings.project": "embeddings_project",
    "generator_lm_head.transform.dense": "generator_predictions.dense",
    "generator_lm_head.transform.LayerNorm": "generator_predictions.LayerNorm",
    "generator_lm_head.decoder.weight": "generator_lm_head.weight",
    "classifier.summary": "sequence_summary.summary",
}
"""Names of modules and weights in a file, where they differ from the model's."""
