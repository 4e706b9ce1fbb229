//! Address of a service: the line that the service prints, or an address and options.

use crate::decoder::{DecoderArg, DecoderArgs, MatchingArg, RelayArgs};
use crate::serve::{DEFAULT_PORT, QpTypeArg, TransportArg};
use crate::side::{ReadoutArg, SideArgs};
use crate::usage::{Misuse, misuse};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use ringcall_sim::fpga::PlayerTarget;
use ringcall_wire::tag::{self, FrameKey};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Beginning of a decoding server's line.
const DECODING_SERVER: &str = "QEC_DECODING_SERVER_READY ";

/// The pairs of a service's line, and defaults for the missing ones.
#[derive(Debug, Default)]
pub(super) struct Target<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    address: Option<SocketAddr>,
}

impl<'a> Target<'a> {
    /// Parses `transport=roce port=4791 qp=0x12 ...`, `127.0.0.1:4791` or `localhost:4791`.
    pub(super) fn parse(text: &'a str) -> Result<Self> {
        if let Ok(address) = text.trim().parse() {
            return Ok(Self { pairs: Vec::new(), address: Some(address) });
        }
        if !text.contains('=') && text.contains(':') {
            let found =
                text.trim().to_socket_addrs().with_context(|| Misuse(format!("no address of `{text}`")))?;
            // Services of RoCE have IPv4 only, and `ringcall serve` is on 127.0.0.1 by default.
            let address = found.min_by_key(SocketAddr::is_ipv6);
            return Ok(Self { pairs: Vec::new(), address });
        }
        let pairs = text
            .trim()
            .strip_prefix(DECODING_SERVER)
            .unwrap_or(text)
            .split_ascii_whitespace()
            .map(|word| word.split_once('='))
            .collect::<Option<Vec<_>>>()
            .filter(|pairs| !pairs.is_empty())
            .ok_or_else(|| misuse(format!("`{text}` is neither an address nor a line of key=value pairs")))?;
        Ok(Self { pairs, address: None })
    }

    /// Refuses a decoding server, which serves none of the other protocol's functions.
    pub(super) fn refuse_decoding_server(text: &str) -> Result<()> {
        if text.trim().starts_with(DECODING_SERVER.trim()) {
            bail!(misuse(
                "the endpoint is a decoding server: --protocol decoding --config FILE, the file that it serves, asks it"
            ));
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// A number, decimal or, after `0x`, hexadecimal.
    fn number(&self, key: &str) -> Result<Option<u64>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let value = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        value.map(Some).with_context(|| Misuse(format!("{key}={text} in the endpoint")))
    }

    fn word(&self, key: &str, default: u32) -> Result<u32> {
        let value = self.number(key)?.unwrap_or(default.into());
        u32::try_from(value).with_context(|| Misuse(format!("{key}={value} in the endpoint")))
    }

    /// The transport of the option, or of the line.
    pub(super) fn transport(&self, option: Option<TransportArg>) -> Result<TransportArg> {
        let named = match self.get("transport") {
            None => None,
            Some("udp") => Some(TransportArg::Udp),
            // Both are the same on the wire; the option decides whether an adapter speaks it.
            Some("roce" | "verbs") if option == Some(TransportArg::Verbs) => Some(TransportArg::Verbs),
            Some("roce" | "verbs") => Some(TransportArg::Roce),
            Some(other) => bail!(misuse(format!(
                "the endpoint's transport is `{other}`: udp, roce and verbs are spoken"
            ))),
        };
        match (named, option) {
            // An emulated adapter speaks RoCE.
            (Some(TransportArg::Roce), Some(TransportArg::Nic | TransportArg::Hsb)) => Ok(TransportArg::Roce),
            (Some(named), Some(option)) if named != option => {
                bail!(misuse(format!("the endpoint is {}, --transport {}", named.name(), option.name())))
            }
            (named, option) => Ok(option.or(named).unwrap_or(TransportArg::Udp)),
        }
    }

    /// The service of the queue pair, from the option or the line; by default the unreliable one.
    pub(super) fn qp_type(&self, option: Option<QpTypeArg>) -> Result<QpTypeArg> {
        let named =
            match self.get("service") {
                None => None,
                Some(text) => Some(QpTypeArg::from_str(text, false).map_err(|_| {
                    misuse(format!("the endpoint's service is `{text}`: uc and rc are known"))
                })?),
            };
        match (named, option) {
            (Some(named), Some(option)) if named != option => {
                bail!(misuse("the endpoint's queue pair is of another service: leave --qp-type out"))
            }
            (named, option) => Ok(option.or(named).unwrap_or(QpTypeArg::Uc)),
        }
    }

    /// The first packet sequence number of the line.
    pub(super) fn psn(&self) -> Result<Option<u32>> {
        let Some(psn) = self.number("psn")? else { return Ok(None) };
        let psn = u32::try_from(psn).ok().filter(|psn| psn >> 24 == 0);
        psn.map(Some).context(Misuse("psn in the endpoint has more than 24 bits".to_owned()))
    }

    /// The service's decoder, for comparing answers, from the options or the line.
    pub(super) fn decoder(&self, options: DecoderArgs) -> Result<DecoderArgs> {
        let plugs_in = matches!(options.family, Some(DecoderArg::Plugin(_)));
        if let Some(named) = self.get("decoder") {
            match named {
                "relay" => {}
                "slices" if !plugs_in && options.kind.is_none() && options.family.is_none() => {
                    return Ok(options);
                }
                "slices" => {
                    bail!(misuse("the endpoint matches by slices: leave --decoder and --matching out"))
                }
                "plugin" if plugs_in => return Ok(options),
                "plugin" => {
                    bail!(misuse(
                        "the endpoint's decoder is a plug-in: give the same one, --decoder plugin:LIBRARY"
                    ))
                }
                _ => bail!(misuse(format!(
                    "the endpoint's decoder is `{named}`: matching, relay and plugin are known"
                ))),
            }
            if options.kind.is_some() || plugs_in || options.family == Some(DecoderArg::Matching) {
                bail!(misuse("the endpoint's decoder is relay: leave --decoder and --matching out"));
            }
            let setting = |key, option: Option<u32>| -> Result<Option<u32>> {
                let served = self.number(key)?.map(u32::try_from).transpose();
                let served = served.with_context(|| Misuse(format!("{key} in the endpoint")))?;
                match (served, option) {
                    (Some(served), Some(option)) if served != option => {
                        let flag = key.replace('_', "-");
                        bail!(misuse(format!(
                            "the endpoint has {key}={served}: leave --{flag} out, or give the same"
                        )))
                    }
                    _ => Ok(served.or(option)),
                }
            };
            let served = self
                .get("relay_osd")
                .map(str::parse)
                .transpose()
                .with_context(|| misuse("relay_osd in the endpoint".to_owned()))?;
            if options.relay.ordered.is_some() && options.relay.ordered != served {
                bail!(misuse("the endpoint has other ordered statistics: leave --relay-osd out".to_owned()));
            }
            let relay = RelayArgs {
                ordered: served,
                solutions: setting("relay_solutions", options.relay.solutions)?,
                iterations: setting("relay_iterations", options.relay.iterations)?,
                lanes: None,
            };
            return Ok(DecoderArgs { family: Some(DecoderArg::Relay), relay, ..options });
        }
        let Some(named) = self.get("matching") else { return Ok(options) };
        let kind = MatchingArg::from_str(named, false).map_err(|_| {
            misuse(format!("the endpoint's matching is `{named}`: plain, correlated and ensemble are known"))
        })?;
        if plugs_in || options.family == Some(DecoderArg::Relay) {
            bail!(misuse(format!("the endpoint's decoder is {named} matching: leave --decoder out")));
        }
        if options.kind.is_some_and(|option| option != kind) {
            bail!(misuse(format!(
                "the endpoint's matching is {named}: leave --matching out, or give the same"
            )));
        }
        Ok(DecoderArgs { kind: Some(kind), ..options })
    }

    /// The side information of requests, from the options or the line.
    pub(super) fn side(&self, options: SideArgs) -> Result<SideArgs> {
        let weights = self.number("weights")?.map(u32::try_from).transpose();
        let weights = weights.context(Misuse("weights in the endpoint".to_owned()))?;
        let readout = self.get("readout").map(|text| {
            ReadoutArg::from_str(text, false)
                .map_err(|_| misuse(format!("the endpoint's readout is `{text}`")))
        });
        let readout = readout.transpose()?;
        if options.weights.zip(weights).is_some_and(|(option, served)| option != served) {
            bail!(misuse(
                "the endpoint takes other numbers of weights: leave --weights out, or give the same"
            ));
        }
        if options.readout.zip(readout).is_some_and(|(option, served)| option != served) {
            bail!(misuse(
                "the endpoint takes another encoding of read-outs: leave --readout out, or give the same"
            ));
        }
        Ok(SideArgs { weights: options.weights.or(weights), readout: options.readout.or(readout) })
    }

    /// Whether the line says that requests are measurements, and that answers are those of slices.
    pub(super) fn forms(&self) -> (bool, bool) {
        (self.get("requests") == Some("measurements"), self.get("decoder") == Some("slices"))
    }

    /// Whether answers end with a confidence.
    pub(super) fn says_confidence(&self) -> bool {
        self.get("answers") == Some("confidence")
    }

    /// Whether a model answers `decode_syndrome`.
    ///
    /// # Errors
    /// The service's model takes requests that this command cannot send.
    pub(super) fn model(&self) -> Result<bool> {
        match self.get("model") {
            None => Ok(false),
            Some("predecoder") if self.get("requests") == Some("measurements") => Ok(true),
            Some(model) => Err(Misuse(format!(
                "the endpoint serves a model ({model}), whose requests are its own inputs: measurements of a predecoder are sent, \
                 and --function increment is"
            ))
            .into()),
        }
    }

    /// The service's address; this machine's if the line has none.
    pub(super) fn address(&self) -> Result<SocketAddr> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        let ip = self.get("ip").map_or(Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)), |ip| {
            ip.parse().with_context(|| Misuse(format!("ip={ip} in the endpoint")))
        })?;
        let port = self.number("port")?.context(Misuse("the endpoint has no port".to_owned()))?;
        let port = u16::try_from(port).with_context(|| Misuse(format!("port={port} in the endpoint")))?;
        Ok(SocketAddr::new(ip, port))
    }

    /// The address of a decoder's ring: at its port, or, if the line names none, at the first one.
    pub(super) fn ring(&self, decoder: i64) -> Result<SocketAddr> {
        let mut address = self.address()?;
        let key = format!("ring{decoder}");
        if let Some(port) = self.number(&key)? {
            address.set_port(
                u16::try_from(port).with_context(|| Misuse(format!("{key}={port} in the endpoint")))?,
            );
        }
        Ok(address)
    }

    /// Checks that both sides tag their frames, or neither does.
    ///
    /// # Errors
    /// Only one side tags its frames, or the sides use different versions of tags.
    pub(super) fn check_tag(&self, key: Option<FrameKey>) -> Result<()> {
        match (self.number("tag")?, key) {
            (Some(version), _) if version != u64::from(tag::VERSION) => {
                bail!(misuse(format!(
                    "the endpoint tags frames in version {version}, and this program in {}",
                    tag::VERSION
                )))
            }
            (Some(_), None) => bail!(misuse("the endpoint tags its frames: give its --tag-key")),
            // An address does not say whether frames are tagged.
            (None, Some(_)) if !self.pairs.is_empty() => {
                bail!(misuse("the endpoint tags no frames: leave --tag-key out, or start it with one"))
            }
            _ => Ok(()),
        }
    }

    /// The digest of the service's experiment, if the line has it.
    pub(super) fn experiment(&self) -> Option<&'a str> {
        self.get("experiment")
    }

    /// The window of a RoCE service, with the defaults of `ringcall serve` for missing pairs. The key has no default;
    /// with `told` a rendezvous provides it.
    pub(super) fn window(&self, told: bool) -> Result<PlayerTarget> {
        if !told && self.get("rkey").is_none() {
            bail!(misuse(
                "the endpoint has no rkey=: give the line that `ringcall serve` prints, or --rendezvous"
            ));
        }
        let SocketAddr::V4(peer) = self.address()? else { bail!("RoCE is spoken over IPv4") };
        Ok(PlayerTarget {
            peer,
            qp: self.word("qp", DEFAULT_PORT.qp)?,
            key: self.word("rkey", 0)?,
            base: self.number("base")?.unwrap_or(DEFAULT_PORT.base),
            page_bytes: self.word("page_size", DEFAULT_PORT.page_bytes)?,
            pages: self.word("pages", DEFAULT_PORT.pages)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_service_is_read() {
        let line = "transport=roce port=4791 qp=0x12 rkey=0xbeef base=0x0 pages=64 page_size=256 ip=10.0.0.2";
        let target = Target::parse(line).expect("a line");
        assert_eq!(target.transport(None).expect("known"), TransportArg::Roce);
        let window = target.window(false).expect("a window");
        assert_eq!((window.peer.to_string(), window.qp, window.key), ("10.0.0.2:4791".into(), 0x12, 0xBEEF));
        assert_eq!((window.base, window.pages, window.page_bytes), (0, 64, 256));
        let address = Target::parse("127.0.0.1:99").expect("an address");
        assert_eq!(address.address().expect("itself").port(), 99);
    }

    #[test]
    fn the_line_of_a_decoding_server_has_a_port_for_each_decoder() {
        let line = "QEC_DECODING_SERVER_READY port=4000 transport=udp ip=10.0.0.2 ring3=4000 ring7=4001\n";
        let target = Target::parse(line).expect("a line");
        assert_eq!(target.transport(None).expect("known"), TransportArg::Udp);
        let port = |decoder| target.ring(decoder).expect("a port").to_string();
        assert_eq!([3, 7, 8].map(port), ["10.0.0.2:4000", "10.0.0.2:4001", "10.0.0.2:4000"]);
        assert!(Target::parse("port=1 ring0=70000").expect("pairs").ring(0).is_err());
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in ["", "here", "port=4791 there"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        for text in ["transport=udp", "port=66000", "port=x", "port=1 ip=here"] {
            assert!(Target::parse(text).expect("pairs").address().is_err(), "{text}");
        }
        assert!(Target::parse("port=1 qp=0x100000000").expect("pairs").window(true).is_err());
        assert!(Target::parse("port=1 transport=ib").expect("pairs").transport(None).is_err());
        let udp = Target::parse("port=1 transport=udp").expect("pairs");
        assert!(udp.transport(Some(TransportArg::Roce)).is_err());
    }

    #[test]
    fn answers_are_compared_by_the_matching_of_the_service() {
        let none = &DecoderArgs::default();
        let [plain, correlated] = &[MatchingArg::Plain, MatchingArg::Correlated]
            .map(|kind| DecoderArgs { kind: Some(kind), ..none.clone() });
        let of = |line, option: &DecoderArgs| Target::parse(line).expect("pairs").decoder(option.clone());
        assert_eq!(of("port=1 matching=plain", none).expect("known").kind, plain.kind);
        assert_eq!(of("port=1 matching=correlated", correlated).expect("the same").kind, correlated.kind);
        assert_eq!(of("port=1", plain).expect("the option").kind, plain.kind);
        assert_eq!(of("port=1", none).expect("nothing").kind, None);
        assert!(of("port=1 matching=plain", correlated).is_err() && of("port=1 matching=x", none).is_err());
        let [relay, plugin] = &[DecoderArg::Relay, DecoderArg::Plugin("./libplugin.so".into())]
            .map(|family| DecoderArgs { family: Some(family), ..none.clone() });
        assert!(of("port=1 matching=plain", relay).is_err() && of("port=1 matching=plain", plugin).is_err());
        assert_eq!(of("port=1 decoder=plugin", plugin).expect("the same").family, plugin.family);
        assert!(of("port=1 decoder=plugin", none).is_err() && of("port=1 decoder=plugin", relay).is_err());
        let line = "port=1 decoder=relay relay_solutions=5 relay_iterations=900";
        assert!(of(line, plugin).is_err());
        let found = of(line, none).expect("known");
        assert_eq!(
            (found.family, found.relay.solutions, found.relay.iterations),
            (relay.family.clone(), Some(5), Some(900))
        );
        let other = DecoderArgs { relay: RelayArgs { solutions: Some(1), ..none.relay }, ..none.clone() };
        assert!(of(line, relay).is_ok() && of(line, plain).is_err() && of(line, &other).is_err());
        assert!(of("port=1 decoder=guess", none).is_err());
    }
}
