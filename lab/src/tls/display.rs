//! The report as text.

use std::fmt;

use super::TlsReport;
use super::report::{Figures, Row, Start, size};
use crate::statistics::Interval;

impl fmt::Display for TlsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fact in self.facts() {
            writeln!(f, "{fact}")?;
        }
        let mut subject = None;
        for row in &self.rows {
            if subject != Some(row.case.subject()) {
                subject = Some(row.case.subject());
                writeln!(f, "\n{}", row.case.heading())?;
                write!(f, "{:>8} {:>11}  {:<12}", "body", "connections", "contender")?;
                for heading in HEADINGS {
                    write!(f, " {heading:>11}")?;
                }
                writeln!(f, " {:>20} {:>20}", RATIOS[0], RATIOS[1])?;
            }
            writeln!(f, "{row}")?;
        }
        writeln!(f, "\n{EXPLANATION}")?;
        for case in &self.left_out {
            writeln!(f, "left out (--most): {case}")?;
        }
        if !self.starts.is_empty() {
            writeln!(f, "\nstart to end of `openssl version`")?;
        }
        for start in &self.starts {
            writeln!(f, "{start}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (body, connections) = (size(self.case.bytes), self.case.connections);
        write!(f, "{body:>8} {connections:>11}  {:<12}", self.contender)?;
        for cell in self.figures.cells() {
            write!(f, " {cell:>11}")?;
        }
        let [requests, cpu] = self.ratios();
        write!(f, " {requests:>20} {cpu:>20}")
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12} {:.2} ms", self.contender, self.ms_median)?;
        match self.ms_more {
            Some(more) => write!(f, ", more than default: {more}"),
            None => Ok(()),
        }
    }
}

impl Figures {
    /// The figures as shown in tables, in the order of [`HEADINGS`].
    pub(super) fn cells(&self) -> [String; HEADINGS.len()] {
        [
            format!("{:.1}", self.requests_per_s),
            format!("{:.1}", self.mb_per_s),
            format!("{:.3}", self.cpu_s_per_gb),
            format!("{:.1}", self.cpu_us_per_request),
        ]
    }
}

impl Row {
    /// The ratios as shown in tables, in the order of [`RATIOS`].
    pub(super) fn ratios(&self) -> [String; RATIOS.len()] {
        [self.requests_to_default, self.cpu_to_default].map(|ratio: Option<Interval>| {
            ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string())
        })
    }
}

/// The columns of figures.
pub(super) const HEADINGS: [&str; 4] = ["requests/s", "MB/s", "CPU s/GB", "CPU µs each"];
/// The columns of ratios.
pub(super) const RATIOS: [&str; 2] = ["requests to default", "CPU to default"];

pub(super) const EXPLANATION: &str = "\
CPU is the time of nginx's workers; \"to default\" is the ratio to default in the same round, its median
and the interval that holds the true median with 95 in 100 (with 6 rounds or more).";

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;

    #[test]
    fn there_is_a_table_for_each_subject() {
        let text = report().to_string();
        for part in [
            "aes-128-gcm, TLS 1.3, keep-alive\n",
            "aes-128-gcm, TLS 1.3, a connection for each request (requests/s are handshakes/s)\n",
            "16 KiB          16  evener             400.0         6.6      76.294      1250.0  1.00 \
             (0.50 to 2.00)  0.50 (0.50 to 1.00)\n",
            "load average at the beginning: 0.00 0.25 0.50\n",
            "1 worker, core 0, records of 16 KiB\n",
            "left out (--most): aes-128-gcm, TLS 1.3, keep-alive, 64 MiB, 16 connections\n",
            "evener       3.50 ms, more than default: 0.50 (0.25 to 0.75)\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let rows: Vec<_> = text.lines().filter(|line| line.contains("iB          16  ")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(rows.iter().all(|row| row.chars().count() == rows[0].chars().count()), "{text}");
    }
}
