#!/bin/sh
# Makes the committed networks out of a run's checkpoints and metrics, and the oracles of the Rust tests out of those:
#   training/adopt.sh RUN-FOLDER        (PYTHON=... where python3 is not the one with requirements.txt)
set -eu
cd "$(dirname "$0")"
run=$1
python=${PYTHON:-python3}
mkdir -p models
for name in 3x128 3x128_int8 3x64; do
    # Whichever the run trained.
    [ -e "$run/$name.pt" ] || continue
    rm -f models/predecoder_"$name"*.onnx
    "$python" export.py "$run/$name.pt" --out models
    cp "$run/$name.train.json" "$run/$name.metrics.json" models/
    # The pipeline's own shapes: measurements in, as the CUDA-Q configurations have them, and detectors in.
    form=detectors
    [ "$name" != 3x64 ] && form=measurements
    for distance in 7 13; do
        "$python" export.py "$run/$name.pt" --out models --bind "$distance:$distance:Z:0.003" --form "$form"
    done
done
"$python" oracles.py --models models
"$python" figures.py models/*.metrics.json > models/README.md
