//! What speaks with a store.

use std::time::Duration;
use std::{env, fmt};

use evener_seal::Fault;
use opendal::services::{Azblob, Gcs, S3};
use opendal::{HttpTransporter, OperationContext, Operator};
use tokio::runtime::Runtime;

use crate::address::{Address, Provider};
use crate::bandwidth::Bandwidth;
use crate::credentials::{check_google, check_profile};
use crate::fault::text;
use crate::transport::Patient;

/// How a store is reached.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The credentials. `None` takes those that the provider's own tools find, which Google's store
    /// always does.
    pub access: Option<Access>,
    /// The URL of the service, if it is another than the provider's own.
    pub endpoint: Option<String>,
    /// The profile in the files of the AWS command line tool, for S3.
    pub profile: Option<String>,
    /// The storage class of new objects, for S3 and Google Cloud Storage.
    pub storage_class: Option<String>,
    /// How many requests are made at once.
    pub requests: usize,
    /// How many bytes move at most. Places with copies of it share the limit.
    pub bandwidth: Option<Bandwidth>,
    /// How long a request may go without a byte in either direction. The third time in a row, it
    /// fails.
    pub stall: Duration,
    /// Called at most once for a place: the store does not answer, and is asked again.
    pub on_silence: Option<fn(&Address)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            access: None,
            endpoint: None,
            profile: None,
            storage_class: None,
            requests: 32,
            bandwidth: None,
            stall: Duration::from_secs(20),
            on_silence: None,
        }
    }
}

/// The credentials of an account.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// The access key's id of S3, or the name of Azure's storage account.
    pub id: String,
    /// The secret that belongs to it, or the account's key.
    pub secret: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Credentials come from where the provider's own tools find them.
///
/// # Errors
/// [`Fault::Refused`] where the settings do not fit the provider, or something is missing.
pub(crate) fn operator(
    address: &Address,
    settings: &Settings,
    runtime: &Runtime,
) -> Result<Operator, Fault> {
    let only_s3 = settings.profile.is_some() && address.provider != Provider::S3;
    let no_classes = settings.storage_class.is_some() && address.provider == Provider::Azure;
    if only_s3 || no_classes {
        let setting = if only_s3 { "a profile" } else { "a storage class" };
        let scheme = address.provider.scheme();
        return Err(Fault::Refused(format!("{scheme}:// takes no {setting}; leave it out")));
    }
    if let Some(endpoint) = &settings.endpoint {
        check_endpoint(endpoint)?;
    }
    let built = match address.provider {
        Provider::S3 => s3(address, settings, runtime)?,
        Provider::Gcs => gcs(address, settings)?,
        Provider::Azure => azure(address, settings)?,
    };
    let refused = |error: opendal::Error| Fault::Refused(text(&error));
    let (on_silence, of) = (settings.on_silence, address.clone());
    let listener = Box::new(move || on_silence.into_iter().for_each(|tell| tell(&of)));
    let transport = Patient::new(settings, listener).map_err(refused)?;
    let context = OperationContext::new().with_http_transport(HttpTransporter::new(transport));
    Ok(built.map_err(refused)?.with_context(context))
}

fn s3(
    address: &Address,
    settings: &Settings,
    runtime: &Runtime,
) -> Result<opendal::Result<Operator>, Fault> {
    let mut builder = S3::default().bucket(&address.bucket).root(&address.prefix);
    if let Some(Access { id, secret }) = &settings.access {
        builder = builder.access_key_id(id).secret_access_key(secret);
    } else if settings.profile.is_some() || variable("AWS_ACCESS_KEY_ID").is_none() {
        check_profile(settings.profile.as_deref())?;
    }
    if let Some(profile) = &settings.profile {
        builder = builder.profile(profile);
    }
    if let Some(class) = &settings.storage_class {
        builder = builder.default_storage_class(class);
    }
    let named = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].into_iter().find_map(variable);
    let endpoint = settings.endpoint.clone().or(named);
    let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable);
    let region = match (&endpoint, region) {
        (_, Some(region)) => region,
        // Other stores have one region, and call it anything.
        (Some(_), None) => "us-east-1".to_owned(),
        (None, None) => {
            let asked = S3::detect_region("https://s3.amazonaws.com", &address.bucket);
            runtime.block_on(asked).ok_or_else(|| Fault::Refused(NO_REGION.to_owned()))?
        }
    };
    if let Some(endpoint) = &endpoint {
        check_endpoint(endpoint)?;
        builder = builder.endpoint(endpoint);
    }
    let is_far_from_aws = endpoint.is_some_and(|it| !it.contains("amazonaws.com"));
    let is_disabled = variable("AWS_EC2_METADATA_DISABLED").is_some_and(|it| it == "true");
    if is_far_from_aws || is_disabled {
        builder = builder.disable_ec2_metadata();
    }
    Ok(Operator::new(builder.region(&region)))
}

fn gcs(address: &Address, settings: &Settings) -> Result<opendal::Result<Operator>, Fault> {
    let mut builder = Gcs::default().bucket(&address.bucket).root(&address.prefix);
    if let Some(class) = &settings.storage_class {
        builder = builder.default_storage_class(class);
    }
    // Google's own clients speak with an emulator without credentials.
    let emulator = variable("STORAGE_EMULATOR_HOST");
    if let Some(emulator) = emulator.filter(|_| settings.endpoint.is_none()) {
        let has_scheme = emulator.contains("://");
        let emulator = if has_scheme { emulator } else { format!("http://{emulator}") };
        return Ok(Operator::new(builder.endpoint(&emulator).skip_signature()));
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.endpoint(endpoint);
    }
    // Without TLS only an emulator is there, which wants no token, and nobody else gets one.
    if settings.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.skip_signature();
    } else {
        check_google()?;
    }
    Ok(Operator::new(builder))
}

fn azure(address: &Address, settings: &Settings) -> Result<opendal::Result<Operator>, Fault> {
    let connection = variable("AZURE_STORAGE_CONNECTION_STRING");
    let connection = connection.map(|it| Azblob::from_connection_string(&it));
    let mut builder = match (&settings.access, connection) {
        (Some(Access { id, secret }), _) => Azblob::default()
            .endpoint(&format!("https://{id}.blob.core.windows.net"))
            .account_name(id)
            .account_key(secret),
        (None, Some(builder)) => builder.map_err(|error| Fault::Refused(text(&error)))?,
        (None, None) => {
            let account = ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"];
            let account = account.into_iter().find_map(variable);
            let account = account.ok_or_else(|| Fault::Refused(NO_ACCOUNT.to_owned()))?;
            let endpoint = format!("https://{account}.blob.core.windows.net");
            let builder = Azblob::default().endpoint(&endpoint).account_name(&account);
            let key = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"];
            match key.into_iter().find_map(variable) {
                Some(key) => builder.account_key(&key),
                None => builder,
            }
        }
    };
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.endpoint(endpoint);
    }
    Ok(Operator::new(builder.container(&address.bucket).root(&address.prefix)))
}

fn check_endpoint(endpoint: &str) -> Result<(), Fault> {
    let is_web = |url: &reqwest::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    match reqwest::Url::parse(endpoint).is_ok_and(|url| is_web(&url)) {
        true => Ok(()),
        false => Err(Fault::Refused(format!("{endpoint}: {NO_URL}"))),
    }
}

pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

const NO_URL: &str = "a store's address begins with http:// or https:// and names a host";
const NO_REGION: &str =
    "no region is set, and the bucket does not tell its own; set AWS_REGION, or check its name";
const NO_ACCOUNT: &str =
    "no storage account is named; set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING";
