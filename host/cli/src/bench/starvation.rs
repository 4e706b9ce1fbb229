//! Starvation of this process's threads: distinguishes a machine without free cores from a pipeline that has stopped.

use std::time::{Duration, Instant};

/// Sums over the threads of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Shares {
    ran: Duration,
    /// Time in which threads were ready to run and waited for a core.
    waited: Duration,
}

impl Shares {
    /// The kernel's sums so far; `None` if it does not report them.
    fn now() -> Option<Self> {
        let mut sum = Self::default();
        for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
            // The file of a thread that has ended meanwhile is gone.
            if let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) {
                let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
                sum.ran += Duration::from_nanos(numbers.next()?);
                sum.waited += Duration::from_nanos(numbers.next()?);
            }
        }
        Some(sum)
    }
}

/// A wait whose length may be the machine's fault.
#[derive(Debug)]
pub(super) struct Timeout {
    begin: Instant,
    shares: Option<Shares>,
    usual: Duration,
    most: Duration,
}

/// The cause of a wait that took longer than usual.
#[derive(Debug, PartialEq)]
pub(super) enum Judgement {
    /// Threads wait for a core: the wait may continue.
    Starved,
    /// The wait is over, for this reason.
    Over(String),
}

impl Timeout {
    /// A wait of `usual`, or up to `most` while threads wait for cores.
    pub(super) fn new(usual: Duration, most: Duration) -> Self {
        Self { begin: Instant::now(), shares: Shares::now(), usual, most }
    }

    /// Judges the wait so far; `None` while it takes no longer than usual.
    pub(super) fn judge(&self) -> Option<Judgement> {
        let took = self.begin.elapsed();
        if took < self.usual {
            return None;
        }
        let now = self.shares.zip(Shares::now());
        let shares = now.map(|(before, now)| Shares {
            ran: now.ran.saturating_sub(before.ran),
            waited: now.waited.saturating_sub(before.waited),
        });
        Some(judgement(took, shares, self.most))
    }
}

fn judgement(took: Duration, shares: Option<Shares>, most: Duration) -> Judgement {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let Some(Shares { ran, waited }) = shares else {
        return Judgement::Over(format!("in {}", seconds(took)));
    };
    // Polling threads always want a core: if they spend more time without one than with one, the machine is too busy.
    let starved = waited > ran;
    if starved && took < most {
        return Judgement::Starved;
    }
    let [took, ran, waited] = [took, ran, waited].map(seconds);
    let cause =
        if starved { "this machine is starved of cores" } else { "they had cores, so this is a fault" };
    Judgement::Over(format!(
        "in {took}, in which this process's threads ran {ran} and waited {waited} for a core: {cause}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_excused_while_threads_want_cores_and_not_for_ever() {
        let seconds = Duration::from_secs;
        let shares = |ran, waited| Some(Shares { ran: seconds(ran), waited: seconds(waited) });
        assert_eq!(judgement(seconds(6), shares(2, 20), seconds(60)), Judgement::Starved);
        let over = |took, shares| match judgement(seconds(took), shares, seconds(60)) {
            Judgement::Over(why) => why,
            Judgement::Starved => panic!("excused"),
        };
        assert!(over(61, shares(2, 20)).ends_with("starved of cores"));
        assert!(over(6, shares(20, 2)).ends_with("this is a fault"));
        assert_eq!(over(6, None), "in 6.0 s");
    }

    #[test]
    fn the_kernel_says_what_threads_had() {
        let timeout = Timeout::new(Duration::ZERO, Duration::from_secs(60));
        assert!(timeout.shares.is_some_and(|shares| shares.ran > Duration::ZERO));
        assert!(timeout.judge().is_some());
    }
}
