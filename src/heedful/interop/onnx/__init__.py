"""Export runs as ONNX graphs for any ONNX runtime."""
