"""Encoder-decoder models of a pretrained encoder and decoder (Rothe et al. 2020)."""
