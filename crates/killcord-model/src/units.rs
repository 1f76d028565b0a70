//! Durations and sizes as people type them.

use std::time::Duration;

/// A text that is no duration or no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a duration.
    #[error("{0:?} is not a duration: use 500ms, 90s, 5m, 2h, 1d or plain seconds")]
    Duration(String),
    /// Not a size.
    #[error("{0:?} is not a size: use 512M, 2G, 64K or plain bytes")]
    Size(String),
    /// Not a number of processors.
    #[error("{0:?} is not a number of processors: use 0.5, 1 or 2.5")]
    Cpu(String),
}

/// Splits a text into its leading number and the unit behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let value: f64 = number.parse().ok()?;
    Some((value, unit))
}

/// In seconds; longer than any job, and far from where arithmetic on times would overflow.
const HUNDRED_YEARS: f64 = 100.0 * 366.0 * 86_400.0;

/// Reads a duration: `500ms`, `90s`, `5m`, `2h`, `1d`, or a plain number of seconds such as `1.5`.
///
/// # Errors
/// Whatever is negative, empty, has another unit, or is longer than a hundred years.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let error = || UnitError::Duration(text.to_owned());
    let (value, unit) = split(text).ok_or_else(error)?;
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(error()),
    };
    let seconds = value * factor;
    if seconds > HUNDRED_YEARS {
        return Err(error());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| error())
}

/// Reads a size in bytes: `512M`, `2G`, `64K`, `1T` (powers of 1024, an `iB` or `B` behind them is
/// allowed) or a plain number of bytes.
///
/// # Errors
/// Zero, and whatever does not fit or has another unit.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError::Size(text.to_owned());
    let (value, unit) = split(text).ok_or_else(error)?;
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(error()),
    };
    #[expect(clippy::cast_precision_loss, reason = "a power of two up to 2^40 is exact")]
    let bytes = value * (1u64 << shift) as f64;
    // 2^60: beyond any machine, and far from where f64 loses whole numbers that matter.
    if !(1.0..=1_152_921_504_606_846_976.0).contains(&bytes) {
        return Err(error());
    }
    Ok(bytes as u64)
}

/// Reads a number of processors, such as `0.5` or `2`, as thousandths of one processor.
///
/// # Errors
/// What is not a number, less than 0.01 or more than 10 000.
pub fn cpu(text: &str) -> Result<u32, UnitError> {
    let error = || UnitError::Cpu(text.to_owned());
    match split(text) {
        Some((value, "")) if (0.01..=10_000.0).contains(&value) => Ok((value * 1000.0).round() as u32),
        _ => Err(error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        let ms = Duration::from_millis;
        for (text, want) in [
            ("500ms", ms(500)),
            ("90s", ms(90_000)),
            ("5m", ms(300_000)),
            ("2h", ms(7_200_000)),
            ("1d", ms(86_400_000)),
            ("3", ms(3000)),
            ("1.5", ms(1500)),
            (".5s", ms(500)),
            ("0", ms(0)),
        ] {
            assert_eq!(duration(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn the_largest_and_the_smallest_are_read_and_nothing_beyond_them() {
        let hundred_years = Duration::from_secs(36_600 * 86_400);
        assert_eq!(duration("36600d"), Ok(hundred_years));
        assert!(duration("36600.001d").is_err());
        assert_eq!((size("1"), size("1048576T")), (Ok(1), Ok(1 << 60)));
        assert_eq!(
            (size("3k"), size("5m"), size("7g"), size("9t")),
            (Ok(3 << 10), Ok(5 << 20), Ok(7 << 30), Ok(9 << 40))
        );
        assert!(size("0.999").is_err() && size("1048577T").is_err());
        assert_eq!((cpu("0.01"), cpu("10000")), (Ok(10), Ok(10_000_000)));
        assert!(cpu("0.009").is_err() && cpu("10000.1").is_err());
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for bad in ["", "s", "-1", "1 s", "5x", "1.2.3", "inf", "NaN", "1e3", "99999999999d", "5M"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, want) in
            [("512M", 512 << 20), ("1k", 1024), ("1.5G", 3 << 29), ("64KiB", 64 << 10), ("7", 7), ("10B", 10)]
        {
            assert_eq!(size(text), Ok(want), "{text}");
        }
        for bad in ["", "0", "M", "-1", "5Q", "1e9", "9999999999T", "0.1"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn processors_are_thousandths() {
        assert_eq!(cpu("0.5"), Ok(500));
        assert_eq!(cpu("2"), Ok(2000));
        for bad in ["", "0", "-1", "two", "1%", "1e9"] {
            assert!(cpu(bad).is_err(), "{bad}");
        }
    }
}
