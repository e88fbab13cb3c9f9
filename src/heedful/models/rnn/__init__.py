"""The recurrent translator with additive attention (Bahdanau et al. 2015)."""
