"""Layers: functions from tensors to tensors. They take sizes and options, never configs."""
