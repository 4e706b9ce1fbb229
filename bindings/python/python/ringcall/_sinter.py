"""Decoders for sinter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ringcall.matching import Matching

if TYPE_CHECKING:
    import sinter
    import stim

try:
    from sinter import CompiledDecoder as _CompiledDecoder
    from sinter import Decoder as _Decoder
except ImportError:  # sinter is not needed to decode
    _CompiledDecoder = _Decoder = object


class _Compiled(_CompiledDecoder):  # type: ignore[misc]
    """A graph, and whether errors that cross several edges are minded."""

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
    """Ringcall's matching as sinter knows decoders. It can be pickled."""

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
        """As compiled, for callers that have files."""
        matching = Matching.from_detector_error_model_file(dem_path, enable_correlations=self.enable_correlations)
        matching.ensure_num_fault_ids(num_obs)
        shots = np.fromfile(dets_b8_in_path, dtype=np.uint8).reshape(num_shots, -(-num_dets // 8))
        compiled = _Compiled(matching, self.enable_correlations)
        compiled.decode_shots_bit_packed(bit_packed_detection_event_data=shots).tofile(obs_predictions_b8_out_path)


def sinter_decoders() -> dict[str, RingcallDecoder]:
    """The decoders for sinter, by name: `ringcall`, and `ringcall_correlated`, which matches twice.

    >>> import ringcall
    >>> sorted(ringcall.sinter_decoders())
    ['ringcall', 'ringcall_correlated']
    """
    return {"ringcall": RingcallDecoder(), "ringcall_correlated": RingcallDecoder(enable_correlations=True)}
