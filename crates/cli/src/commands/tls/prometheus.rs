//! The counters as metrics of Prometheus.

use std::fmt;

use super::counters::Total;
use crate::prometheus::Type::{Counter, Gauge};
use crate::prometheus::collector::Collector;
use crate::prometheus::{self, Encoder, Type, add};

/// All metrics, with a sample for each program.
pub(super) fn text(totals: Vec<Total>) -> String {
    prometheus::text("evener_tls", Totals(totals))
}

#[derive(Debug)]
struct Totals(Vec<Total>);

impl Collector for Totals {
    fn encode(&self, mut encoder: Encoder<'_>) -> fmt::Result {
        for (name, kind, help, samples) in METRICS {
            let samples = self.0.iter().flat_map(|total| {
                samples.iter().filter_map(move |(label, value)| {
                    let program = ("program", &*total.program);
                    Some(([program].into_iter().chain(*label).collect(), value(total)?))
                })
            });
            add(&mut encoder, (name, *kind, help), samples)?;
        }
        Ok(())
    }
}

/// A name, its type, its meaning, and its samples: a further label with the value.
type Metric = (&'static str, Type, &'static str, &'static [(Label, Value)]);
type Label = Option<(&'static str, &'static str)>;
type Value = fn(&Total) -> Option<u64>;

const ENCRYPTED: Label = Some(("direction", "encrypted"));
const DECRYPTED: Label = Some(("direction", "decrypted"));

const METRICS: &[Metric] = &[
    (
        "records",
        Counter,
        "Records that Evener encrypted or decrypted.",
        &[
            (ENCRYPTED, |total| Some(total.work.encrypted_records)),
            (DECRYPTED, |total| Some(total.work.decrypted_records)),
        ],
    ),
    (
        "bytes",
        Counter,
        "Bytes of their text.",
        &[
            (ENCRYPTED, |total| Some(total.work.encrypted_bytes)),
            (DECRYPTED, |total| Some(total.work.decrypted_bytes)),
        ],
    ),
    (
        "forged_records",
        Counter,
        "Records whose tag was wrong.",
        &[(None, |total| Some(total.work.forged_records))],
    ),
    (
        "module_records",
        Counter,
        "Of all records those that a crypto module did, in whole or in part.",
        &[(None, |total| Some(total.work.module_records))],
    ),
    (
        "module_bytes",
        Counter,
        "Bytes that a crypto module did.",
        &[(None, |total| Some(total.work.module_bytes))],
    ),
    (
        "processes",
        Gauge,
        "Processes that count and run.",
        &[(None, |total| u64::try_from(total.living).ok())],
    ),
    (
        "last_seen_timestamp_seconds",
        Gauge,
        "When the last record was done.",
        &[(None, |total| total.work.last_seen)],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tls::counters::Work;

    #[test]
    fn each_metric_has_its_samples_together() {
        let total = |program: &str, last_seen| Total {
            program: program.to_owned(),
            living: 2,
            work: Work { encrypted_records: 7, last_seen, ..Work::default() },
        };
        let text = text(vec![total("nginx", Some(9)), total("a\"\\\nb", None)]);
        let expected = "\
# HELP evener_tls_records_total Records that Evener encrypted or decrypted.
# TYPE evener_tls_records_total counter
evener_tls_records_total{program=\"nginx\",direction=\"encrypted\"} 7
evener_tls_records_total{program=\"nginx\",direction=\"decrypted\"} 0
evener_tls_records_total{program=\"a\\\"\\\\\\nb\",direction=\"encrypted\"} 7
evener_tls_records_total{program=\"a\\\"\\\\\\nb\",direction=\"decrypted\"} 0
# HELP evener_tls_bytes_total";
        assert!(text.starts_with(expected), "{text}");
        let last = "gauge\nevener_tls_last_seen_timestamp_seconds{program=\"nginx\"} 9\n";
        assert!(text.ends_with(last), "{text}");
    }
}
