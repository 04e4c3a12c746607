//! Addresses of object stores.

use std::fmt;
use std::str::FromStr;

/// A service with a protocol of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// Amazon S3, and stores that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Provider {
    /// The beginning of addresses, before `://`.
    pub fn scheme(self) -> &'static str {
        match self {
            Provider::S3 => "s3",
            Provider::Gcs => "gs",
            Provider::Azure => "az",
        }
    }
}

/// A bucket, which Azure calls a container, and the prefix of the names in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The service.
    pub provider: Provider,
    /// The bucket or container.
    pub bucket: String,
    /// The beginning of all names, without slashes at either end; it may be empty.
    pub prefix: String,
}

impl Address {
    /// Returns whether a text is meant to be an address, for which its beginning is enough.
    pub fn is_meant(text: &str) -> bool {
        split(text).is_some()
    }

    /// The address of a name below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Address {
        let separator = if self.prefix.is_empty() { "" } else { "/" };
        Address { prefix: format!("{}{separator}{name}", self.prefix), ..self.clone() }
    }

    /// Returns whether all that is below another address, or may be, is also below this one.
    pub fn holds(&self, other: &Address) -> bool {
        let rest = other.prefix.strip_prefix(&self.prefix);
        let is_below =
            self.prefix.is_empty() || rest.is_some_and(|it| it.is_empty() || it.starts_with('/'));
        self.provider == other.provider && self.bucket == other.bucket && is_below
    }

    /// The directory that the last part of the name is in, and that part; `None` for a whole bucket.
    pub fn split_last(&self) -> Option<(Address, &str)> {
        let (above, name) = self.prefix.rsplit_once('/').unwrap_or(("", &self.prefix));
        let above = Address { prefix: above.to_owned(), ..self.clone() };
        (!name.is_empty()).then_some((above, name))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.prefix.is_empty() { "" } else { "/" };
        let Address { provider, bucket, prefix } = self;
        write!(f, "{}://{bucket}{separator}{prefix}", provider.scheme())
    }
}

impl FromStr for Address {
    type Err = MalformedAddress;

    fn from_str(text: &str) -> Result<Address, MalformedAddress> {
        let refused = |reason| MalformedAddress { address: text.to_owned(), reason };
        let (provider, rest) = split(text).ok_or_else(|| refused(NO_SCHEME))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(refused(NO_BUCKET));
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if !prefix.is_empty() && !is_clean(prefix) {
            return Err(refused(UNCLEAN));
        }
        Ok(Address { provider, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

/// Returns whether a name has the same form everywhere: no part of it is empty, `.` or `..`, no white
/// space is at its ends, which the protocols' library would take away, and there is no character that
/// XML, in which stores list their objects, can't have or can change.
pub(crate) fn is_clean(name: &str) -> bool {
    let is_fit = |letter: char| !letter.is_control() && !matches!(letter, '\u{fffe}' | '\u{ffff}');
    let mut parts = name.split('/');
    name == name.trim()
        && parts.all(|it| !matches!(it, "" | "." | ".."))
        && name.chars().all(is_fit)
}

fn split(text: &str) -> Option<(Provider, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let all = [Provider::S3, Provider::Gcs, Provider::Azure];
    let provider = all.into_iter().find(|provider| provider.scheme() == scheme)?;
    Some((provider, rest))
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {reason}")]
pub struct MalformedAddress {
    /// The text as it was given.
    pub address: String,
    /// The reason, as text.
    pub reason: &'static str,
}

const NO_SCHEME: &str = "an address begins with s3://, gs:// or az://";
const NO_BUCKET: &str = "it names no bucket or container; write it after `://`";
const UNCLEAN: &str = "a part of the prefix is empty, `.` or `..`, or it has a control character, U+FFFE or U+FFFF, or \
     white space at an end";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_written_alike() {
        let address: Address = "s3://bucket/a/b c/".parse().unwrap();
        let Address { provider, bucket, prefix } = &address;
        assert_eq!((*provider, &**bucket, &**prefix), (Provider::S3, "bucket", "a/b c"));
        assert_eq!(address.to_string(), "s3://bucket/a/b c");
        let whole: Address = "az://container".parse().unwrap();
        assert_eq!((whole.to_string(), whole.split_last()), ("az://container".to_owned(), None));
        assert_eq!(whole.join("x").to_string(), "az://container/x");
        let (above, name) = address.split_last().unwrap();
        assert_eq!((above.to_string(), name), ("s3://bucket/a".to_owned(), "b c"));
    }

    #[test]
    fn an_address_holds_what_is_below_it() {
        let holds = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|it| it.parse::<Address>().unwrap());
            one.holds(&other)
        };
        assert!(holds("s3://b/a", "s3://b/a") && holds("s3://b/a", "s3://b/a/x"));
        assert!(holds("s3://b", "s3://b/a") && !holds("s3://b/a", "s3://b"));
        assert!(!holds("s3://b/a", "s3://b/ab") && !holds("s3://b/a", "gs://b/a"));
        assert!(!holds("s3://b", "s3://c"));
    }

    #[test]
    fn paths_and_unclean_prefixes_are_no_addresses() {
        for path in ["s3:/x", "./s3://b", "/s3://b", "b/c", "http://x"] {
            assert!(!Address::is_meant(path), "{path}");
        }
        for bad in [
            "s3://",
            "s3:///x",
            "gs://b//x",
            "gs://b/x//",
            "az://b/../x",
            "az://b/ x",
            "s3://b/\n.",
            "s3://b/\u{ffff}",
        ] {
            assert!(Address::is_meant(bad) && bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
