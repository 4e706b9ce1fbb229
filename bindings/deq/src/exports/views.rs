//! What a host's pointers point to, checked as far as that can be done.

use crate::{EdgeReweight, HypergraphDecoder, LossSite, LossSites, Refusal};
use deq_decoder_abi::interface::{
    DeqDecoderDecodeRequest, DeqDecoderLossInfo, DeqDecoderLossSite, DeqDecoderObservableFlips,
};

/// A list of the host's: `count` values at `pointer`, which may be null where there are none.
///
/// # Safety
/// If it is neither null nor misaligned, `pointer` is valid for reads of `count` initialised values, which stay as they are for `'a`.
pub(super) unsafe fn slice<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Refusal> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Refusal::Argument(format!("{what} is {pointer:p}, with {count} entries")));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Refusal::Argument(format!("{what} has {count} entries: more than memory has")));
    }
    // SAFETY: the caller's contract; not null, aligned, and no longer than an object can be.
    Ok(unsafe { core::slice::from_raw_parts(pointer, count) })
}

/// A truth value of C, as the number that it is: what is not 0 is true.
///
/// # Safety
/// `pointer` is valid for a read.
unsafe fn truth(pointer: *const bool) -> bool {
    // SAFETY: the caller's contract; any byte is a number.
    unsafe { pointer.cast::<u8>().read() != 0 }
}

/// The observables of each of `count` errors; `None` where nothing is known of any.
///
/// # Safety
/// As [`slice`], of the descriptors and of each list that they name.
pub(super) unsafe fn flips<'a>(
    pointer: *const DeqDecoderObservableFlips,
    count: usize,
) -> Result<Option<Vec<Option<&'a [u64]>>>, Refusal> {
    if pointer.is_null() {
        return Ok(None);
    }
    // Not as values, whose truth values might be none.
    // SAFETY: the caller's contract, for any bytes.
    let places = unsafe {
        slice(
            pointer.cast::<core::mem::MaybeUninit<DeqDecoderObservableFlips>>(),
            count,
            "edge_observable_flips",
        )
    }?;
    let read = |(edge, place): (usize, &core::mem::MaybeUninit<DeqDecoderObservableFlips>)| {
        let place = place.as_ptr();
        // SAFETY: a field of a place that is there.
        let known = unsafe { &raw const (*place).known };
        // SAFETY: initialised, by the caller's contract.
        let known = unsafe { truth(known) };
        // SAFETY: as above.
        let indices = unsafe { (*place).indices };
        // SAFETY: as above.
        let index_count = unsafe { (*place).index_count };
        if !known {
            let refuse = || {
                Refusal::Argument(format!("edge {edge} flips {index_count} observables that are not known"))
            };
            return if index_count == 0 { Ok(None) } else { Err(refuse()) };
        }
        // SAFETY: the caller's contract.
        unsafe { slice(indices, index_count, "observable indices") }.map(Some)
    };
    places.iter().enumerate().map(read).collect::<Result<_, _>>().map(Some)
}

/// A request, its pointers followed.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) syndrome_size: u64,
    pub(super) syndrome: &'a [u8],
    pub(super) reweights: &'a [EdgeReweight],
    pub(super) losses: Sites<'a>,
}

impl<'a> Request<'a> {
    /// Reads a host's request.
    ///
    /// # Safety
    /// [`deq_decoder_abi::interface::DecodeRequestFn`], of the request.
    pub(super) unsafe fn read(request: *const DeqDecoderDecodeRequest) -> Result<Self, Refusal> {
        if request.is_null() || !request.is_aligned() {
            return Err(Refusal::Argument(format!("the request is {request:p}")));
        }
        // Field by field: the truth value that goes with a seed might be none, and is not needed.
        // SAFETY: a field of the request, by the caller's contract.
        let syndrome_size = unsafe { (*request).syndrome_size };
        // SAFETY: as above.
        let syndrome_data = unsafe { (*request).syndrome_data };
        // SAFETY: as above.
        let reweights = unsafe { (*request).reweights };
        // SAFETY: as above.
        let reweight_count = unsafe { (*request).reweight_count };
        // SAFETY: as above.
        let loss = unsafe { (*request).loss };
        let bytes = usize::try_from(syndrome_size.div_ceil(8)).unwrap_or(usize::MAX);
        // SAFETY: the caller's contract.
        let syndrome = unsafe { slice(syndrome_data, bytes, "syndrome_data") }?;
        // SAFETY: the caller's contract.
        let reweights = unsafe { slice(reweights, reweight_count, "reweights") }?;
        // SAFETY: the caller's contract.
        let losses = unsafe { Sites::read(loss) }?;
        Ok(Self { syndrome_size, syndrome, reweights, losses })
    }

    pub(super) fn decode<'d>(&self, decoder: &'d mut HypergraphDecoder) -> Result<&'d [u64], Refusal> {
        if self.syndrome_size != decoder.detectors() as u64 {
            let (size, vertices) = (self.syndrome_size, decoder.detectors());
            return Err(Refusal::Argument(format!(
                "syndrome_size is {size}; the graph has {vertices} vertices"
            )));
        }
        decoder.decode(self.syndrome, self.reweights, &self.losses)
    }
}

/// Sites of losses, of whose lists each was checked.
#[derive(Clone, Copy)]
pub(super) struct Sites<'a>(&'a [DeqDecoderLossSite]);

impl Sites<'_> {
    /// No losses.
    pub(super) const NONE: Self = Sites(&[]);

    /// The sites of a request; none where it has no losses.
    ///
    /// # Safety
    /// As [`slice`], of the sites and of each list that they name; `loss`, unless it is null or misaligned, is valid for a read.
    unsafe fn read(loss: *const DeqDecoderLossInfo) -> Result<Self, Refusal> {
        if loss.is_null() {
            return Ok(Self::NONE);
        }
        // SAFETY: the caller's contract.
        let info = unsafe { slice(loss, 1, "loss") }?[0];
        // SAFETY: the caller's contract.
        let sites = unsafe { slice(info.sites, info.site_count, "loss sites") }?;
        for site in sites {
            for (list, count, what) in [
                (site.source_edges, site.source_edge_count, "source_edges"),
                (site.continuation_edges, site.continuation_edge_count, "continuation_edges"),
                (site.children, site.child_count, "children"),
                // Who saw the loss is not asked for, but a host that is wrong about it is wrong.
                (site.heralds, site.herald_count, "heralds"),
            ] {
                // SAFETY: the caller's contract.
                unsafe { slice(list, count, what) }?;
            }
        }
        Ok(Self(sites))
    }
}

impl LossSites for Sites<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn site(&self, index: usize) -> LossSite<'_> {
        let site = &self.0[index];
        let list = |pointer: *const u64, count: usize| {
            // SAFETY: `read` took it, by whose contract it stays as it was.
            unsafe { slice(pointer, count, "a list") }.unwrap_or_default()
        };
        LossSite {
            source_edges: list(site.source_edges, site.source_edge_count),
            continuation_edges: list(site.continuation_edges, site.continuation_edge_count),
            probability: site.probability,
            children: list(site.children, site.child_count),
        }
    }
}
