"""Training for integers.py: a network that computes what that will compute, with rounding whose gradient is 1 (Bengio,
Léonard and Courville, arXiv:1308.3432), and learns the step of each layer's bytes (Esser et al., arXiv:1902.08153).
"""

import numpy as np
import torch
from torch import nn

from .integers import BITS, DOUBLED, EXACT, TOP, Layer
from .network import Predecoder, convolved


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.round()

    @staticmethod
    def backward(_, grad):
        return grad


class Quantized(Predecoder):
    """A `Predecoder` whose weights and activations are rounded, in training as in use."""

    def __init__(self, width=128, hidden=3):
        super().__init__(width, hidden)
        # What one step of a hidden layer's bytes stands for.
        self.log_steps = nn.Parameter(torch.zeros(hidden))

    @property
    def name(self):
        return f"{super().name}_int8"

    def bits(self, layer):
        first, middle, last = BITS
        return first if layer == 0 else last if layer == self.hidden else middle

    def weight_step(self, layer):
        """Of each channel out."""
        top = 2 ** (self.bits(layer) - 1) - 1
        largest = self.convs[layer].weight.detach().abs().amax((1, 2, 3, 4))
        return (largest / top).clamp(min=1e-12)

    def integer_weight(self, layer):
        step = self.weight_step(layer).view(-1, 1, 1, 1, 1)
        return Rounded.apply(self.convs[layer].weight / step)

    def step(self, layer, count):
        """Of the bytes that a hidden layer leaves; its gradient is scaled as the step of `count` values should be."""
        step = self.log_steps[layer].exp()
        held = step.detach()
        return held + (step - held) / (count * TOP) ** 0.5

    @torch.no_grad()
    def calibrate(self, x):
        """Begins with steps for which nothing of this batch is cut."""
        for layer, conv in enumerate(self.convs[:-1]):
            x = torch.relu(convolved(x, conv.weight, conv.bias))
            self.log_steps[layer] = (x.max().float() / TOP).clamp(min=1e-6).log()

    def forward(self, x):
        x, before = x * DOUBLED, 1 / DOUBLED
        for layer, conv in enumerate(self.convs):
            # A brain float holds a byte, but of ten bits only eight, and of sums as well: training bears that.
            found = convolved(x, self.integer_weight(layer)).float()
            factor, offset = before * self.weight_step(layer), conv.bias
            step = 1.0
            if layer < self.hidden:
                step = self.step(layer, found.numel())
            # As `layers` has them, and so with the same roundings.
            shape = (-1, 1, 1, 1)
            found = found * (factor / step).view(shape) + (offset / step).view(shape)
            if layer == self.hidden:
                return found
            x, before = Rounded.apply(found.clamp(0, TOP)), step

    @torch.no_grad()
    def layers(self):
        """What it computes, in integers.

        Raises ArithmeticError where a sum might not be exact in single precision.
        """
        found, before = [], torch.tensor(1 / DOUBLED)
        for layer, conv in enumerate(self.convs):
            step = self.log_steps[layer].exp() if layer < self.hidden else torch.tensor(1.0)
            weight = self.integer_weight(layer).cpu().numpy().astype(np.int16)
            factor = before * self.weight_step(layer) / step
            one = Layer(weight, factor.cpu().numpy(), (conv.bias / step).cpu().numpy())
            inputs = int(DOUBLED) if layer == 0 else TOP
            if one.largest_sum(inputs) >= EXACT:
                raise ArithmeticError(f"layer {layer}: sums of up to {one.largest_sum(inputs)}, not below {EXACT}")
            found.append(one)
            before = step
        return found


def load(path, device="cpu"):
    """A network from a checkpoint of train.py."""
    held = {"integers": False} | torch.load(path, map_location="cpu", weights_only=True)
    network = (Quantized if held["integers"] else Predecoder)(held["width"], held["hidden"])
    network.load_state_dict(held["weights"])
    return network.to(device).eval(), held
