//! Reload of a decoding server: after SIGHUP its file is read again while it serves.

use super::{Args, FrameArg, file, slot_bytes};
use crate::memory::Estimate;
use anyhow::{Context, Result, anyhow, bail};
use ringcall_decoder_service::decoding_server::{Config, DecoderConfig, Session, Sessions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The served decoders, and the thread that makes new ones.
pub(super) struct Reload<'a> {
    sessions: &'a Sessions,
    reader: Arc<Reader>,
    served: Config,
    making: Option<JoinHandle<Result<Option<Made>>>>,
    /// Whether a hang-up has come since the file was last read.
    asked: bool,
    /// Whether some new decoders do not yet serve.
    pending: bool,
}

struct Reader {
    path: PathBuf,
    args: Args,
    sized: bool,
    /// Each ring's decoder, and the bytes of its slots.
    rings: Vec<(i64, u32)>,
    room: Estimate,
}

/// A changed configuration and its new decoders.
struct Made {
    config: Config,
    sessions: Vec<Session>,
}

impl<'a> Reload<'a> {
    pub(super) fn new(
        path: &Path,
        (args, sized): (&Args, bool),
        room: Estimate,
        served: &Config,
        sessions: &'a Sessions,
    ) -> Self {
        let ring = |decoder: &DecoderConfig| (decoder.id(), slot_bytes(args, sized, decoder));
        let rings = served.decoders.iter().map(ring).collect();
        let reader = Reader { path: path.to_owned(), args: args.clone(), sized, rings, room };
        let (reader, served) = (Arc::new(reader), served.clone());
        Self { sessions, reader, served, making: None, asked: false, pending: false }
    }

    /// Begins to read the file again after a hang-up, and reports the outcome once the reading thread is done, since
    /// large decoders take time to make. New decoders replace the old ones between two volumes. A file with an error,
    /// or that needs other rings, changes nothing.
    pub(super) fn turn(&mut self, hung_up: bool) {
        let path = self.reader.path.display().to_string();
        if hung_up && self.reader.args.stream {
            return tracing::warn!("SIGHUP: --stream has no file to read again");
        }
        self.asked |= hung_up;
        if self.pending && self.sessions.free_replaced() {
            self.pending = false;
            tracing::info!(%path, "every new decoder is in its place");
        }
        if let Some(thread) = self.making.take_if(|thread| thread.is_finished()) {
            let made = thread.join().unwrap_or_else(|_| Err(anyhow!("making the decoders panicked")));
            match made.and_then(|made| made.map(|made| self.put(made)).transpose()) {
                Ok(None) => tracing::warn!(%path, "SIGHUP: the configuration is as before"),
                Ok(Some(())) => tracing::warn!(%path, "SIGHUP: the configuration was read again"),
                Err(error) => {
                    tracing::error!(%path, error = format!("{error:#}"), "SIGHUP: the service goes on as before");
                }
            }
        }
        if self.asked && self.making.is_none() {
            self.asked = false;
            let (reader, served) = (Arc::clone(&self.reader), self.served.clone());
            let thread = std::thread::Builder::new().name("reload".to_owned());
            match thread.spawn(move || reader.read(&served)) {
                Ok(thread) => self.making = Some(thread),
                Err(error) => tracing::error!(%error, "SIGHUP: the service goes on as before"),
            }
        }
    }

    fn put(&mut self, made: Made) -> Result<()> {
        if !self.sessions.replace(made.sessions) {
            bail!("a decoder is gone: that takes a start");
        }
        (self.served, self.pending) = (made.config, true);
        Ok(())
    }
}

impl Reader {
    /// The new decoders, if the file has changed.
    fn read(&self, served: &Config) -> Result<Option<Made>> {
        let config = file::read(&self.path, self.args.memory)?;
        if config == *served {
            return Ok(None);
        }
        for decoder in &config.decoders {
            let id = decoder.id();
            let ring = self.rings.iter().find(|ring| ring.0 == id);
            let &(_, bytes) = ring.with_context(|| format!("decoder {id} is new: that takes a start"))?;
            if slot_bytes(&self.args, self.sized, decoder) > bytes {
                bail!(
                    "requests for decoder {id} have become longer than the slots of its ring: that takes a start"
                );
            }
        }
        if config.transport != served.transport {
            bail!("the transport is another one: that takes a start");
        }
        // The old decoders serve while the new ones are made.
        let there = file::estimate(&self.path, served).beside(&self.room);
        self.args.memory.admit_beside(file::estimate(&self.path, &config), &there)?;
        let frame = self.args.frame.unwrap_or(FrameArg::Volume).into();
        let sessions = config.decoders.iter().map(|decoder| Session::new(decoder, frame));
        let sessions = sessions.collect::<Result<_, _>>();
        Ok(Some(Made { config, sessions: sessions.map_err(|error| file::refusal(&self.path, &error))? }))
    }
}
