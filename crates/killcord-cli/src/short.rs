//! Sizes and ages as people read them: in one unit, without a fraction.

/// Bytes.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..units.len()).rev().find(|i| bytes >> (10 * i) > 0).unwrap_or(0);
    format!("{} {}", bytes >> (10 * unit), units[unit])
}

/// A time, in seconds.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        s @ ..120 => format!("{s} s"),
        s @ ..7200 => format!("{} min", s / 60),
        s @ ..172_800 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_short() {
        let sizes = [0, 1023, 1024, 5 << 20, 3 << 30, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1 KiB", "5 MiB", "3 GiB", "16777215 TiB"]);
        let ages = [0, 119, 120, 7_200, 172_800].map(age);
        assert_eq!(ages, ["0 s", "119 s", "2 min", "2 h", "2 d"]);
    }
}
