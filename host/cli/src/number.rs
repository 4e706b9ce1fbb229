//! Numbers, lists, ranges and times as people write them on a command line: `1e6`, `1_000_000`, `3-13`, `0.001:0.01:5`,
//! `10us`.

use std::str::FromStr;
use std::time::Duration;

/// The longest time that an option accepts: 1e9 s.
const LONGEST: f64 = 1e9;
const MOST_VALUES: usize = 10_000;

/// Parses a count: digits, with `_` between them, or a whole number such as `1e6` or `2.5e3`.
///
/// # Errors
/// The text is not a whole number from 0 to 2^64 - 1.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    if let Ok(count) = digits.parse() {
        return Ok(count);
    }
    let number: Option<f64> = digits.parse().ok().filter(|_| digits.contains(['e', 'E']));
    match number {
        // Up to 2^53 each whole number is exact.
        Some(number) if (0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0 => {
            Ok(number as u64)
        }
        _ => Err("give a whole number: 1000000, 1_000_000 or 1e6".to_owned()),
    }
}

pub(crate) fn within<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = count(text)?;
        T::try_from(number).ok().filter(|_| (least..=most).contains(&number)).ok_or_else(|| match most {
            u64::MAX => format!("give a number of at least {least}"),
            _ => format!("give a number from {least} to {most}"),
        })
    }
}

/// Parses a time; a number without a unit is in nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> Result<Duration, String> {
    time(text, "ns")
}

/// Parses a time: `10us`, `2.5ms`, `5s`, `3min`; a number without a unit is in microseconds.
pub(crate) fn microseconds(text: &str) -> Result<Duration, String> {
    time(text, "us")
}

/// Parses a time; a number without a unit is in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    time(text, "ms")
}

/// Parses a time; a number without a unit is in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    time(text, "s")
}

/// The same, but not 0.
pub(crate) fn some_milliseconds(text: &str) -> Result<Duration, String> {
    milliseconds(text).and_then(some)
}

/// The same, but not 0.
pub(crate) fn some_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(some)
}

fn some(time: Duration) -> Result<Duration, String> {
    if time.is_zero() { Err("give more than no time".to_owned()) } else { Ok(time) }
}

const UNITS: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("h", 3600.0)];

fn time(text: &str, unit: &str) -> Result<Duration, String> {
    let seconds = |text: &str| {
        let named = UNITS.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)));
        let alone = UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, unit)| (text, unit));
        let (number, unit) = named.or(alone)?;
        Some(number.trim_end().replace('_', "").parse::<f64>().ok()? * unit)
    };
    // Written so that NaN fails.
    match seconds(text) {
        Some(seconds) if (0.0..=LONGEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("give a time from 0 to 1e9 s: 10us, 5ms, 2s, or a number alone, in {unit}")),
    }
}

/// Parses one number, for a command with one experiment; the error names the command for several.
pub(crate) fn one<T: FromStr>(text: &str) -> Result<T, String> {
    let is_list =
        text.contains([',', ':']) || text.trim_start_matches('-').contains('-') && !text.contains('e');
    text.trim().parse().map_err(|_| {
        if is_list {
            "this command has one experiment: `ringcall sweep` takes lists and ranges".to_owned()
        } else {
            "give a number".to_owned()
        }
    })
}

/// Strengths of noise: one value, or a range `FROM:TO:COUNT`, evenly spaced on a logarithmic axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Noises(pub(crate) Vec<f64>);

impl FromStr for Noises {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "give a number, as 0.003, or a range FROM:TO:COUNT, as 0.001:0.01:5";
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| FORM.to_owned());
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [one] => Ok(Self(vec![number(one)?])),
            [from, to, values] => {
                let (from, to) = (number(from)?, number(to)?);
                let values = count(values).map_err(|_| FORM.to_owned())?;
                let values = usize::try_from(values).ok().filter(|values| (2..=MOST_VALUES).contains(values));
                let values = values.ok_or_else(|| format!("a range has 2 to {MOST_VALUES} values"))?;
                if !(from > 0.0 && from < to && to.is_finite()) {
                    return Err(format!("a range goes up from a number above 0, not from {from} to {to}"));
                }
                Ok(Self(spaced(from, to, values)))
            }
            _ => Err(FORM.to_owned()),
        }
    }
}

/// Values with a constant ratio, rounded to three digits, or more if the ratio is close to 1.
fn spaced(from: f64, to: f64, values: usize) -> Vec<f64> {
    let step = (to / from).ln() / (values - 1) as f64;
    let digits = (2.0 - step.min(1.0).log10()).floor() as usize;
    let value = |place: usize| match place {
        0 => from,
        place if place == values - 1 => to,
        place => {
            let exact = from * (step * place as f64).exp();
            format!("{exact:.digits$e}").parse().unwrap_or(exact)
        }
    };
    (0..values).map(value).collect()
}

/// Distances of a code: one, or a range `FROM-TO` of all odd distances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Distances(pub(crate) Vec<u32>);

impl FromStr for Distances {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "give an odd number of at least 3, or a range of odd ones, as 3-13";
        let number = |text: &str| {
            let number = text.trim().parse::<u32>().ok();
            number.filter(|distance| *distance >= 3 && distance % 2 == 1).ok_or_else(|| FORM.to_owned())
        };
        let Some((from, to)) = text.split_once('-') else { return Ok(Self(vec![number(text)?])) };
        let (from, to) = (number(from)?, number(to)?);
        if from > to || (to - from) as usize / 2 >= MOST_VALUES {
            return Err(FORM.to_owned());
        }
        Ok(Self((from..=to).step_by(2).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_in_several_ways() {
        for (text, number) in [
            ("0", 0),
            ("1_000_000", 1_000_000),
            ("1e6", 1_000_000),
            ("2.5e3", 2500),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for text in ["", "-1", "1.5", "1e-1", "1e60", "nan", "1e", "one", "inf"] {
            assert!(count(text).is_err(), "{text}");
        }
        let parser = within::<u32>(1, 4096);
        assert_eq!(parser("4_096"), Ok(4096));
        assert!(parser("0").is_err() && parser("4097").is_err_and(|why| why.contains("from 1 to 4096")));
        assert!(within::<u8>(0, u64::MAX)("256").is_err());
    }

    #[test]
    fn one_number_is_no_list() {
        assert_eq!((one::<u32>("7"), one::<f64>("1e-3")), (Ok(7), Ok(0.001)));
        for text in ["3,5", "3-13", "3:5:2"] {
            assert!(one::<u32>(text).is_err_and(|why| why.contains("sweep")), "{text}");
        }
        for text in ["", "x", "-3", "3.5"] {
            assert_eq!(one::<u32>(text), Err("give a number".to_owned()), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("10", 10_000),
            ("10us", 10_000),
            ("10 µs", 10_000),
            ("250ns", 250),
            ("0.5ms", 500_000),
            ("1_000", 1_000_000),
            ("5s", 5_000_000_000),
            ("1min", 60_000_000_000),
            ("2h", 7_200_000_000_000),
            ("1e3", 1_000_000),
            ("0", 0),
        ] {
            assert_eq!(microseconds(text).map(|time| time.as_nanos()), Ok(ns), "{text}");
        }
        assert_eq!(seconds("3"), Ok(Duration::from_secs(3)));
        assert_eq!(nanoseconds("10000"), microseconds("10"));
        assert_eq!(milliseconds("3"), Ok(Duration::from_millis(3)));
        for text in ["", "-1", "nan", "inf", "us", "10 lightyears", "1e10s", "1e300"] {
            assert!(microseconds(text).is_err(), "{text}");
        }
        assert!(some_milliseconds("0").is_err() && some_seconds("0ns").is_err());
    }

    #[test]
    fn ranges_stand_for_their_values() {
        let noises = |text: &str| text.parse::<Noises>().map(|Noises(values)| values);
        assert_eq!(noises("0.003"), Ok(vec![0.003]));
        assert_eq!(noises("0.001:0.01:5"), Ok(vec![0.001, 0.00178, 0.00316, 0.00562, 0.01]));
        let close = noises("0.0056:0.0057:11").expect("a range");
        assert!(close.windows(2).all(|pair| pair[0] < pair[1]), "{close:?}");
        let ratio = |pair: &[f64]| (pair[1] / pair[0]).ln() / (57.0_f64 / 56.0).ln() * 10.0;
        assert!(close.windows(2).all(|pair| (0.8..1.2).contains(&ratio(pair))), "{close:?}");
        for text in [
            "",
            "0.001:0.01",
            "0:0.01:3",
            "0.01:0.001:3",
            "0.001:0.01:1",
            "0.001:0.01:1e9",
            "0.001:nan:3",
            "x",
        ] {
            assert!(noises(text).is_err(), "{text}");
        }
        let distances = |text: &str| text.parse::<Distances>().map(|Distances(values)| values);
        assert_eq!(distances("3-13"), Ok(vec![3, 5, 7, 9, 11, 13]));
        assert_eq!(distances("7"), Ok(vec![7]));
        for text in ["4", "1", "3-12", "13-3", "3-", "-3", "3-4294967295", "d"] {
            assert!(distances(text).is_err(), "{text}");
        }
    }
}
