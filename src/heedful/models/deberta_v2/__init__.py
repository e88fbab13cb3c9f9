"""DeBERTa v2 and v3 (He et al. 2021, 2023)."""
