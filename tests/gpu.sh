#!/usr/bin/env bash
# Runs the tests of the device that lie packed beside this script, each in a process of its own so that a device that one of
# them breaks is whole again for the next, and then the measurements. They are unpacked into the folder `programs` here.
#
#   ./run [--no-bench] [--memcheck] [FOLDER]    logs, tests.json, bench.json and its histograms go to FOLDER, by default here
#
# tests.json has the device, the commit and what became of each test: docs/performance keeps one of each release.
#
# With --memcheck the tests run under `compute-sanitizer --tool memcheck`. Calls that the driver refuses are not errors to
# it here: the number of a kernel's parameters is found by asking for one too many. Its racecheck is of no use: it takes
# the atomic loads and stores that the warps of a dispatcher agree by for races.
#
# RINGCALL_TEST_SECONDS is how long one test may take, RINGCALL_BENCH_SECONDS the measurements; RINGCALL_TESTS are the programs
# of tests to run (all), RINGCALL_ONLY a part of the names of their tests. The other RINGCALL_ variables below are how much the longer tests do.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$PWD
bench=1
under=()
for word in "$@"; do
    case $word in
        --no-bench) bench=0 ;;
        --memcheck) under=(compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9) ;;
        -*) echo "unknown option $word: ./run [--no-bench] [--memcheck] [FOLDER]" >&2; exit 2 ;;
        *) out=$word ;;
    esac
done
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
if [[ ! $here/programs/.unpacked -nt $here/programs.tar.xz ]]; then
    rm -rf "$here/programs" && mkdir "$here/programs" && tar -xJf "$here/programs.tar.xz" -C "$here/programs" || exit 2
    touch "$here/programs/.unpacked"
fi
here=$here/programs
export RINGCALL_GARBAGE_REQUESTS=${RINGCALL_GARBAGE_REQUESTS:-10000000}
export RINGCALL_GRAPH_LAUNCHES=${RINGCALL_GRAPH_LAUNCHES:-1000000}
export RINGCALL_LITMUS_ROUNDS=${RINGCALL_LITMUS_ROUNDS:-1000000}
export RINGCALL_UNIFIED_REQUESTS=${RINGCALL_UNIFIED_REQUESTS:-10000000}
export RINGCALL_PIPELINE_REQUESTS=${RINGCALL_PIPELINE_REQUESTS:-10000}
export RINGCALL_SHAPE_REQUESTS=${RINGCALL_SHAPE_REQUESTS:-1000000}
export RINGCALL_DECISION_SHOTS=${RINGCALL_DECISION_SHOTS:-10000}
export RINGCALL_RELAY_SHOTS=${RINGCALL_RELAY_SHOTS:-100000}
export RINGCALL_RELAY_REQUESTS=${RINGCALL_RELAY_REQUESTS:-1000000}
export RINGCALL_MODELS=${RINGCALL_MODELS:-$here/models}
export RUST_BACKTRACE=${RUST_BACKTRACE:-0}
seconds=${RINGCALL_TEST_SECONDS:-120}

passed=0 failed=0 skipped=0
failures=()
results=()

# run_test NAME LOG COMMAND...: runs one test, and counts it.
run_test() {
    local name=$1 log=$2 one=$out/.one.log code outcome begin took word
    shift 2
    begin=$EPOCHREALTIME
    timeout --kill-after=5 "$seconds" "$@" >"$one" 2>&1
    code=$?
    took=$(( (${EPOCHREALTIME/[.,]/} - ${begin/[.,]/}) / 1000 ))
    if [[ $code == 124 || $code == 137 ]]; then
        outcome="FAILED (no end within $seconds s)"
        failed=$((failed + 1))
        failures+=("$name")
    elif [[ $code != 0 ]]; then
        outcome="FAILED (status $code)"
        failed=$((failed + 1))
        failures+=("$name")
    elif grep -q '^skipped:\|^test .* \.\.\. skipped:' "$one"; then
        outcome=skipped
        skipped=$((skipped + 1))
    else
        outcome=passed
        passed=$((passed + 1))
    fi
    read -r word _ <<<"$outcome"
    results+=("  \"$name\": {\"outcome\": \"${word,,}\", \"ms\": $took}")
    { echo "== $name: $outcome, $took ms"
      grep -v '^running 1 test$\|^$\|^test result:' "$one"
    } | tee -a "$log"
    rm -f "$one"
}

all='driver_gpu ring_gpu litmus_gpu queue_pair_gpu engine_gpu grid_gpu networks_gpu relay_gpu pipeline_gpu decisions_gpu shapes_gpu handoff_gpu tensorrt_gpu lean service_gpu'
for tests in ${RINGCALL_TESTS:-$all}; do
    log=$out/$tests.log
    : >"$log"
    if ! names=$("$here/$tests" --list --format terse 2>>"$log"); then
        echo "FAILED: $tests does not start" | tee -a "$log"
        failed=$((failed + 1))
        failures+=("$tests")
        continue
    fi
    while read -r name; do
        name=${name%: test}
        [[ -n $name && $name == *"${RINGCALL_ONLY:-}"* ]] || continue
        run_test "$tests $name" "$log" "${under[@]+"${under[@]}"}" "$here/$tests" --exact "$name" --test-threads=1 --nocapture
    done <<<"$names"
done

# Programs against the C library, which lies here as well, and the network's kernel in each of its shapes.
log=$out/c_programs.log
: >"$log"
for words in device_call graph_launch hsb_device hsb_three pipeline_graph "load_module handlers.ptx" "load_module handlers.cubin" "load_module handlers.fatbin" "udp_device libcudaq-realtime-bridge-udp.so" network_bench; do
    read -r program file <<<"$words"
    [[ -x $here/$program && $words == *"${RINGCALL_ONLY:-}"* ]] || continue
    run_test "$words" "$log" env LD_LIBRARY_PATH="$here" "$here/$program" ${file:+"$here/$file"}
done

echo "$passed passed, $failed failed, $skipped skipped"
device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
settings=$(env | grep '^RINGCALL_' | grep -v '^RINGCALL_MODELS=' | sort | tr '\n' ' ' | tr -d '"\\')
{ echo '{'
  echo " \"device\": \"${device:-unknown}\","
  echo " \"commit\": \"$(cat "$here/commit" 2>/dev/null || echo unknown)\","
  echo " \"settings\": \"${settings% }\","
  echo " \"passed\": $passed, \"failed\": $failed, \"skipped\": $skipped,"
  echo ' "tests": {'
  printf '%s\n' "${results[@]+"${results[@]}"}" | sed '$!s/$/,/'
  echo ' }'
  echo '}'
} >"$out/tests.json"

# host-call/32, host-graph/32, device calls and dispatch graphs through the C library: to be compared with the command line's figures for them.
for program in host_call host_graph device_call_32 device_call_512 dispatch_graph; do
    [[ $bench == 1 && -x $here/$program ]] || continue
    if ! LD_LIBRARY_PATH=$here timeout --kill-after=5 60 "$here/$program" 2>&1 | tee "$out/$program.log"; then
        echo "FAILED: $program"
        failures+=("$program")
    fi
done

if [[ $bench == 1 && -x $here/ringcall ]]; then
    if ! timeout --kill-after=5 "${RINGCALL_BENCH_SECONDS:-300}" "$here/ringcall" bench --model "$here/predecoder.onnx" \
        --pipeline-seconds "${RINGCALL_PIPELINE_SECONDS:-2}" --json "$out/bench.json" \
        2>&1 | tee "$out/bench.log"; then
        echo "FAILED: ringcall bench"
        failures+=("ringcall bench")
    fi
fi

for failure in "${failures[@]+"${failures[@]}"}"; do
    echo "failed: $failure"
done
[[ ${#failures[@]} == 0 ]]
