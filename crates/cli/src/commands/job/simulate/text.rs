//! The outcome of a simulation as text.

use std::time::Duration;

use evener::jobs::simulate::{Cost, Outcome, Shares};

use crate::summary::{count, size};

/// The lines for people.
pub(super) fn lines(outcome: &Outcome, cost: &Cost) -> Vec<String> {
    let Outcome { requests, limits, .. } = outcome;
    let row = |name: &str, value: String| format!("{name:<10}{value}");
    let mut lines = vec![
        row(
            "work",
            format!(
                "{}, {}, {}",
                grouped(outcome.objects, "object"),
                size(outcome.bytes as f64),
                grouped(outcome.shards, "shard")
            ),
        ),
        row(
            "time",
            format!(
                "{} with {}: plan {}, run {}, finish {}",
                time(outcome.seconds),
                count(outcome.workers, "worker"),
                time(outcome.plan_seconds),
                time(outcome.run_seconds),
                time(outcome.finish_seconds)
            ),
        ),
        row(
            "rate",
            format!(
                "{:.0} objects/s, {}/s",
                outcome.objects_per_second,
                size(outcome.bytes_per_second)
            ),
        ),
        row("limits", shares(limits)),
        row(
            "requests",
            format!(
                "{}: {} GET, {} HEAD, {} PUT, {} part uploads, {} of their begins and {} of their ends, \
             {} LIST",
                thousands(requests.total()),
                thousands(requests.get),
                thousands(requests.head),
                thousands(requests.put),
                thousands(requests.part),
                thousands(requests.begin),
                thousands(requests.complete),
                thousands(requests.list)
            ),
        ),
        row(
            "bytes",
            format!(
                "{} received, {} sent",
                size(outcome.bytes_read as f64),
                size(outcome.bytes_written as f64)
            ),
        ),
    ];
    let again = [
        (outcome.retries, "requests refused with 503 and repeated"),
        (outcome.kills, "workers killed"),
        (outcome.overtaken, "attempts overtaken by others"),
        (outcome.already, "objects found that an earlier attempt had sealed"),
        (outcome.duplicates, "objects sealed twice"),
    ];
    let again: Vec<_> = again
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", thousands(*number)))
        .collect();
    if !again.is_empty() {
        lines.push(row("again", again.join(", ")));
    }
    lines.push(row(
        "cost",
        format!(
            "${}: reads ${}, writes and lists ${}, transfer ${}, machines ${}; storage is extra",
            dollars(cost.total),
            dollars(cost.reads),
            dollars(cost.writes),
            dollars(cost.transfer),
            dollars(cost.machines)
        ),
    ));
    lines
}

/// A sentence for a job that is never in time.
pub(super) fn too_slow(outcome: &Outcome, within: Duration) -> String {
    format!(
        "even {} need {}, and not {}: plan and finish, which no worker shares, take {} of it; the \
         line `limits` names what to change",
        count(outcome.workers, "worker"),
        time(outcome.seconds),
        time(within.as_secs_f64()),
        time(outcome.plan_seconds + outcome.finish_seconds)
    )
}

/// The limits with their shares, the greatest first.
fn shares(limits: &Shares) -> String {
    let mut shares = [
        (limits.latency, "answers of the store (more --requests)"),
        (limits.long_objects, "the longest object of a shard (more --workers)"),
        (limits.download, "download"),
        (limits.upload, "upload"),
        (limits.cores, "cores"),
        (limits.store_reads, "reads a second of the source"),
        (limits.store_writes, "writes a second of the target"),
        (limits.idle, "idle"),
    ];
    shares.sort_by(|one, other| other.0.total_cmp(&one.0));
    let shown = shares.iter().filter(|(share, _)| *share >= 0.005);
    let shown: Vec<_> =
        shown.map(|(share, name)| format!("{:.0} % {name}", share * 100.0)).collect();
    shown.join(", ")
}

/// `12.3 s`, `4.5 min`, `6.7 h` or `8.9 d`.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 90.0 => format!("{seconds:.1} s"),
        _ if seconds < 5400.0 => format!("{:.1} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.2} d", seconds / 86_400.0),
    }
}

fn grouped(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Whole dollars, and cents of small sums.
fn dollars(sum: f64) -> String {
    if sum >= 100.0 { thousands(sum.round() as u64) } else { format!("{sum:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups() {
        let shown = [0, 999, 1000, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 5.014, 5014.4].map(dollars), ["0.00", "5.01", "5,014"]);
    }

    #[test]
    fn times_have_fitting_units() {
        let shown = [1.0, 100.0, 6000.0, 604_800.0].map(time);
        assert_eq!(shown, ["1.0 s", "1.7 min", "1.7 h", "7.00 d"]);
    }
}
