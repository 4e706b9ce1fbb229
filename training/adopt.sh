#!/bin/sh
# Makes the committed networks out of a run's checkpoints and metrics, and the oracles of the Rust tests out of those:
#   training/adopt.sh RUN-FOLDER        (PYTHON=... where python3 is not the one with requirements.txt)
set -eu
cd "$(dirname "$0")"
run=$1
python=${PYTHON:-python3}
mkdir -p models
rm -f models/*.onnx
for name in 3x128 3x64; do
    "$python" export.py "$run/$name.pt" --out models
    cp "$run/$name.train.json" "$run/$name.metrics.json" models/
done
# The pipeline's own shapes: measurements in, as the CUDA-Q configurations have them, and detectors in.
for distance in 7 13; do
    "$python" export.py "$run/3x128.pt" --out models --bind "$distance:$distance:Z:0.003" --form measurements
    "$python" export.py "$run/3x64.pt" --out models --bind "$distance:$distance:Z:0.003" --form detectors
done
"$python" oracles.py --models models
"$python" figures.py models/*.metrics.json > models/README.md
