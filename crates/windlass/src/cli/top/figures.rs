//! Numbers as people read them at a glance.

/// `999`, `12,345`, `1.2M`.
pub(super) fn count(number: u64) -> String {
    match number {
        0..1_000_000 => grouped(number),
        1_000_000..1_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

fn grouped(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", number / 1000, number % 1000),
    }
}

/// Small rates with a digit behind the point, large ones without.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// `12s`, `3m 20s`, `5h 12m`, `3d 4h`.
pub(super) fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// The last `width` values as bars, the largest of them as the highest; something small is still seen beside nothing.
pub(super) fn bars(values: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let missing = width.saturating_sub(values.len());
    let shown: Vec<u64> = values.rev().take(width).collect();
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: u64| match value {
        0 => BARS[0],
        _ => BARS[1 + (u128::from(value) * 6 / u128::from(most)) as usize],
    };
    let gap = std::iter::repeat_n(' ', missing);
    gap.chain(shown.into_iter().rev().map(bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([0, 999, 1000, 12_345, 999_999].map(count), ["0", "999", "1,000", "12,345", "999,999"]);
        assert_eq!([1_000_000, 1_250_000_000].map(count), ["1.0M", "1.2G"]);
        assert_eq!([0.0, 0.04, 12.34, 99.9, 1234.5].map(rate), ["0", "0.0", "12.3", "99.9", "1,235"]);
        assert_eq!(
            [0.0, 59.9, 200.0, 18_720.0, 273_600.0].map(age),
            ["0s", "59s", "3m 20s", "5h 12m", "3d 4h"]
        );
    }

    #[test]
    fn bars_follow_the_values_and_fill_from_the_right() {
        let drawn = |values: &[u64], width| bars(values.iter().copied(), width);
        assert_eq!(drawn(&[], 3), "   ");
        assert_eq!(drawn(&[0, 0], 3), " ▁▁");
        assert_eq!(drawn(&[0, 1, 1000], 3), "▁▂█");
        assert_eq!(drawn(&[9, 1, 2, 3], 2), "▆█");
        assert_eq!(drawn(&[u64::MAX], 1), "█");
    }
}
