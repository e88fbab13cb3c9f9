"""Names of ViT's weights in checkpoints."""

PREFIX = "vit"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

IN_FILES = {
    "embeddings.cls_token.weight": "embeddings.cls_token",
    "embeddings.mask_token.weight": "embeddings.mask_token",
    "embeddings.position_embeddings.weight": "embeddings.position_embeddings",
    "attention.self": "attention.attention",
    "attention.output.LayerNorm": "layernorm_before",
    "output.LayerNorm": "layernorm_after",
}
"""Module names in a file, where they differ from the model's."""

DECODER = {"decoder.projection": "decoder.0"}
"""Module names in a file of the head that predicts pixels."""
