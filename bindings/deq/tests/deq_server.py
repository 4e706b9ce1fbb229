"""deq's own server with the shared library as its decoder, beside its own matching (fusion-blossom) on the same shots.

    python deq_server.py LIBRARY [--shots N] [--probability P] [--distances 3,5] [--no-op LIBRARY]

Needs the package `deq` from PyPI. Exit status 0: everything is as it should be. Times are printed, never checked.

Per distance, a memory experiment (surface_code.py) is decoded by deq's `mwpm`, by the library with `"hyperedges": "ignore"`, which
makes of errors what `mwpm` makes of them, and by the library as it is, in one pass and in two. A memory whose qubits are lost (lossy_code.py) is decoded by a library
that is told nothing of the losses, that gets them as they are, and that gets what deq makes of them, which `mwpm` gets, too. Then a server
without a simulator is asked over gRPC: capabilities, probabilities and losses of a request, observables, refusals.

A decoder's time is the processor time of deq's worker thread per shot, less that of a longer run's beginning: two runs of the same
kind and other lengths are subtracted, so that making the decoder does not count. With `--no-op`, a library whose decoder does
nothing is measured too: what deq itself spends on handing a shot over.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

import grpc
from deq.proto import blackbox_decoder_pb2 as messages
from deq.proto import blackbox_decoder_pb2_grpc as services
from deq.proto import util_pb2
from google.protobuf import empty_pb2

from lossy_code import lossy_memory
from surface_code import memory

DEQ = [sys.executable, "-c", "from deq.cli import run; run()"]
SECONDS = 600


def compile_program(folder, distance, probability):
    """The compiled program and its circuit."""
    source = os.path.join(folder, f"memory{distance}.deq")
    with open(source, "w", encoding="utf-8") as file:
        file.write(memory(distance, probability))
    out = os.path.join(folder, f"out{distance}")
    options = ["--program", "Memory", "--shots", "1", "--jobs", "1", "--decoder", "naive", "--save", out]
    subprocess.run(
        [*DEQ, "simulate", "ler", source, *options],
        check=True,
        timeout=SECONDS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return os.path.join(out, "Memory.deq.bin"), os.path.join(out, "Memory.stim")


def worker_seconds(pid, seen):
    """Notes the processor time of deq's worker threads, which are called like the process and are not its first."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
                name = file.read().strip()
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                spent = int(file.read().split()[0])
            if task != str(pid) and "tokio" not in name and "stim" not in name:
                seen[task] = spent / 1e9
    except (FileNotFoundError, ProcessLookupError):
        pass


def simulate(files, shots, seed, decoder, config):
    """Logical errors, and seconds that the decoder's thread took."""
    program, circuit = files
    command = [*DEQ, "server", "--addr", "[::1]:0", "--decoder", decoder, "--decoder-config", json.dumps(config)]
    command += ["--coordinator", "monolithic", "--controller", "static"]
    command += ["--controller-config", json.dumps({"filepath": program}), "--simulator", "static"]
    options = {"filepath": circuit, "shots": shots, "errors": 0, "seed": seed, "strict_timing": True}
    command += ["--simulator-config", json.dumps(options)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        end, seen = time.monotonic() + SECONDS, {}
        while server.poll() is None:
            if time.monotonic() > end:
                server.kill()
                raise TimeoutError(" ".join(command))
            worker_seconds(server.pid, seen)
            time.sleep(0.02)
        output.seek(0)
        said = output.read()
    counts = [re.search(rf"{what}:\s+(\d+)", said) for what in ("Shots", "Logical errors", "Failed shots")]
    if server.returncode != 0 or None in counts:
        raise RuntimeError(f"{' '.join(command)}\n{said}")
    done, wrong, failed = (int(count[1]) for count in counts)
    assert (done, failed) == (shots, 0), said
    return wrong, sum(seen.values())


def microseconds(files, shots, decoder, config):
    """Of a shot: the least of three."""
    few = max(shots // 10, 1)
    found = []
    for seed in (1, 2, 3):
        short = simulate(files, few, seed, decoder, config)[1]
        long = simulate(files, few + shots, seed, decoder, config)[1]
        found.append((long - short) / shots * 1e6)
    return min(found)


def check_rates(folder, arguments, ours):
    """Counts of logical errors on the same shots."""
    for distance in arguments.distances:
        files = compile_program(folder, distance, arguments.probability)
        mwpm = ("mwpm", {"parallel": 1})
        kinds = {
            "mwpm": mwpm,
            "ignore": ours({"hyperedges": "ignore"}),
            "plain": ours({}),
            "correlated": ours({"matching": "correlated"}),
        }
        wrong = {name: simulate(files, arguments.shots, 5, *kind)[0] for name, kind in kinds.items()}
        print(f"d={distance} p={arguments.probability} shots={arguments.shots} logical errors: {wrong}", flush=True)
        # The same problem solved exactly: shots differ by ties and by the rounding of weights alone.
        apart = abs(wrong["ignore"] - wrong["mwpm"])
        assert apart <= 5 + 4 * math.sqrt(0.1 * wrong["mwpm"]), wrong
        # More is known of each error: no more mistakes than chance allows.
        for kind in ("plain", "correlated"):
            assert wrong[kind] <= wrong["mwpm"] + 5 + 3 * math.sqrt(wrong["mwpm"]), wrong
        if arguments.no_op:
            idle = ("dyn-lib", {"library": arguments.no_op, "parallel": 1})
            timed = {name: microseconds(files, arguments.shots, *kind) for name, kind in {**kinds, "no-op": idle}.items()}
            shown = {name: round(value, 1) for name, value in timed.items()}
            print(f"d={distance} microseconds of the worker per shot: {shown}", flush=True)


def check_losses(folder, shots, ours):
    """Losses as they are, against deq's own way with them."""
    source = os.path.join(folder, "lossy.deq")
    with open(source, "w", encoding="utf-8") as file:
        file.write(lossy_memory(5, 0.005, 0.07))
    wrong = {}
    for name, (decoder, config), strategy in [
        ("not told", ours({}), "ignore"),
        ("told", ours({}), "handoff"),
        ("reweighted", ours({}), "reweight"),
        ("mwpm", ("mwpm", {"parallel": 1}), "reweight"),
    ]:
        command = [*DEQ, "simulate", "ler", source, "--program", "Memory", "--simulator", "qdk", "--seed", "5", "--jobs", "1"]
        command += ["--shots", str(shots), "--batch-size", str(shots), "--errors", str(shots)]
        command += ["--decoder", decoder, "--decoder-config", json.dumps(config)]
        command += ["--coordinator-config", json.dumps({"loss_strategy": strategy})]
        ran = subprocess.run(command, check=True, timeout=SECONDS, capture_output=True, text=True)
        wrong[name] = int(re.search(r"Logical errors:\s+(\d+)", ran.stdout)[1])
    print(f"losses, shots={shots} logical errors: {wrong}", flush=True)
    assert wrong["not told"] > 20 and 3 * wrong["told"] < wrong["not told"], wrong
    # The same mapping, here and in deq.
    for name in ("reweighted", "mwpm"):
        assert abs(wrong["told"] - wrong[name]) <= 5 + math.sqrt(wrong[name]), wrong


def vector(size, ones):
    data = bytearray((size + 7) // 8)
    for one in ones:
        data[one // 8] |= 0x80 >> (one % 8)
    return util_pb2.BitVector(size=size, data=bytes(data))


def check_requests(ours):
    """What a request may carry, over gRPC."""
    decoder, config = ours({})
    command = [*DEQ, "server", "--addr", "[::1]:0", "--decoder", decoder, "--decoder-config", json.dumps(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            line = server.stdout.readline()
            port = re.search(r"port=(\d+)", line)
            assert port, line
            with grpc.insecure_channel(f"[::1]:{port[1]}") as channel:
                grpc.channel_ready_future(channel).result(timeout=30)
                ask(services.BlackBoxDecoderStub(channel))
        finally:
            server.kill()


def ask(stub):
    features = set(stub.GetCapabilities(empty_pb2.Empty()).features)
    expected = ("REWEIGHTS", "LOSS", "SEED", "OBSERVABLES")
    assert features == {getattr(messages, f"DECODER_FEATURE_{name}") for name in expected}, features

    def edge(vertices, probability, flips=None):
        known = None if flips is None else messages.ObservableFlips(indices=flips)
        return messages.Hyperedge(vertices=vertices, probability=probability, observable_flips=known)

    row = [edge([0], 0.01), edge([0, 1], 0.02), edge([1], 0.01), edge([0], 0.0)]
    hid = stub.LoadHypergraph(messages.DecodingHypergraph(vertex_num=2, hyperedges=row)).hid

    def decode(ones, graph=None, **more):
        graph = hid if graph is None else graph
        problem = messages.LoadedDecodingProblem(hid=graph, syndrome=vector(2, ones), **more)
        return list(stub.DecodeLoaded(problem).subgraph)

    def set_to(edge_index, probability):
        return messages.EdgeReweight(edge=edge_index, probability=probability)

    assert (decode([]), decode([0]), decode([1]), decode([0, 1])) == ([], [0], [2], [1])
    assert decode([0, 1], decoder_seed=0) == [1]
    assert decode([0, 1], reweights=[set_to(1, 1e-6)]) == [0, 2]
    assert decode([0, 1], reweights=[set_to(1, 1e-6), set_to(3, 0.3)]) == [2, 3]
    assert decode([], reweights=[set_to(0, 1.0)]) == [0, 1, 2], "what is certain is part of every answer"
    assert decode([0, 1]) == [1], "a request's probabilities are of that request"
    site = messages.LossSite(source_edges=[3], probability=0.4, heralds=[0])
    lost = messages.LossInfo(sites=[site])
    assert decode([0, 1], loss=lost, reweights=[set_to(1, 1e-6)]) == [2, 3]
    try:
        decode([0, 1], reweights=[set_to(0, 0.0), set_to(1, 0.0)])
        raise AssertionError("no errors explain that")
    except grpc.RpcError as error:
        assert "no set of edges explains" in error.details(), error.details()
    # Two errors that flip observable 9 are likelier together than the one that flips none.
    parallel = [edge([0], 0.1, [9]), edge([0], 0.12, []), edge([0], 0.1, [9]), edge([1], 0.1, [])]
    known = stub.LoadHypergraph(messages.DecodingHypergraph(vertex_num=2, hyperedges=parallel)).hid
    assert decode([0], known) == [0]
    print("requests over gRPC: as they should be", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--shots", type=int, default=1000)
    parser.add_argument("--probability", type=float, default=0.006)
    parser.add_argument("--distances", type=lambda text: [int(d) for d in text.split(",")], default=[3, 5])
    parser.add_argument("--no-op", default=None)
    arguments = parser.parse_args()

    def ours(options):
        return "dyn-lib", {"library": os.path.abspath(arguments.library), "parallel": 1, "decoder_config": options}

    check_requests(ours)
    with tempfile.TemporaryDirectory() as folder:
        check_losses(folder, 2000, ours)
        check_rates(folder, arguments, ours)


if __name__ == "__main__":
    main()
