//! The names of servers, by which places in different stores are told apart.

use reqwest::Url;

use crate::address::Provider;
use crate::operator::{Settings, variable};

/// The name of the server at an endpoint: its host, its port and its path. It is the same with and
/// without TLS, a slash at the end, capitals and the usual port, and for all regions of Amazon's.
pub fn server_name(endpoint: &str) -> String {
    let scheme = if endpoint.contains("://") { "" } else { "https://" };
    let Ok(url) = Url::parse(&format!("{scheme}{endpoint}")) else { return endpoint.to_owned() };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    if host.ends_with(".amazonaws.com") {
        return AMAZON.to_owned();
    }
    let port = url.port().filter(|port| ![80, 443].contains(port));
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    format!("{host}{port}{}", url.path().trim_end_matches('/'))
}

/// The name of the server that these settings lead to; `endpoint` is that of a store of S3's
/// protocol.
pub(crate) fn resolved(provider: Provider, settings: &Settings, endpoint: Option<&str>) -> String {
    let given = || settings.endpoint.clone();
    let endpoint = match provider {
        Provider::S3 => endpoint.map_or_else(|| AMAZON.to_owned(), str::to_owned),
        Provider::Gcs => given().or_else(|| variable(EMULATOR)).unwrap_or(GOOGLE.to_owned()),
        Provider::Azure => given().or_else(|| azure(settings)).unwrap_or_default(),
    };
    server_name(&endpoint)
}

fn azure(settings: &Settings) -> Option<String> {
    if let Some(access) = &settings.access {
        return Some(of_account(&access.id));
    }
    match variable("AZURE_STORAGE_CONNECTION_STRING") {
        Some(connection) => connected(&connection),
        None => account().map(|account| of_account(&account)),
    }
}

/// The endpoint that a connection string names.
fn connected(connection: &str) -> Option<String> {
    let parts = || connection.trim().split(';').filter_map(|part| part.split_once('='));
    let value = |name: &str| parts().find(|(key, _)| *key == name).map(|(_, value)| value);
    if value("UseDevelopmentStorage") == Some("true") {
        return Some(value("DevelopmentStorageProxyUri").unwrap_or(DEVELOPMENT).to_owned());
    }
    let account = || value("AccountName").unwrap_or_default();
    let suffix = || value("EndpointSuffix").unwrap_or("core.windows.net");
    let usual = || format!("https://{}.blob.{}", account(), suffix());
    Some(value("BlobEndpoint").map_or_else(usual, str::to_owned))
}

/// The storage account of Azure's that the environment names.
pub(crate) fn account() -> Option<String> {
    ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"].into_iter().find_map(variable)
}

/// The endpoint of a storage account of Azure's.
pub(crate) fn of_account(account: &str) -> String {
    format!("https://{account}.blob.core.windows.net")
}

/// The variable that names an emulator of Google's store.
pub(crate) const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

const AMAZON: &str = "s3.amazonaws.com";
const GOOGLE: &str = "storage.googleapis.com";
const DEVELOPMENT: &str = "http://127.0.0.1:10000/devstoreaccount1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_has_one_name() {
        for same in ["http://H:80/", "https://h", "https://h:443//", "h", "HTTP://h./"] {
            assert_eq!(server_name(same), "h", "{same}");
        }
        assert_eq!(server_name("http://user@127.0.0.1:9000/a/"), "127.0.0.1:9000/a");
        assert_ne!(server_name("http://h:9000"), server_name("http://h:9001"));
        let regions =
            ["https://s3.eu-north-1.amazonaws.com", "http://s3.dualstack.x.amazonaws.com"];
        assert!(
            regions.iter().all(|it| server_name(it) == AMAZON) && server_name(AMAZON) == AMAZON
        );
        assert_ne!(server_name("https://s3.cn-north-1.amazonaws.com.cn"), AMAZON);
    }

    #[test]
    fn connections_name_their_servers() {
        let server = |connection: &str| server_name(&connected(connection).unwrap());
        assert_eq!(server("AccountName=a;AccountKey=b=="), "a.blob.core.windows.net");
        assert_eq!(server("AccountName=a;EndpointSuffix=x.cn"), "a.blob.x.cn");
        assert_eq!(server("BlobEndpoint=http://h:1/a/;AccountName=a"), "h:1/a");
        assert_eq!(server("UseDevelopmentStorage=true"), server_name(DEVELOPMENT));
    }
}
