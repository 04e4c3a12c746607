//! Conclusions from the figures, as text: where the gate helps and where it does not.

use std::fmt::Write;

use super::report::{Failure, Permits, ProcessesReport, Row, label};

impl ProcessesReport {
    /// Adds the results of an engine.
    pub(super) fn add(&mut self, permits: Permits, rows: Vec<Row>, failures: Vec<Failure>) {
        self.permits.push(permits);
        self.rows.extend(rows);
        self.failures.extend(failures);
        self.verdicts = verdicts(self);
    }
}

/// A sentence or two for each engine and discipline compared with `none`, computed from the rows
/// alone.
fn verdicts(report: &ProcessesReport) -> Vec<String> {
    let mut seen: Vec<(&str, &'static str)> = Vec::new();
    let rows = report.rows.iter().map(|row| (row.engine.as_str(), row.discipline));
    let failures = report.failures.iter().map(|one| (one.engine.as_str(), one.discipline));
    for pair in rows.chain(failures).filter(|(_, discipline)| *discipline != NONE) {
        if !seen.contains(&pair) {
            seen.push(pair);
        }
    }
    seen.into_iter()
        .filter_map(|(engine, discipline)| verdict(report, engine, discipline))
        .collect()
}

fn verdict(report: &ProcessesReport, engine: &str, discipline: &'static str) -> Option<String> {
    let rounds = report.rounds;
    let line = |name: &'static str| report.of(engine).filter(move |row| row.discipline == name);
    // Cases that only one discipline completed.
    let fails_alone = |one: &'static str, other: &'static str| {
        let failures = report.failures.iter();
        failures.filter(move |failure| {
            (failure.engine.as_str(), failure.discipline) == (engine, one)
                && report.row(engine, other, failure.processes).is_some()
        })
    };
    let pairs: Vec<Pair<'_>> = line(discipline)
        .filter_map(|gated| {
            let free = line(NONE).find(|row| row.processes == gated.processes)?;
            Some(Pair { gated, free, rounds })
        })
        .collect();
    let mut text = format!("{}: {discipline} ", label(engine));
    let saved = failures("serves all", "fail without a gate", fails_alone(NONE, discipline));
    let lost = failures("does not serve all", "fail", fails_alone(discipline, NONE));
    let effects = [
        ("helps", Effect::Helps),
        ("makes no difference", Effect::None),
        ("may make a difference, but none that stands out from the noise,", Effect::Unclear),
        ("does not help", Effect::Harms),
    ]
    .into_iter()
    .filter_map(|(words, effect)| part(&pairs, words, effect));
    let parts: Vec<String> = saved.into_iter().chain(lost).chain(effects).collect();
    if parts.is_empty() {
        return None;
    }
    text.push_str(&parts.join(", "));
    let Some(most) = pairs.iter().max_by_key(|pair| pair.gated.processes) else {
        return Some(text + ".");
    };
    // Writing to a string can't fail.
    let _ = write!(
        text,
        ". At {} it has {:.0} % of its best throughput, without a gate {:.0} %, and makes {} \
         context switches.",
        processes(most.gated.processes),
        100.0 * most.gated.mb_per_s / best(line(discipline)),
        100.0 * most.free.mb_per_s / best(line(NONE)),
        switches(most)
    );
    Some(text)
}

/// Returns, for example, `serves all of 64 and 256 processes, of which 12 and 183 fail without a
/// gate`.
fn failures<'r>(
    words: &str,
    fail: &str,
    failures: impl Iterator<Item = &'r Failure>,
) -> Option<String> {
    let these: Vec<&Failure> = failures.collect();
    let last = these.last()?;
    let counts = listed(these.iter().map(|failure| failure.processes));
    let failed = listed(these.iter().map(|failure| failure.failed));
    let noun = if last.processes == 1 { "process" } else { "processes" };
    Some(format!("{words} of {counts} {noun}, of which {failed} {fail}"))
}

/// The same number of processes with a gate and without one.
struct Pair<'r> {
    gated: &'r Row,
    free: &'r Row,
    rounds: usize,
}

/// The effect of a gate on the throughput.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Helps,
    None,
    /// The rounds differ too much for a conclusion.
    Unclear,
    Harms,
}

impl Pair<'_> {
    fn ratio(&self) -> f64 {
        self.gated.mb_per_s / self.free.mb_per_s
    }

    /// Classifies the difference. It counts if it is more than [`EQUAL`] and more than twice its
    /// standard error. A difference that does not count means equality only if it is small; a large
    /// one is not refuted.
    fn effect(&self) -> Effect {
        let difference = self.gated.mb_per_s - self.free.mb_per_s;
        let error = self.gated.deviation.hypot(self.free.deviation) / (self.rounds as f64).sqrt();
        match difference.abs() > (EQUAL * self.free.mb_per_s).max(2.0 * error) {
            true if difference > 0.0 => Effect::Helps,
            true => Effect::Harms,
            false if difference.abs() > SMALL * self.free.mb_per_s => Effect::Unclear,
            false => Effect::None,
        }
    }
}

/// Returns, for example, `does not help at 8 and 64 processes (0.92 to 0.97 of the throughput
/// without a gate)`.
fn part(pairs: &[Pair<'_>], words: &str, effect: Effect) -> Option<String> {
    let these: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.effect() == effect).collect();
    let last = these.last()?;
    let noun = if last.gated.processes == 1 { "process" } else { "processes" };
    let counts = listed(these.iter().map(|pair| pair.gated.processes));
    let counts = format!("{counts} {noun}");
    let ratios = || these.iter().map(|pair| pair.ratio());
    let (least, most) =
        (ratios().fold(f64::INFINITY, f64::min), ratios().fold(f64::NEG_INFINITY, f64::max));
    let range = if format!("{least:.2}") == format!("{most:.2}") {
        format!("{least:.2}")
    } else {
        format!("{least:.2} to {most:.2}")
    };
    Some(format!("{words} at {counts} ({range} of the throughput without a gate)"))
}

fn best<'r>(rows: impl Iterator<Item = &'r Row>) -> f64 {
    rows.map(|row| row.mb_per_s).fold(f64::MIN_POSITIVE, f64::max)
}

/// Returns, for example, `2.5 times as many` or `4.0 times fewer`.
fn switches(pair: &Pair<'_>) -> String {
    let ratio = pair.gated.context_switches.max(1.0) / pair.free.context_switches.max(1.0);
    if ratio >= 1.0 {
        format!("{ratio:.1} times as many")
    } else {
        format!("{:.1} times fewer", 1.0 / ratio)
    }
}

/// Returns, for example, `8, 64 and 256`.
fn listed(numbers: impl Iterator<Item = usize>) -> String {
    let words: Vec<String> = numbers.map(|number| number.to_string()).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

/// Throughputs that differ by at most this ratio are equal.
const EQUAL: f64 = 0.01;
/// A difference of up to this ratio counts as none if it is within the noise.
const SMALL: f64 = 0.03;
const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    fn verdicts(rows: &[Row], rounds: usize) -> Vec<String> {
        let mut report = report(rows.to_vec(), Vec::new());
        report.rounds = rounds;
        super::verdicts(&report)
    }

    fn row(discipline: &'static str, processes: usize, mb_per_s: f64, switches: f64) -> Row {
        Row {
            engine: "openssl".into(),
            discipline,
            processes,
            mb_per_s,
            context_switches: switches,
            wait_ms_p50: 0.0,
            wait_ms_p99: 0.0,
            jain: 1.0,
            deviation: 0.0,
        }
    }

    #[test]
    fn words_follow_the_figures() {
        let rows = [
            row("none", 1, 100.0, 1.0),
            row("fifo", 1, 100.5, 1.0),
            row("none", 8, 200.0, 10.0),
            row("fifo", 8, 180.0, 25.0),
            row("none", 64, 200.0, 100.0),
            row("fifo", 64, 190.0, 250.0),
        ];
        assert_eq!(
            verdicts(&rows, 4),
            ["openssl: fifo makes no difference at 1 process (1.00 of the throughput without a \
              gate), does not help at 8 and 64 processes (0.90 to 0.95 of the throughput without \
              a gate). At 64 processes it has 100 % of its best throughput, without a gate \
              100 %, and makes 2.5 times as many context switches."]
        );
        let rows = [
            row("none", 8, 200.0, 100.0),
            row("none", 64, 100.0, 1000.0),
            row("lists", 64, 190.0, 100.0),
            row("lists", 8, 200.0, 100.0),
        ];
        let words = verdicts(&rows, 4).concat();
        assert!(words.contains("lists helps at 64 processes (1.90 of"), "{words}");
        assert!(words.contains("has 95 % of its best throughput, without a gate 50 %"), "{words}");
        assert!(words.contains("10.0 times fewer context switches"), "{words}");
    }

    #[test]
    fn what_only_a_gate_serves_is_told() {
        let failure = |processes, failed| Failure {
            engine: "openssl".into(),
            discipline: NONE,
            processes,
            failed,
            why: "no room".into(),
        };
        let rows = vec![
            row("none", 8, 100.0, 10.0),
            row("fifo", 8, 100.0, 10.0),
            row("fifo", 64, 99.0, 80.0),
            row("fifo", 256, 98.0, 300.0),
        ];
        let words = super::verdicts(&report(rows, vec![failure(64, 12), failure(256, 183)]));
        let words = words.concat();
        assert!(
            words.starts_with(
                "openssl: fifo serves all of 64 and 256 processes, of which 12 and 183 fail \
                 without a gate, makes no difference at 8 processes"
            ),
            "{words}"
        );
        let words = super::verdicts(&report(vec![row("fifo", 64, 9.0, 1.0)], vec![failure(64, 1)]));
        assert!(words.concat().ends_with("of which 1 fail without a gate."), "{words:?}");
    }

    #[test]
    fn what_the_noise_hides_is_not_called_no_difference() {
        let noisy =
            |discipline, mb_per_s| Row { deviation: 12.0, ..row(discipline, 8, mb_per_s, 1.0) };
        let rows = [noisy("none", 100.0), noisy("fifo", 110.0)];
        let words = verdicts(&rows, 4).concat();
        assert!(
            words.contains(
                "fifo may make a difference, but none that stands out from the noise, at 8 \
                 processes (1.10 of the throughput without a gate)"
            ),
            "{words}"
        );
        assert!(verdicts(&rows, 100).concat().contains("fifo helps"));
        let rows = [noisy("none", 100.0), noisy("fifo", 98.0)];
        assert!(verdicts(&rows, 4).concat().contains("makes no difference"));
        let wild =
            |discipline, mb_per_s| Row { deviation: 80.0, ..row(discipline, 8, mb_per_s, 1.0) };
        let rows = [wild("none", 100.0), wild("fifo", 41.0)];
        let words = verdicts(&rows, 3).concat();
        assert!(!words.contains("no difference") && words.contains("(0.41 of"), "{words}");
    }

    #[test]
    fn without_a_rival_there_is_nothing_to_say() {
        assert!(verdicts(&[row("fifo", 8, 1.0, 1.0)], 1).is_empty());
        assert!(verdicts(&[row("none", 8, 1.0, 1.0)], 1).is_empty());
        assert!(verdicts(&[], 1).is_empty());
    }
}
