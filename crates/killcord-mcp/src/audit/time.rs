//! Points in time as they are written: RFC 3339, UTC, with milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// The days since 1970-01-01 as year, month and day. `civil_from_days` of Howard Hinnant's "chrono-Compatible
/// Low-Level Date Algorithms", for days that are not before 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The other way round: `days_from_civil`. Days begin with 1 there as well.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let day = day.checked_sub(1)?;
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    (era * 146_097 + of_era).checked_sub(719_468)
}

fn since_epoch(time: SystemTime) -> Duration {
    // A clock before 1970 is a clock that was never set.
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Such as `2026-11-30T21:38:47.123Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let since = since_epoch(time);
    let (year, month, day) = civil(since.as_secs() / DAY);
    let s = since.as_secs() % DAY;
    let (hour, minute, second) = (s / 3600, s / 60 % 60, s % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Such as `20261130-213847`, for names of files.
pub(crate) fn compact(time: SystemTime) -> String {
    let digits: String = rfc3339(time).chars().filter(char::is_ascii_digit).take(14).collect();
    format!("{}-{}", &digits[..8], &digits[8..])
}

/// Reads a date (`2026-11-30`), or a date and a time in UTC (`2026-11-30T21:38`, with seconds, parts of them and `Z`
/// if they are there). `None` for anything else.
pub fn parse(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let mut parts = date.split('-');
    let mut number = |width: usize| {
        let part = parts.next().filter(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_digit()));
        part.and_then(|p| p.parse::<u64>().ok())
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let at = days(year, month, day)?;
    if parts.next().is_some() || civil(at) != (year, month, day) {
        return None;
    }
    let mut seconds = 0.0;
    if !clock.is_empty() {
        let mut parts = clock.trim_end_matches('Z').split(':');
        for (most, unit) in [(23.0, 3600.0), (59.0, 60.0), (60.0, 1.0)] {
            let Some(part) = parts.next() else { break };
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let value: f64 = part.parse().ok().filter(|_| plain)?;
            if value >= most + 1.0 {
                return None;
            }
            seconds += value * unit;
        }
        if parts.next().is_some() {
            return None;
        }
    }
    UNIX_EPOCH
        .checked_add(Duration::from_secs(at * DAY))?
        .checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    #[test]
    fn points_in_time_are_written_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_796_074_727_123, "2026-11-30T21:38:47.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(at(ms)), text);
            assert_eq!(parse(text), Some(at(ms)), "{text}");
        }
        assert_eq!(compact(at(1_796_074_727_123)), "20261130-213847");
    }

    #[test]
    fn every_day_of_four_centuries_reads_back() {
        for day in 0..146_097 {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), Some(day));
        }
    }

    #[test]
    fn a_day_or_month_of_number_0_is_refused_and_nothing_overflows() {
        for month in 0..=13 {
            assert_eq!(parse(&format!("2026-{month:02}-00")), None, "{month}");
        }
        assert_eq!(parse("2026-00-01"), None);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        assert_eq!(parse("2026-11-30"), Some(at(1_795_996_800_000)));
        assert_eq!(parse("2026-11-30 21:38"), Some(at(1_796_074_680_000)));
        for bad in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "2026-11-30T24:00",
            "2026-11-30T1:x",
            "1969-12-31",
            "2026-11-30-1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
