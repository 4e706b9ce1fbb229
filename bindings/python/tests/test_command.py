"""The command that the package installs, and its results as values."""

import csv
import io
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import ringcall
import sinter

COMMAND, SINTER = (str(Path(sys.executable).with_name(name)) for name in ("ringcall", "sinter"))
STUDY = ["sweep", "--distances", "3,5", "--noises", "0.01,0.02", "--shots", "2000", "--batch", "100"]


def test_the_command_is_installed():
    version = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"ringcall {ringcall.__version__}"
    wrong = subprocess.run([COMMAND, "sweep", "--no-such"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--no-such" in wrong.stderr
    failed = subprocess.run([COMMAND, "merge", "/no/such"], capture_output=True, text=True)
    assert failed.returncode == 1 and failed.stderr.startswith("ringcall: ") and not failed.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_act_as_in_the_program(number, tmp_path):
    state = tmp_path / "state.jsonl"
    long = [COMMAND, "sweep", "--distances", "9", "--noises", "0.01", "--shots", "100000000", "--state", str(state)]
    with subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 60
        while not (state.exists() and state.stat().st_size):
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.01)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + number and f"stopped by signal {int(number)}" in errors


def test_a_state_names_the_package_not_the_interpreter(tmp_path):
    state = tmp_path / "state.jsonl"
    ringcall.sweep(distances=[3], noises=[0.02], shots=100, state=state)
    # The same code in another process, under another program.
    again = [COMMAND, "sweep", "--distances", "3", "--noises", "0.02", "--shots", "200", "--state", str(state)]
    subprocess.run(again, check=True, capture_output=True)


def test_sinter_reads_what_a_sweep_writes(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    for seed, path in (("1", first), ("2", second)):
        options = ["--seed", seed, "--matching", "both", "--sinter-csv", str(path)]
        subprocess.run([COMMAND, *STUDY, *options], check=True, capture_output=True)
    stats = sinter.read_stats_from_csv_files(str(first), str(second))
    assert len(stats) == 2 * 2 * 2
    assert {stat.decoder for stat in stats} == {"ringcall", "ringcall_correlated"}
    options = dict(distances=[3, 5], noises=[0.01, 0.02], shots=2000, batch=100, matching="both")
    found = [ringcall.sweep(seed=seed, **options) for seed in (1, 2)]
    for stat in stats:
        of = stat.json_metadata
        arms = [
            arm
            for result in found
            for point in result.points
            for arm in point.arms
            if (point.distance, point.p) == (of["d"], of["p"])
            and (arm.matching == "correlated") == stat.decoder.endswith("correlated")
        ]
        assert stat.shots == 4000 and stat.errors == sum(arm.errors for arm in arms) > 0
    combine = [SINTER, "combine", str(first), str(second)]
    combined = subprocess.run(combine, check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(io.StringIO(combined)))
    assert len(rows) == len(stats) and {int(next(iter(row.values()))) for row in rows} == {4000}
    plot = [SINTER, "plot", "--in", str(first), "--x_func", "m.p", "--group_func", "f'{decoder} d={m.d}'"]
    plot += ["--out", str(tmp_path / "plot.png")]
    subprocess.run(plot, check=True, capture_output=True)
    assert (tmp_path / "plot.png").stat().st_size > 0


def test_results_are_values():
    found = ringcall.sweep(distances=3, noises=[0.01, 0.02], shots=1000, threads=1)
    assert found.complete and found.settings["seed"] == 1
    point = found.points[1]
    assert (point.code, point.basis, point.p, point.shots) == ("surface", "Z", 0.02, 1000)
    low, high = point.arms[0].logical_error_rate_ci
    assert low < point.arms[0].errors / 1000 < high
    frame = found.to_pandas()
    assert list(frame["errors"]) == [point.arms[0].errors for point in found.points]
    assert "<iframe" in found._repr_html_() and "&lt;svg" in found._repr_html_()

    measured = ringcall.run(distance=3, requests=200, timeout_ms=60_000)
    assert measured.completed == 200 == measured.submitted and measured.lost == 0
    assert measured.latency_us.p50 <= measured.latency_us.max
    assert measured.to_pandas().loc["latency", "max"] == measured.latency_us.max
    assert "&lt;svg" in measured._repr_html_()


def test_mistakes_are_exceptions(tmp_path):
    for options in ({"no_such": 1}, {"shots": 0}, {"shots": "many"}, {"decoder": "relay", "matching": "plain"}):
        with pytest.raises(ValueError):
            ringcall.sweep(**options)
    for option in ("json", "report", "sinter_csv"):
        with pytest.raises(TypeError, match=option):
            ringcall.sweep(**{option: tmp_path / "x"})
    with pytest.raises(RuntimeError, match="/no/such"):
        ringcall.sweep(state="/no/such/state")
    with pytest.raises(RuntimeError, match="/no/such.dem"):
        ringcall.run(dem="/no/such.dem")


def test_ctrl_c_ends_a_sweep_and_the_next_one_goes_on(tmp_path):
    state = tmp_path / "state.jsonl"
    options = dict(distances=5, noises=0.01, state=state, batch=100)

    def interrupt():
        while not (state.exists() and state.stat().st_size):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ringcall.sweep(shots=10**9, **options)
    thread.join()
    assert ringcall.sweep(shots=1000, **options).points == ringcall.sweep(shots=1000, **options).points


def test_a_dask_worker_that_is_killed_loses_nothing(tmp_path):
    example = Path(__file__).parents[3] / "examples/dask/sweep.py"
    sweep_in_shards = runpy.run_path(str(example))["sweep_in_shards"]
    options = dict(distances=[3, 5], noises=[0.02], shots=20_000, batch=100)
    found = sweep_in_shards(tmp_path / "states", shards=4, workers=2, kill_one=True, **options)
    expected = ringcall.sweep(**options)
    shape = [(point.distance, point.shots, point.arms[0].errors) for point in expected.points]
    assert [(p["distance"], p["shots"], p["arms"][0]["errors"]) for p in found["points"]] == shape
