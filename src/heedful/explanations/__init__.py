"""Explanations of model predictions: attention maps and token attributions."""
