"""The network: plain 3x3x3 convolutions with ReLU between them, same padding, no norm."""

import torch
from torch import nn
from torch.nn import functional

from .geometry import IN, OUT


def convolved(x, weight, bias=None, padded=None):
    """3x3x3, same padding. With `padded`, as on a GPU, of channels in and out multiples of 8, which tensor cores want."""
    more_in, more_out = -weight.shape[1] % 8, -weight.shape[0] % 8
    if not (x.is_cuda if padded is None else padded):
        more_in = more_out = 0
    outputs = len(weight)
    if more_in or more_out:
        x = functional.pad(x, (0,) * 7 + (more_in,))
        weight = functional.pad(weight, (0,) * 7 + (more_in, 0, more_out))
        bias = None if bias is None else functional.pad(bias, (0, more_out))
    return functional.conv3d(x, weight, bias, padding=1)[:, :outputs]


class Predecoder(nn.Module):
    def __init__(self, width=128, hidden=3):
        super().__init__()
        sizes = [IN] + [width] * hidden + [OUT]
        self.width, self.hidden = width, hidden
        self.convs = nn.ModuleList(nn.Conv3d(a, b, 3, padding=1) for a, b in zip(sizes, sizes[1:]))
        for conv in self.convs[:-1]:
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)
        nn.init.normal_(self.convs[-1].weight, std=0.01)
        # Labels are rare.
        nn.init.constant_(self.convs[-1].bias, -4.0)

    def forward(self, x):
        *hidden, last = self.convs
        for conv in hidden:
            x = torch.relu(convolved(x, conv.weight, conv.bias))
        return convolved(x, last.weight, last.bias)

    @property
    def name(self):
        return f"{self.hidden}x{self.width}"


class Average:
    """Exponential moving average of the weights, with a short memory while training is young."""

    def __init__(self, network, decay):
        self.network, self.decay, self.steps = network, decay, 0
        self.values = [p.detach().clone() for p in network.parameters()]

    def update(self):
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            torch._foreach_lerp_(self.values, list(self.network.parameters()), 1 - decay)

    def state(self):
        names = [name for name, _ in self.network.named_parameters()]
        return {name: value.detach().float().cpu().contiguous() for name, value in zip(names, self.values)}


def with_margin(weights, margin):
    """The same weights, but logits of flips that much lower: `Recipe.flip_margin`."""
    last = max(name for name in weights if name.endswith(".bias"))
    bias = weights[last].clone()
    bias[OUT // 2 :] -= margin
    return weights | {last: bias}
