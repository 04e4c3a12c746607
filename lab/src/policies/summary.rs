//! The fastest policies, as a sentence and a grid.

use super::report::Rows;
use crate::page::{Cell, Table, grouped};

/// A sentence about the fastest policies and the cost of a wrong choice.
pub(super) fn verdict(rows: &Rows<'_>) -> String {
    let mut sentences = Vec::new();
    for policy in [ADAPTIVE, "pull"] {
        let Some(worst) = worst(rows, policy) else { continue };
        let (ratio, bytes) = (worst.ratio, grouped(worst.bytes as u64));
        match policy {
            ADAPTIVE if ratio <= 1.0 => sentences.push(
                "adaptive is faster than every other policy, or as fast, at all sizes.".to_owned(),
            ),
            ADAPTIVE => sentences.push(format!(
                "adaptive takes at most {ratio:.2} times as long as the fastest other policy \
                 (at {bytes} bytes), and is within 5 % of it at {} of {} sizes.",
                worst.near, worst.sizes
            )),
            _ => sentences.push(format!(
                "{policy} takes up to {ratio:.2} times as long as the fastest other policy \
                 (at {bytes} bytes)."
            )),
        }
    }
    sentences.push(format!("Fastest: {}.", winners(rows)));
    sentences.join(" ")
}

/// The grid: the ratio of each policy's time to the fastest one at each size.
pub(super) fn grid(rows: &Rows<'_>, caption: &str) -> String {
    let sizes = rows.sizes();
    let head = sizes.iter().map(|&bytes| grouped(bytes as u64));
    let head = std::iter::once("bytes".to_owned()).chain(head).collect();
    let mut table = Table::new(caption, "grid", head);
    for policy in rows.policies() {
        let cell = |&bytes: &usize| match (rows.find(policy, bytes), rows.best(bytes)) {
            (Some(row), Some(best)) if best > 0.0 => {
                let ratio = row.ms_median / best;
                let text = if ratio <= 1.0 { "★".to_owned() } else { short(ratio) };
                Cell { text, note: String::new(), class: class(ratio) }
            }
            _ => Cell::from("–".to_owned()),
        };
        table.row("", policy, sizes.iter().map(cell).collect());
    }
    table.to_html()
}

/// The legend of the grid's colours, as HTML.
pub(super) const KEYS: &str = "<ul class=\"keys\">\
    <li><span class=\"first\"></span>★ the fastest</li>\
    <li><span class=\"near\"></span>at most 1.05 times its time</li>\
    <li><span class=\"half\"></span>at most 1.5</li>\
    <li><span class=\"twice\"></span>at most 2</li>\
    <li><span class=\"slow\"></span>more</li></ul>";

fn class(ratio: f64) -> &'static str {
    match ratio {
        ratio if ratio <= 1.0 => "first",
        ratio if ratio <= 1.05 => "near",
        ratio if ratio <= 1.5 => "half",
        ratio if ratio <= 2.0 => "twice",
        _ => "slow",
    }
}

fn short(ratio: f64) -> String {
    if ratio < 9.995 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

/// The fastest policies, each with the sizes at which it is fastest.
fn winners(rows: &Rows<'_>) -> String {
    let mut spans: Vec<(&str, usize, usize)> = Vec::new();
    for bytes in rows.sizes() {
        let of_size = rows.0.iter().filter(|row| row.bytes == bytes);
        let Some(row) = of_size.min_by(|a, b| a.ms_median.total_cmp(&b.ms_median)) else {
            continue;
        };
        match spans.last_mut() {
            Some((policy, _, to)) if *policy == row.policy => *to = bytes,
            _ => spans.push((&row.policy, bytes, bytes)),
        }
    }
    let words = spans.iter().map(|&(policy, from, to)| match (from == to, grouped(from as u64)) {
        (true, from) => format!("{policy} at {from} bytes"),
        (false, from) => format!("{policy} at {from} to {} bytes", grouped(to as u64)),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A policy compared with the fastest other one.
struct Worst {
    /// The greatest ratio of the times.
    ratio: f64,
    bytes: usize,
    /// Number of sizes with a ratio of at most 1.05.
    near: usize,
    sizes: usize,
}

fn worst(rows: &Rows<'_>, policy: &str) -> Option<Worst> {
    let ratios: Vec<(f64, usize)> = rows
        .by_size(policy)
        .iter()
        .filter_map(|row| {
            let others =
                rows.0.iter().filter(|other| other.bytes == row.bytes && other.policy != policy);
            let best = others.map(|other| other.ms_median).min_by(f64::total_cmp)?;
            (best > 0.0).then_some((row.ms_median / best, row.bytes))
        })
        .collect();
    let &(ratio, bytes) = ratios.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    let near = ratios.iter().filter(|(ratio, _)| *ratio <= 1.05).count();
    Some(Worst { ratio, bytes, near, sizes: ratios.len() })
}

pub(super) const ADAPTIVE: &str = "adaptive";

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;

    #[test]
    fn winners_and_losses_are_told() {
        let rows = [
            row("pull", 8, 20.0),
            row("pull", 16, 20.0),
            row("pull", 64, 5.0),
            row("cpu-only", 8, 10.0),
            row("cpu-only", 16, 12.0),
            row("cpu-only", 64, 9.0),
            row("adaptive", 64, 5.2),
        ];
        let rows = Rows(rows.iter().collect());
        let text = verdict(&rows);
        assert!(text.contains("cpu-only at 8 to 16 bytes, pull at 64 bytes"), "{text}");
        assert!(text.contains("pull takes up to 2.00 times"), "{text}");
        assert!(text.contains("at most 1.04 times") && text.contains("1 of 1"), "{text}");
        let grid = grid(&rows, "");
        assert!(grid.contains("<td class=\"first\">★<"), "{grid}");
        assert!(grid.contains("<td class=\"near\">1.04"), "{grid}");
    }
}
