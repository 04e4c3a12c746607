//! Leftovers of killed runs.

use std::time::{Duration, SystemTime};

use evener_place::Store;
use evener_seal::Fault;
use http::Method;
use serde::{Deserialize, Serialize};

use crate::amazon::{Amazon, time};
use crate::objects::Objects;
use crate::page::NO_NEXT;

/// The leftovers of killed runs below a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Leftovers {
    /// The uploads that were aborted, or would be.
    pub uploads: u64,
    /// The probe objects that were removed, or would be.
    pub probes: u64,
    /// The uploads and probe objects that are kept because they are younger.
    pub younger: u64,
}

impl Objects {
    /// Aborts the uploads below the prefix whose newest part, or else whose beginning, is older than
    /// `age` by the store's clock. Google's store and Azure drop such uploads themselves after a
    /// week. Also removes probe objects of interrupted runs that are older; in Google's store and
    /// Azure, this machine's clock decides.
    ///
    /// # Errors
    /// When the store refuses a request.
    pub fn clean(&self, age: Duration, dry_run: bool) -> Result<Leftovers, Fault> {
        let mut left = Leftovers::default();
        let now = match self.amazon() {
            Some(amazon) => self.wait(self.clean_uploads(amazon, age, dry_run, &mut left))?,
            None => SystemTime::now(),
        };
        let before = now.checked_sub(age);
        for entry in self.beginning_with(".evener-")? {
            if !is_probe(entry.name.path().to_str().unwrap_or_default()) {
                continue;
            }
            if entry.metadata.modified >= before {
                left.younger += 1;
                continue;
            }
            left.probes += 1;
            if !dry_run {
                self.remove(&entry.name)?;
            }
        }
        Ok(left)
    }

    /// Returns the time by the store's clock.
    async fn clean_uploads(
        &self,
        amazon: &Amazon,
        age: Duration,
        dry_run: bool,
        left: &mut Leftovers,
    ) -> Result<SystemTime, Fault> {
        let prefix = match &*self.address().prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let (mut key, mut id) = (String::new(), String::new());
        loop {
            let mut query = vec![("prefix", &*prefix), ("uploads", "")];
            if !key.is_empty() {
                query.extend([("key-marker", &*key), ("upload-id-marker", &*id)]);
            }
            query.retain(|(name, value)| *name == "uploads" || !value.is_empty());
            let answer = amazon.ask(Method::GET, "", &query).await?;
            let before = answer.time().checked_sub(age);
            let page: Uploads = answer.parse()?;
            for upload in page.upload.iter().filter(|it| it.key.starts_with(&prefix)) {
                let last = upload.last_sign_of_life(amazon, before).await?;
                if last.is_none() || last >= before {
                    left.younger += 1;
                    continue;
                }
                left.uploads += 1;
                if !dry_run {
                    let query = [("uploadId", &*upload.upload_id)];
                    amazon.ask(Method::DELETE, &upload.key, &query).await?;
                }
            }
            if !page.is_truncated || page.next_key_marker.is_empty() {
                return Ok(answer.time());
            }
            let next = (page.next_key_marker, page.next_upload_id_marker);
            if (&key, &id) == (&next.0, &next.1) {
                return Err(Fault::Failed(NO_NEXT.to_owned()));
            }
            (key, id) = next;
        }
    }
}

/// Returns whether a name is that of a probe object.
pub(crate) fn is_probe(name: &str) -> bool {
    let middle = name.strip_prefix(".evener-").and_then(|rest| rest.strip_suffix(".part"));
    middle.is_some_and(|it| it.len() == 16 && it.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Uploads {
    upload: Vec<Upload>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Upload {
    key: String,
    upload_id: String,
    initiated: String,
}

impl Upload {
    /// The time of the newest part, or of the beginning; `None` if the store tells neither. Does
    /// not ask for the parts of an upload that began after `before`.
    async fn last_sign_of_life(
        &self,
        amazon: &Amazon,
        before: Option<SystemTime>,
    ) -> Result<Option<SystemTime>, Fault> {
        let mut last = time(&self.initiated);
        let mut marker = String::new();
        while last.is_some() && last < before {
            let mut query = vec![("uploadId", &*self.upload_id)];
            if !marker.is_empty() {
                query.insert(0, ("part-number-marker", &*marker));
            }
            let page: Parts = amazon.ask(Method::GET, &self.key, &query).await?.parse()?;
            let times = page.part.iter().filter_map(|part| time(&part.last_modified));
            last = last.max(times.max());
            if !page.is_truncated || page.next_part_number_marker.is_empty() {
                break;
            }
            if marker == page.next_part_number_marker {
                return Err(Fault::Failed(NO_NEXT.to_owned()));
            }
            marker = page.next_part_number_marker;
        }
        Ok(last)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Parts {
    part: Vec<Part>,
    is_truncated: bool,
    next_part_number_marker: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Part {
    last_modified: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_probes_are_theirs() {
        assert!(is_probe(".evener-0123456789abcdef.part"));
        for other in ["evener-0123456789abcdef.part", ".evener-.part", ".evener-key-2.age.part"] {
            assert!(!is_probe(other), "{other}");
        }
    }
}
