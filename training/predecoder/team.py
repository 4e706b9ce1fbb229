"""The processes that train one network together, each with a device of its own and shots of its own."""

import datetime

import torch
from torch import distributed

# Longer than the slowest of them takes to make its tables.
TIMEOUT = datetime.timedelta(seconds=300)


class Team:
    """Alone, it sends nothing."""

    def __init__(self, rank=0, size=1, port=0, device=torch.device("cpu")):
        self.rank, self.size, self.device = rank, size, device
        if size > 1:
            backend = "nccl" if device.type == "cuda" else "gloo"
            where = f"tcp://127.0.0.1:{port}"
            distributed.init_process_group(backend, where, timeout=TIMEOUT, world_size=size, rank=rank)

    @property
    def leads(self):
        return self.rank == 0

    def follow(self, tensors):
        """Makes everyone's tensors the leader's."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor.detach(), 0)

    def told(self, value):
        """The leader's number."""
        if self.size == 1:
            return value
        held = torch.tensor([value], dtype=torch.float64, device=self.device)
        distributed.broadcast(held, 0)
        return held.item()

    def average(self, tensors):
        """Replaces each tensor by the mean of everyone's, all in one message."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        flat /= self.size
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view_as(tensor))

    def leave(self):
        if self.size > 1:
            distributed.destroy_process_group()
