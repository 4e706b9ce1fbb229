"""Graphs that both packages build, by the same calls."""

import sys
from pathlib import Path

import numpy as np
import pymatching
import ringcall
import stim

sys.path.append(str(Path(__file__).parent.parent / "bench"))
from circuits import memory  # noqa: E402

__all__ = ["BOTH", "memory", "random_graph", "same_edges", "without_ties"]

BOTH = (ringcall.Matching, pymatching.Matching)


def same_edges(ours, theirs):
    """Whether two lists of edges are equal but for the rounding of merged weights."""
    close = ["weight", "error_probability"]

    def exact(edges):
        return [(u, v, data["fault_ids"], list(data)) for u, v, data in edges]

    def numbers(edges):
        return np.array([[data[key] for key in close] for _, _, data in edges])

    return exact(ours) == exact(theirs) and np.allclose(numbers(ours), numbers(theirs), rtol=1e-12, atol=1e-14)


def random_graph(seed):
    """The same random graph in both packages, and a generator to go on with.

    Weights are continuous, so that the best solution is one alone.
    """
    draw = np.random.default_rng(seed)
    nodes = int(draw.integers(2, 40))
    graphs = [kind() for kind in BOTH]
    # A path holds all nodes together, so that most syndromes have a solution.
    ends = [(node, node + 1) for node in range(nodes - 1)]
    ends += [tuple(map(int, draw.choice(nodes, 2, replace=False))) for _ in range(int(draw.integers(0, 3 * nodes)))]
    ends += [(int(node), None) for node in draw.choice(nodes, int(draw.integers(0, nodes)), replace=False)]
    most_faults = int(draw.choice([3, 70]))
    negative = bool(draw.random() < 0.3)
    merge = str(draw.choice(["smallest-weight", "independent", "keep-original"]))
    for u, v in ends:
        weight = float(draw.normal(1, 1) if negative else draw.exponential())
        faults = {int(fault) for fault in draw.integers(0, most_faults, int(draw.integers(0, 3)))}
        options = {"weight": weight, "fault_ids": faults, "merge_strategy": merge}
        for graph in graphs:
            if v is None:
                graph.add_boundary_edge(u, **options)
            else:
                graph.add_edge(u, v, **options)
    boundary = {int(node) for node in draw.choice(nodes, int(draw.integers(0, 3)), replace=False)}
    for graph in graphs:
        graph.set_boundary_nodes(boundary)
        graph.ensure_num_fault_ids(most_faults)
    return *graphs, draw


def without_ties(model, seed=1):
    """The model with a probability of its own for each error, so that the best solution is one alone."""
    draw = np.random.default_rng(seed)
    out = stim.DetectorErrorModel()
    for item in model.flattened():
        if item.type == "error":
            out.append("error", item.args_copy()[0] * draw.uniform(0.7, 1.3), item.targets_copy())
        else:
            out.append(item)
    return out
