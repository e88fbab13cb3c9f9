"""BERT (Devlin et al. 2019)."""
