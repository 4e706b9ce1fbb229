"""Training, export and evaluation of the convolutional predecoder. See ../README.md."""
