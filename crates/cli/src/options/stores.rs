//! Options of object stores.

use std::num::NonZeroU64;

use clap::Args;

use super::values;
use crate::objects::{Bandwidth, Settings};

/// Options that say how an object store is reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreOptions {
    /// URL of a store that is not the provider's own, such as http://127.0.0.1:9000
    ///
    /// s3:// also takes it from AWS_ENDPOINT_URL
    #[arg(long, value_name = "URL", help_heading = "Object stores")]
    endpoint_url: Option<String>,
    /// Make up to N requests at once [default: 32]
    #[arg(long, value_name = "N", value_parser = values::requests, help_heading = "Object stores")]
    requests: Option<usize>,
    /// Move at most RATE bytes a second, such as 10M
    ///
    /// Both ways together, as well between two stores
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Object stores")]
    bandwidth: Option<NonZeroU64>,
    /// Storage class of new objects, such as STANDARD_IA
    #[arg(long, value_name = "CLASS", help_heading = "Object stores")]
    storage_class: Option<String>,
}

impl StoreOptions {
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.endpoint.clone_from(&self.endpoint_url);
        settings.storage_class.clone_from(&self.storage_class);
        settings.bandwidth = self.bandwidth.map(Bandwidth::new);
        settings.requests = self.requests.unwrap_or(settings.requests);
        settings
    }

    /// The first option that was given.
    pub(crate) fn any(&self) -> Option<&'static str> {
        let given = [
            (self.endpoint_url.is_some(), "--endpoint-url"),
            (self.requests.is_some(), "--requests"),
            (self.bandwidth.is_some(), "--bandwidth"),
            (self.storage_class.is_some(), "--storage-class"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }
}
