"""What ViT's weights are called in folders."""

PREFIX = "vit"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

IN_FILES = {
    "embeddings.cls_token.weight": "embeddings.cls_token",
    "embeddings.mask_token.weight": "embeddings.mask_token",
    "embeddings.position_embeddings.weight": "embeddings.position_embeddings",
    "attention.self": "attention.attention",
    "attention.output.LayerNorm": "layernorm_before",
    "output.LayerNorm": "layernorm_after",
}
"""Parts of a model that have another name in a file."""

DECODER = {"decoder.projection": "decoder.0"}
"""The same of a head that makes pixels."""
