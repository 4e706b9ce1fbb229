//! How fast a player and a service on two threads of one machine are, over the loopback interface.
//!
//! ```sh
//! cargo run --release -p ringcall-sim --example loopback -- [REQUESTS] [PAYLOAD_BYTES] [IN_FLIGHT] [LOSS] [INTERVAL_NS]
//! ```

use ringcall_roce::RoceSocket;
use ringcall_sim::fpga::{Increment, Loopback, LoopbackConfig, Player, PlayerConfig};
use std::io::Write;

fn argument<T: std::str::FromStr>(index: usize, default: T) -> T {
    std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let any = "127.0.0.1:0".parse()?;
    let service = Loopback::start(any, LoopbackConfig::default())?;
    let mut config = PlayerConfig::new(service.target());
    config.in_flight = argument(3, config.in_flight);
    config.faults.loss = argument(4, 0.0);
    config.interval = std::time::Duration::from_nanos(argument(5, 0));
    let mut player = Player::new(RoceSocket::bind(any)?, config)?;
    let mut windows = Increment::new(argument(1, 200_000), argument(2, 64));
    let report = player.run(&mut windows, &mut Increment::check, &|| false)?;
    let latency = report.latency_ns;
    writeln!(
        std::io::stdout(),
        "{:.0} requests/s, p50 {} ns, p99 {} ns, max {} ns; sent {}, correct {}, lost {}, unanswered {}, clean {}\n{:?}",
        report.throughput_per_s,
        latency.p50,
        latency.p99,
        latency.max,
        report.sent,
        report.correct,
        report.lost,
        report.unanswered,
        report.clean(),
        service.stop()?,
    )?;
    Ok(())
}
