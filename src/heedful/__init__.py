"""heedful: your own text into working BERT and Transformer models, on your own machine."""
