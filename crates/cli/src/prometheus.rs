//! The text format of Prometheus.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

pub(crate) use prometheus_client::collector;
pub(crate) use prometheus_client::encoding::DescriptorEncoder as Encoder;
pub(crate) use prometheus_text::CONTENT_TYPE;

/// The metrics of a collector as text. Their names begin with `prefix` and an underscore.
pub(crate) fn text(prefix: &str, collector: impl Collector) -> String {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    match prometheus_text::encode(&mut text, &registry) {
        Ok(()) => text,
        // Only a collector can fail, and half its metrics would mislead.
        Err(fmt::Error) => String::new(),
    }
}

/// The type of a metric.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    /// It only grows. `_total` is added to its name.
    Counter,
    Gauge,
}

/// Adds a metric: its name, type and meaning, and its samples with the names and values of their
/// labels.
///
/// # Errors
/// Those of the encoder.
pub(crate) fn add<'l, V: EncodeCounterValue + EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, kind, help): (&str, Type, &str),
    samples: impl IntoIterator<Item = (Vec<(&'l str, &'l str)>, V)>,
) -> fmt::Result {
    let written = match kind {
        Type::Counter => MetricType::Counter,
        Type::Gauge => MetricType::Gauge,
    };
    let mut metric = encoder.encode_descriptor(name, help, None, written)?;
    for (labels, value) in samples {
        let sample = metric.encode_family(&labels)?;
        match kind {
            Type::Counter => ConstCounter::new(value).encode(sample)?,
            Type::Gauge => ConstGauge::new(value).encode(sample)?,
        }
    }
    Ok(())
}
