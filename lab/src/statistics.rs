//! Medians, and their confidence intervals.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The middle of `values`, or the mean of the two in the middle; `None` if there are none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// A median with its confidence interval, computed from the ranks of the values, so it holds for
/// any distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interval {
    /// The median of the values.
    pub median: f64,
    /// The lower end of the interval that contains the true median with a probability of at least
    /// 95 %; with fewer than 6 values no interval does, and this is the least value.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of at most 1,000 values; `None` if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Interval> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let outside = ranks_outside(sorted.len());
        Some(Interval {
            median: median(&sorted)?,
            low: sorted[outside],
            high: sorted[sorted.len() - 1 - outside],
        })
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { median, low, high } = self;
        f.pad(&format!("{median:.2} ({low:.2} to {high:.2})"))
    }
}

/// The number of values outside the interval at either end: the largest number such that at most
/// this many heads among `count` coin tosses have a probability of at most 2.5 %.
fn ranks_outside(count: usize) -> usize {
    let (mut outside, mut heads) = (0, 0.5_f64.powi(count as i32));
    let mut at_most = heads;
    while at_most <= 0.025 && outside < count / 2 {
        outside += 1;
        heads *= (count - outside + 1) as f64 / outside as f64;
        at_most += heads;
    }
    outside.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are those of `median_and_interval` in scripts/bench-default.
    #[test]
    fn the_interval_is_that_of_the_ranks() {
        let ranks = [1, 5, 6, 9, 11, 21, 51, 101, 1000].map(ranks_outside);
        assert_eq!(ranks, [0, 0, 0, 1, 1, 5, 18, 40, 468]);
        let values: Vec<f64> = (0..11).map(f64::from).rev().collect();
        let interval = Interval::of(&values).unwrap();
        assert_eq!(interval, Interval { median: 5.0, low: 1.0, high: 9.0 });
        assert_eq!(interval.to_string(), "5.00 (1.00 to 9.00)");
        assert_eq!(Interval::of(&[]), None);
        let one = Interval { median: 2.0, low: 2.0, high: 2.0 };
        assert_eq!(Interval::of(&[2.0]), Some(one));
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
