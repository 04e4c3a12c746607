//! The report.

use std::fmt;

use serde::Serialize;

use super::Setting;
use super::foreground::Pace;
use super::team::Work;
use crate::statistics::median;

/// The report. Its JSON is the document that `--json` prints, its [`Display`] a table, and
/// [`BackgroundReport::to_html`] a page with charts.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BackgroundReport {
    /// Facts that explain the figures, by name.
    pub facts: Vec<(String, String)>,
    /// True if a module takes part.
    pub has_module: bool,
    /// The figures, one row for each case.
    pub rows: Vec<Row>,
}

/// The foreground program alone, or Evener in one setting, alone or beside it: medians over the
/// rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// `normal`, `--background`, `--max-cpu N`; `None` if Evener does not work.
    pub setting: Option<String>,
    /// True if the foreground program works.
    pub has_foreground: bool,
    /// The number of rounds.
    pub rounds: u64,
    /// The foreground program's time as a ratio to its time alone.
    pub foreground_slowdown: Option<f64>,
    /// Median time from a periodic task's due time to its end, in microseconds.
    pub late_us_p50: Option<f64>,
    /// The 99th percentile of that time, in the same unit.
    pub late_us_p99: Option<f64>,
    /// Evener's throughput, in millions of bytes a second.
    pub mb_per_s: Option<f64>,
    /// The ratio to Evener's throughput alone with the default settings.
    pub throughput_ratio: Option<f64>,
    /// Evener's CPU time, as a percentage of all cores.
    pub cpu_percent: Option<f64>,
    /// The modules' share of Evener's jobs, in percent.
    pub module_percent: Option<f64>,
}

/// The programs of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// Evener's setting for sharing the cores; `None` if Evener does not work.
    pub(super) setting: Option<Setting>,
    pub(super) has_foreground: bool,
}

/// The figures of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Turn {
    pub(super) pace: Option<Pace>,
    pub(super) work: Option<Work>,
}

impl BackgroundReport {
    /// Computes the figures from each case's turns, one for each round.
    pub(super) fn new(
        facts: Vec<(String, String)>,
        has_module: bool,
        turns: &[(Case, Vec<Turn>)],
    ) -> BackgroundReport {
        let of = |setting, has_foreground| {
            let case = Case { setting, has_foreground };
            turns.iter().find(|(other, _)| *other == case).map_or(&[][..], |(_, turns)| turns)
        };
        let foreground_alone = of(None, true);
        let evener_alone = of(Some(Setting::Normal), false);
        let row = |(case, turns): &(Case, Vec<Turn>)| {
            let pace =
                |figure: fn(&Pace) -> f64| middle(turns, |turn| turn.pace.as_ref().map(figure));
            let work =
                |figure: fn(&Work) -> f64| middle(turns, |turn| turn.work.as_ref().map(figure));
            let slowdown =
                |turn: &Turn, alone: &Turn| Some(turn.pace?.unit_us / alone.pace?.unit_us);
            let ratio =
                |turn: &Turn, alone: &Turn| Some(turn.work?.mb_per_s / alone.work?.mb_per_s);
            Row {
                setting: case.setting.map(|setting| setting.to_string()),
                has_foreground: case.has_foreground,
                rounds: turns.len() as u64,
                foreground_slowdown: compared(turns, foreground_alone, slowdown),
                late_us_p50: pace(|pace| pace.late_us_p50),
                late_us_p99: pace(|pace| pace.late_us_p99),
                mb_per_s: work(|work| work.mb_per_s),
                throughput_ratio: compared(turns, evener_alone, ratio),
                cpu_percent: work(|work| work.cpu_percent),
                module_percent: work(|work| work.module_percent),
            }
        };
        BackgroundReport { facts, has_module, rows: turns.iter().map(row).collect() }
    }
}

impl Row {
    /// The row's heading.
    pub(super) fn name(&self) -> String {
        match (&self.setting, self.has_foreground) {
            (None, _) => "foreground alone".to_owned(),
            (Some(setting), true) => format!("beside Evener, {setting}"),
            (Some(setting), false) => format!("Evener alone, {setting}"),
        }
    }

    /// The figures as shown in tables, in the order of [`HEADINGS`].
    pub(super) fn cells(&self) -> [String; HEADINGS.len()] {
        let figure = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        [
            figure(self.foreground_slowdown, 3),
            figure(self.late_us_p50, 0),
            figure(self.late_us_p99, 0),
            figure(self.mb_per_s, 1),
            figure(self.throughput_ratio, 3),
            figure(self.cpu_percent, 1),
            figure(self.module_percent, 1),
        ]
    }
}

impl fmt::Display for BackgroundReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, fact) in &self.facts {
            writeln!(f, "{name}: {fact}")?;
        }
        write!(f, "\n{:<34}", "")?;
        for heading in HEADINGS {
            write!(f, " {heading:>10}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "{:<34}", row.name())?;
            for cell in row.cells() {
                write!(f, " {cell:>10}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The columns of tables.
pub(super) const HEADINGS: [&str; 7] =
    ["slowdown", "p50 µs", "p99 µs", "MB/s", "of alone", "CPU %", "module %"];

fn middle(turns: &[Turn], figure: impl Fn(&Turn) -> Option<f64>) -> Option<f64> {
    median(&turns.iter().filter_map(figure).collect::<Vec<_>>())
}

/// The median over the rounds of a ratio between two turns of the same round.
fn compared(
    turns: &[Turn],
    others: &[Turn],
    figure: impl Fn(&Turn, &Turn) -> Option<f64>,
) -> Option<f64> {
    let pairs = turns.iter().zip(others);
    median(&pairs.filter_map(|(turn, other)| figure(turn, other)).collect::<Vec<_>>())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn turn(unit_us: Option<f64>, mb_per_s: Option<f64>) -> Turn {
        let pace = |unit_us| Pace { unit_us, late_us_p50: 60.0, late_us_p99: 900.0 };
        let work = |mb_per_s| Work { mb_per_s, module_percent: 0.0, cpu_percent: 50.0 };
        Turn { pace: unit_us.map(pace), work: mb_per_s.map(work) }
    }

    pub(in super::super) fn report() -> BackgroundReport {
        let case = |setting, has_foreground| Case { setting, has_foreground };
        let normal = Some(Setting::Normal);
        let turns = [
            (case(None, true), [100.0, 110.0, 120.0].map(|us| turn(Some(us), None)).to_vec()),
            (case(normal, false), [1e3, 2e3, 3e3].map(|rate| turn(None, Some(rate))).to_vec()),
            (
                case(normal, true),
                vec![
                    turn(Some(200.0), Some(500.0)),
                    turn(Some(330.0), Some(500.0)),
                    turn(Some(120.0), Some(300.0)),
                ],
            ),
        ];
        let facts = vec![("Machine".to_owned(), "a <board>".to_owned())];
        BackgroundReport::new(facts, false, &turns)
    }

    #[test]
    fn ratios_are_made_within_a_round() {
        let report = report();
        let [foreground, evener, both] = &report.rows[..] else { panic!("{report:?}") };
        assert_eq!((foreground.foreground_slowdown, foreground.mb_per_s), (Some(1.0), None));
        assert_eq!((evener.throughput_ratio, evener.foreground_slowdown), (Some(1.0), None));
        // Medians of 2, 3 and 1, and of 0.5, 0.25 and 0.1.
        assert_eq!((both.foreground_slowdown, both.throughput_ratio), (Some(2.0), Some(0.25)));
        assert_eq!((both.mb_per_s, both.rounds), (Some(500.0), 3));
    }

    #[test]
    fn the_table_has_a_line_for_each_case() {
        let text = report().to_string();
        assert!(text.contains("Machine: a <board>\n"), "{text}");
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() == lines[0].chars().count()),
            "{text}"
        );
        assert!(lines[3].starts_with("beside Evener, normal") && lines[3].contains("2.000"));
    }
}
