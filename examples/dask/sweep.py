"""A sweep in shards on Dask: `python sweep.py`, or the function with the address of a scheduler.

Needs the Python package of Ringcall (`pip install ./bindings/python`) and `distributed`. The folder of states must be one that
all workers see. A worker that is killed loses the batches that it was decoding, and nothing else: Dask gives its shard
to another worker, which goes on from the shard's state.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client, LocalCluster, get_worker

COMMAND = str(Path(sys.executable).with_name("ringcall"))


def count(shard, state, options):
    """One shard, in a thread of a worker."""
    import ringcall

    ringcall.sweep(shard=shard, state=state, threads=1, **options)
    return get_worker().address


def sweep_in_shards(states, shards, address=None, workers=2, kill_one=False, **options):
    """Counts all shards and joins them; gives what `ringcall merge --json` writes.

    `options` are those of `ringcall.sweep`. Without `address` it starts workers on this machine; `kill_one` kills the first one in
    the middle of its work, to see that nothing is lost.
    """
    states = Path(states)
    cluster = None
    if address is None:
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with Client(cluster or address) as client:
        names = [f"{index}/{shards}" for index in range(1, shards + 1)]
        counted = [client.submit(count, name, str(states), options, retries=3, pure=False) for name in names]
        if kill_one:
            kill(client, states)
        client.gather(counted)
    if cluster is not None:
        cluster.close()
    merged = subprocess.run([COMMAND, "merge", str(states), "--json", "-"], capture_output=True, text=True)
    if merged.returncode:
        raise RuntimeError(merged.stderr.strip())
    return json.loads(merged.stdout)


def kill(client, states):
    """Kills a worker once some batches are there."""
    deadline = time.monotonic() + 120
    while sum(path.stat().st_size for path in states.glob("*.jsonl")) < 10_000:
        if time.monotonic() > deadline:
            raise TimeoutError("no batch was finished in two minutes")
        time.sleep(0.01)
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


if __name__ == "__main__":
    results = sweep_in_shards(
        "states", shards=8, distances=[3, 5, 7], noises=[0.004, 0.006, 0.008], shots=1_000_000, max_errors=1000
    )
    for point in results["points"]:
        print(point["distance"], point["p"], point["shots"], point["arms"][0]["logical_error_rate"])
