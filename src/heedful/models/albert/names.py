"""Names of ALBERT's weights in checkpoints."""

from heedful.models.albert.config import AlbertConfig

PREFIX = "albert"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

_IN_FILES = {
    "embeddings.project": "encoder.embedding_hidden_mapping_in",
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.self.distance_embedding": "attention.distance_embedding",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
    "pooler.dense": "pooler",
    "cls.predictions": "predictions",
    "cls.predictions.transform.dense": "predictions.dense",
    "cls.predictions.transform.LayerNorm": "predictions.LayerNorm",
    "cls.seq_relationship": "sop_classifier.classifier",
}
"""Module names in a file, where they differ from the model's."""


def in_files(config: AlbertConfig) -> dict[str, str]:
    """Return a map from module names to their names in a file, where the two differ."""
    blocks = {}
    for number in range(config.num_blocks):
        group, inner = divmod(number, config.inner_group_num)
        name_in_file = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        blocks[f"encoder.layer.{number}"] = name_in_file
    return _IN_FILES | blocks
