"""DeBERTa (He et al. 2021)."""
