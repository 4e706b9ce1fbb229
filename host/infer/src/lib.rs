//! Inference engines behind one trait: ONNX on the CPU, pass-through.
