//! Sets up the client of a store.

use std::time::Duration;
use std::{env, fmt};

use evener_seal::Fault;
use opendal::services::{Azblob, Gcs, S3};
use opendal::{HttpTransporter, OperationContext, Operator};
use tokio::runtime::Runtime;

use crate::address::{Address, Provider};
use crate::amazon::{self, Amazon, Server};
use crate::bandwidth::Bandwidth;
use crate::credentials::check_google;
use crate::fault::text;
use crate::profile::Profile;
use crate::retention::{Locking, Retention};
use crate::server::{EMULATOR, account, of_account, resolved};
use crate::traffic::Traffic;
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
    /// How long nobody can delete or replace new objects, in S3 buckets with object lock.
    pub retention: Option<Retention>,
    /// How many requests are made at once.
    pub requests: usize,
    /// The limit on the bytes a second. Places with copies of it share the limit.
    pub bandwidth: Option<Bandwidth>,
    /// How long a request may go without a byte in either direction. The third time, it fails.
    /// Uploads that share a slow line have more time, and so does a request that makes many parts an
    /// object.
    pub stall: Duration,
    /// Called at most once for a place, when the store does not answer and the request is repeated.
    pub on_silence: Option<fn(&Address)>,
    /// Counts the requests. Places with copies of it add to the same counts.
    pub traffic: Traffic,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            access: None,
            endpoint: None,
            profile: None,
            storage_class: None,
            retention: None,
            requests: 32,
            bandwidth: None,
            stall: Duration::from_secs(20),
            on_silence: None,
            traffic: Traffic::default(),
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

/// The client of a store.
pub(crate) struct Client {
    pub(crate) operator: Operator,
    /// Makes the requests that OpenDAL does not make, for S3.
    pub(crate) amazon: Option<Amazon>,
    /// The name of the server.
    pub(crate) server: String,
}

/// Finds credentials where the provider's own tools find them.
///
/// # Errors
/// [`Fault::Refused`] where the settings do not fit the provider, or something is missing.
pub(crate) fn client(
    address: &Address,
    settings: &Settings,
    runtime: &Runtime,
) -> Result<Client, Fault> {
    let (is_s3, is_azure) = (address.provider == Provider::S3, address.provider == Provider::Azure);
    let refused = [
        (settings.profile.is_some() && !is_s3, "a profile"),
        (settings.retention.is_some() && !is_s3, "a retention period"),
        (settings.storage_class.is_some() && is_azure, "a storage class"),
    ];
    if let Some((_, setting)) = refused.iter().find(|(refused, _)| *refused) {
        let scheme = address.provider.scheme();
        return Err(Fault::Refused(format!("{scheme}:// does not take {setting}; leave it out")));
    }
    if let Some(endpoint) = &settings.endpoint {
        check_endpoint(endpoint)?;
    }
    let refused = |error: opendal::Error| Fault::Refused(text(&error));
    let (on_silence, of) = (settings.on_silence, address.clone());
    let listener = Box::new(move || on_silence.into_iter().for_each(|tell| tell(&of)));
    let transport = HttpTransporter::new(Patient::new(settings, listener).map_err(refused)?);
    let server = match address.provider {
        Provider::S3 => Some(server(address, settings, runtime, &transport)?),
        _ => None,
    };
    let built = match (address.provider, &server) {
        (_, Some(server)) => s3(address, settings, server),
        (Provider::Gcs, _) => gcs(address, settings)?,
        _ => azure(address, settings)?,
    };
    let mut locking = transport.clone();
    if let (Some(retention), Some(server)) = (settings.retention, &server) {
        let signer = server.signer(settings, &transport);
        locking = HttpTransporter::new(Locking::new(transport.clone(), signer, retention));
    }
    let endpoint = server.as_ref().and_then(|server| server.endpoint.as_deref());
    let name = resolved(address.provider, settings, endpoint);
    let amazon = server.map(|it| Amazon::new(&it, address, settings, transport));
    let context = OperationContext::new().with_http_transport(locking);
    Ok(Client { operator: built.map_err(refused)?.with_context(context), amazon, server: name })
}

fn server(
    address: &Address,
    settings: &Settings,
    runtime: &Runtime,
    transport: &HttpTransporter,
) -> Result<Server, Fault> {
    let named = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].into_iter().find_map(variable);
    let profile = match settings.access {
        Some(_) => Profile::default(),
        None => Profile::find(settings.profile.as_deref())?,
    };
    let endpoint = settings.endpoint.clone().or(named).or(profile.endpoint);
    let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable);
    let region = region.or(profile.region);
    let region = match (&endpoint, region) {
        (_, Some(region)) => region,
        // Other stores have one region, and call it anything.
        (Some(_), None) => "us-east-1".to_owned(),
        (None, None) => {
            let bucket = format!("https://s3.amazonaws.com/{}", address.bucket);
            let told = runtime.block_on(amazon::region(transport, &bucket))?;
            told.ok_or_else(|| Fault::Refused(NO_REGION.to_owned()))?
        }
    };
    if let Some(endpoint) = &endpoint {
        check_endpoint(endpoint)?;
    }
    Ok(Server { region, endpoint })
}

fn s3(address: &Address, settings: &Settings, server: &Server) -> opendal::Result<Operator> {
    let mut builder = S3::default().bucket(&address.bucket).root(&address.prefix);
    builder = builder.region(&server.region);
    builder = builder.credential_provider_chain(server.credentials(settings));
    if let Some(class) = &settings.storage_class {
        builder = builder.default_storage_class(class);
    }
    // Without a checksum, some servers make an object of what comes before a connection breaks. Locks
    // demand one anyway.
    builder = builder.checksum_algorithm("crc32c");
    if let Some(endpoint) = &server.endpoint {
        builder = builder.endpoint(endpoint);
    }
    Operator::new(builder)
}

fn gcs(address: &Address, settings: &Settings) -> Result<opendal::Result<Operator>, Fault> {
    let mut builder = Gcs::default().bucket(&address.bucket).root(&address.prefix);
    if let Some(class) = &settings.storage_class {
        builder = builder.default_storage_class(class);
    }
    // Google's own clients speak with an emulator without credentials.
    let emulator = variable(EMULATOR);
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
        (Some(Access { id, secret }), _) => {
            Azblob::default().endpoint(&of_account(id)).account_name(id).account_key(secret)
        }
        (None, Some(builder)) => builder.map_err(|error| Fault::Refused(text(&error)))?,
        (None, None) => {
            let account = account().ok_or_else(|| Fault::Refused(NO_ACCOUNT.to_owned()))?;
            let builder = Azblob::default().endpoint(&of_account(&account)).account_name(&account);
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
    // A password before `@` would be in messages.
    if endpoint.contains('@') {
        return Err(Fault::Refused(WITH_USER.to_owned()));
    }
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
const WITH_USER: &str =
    "a store's address has no user and no password; set AWS_ACCESS_KEY_ID and the like instead";
const NO_REGION: &str =
    "no region is set, and the bucket does not tell its own; set AWS_REGION, or check its name";
const NO_ACCOUNT: &str =
    "no storage account is named; set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING";
