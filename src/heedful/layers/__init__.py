"""Tensors to tensors; layers know numbers, never configs."""
