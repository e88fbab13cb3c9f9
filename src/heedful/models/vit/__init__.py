"""ViT (Dosovitskiy et al. 2021)."""
