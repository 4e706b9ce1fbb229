"""Decoders and samplers for sinter."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ringcall._ringcall import ModelSampler
from ringcall.matching import Matching

if TYPE_CHECKING:
    import sinter
    import stim

try:
    from sinter import CompiledDecoder as _CompiledDecoder
    from sinter import CompiledSampler as _CompiledSampler
    from sinter import Decoder as _Decoder
    from sinter import Sampler as _Sampler
except ImportError:  # sinter is not needed to decode
    _CompiledDecoder = _CompiledSampler = _Decoder = _Sampler = object


# How long a sampler counts before it reports: sinter then looks whether there are errors enough, and shares shots out anew.
_BATCH_SECONDS = 0.25


class _Compiled(_CompiledDecoder):  # type: ignore[misc]
    """A graph, and whether correlations of its edges are used."""

    def __init__(self, matching: Matching, enable_correlations: bool) -> None:
        self.matching = matching
        self.enable_correlations = enable_correlations

    def decode_shots_bit_packed(self, *, bit_packed_detection_event_data: np.ndarray) -> np.ndarray:
        return self.matching.decode_batch(
            bit_packed_detection_event_data,
            bit_packed_shots=True,
            bit_packed_predictions=True,
            enable_correlations=self.enable_correlations,
        )


class RingcallDecoder(_Decoder):  # type: ignore[misc]
    """Ringcall's matching as a decoder for sinter. It can be pickled."""

    def __init__(self, enable_correlations: bool = False) -> None:
        self.enable_correlations = enable_correlations

    def compile_decoder_for_dem(self, *, dem: stim.DetectorErrorModel) -> sinter.CompiledDecoder:
        matching = Matching.from_detector_error_model(dem, enable_correlations=self.enable_correlations)
        return _Compiled(matching, self.enable_correlations)

    def decode_via_files(
        self,
        *,
        num_shots: int,
        num_dets: int,
        num_obs: int,
        dem_path: Path,
        dets_b8_in_path: Path,
        obs_predictions_b8_out_path: Path,
        tmp_dir: Path,
    ) -> None:
        """As a compiled decoder, for callers with files."""
        matching = Matching.from_detector_error_model_file(dem_path, enable_correlations=self.enable_correlations)
        matching.ensure_num_fault_ids(num_obs)
        shots = np.fromfile(dets_b8_in_path, dtype=np.uint8).reshape(num_shots, -(-num_dets // 8))
        compiled = _Compiled(matching, self.enable_correlations)
        compiled.decode_shots_bit_packed(bit_packed_detection_event_data=shots).tofile(obs_predictions_b8_out_path)


class _CompiledModelSampler(_CompiledSampler):  # type: ignore[misc]
    """Shots of one model, drawn, decoded and counted in Rust."""

    def __init__(self, sampler: ModelSampler) -> None:
        self.sampler = sampler

    def handles_throttling(self) -> bool:
        """Samples until a time limit, so that sinter need not begin with a few shots."""
        return True

    def sample(self, suggested_shots: int) -> sinter.AnonTaskStats:
        import sinter

        start = time.monotonic()
        shots, errors = self.sampler.count_errors(suggested_shots, _BATCH_SECONDS)
        return sinter.AnonTaskStats(shots=shots, errors=errors, seconds=time.monotonic() - start)


class RingcallSampler(_Sampler):  # type: ignore[misc]
    """Draws shots from a task's detector error model and decodes them, all in Rust. It can be pickled."""

    def __init__(self, enable_correlations: bool = False) -> None:
        self.enable_correlations = enable_correlations

    def compiled_sampler_for_task(self, task: sinter.Task) -> sinter.CompiledSampler:
        options = task.collection_options
        if task.postselection_mask is not None or task.postselected_observables_mask is not None:
            raise ValueError("the sampler does not postselect: use the decoder `ringcall`")
        if getattr(options, "count_observable_error_combos", False) or getattr(
            options, "count_detection_events", False
        ):
            raise ValueError("the sampler counts nothing but errors: use the decoder `ringcall`")
        model = task.detector_error_model
        if model is None:
            model = task.circuit.detector_error_model(decompose_errors=True, approximate_disjoint_errors=True)
        return _CompiledModelSampler(ModelSampler(str(model), enable_correlations=self.enable_correlations))


def sinter_decoders() -> dict[str, sinter.Decoder | sinter.Sampler]:
    """Decoders and samplers for sinter, by name.

    `ringcall` decodes what Stim samples. `ringcall_sampler` draws the shots, too, from the detector error model, with
    no Python and no files in between. `ringcall_correlated` and `ringcall_correlated_sampler` match twice.

    >>> import ringcall
    >>> sorted(ringcall.sinter_decoders())
    ['ringcall', 'ringcall_correlated', 'ringcall_correlated_sampler', 'ringcall_sampler']
    """
    return {
        "ringcall": RingcallDecoder(),
        "ringcall_correlated": RingcallDecoder(enable_correlations=True),
        "ringcall_sampler": RingcallSampler(),
        "ringcall_correlated_sampler": RingcallSampler(enable_correlations=True),
    }
