"""Runs as ONNX: graphs that any of its runtimes computes."""
