//! The text format of Prometheus.

use super::counters::Total;

/// All metrics, with a sample for each program.
pub(super) fn text(totals: &[Total]) -> String {
    let mut text = String::new();
    for (name, kind, help, samples) in METRICS {
        text += &format!("# HELP evener_tls_{name} {help}\n# TYPE evener_tls_{name} {kind}\n");
        for total in totals {
            let program = escaped(&total.program);
            for (label, value) in *samples {
                if let Some(value) = value(total) {
                    text += &format!("evener_tls_{name}{{program=\"{program}\"{label}}} {value}\n");
                }
            }
        }
    }
    text
}

/// A label's value.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A name, its type, its meaning, and its samples: a further label with the value.
type Metric = (&'static str, &'static str, &'static str, &'static [(&'static str, Value)]);
type Value = fn(&Total) -> Option<u64>;

const METRICS: &[Metric] = &[
    (
        "records_total",
        "counter",
        "Records that Evener encrypted or decrypted.",
        &[
            (",direction=\"encrypted\"", |total| Some(total.work.encrypted_records)),
            (",direction=\"decrypted\"", |total| Some(total.work.decrypted_records)),
        ],
    ),
    (
        "bytes_total",
        "counter",
        "Bytes of their text.",
        &[
            (",direction=\"encrypted\"", |total| Some(total.work.encrypted_bytes)),
            (",direction=\"decrypted\"", |total| Some(total.work.decrypted_bytes)),
        ],
    ),
    (
        "forged_records_total",
        "counter",
        "Records whose tag was wrong.",
        &[("", |total| Some(total.work.forged_records))],
    ),
    (
        "module_records_total",
        "counter",
        "Of all records those that a crypto module did, in whole or in part.",
        &[("", |total| Some(total.work.module_records))],
    ),
    (
        "module_bytes_total",
        "counter",
        "Bytes that a crypto module did.",
        &[("", |total| Some(total.work.module_bytes))],
    ),
    (
        "processes",
        "gauge",
        "Processes that count and run.",
        &[("", |total| u64::try_from(total.living).ok())],
    ),
    (
        "last_seen_timestamp_seconds",
        "gauge",
        "When the last record was done.",
        &[("", |total| total.work.last_seen)],
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
        let text = text(&[total("nginx", Some(9)), total("a\"\\\nb", None)]);
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
