//! Options of object stores.

use std::num::NonZeroU64;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};

use super::{times, values};
use crate::objects::{Bandwidth, Retention, Settings};

/// Options that say how an object store is reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreOptions {
    /// URL of a store that is not the provider's own, such as http://127.0.0.1:9000
    ///
    /// s3:// also takes it from AWS_ENDPOINT_URL
    #[arg(long, value_name = "URL", help_heading = "Object stores")]
    endpoint_url: Option<String>,
    /// Profile in ~/.aws whose credentials, region and endpoint to use [default: AWS_PROFILE]
    ///
    /// AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name other files
    #[arg(long, value_name = "NAME", help_heading = "Object stores")]
    aws_profile: Option<String>,
    /// Make up to N requests at once [default: 32]
    #[arg(long, value_name = "N", value_parser = values::requests, help_heading = "Object stores")]
    requests: Option<usize>,
    /// Move at most RATE bytes a second, such as 10M
    ///
    /// The limit counts uploads and downloads together, also between two stores
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Object stores")]
    bandwidth: Option<NonZeroU64>,
    /// Storage class of new objects, such as STANDARD_IA
    #[arg(long, value_name = "CLASS", help_heading = "Object stores")]
    storage_class: Option<String>,
    /// Lock new objects until TIME, such as 2027-01-31 (s3:// with object lock)
    ///
    /// Until then, their versions can't be deleted or replaced. A new generation of a sealed tree
    /// also locks the files of earlier ones that it needs, and `--update` and `--resume` lock the
    /// objects that they leave alone. A date alone means the end of that day, and times are in UTC
    #[arg(long, value_name = "TIME", value_parser = future, help_heading = "Object stores")]
    retain_until: Option<SystemTime>,
    /// Choose who can end the lock of --retain-until early
    ///
    /// governance: accounts with the permission s3:BypassGovernanceRetention. compliance: nobody,
    /// not even the account's owner, who pays until TIME
    #[arg(
        long,
        value_name = "MODE",
        default_value = "governance",
        hide_default_value = true,
        requires = "retain_until",
        help_heading = "Object stores"
    )]
    retain_mode: RetainMode,
}

/// The modes of S3's object lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RetainMode {
    Governance,
    Compliance,
}

/// A time in the future.
fn future(text: &str) -> Result<SystemTime, String> {
    let seconds = u64::try_from(times::parse(text)?).unwrap_or(0);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    if time > SystemTime::now() { Ok(time) } else { Err("it is in the past".to_owned()) }
}

impl StoreOptions {
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.endpoint.clone_from(&self.endpoint_url);
        settings.profile.clone_from(&self.aws_profile);
        settings.storage_class.clone_from(&self.storage_class);
        settings.bandwidth = self.bandwidth.map(Bandwidth::new);
        settings.retention = self.retain_until.map(|until| {
            let mut retention = Retention::until(until);
            retention.complies = self.retain_mode == RetainMode::Compliance;
            retention
        });
        settings.requests = self.requests.unwrap_or(settings.requests);
        settings
    }

    /// Returns whether a profile was named.
    pub(crate) fn has_profile(&self) -> bool {
        self.aws_profile.is_some()
    }

    /// The first option that was given.
    pub(crate) fn any(&self) -> Option<&'static str> {
        let given = [
            (self.endpoint_url.is_some(), "--endpoint-url"),
            (self.aws_profile.is_some(), "--aws-profile"),
            (self.requests.is_some(), "--requests"),
            (self.bandwidth.is_some(), "--bandwidth"),
            (self.storage_class.is_some(), "--storage-class"),
            (self.retain_until.is_some(), "--retain-until"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }
}
