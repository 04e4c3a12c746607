//! What the figures say about the gate, in words: where it helps and where it does not.

use std::fmt::Write;

use super::report::Row;

/// A sentence or two for each engine and each discipline that was run beside `none`, from means
/// over so many rounds. Nothing is known beforehand: every word follows from the rows.
pub(super) fn verdicts(rows: &[Row], rounds: usize) -> Vec<String> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| row.discipline != NONE) {
        let pair = (row.engine.as_str(), row.discipline);
        if !seen.contains(&pair) {
            seen.push(pair);
        }
    }
    seen.into_iter()
        .filter_map(|(engine, discipline)| verdict(rows, rounds, engine, discipline))
        .collect()
}

fn verdict(rows: &[Row], rounds: usize, engine: &str, discipline: &'static str) -> Option<String> {
    let line = |name: &'static str| {
        rows.iter().filter(move |row| row.engine == engine && row.discipline == name)
    };
    let pairs: Vec<Pair<'_>> = line(discipline)
        .filter_map(|gated| {
            let free = line(NONE).find(|row| row.processes == gated.processes)?;
            Some(Pair { gated, free, rounds })
        })
        .collect();
    let most = pairs.iter().max_by_key(|pair| pair.gated.processes)?;
    let mut text = format!("{engine}: {discipline} ");
    let parts: Vec<String> = [
        ("helps", Effect::Helps),
        ("makes no difference", Effect::None),
        ("does not help", Effect::Harms),
    ]
    .into_iter()
    .filter_map(|(words, effect)| part(&pairs, words, effect))
    .collect();
    text.push_str(&parts.join(", "));
    // Writing to a string does not fail.
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

/// The same number of processes with a gate and without one.
struct Pair<'r> {
    gated: &'r Row,
    free: &'r Row,
    rounds: usize,
}

/// What a gate does to the throughput.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Helps,
    None,
    Harms,
}

impl Pair<'_> {
    fn ratio(&self) -> f64 {
        self.gated.mb_per_s / self.free.mb_per_s
    }

    /// A difference counts if it is more than [`EQUAL`] and more than twice its standard error.
    fn effect(&self) -> Effect {
        let difference = self.gated.mb_per_s - self.free.mb_per_s;
        let error = self.gated.deviation.hypot(self.free.deviation) / (self.rounds as f64).sqrt();
        match difference.abs() > (EQUAL * self.free.mb_per_s).max(2.0 * error) {
            true if difference > 0.0 => Effect::Helps,
            true => Effect::Harms,
            false => Effect::None,
        }
    }
}

/// `does not help at 8 and 64 processes (0.92 to 0.97 of the throughput without a gate)`
fn part(pairs: &[Pair<'_>], words: &str, effect: Effect) -> Option<String> {
    let these: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.effect() == effect).collect();
    let (last, others) = these.split_last()?;
    let mut counts: String =
        others.iter().map(|pair| pair.gated.processes.to_string()).collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        counts.push_str(" and ");
    }
    counts.push_str(&processes(last.gated.processes));
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

/// `2.5 times as many` or `4.0 times fewer`
fn switches(pair: &Pair<'_>) -> String {
    let ratio = pair.gated.context_switches.max(1.0) / pair.free.context_switches.max(1.0);
    if ratio >= 1.0 {
        format!("{ratio:.1} times as many")
    } else {
        format!("{:.1} times fewer", 1.0 / ratio)
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

/// Throughputs that differ by no more than this share are the same.
const EQUAL: f64 = 0.01;
const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;

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
    fn noise_is_no_difference() {
        let noisy =
            |discipline, mb_per_s| Row { deviation: 12.0, ..row(discipline, 8, mb_per_s, 1.0) };
        let rows = [noisy("none", 100.0), noisy("fifo", 110.0)];
        assert!(verdicts(&rows, 4).concat().contains("makes no difference"));
        assert!(verdicts(&rows, 100).concat().contains("fifo helps"));
    }

    #[test]
    fn without_a_rival_there_is_nothing_to_say() {
        assert!(verdicts(&[row("fifo", 8, 1.0, 1.0)], 1).is_empty());
        assert!(verdicts(&[row("none", 8, 1.0, 1.0)], 1).is_empty());
        assert!(verdicts(&[], 1).is_empty());
    }
}
