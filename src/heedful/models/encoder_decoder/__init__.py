"""A BERT that reads and a BERT that writes (Rothe et al. 2020)."""
