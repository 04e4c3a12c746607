//! The metadata of objects, under the names that rclone gives them.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use evener_place::Metadata;

use crate::address::Provider;

/// Distinguishes an attempt to write an object from all others.
pub(crate) const TOKEN: &str = "evenerattempt";

/// The key of the time at which the source was last changed, for a later update.
pub(crate) const CHANGED: &str = "evenerchanged";

/// The time in a [`CHANGED`] pair.
pub(crate) fn changed(found: &opendal::Metadata) -> Option<(i64, u32)> {
    let (seconds, nanoseconds) = found.user_metadata()?.get(CHANGED)?.split_once('.')?;
    Some((seconds.parse().ok()?, nanoseconds.parse().ok()?))
}

/// The pairs that a store keeps with an object.
pub(crate) fn pairs(metadata: &Metadata) -> HashMap<String, String> {
    let mut pairs = HashMap::new();
    let mut put = |name: &str, value: Option<String>| {
        pairs.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("mtime", metadata.modified.map(seconds));
    put("mode", metadata.mode.map(|mode| format!("{:o}", mode & 0o7777)));
    put("uid", metadata.owner.map(|(user, _)| user.to_string()));
    put("gid", metadata.owner.map(|(_, group)| group.to_string()));
    pairs
}

/// The metadata of an object, of which the store knows the time of the upload at least.
pub(crate) fn metadata(found: &opendal::Metadata) -> Metadata {
    let pairs = found.user_metadata();
    let value = |name: &str| pairs.as_ref().and_then(|pairs| pairs.get(name));
    let number = |name: &str| value(name).and_then(|text| text.parse().ok());
    let mut metadata = Metadata::default();
    let mode = value("mode").and_then(|text| u32::from_str_radix(text, 8).ok());
    metadata.mode = mode.map(|mode| mode & 0o7777);
    let uploaded = found.last_modified().map(SystemTime::from);
    metadata.modified = value("mtime").and_then(time).or(uploaded);
    metadata.owner = number("uid").zip(number("gid"));
    metadata
}

/// The text that distinguishes a version of an object from all others, in one form wherever a store
/// tells it: its generation in Google's store, whose ETags differ from one interface to the other,
/// and elsewhere its ETag. `None` if the store does not tell it.
pub(crate) fn version(found: &opendal::Metadata, provider: Provider) -> Option<String> {
    match provider {
        Provider::Gcs => found.version().map(str::to_owned),
        _ => found.etag().and_then(quoted),
    }
}

/// An ETag in quotes: some stores leave them out in listings, and others in answers to writes.
fn quoted(etag: &str) -> Option<String> {
    let bare = etag.trim_matches('"');
    match etag {
        _ if bare.is_empty() => None,
        weak if weak.starts_with("W/") => Some(weak.to_owned()),
        _ => Some(format!("\"{bare}\"")),
    }
}

/// A time in seconds since 1970, with nine digits behind the point.
fn seconds(time: SystemTime) -> String {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => format!("{}.{:09}", after.as_secs(), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            format!("-{}.{:09}", before.as_secs(), before.subsec_nanos())
        }
    }
}

fn time(text: &str) -> Option<SystemTime> {
    let (is_before, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) {
        return None;
    }
    let nanoseconds = format!("{:0<9.9}", part).parse().ok()?;
    let distance = Duration::new(whole.parse().ok()?, nanoseconds);
    match is_before {
        true => SystemTime::UNIX_EPOCH.checked_sub(distance),
        false => SystemTime::UNIX_EPOCH.checked_add(distance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_has_one_form() {
        for form in ["x-2", "\"x-2\"", "\"\"x-2\"\""] {
            assert_eq!(quoted(form).as_deref(), Some("\"x-2\""), "{form}");
        }
        assert_eq!(quoted("W/\"x\"").as_deref(), Some("W/\"x\""));
        assert_eq!((quoted(""), quoted("\"\"")), (None, None));
    }

    #[test]
    fn times_come_back_as_they_were() {
        for (seconds_since, nanoseconds) in [(0, 0), (1_700_000_000, 5), (1, 999_999_999)] {
            let distance = Duration::new(seconds_since, nanoseconds);
            for it in [SystemTime::UNIX_EPOCH + distance, SystemTime::UNIX_EPOCH - distance] {
                assert_eq!(time(&seconds(it)), Some(it));
            }
        }
        assert_eq!(time("1.5"), Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)));
        for bad in ["", ".", "-", "x", "1.x", "+1", "99999999999999999999999"] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }
}
