//! Leftovers of killed runs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use evener_place::{Origin, Store};
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
    /// `older_than` by the store's clock. Google's store and Azure drop such uploads themselves after
    /// a week. Also removes the probe objects of interrupted runs that are older, at any depth, so
    /// also below the prefixes of single trees; in Google's store and Azure, this machine's clock
    /// decides. All objects below the prefix are listed for that.
    ///
    /// With an age of zero, it aborts and removes all of them at once, also those of runs that are
    /// at work, whose uploads then fail.
    ///
    /// # Errors
    /// When the store refuses a request.
    pub fn clean(&self, older_than: Duration, dry_run: bool) -> Result<Leftovers, Fault> {
        let mut left = Leftovers::default();
        let now = match self.amazon() {
            Some(amazon) => {
                self.wait(self.clean_uploads(amazon, older_than, dry_run, &mut left))?
            }
            None => SystemTime::now(),
        };
        let before = now.checked_sub(older_than);
        for entry in self.walk() {
            let entry = match entry {
                Ok(entry) if is_probe(entry.name.path()) => entry,
                Ok(_) | Err(Fault::Entry { .. }) => continue,
                Err(fault) => return Err(fault),
            };
            if !older_than.is_zero() && entry.metadata.modified >= before {
                left.younger += 1;
                continue;
            }
            left.probes += 1;
            if !dry_run {
                match self.remove(&entry.name) {
                    // Its own run has removed it meanwhile.
                    Err(Fault::Missing(_)) => {}
                    removed => removed?,
                }
            }
        }
        Ok(left)
    }

    /// Returns the time by the store's clock.
    async fn clean_uploads(
        &self,
        amazon: &Amazon,
        older_than: Duration,
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
            let before = answer.time().checked_sub(older_than);
            let page: Uploads = answer.parse()?;
            for upload in page.upload.iter().filter(|it| it.key.starts_with(&prefix)) {
                // An answer's time has whole seconds, so it can't tell that nothing is younger.
                if !older_than.is_zero() {
                    let last = upload.last_sign_of_life(amazon, before).await?;
                    if last.is_none() || last >= before {
                        left.younger += 1;
                        continue;
                    }
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

/// Returns whether a path is that of a probe object, below whichever prefix.
pub(crate) fn is_probe(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
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
        for probe in [".evener-0123456789abcdef.part", "a/b/.evener-0123456789abcdef.part"] {
            assert!(is_probe(Path::new(probe)), "{probe}");
        }
        for other in ["evener-0123456789abcdef.part", ".evener-.part", ".evener-key-2.age.part"] {
            assert!(!is_probe(Path::new(other)), "{other}");
        }
    }
}
