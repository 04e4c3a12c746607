//! Looks at pages of S3's listings before OpenDAL reads them: some would make it ask forever, or
//! panic.

use crate::answer::holds;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use bytes::Buf;
use evener_core::IgnorePoison;
use http::Uri;
use opendal::{Buffer, Error, ErrorKind, Result};
use reqwest::Url;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Page {
    is_truncated: Option<bool>,
    next_continuation_token: String,
    contents: Vec<Contents>,
    common_prefixes: Vec<CommonPrefix>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Contents {
    key: String,
    #[serde(rename = "ETag", default)]
    etag: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CommonPrefix {
    prefix: String,
}

/// Checks pages of listings.
#[derive(Default)]
pub(crate) struct Pages {
    /// Of each prefix, the pages without an object since the last one with any.
    empty: Mutex<HashMap<String, u32>>,
}

impl Pages {
    /// Checks the answer to a request, if that asked for a page.
    ///
    /// # Errors
    /// When the answer is no page, names what was not asked for, or does not get on.
    pub(crate) fn check(&self, uri: &Uri, answer: &Buffer) -> Result<()> {
        let query = uri.query().unwrap_or_default();
        if !query.split('&').any(|pair| pair == "list-type=2") {
            return Ok(());
        }
        let Ok(url) = Url::parse(&format!("http://host/?{query}")) else { return Ok(()) };
        let asked = |name: &str| {
            let mut pairs = url.query_pairs();
            pairs.find(|pair| pair.0 == name).map(|pair| pair.1.into_owned()).unwrap_or_default()
        };
        match self.fault(&asked("prefix"), &asked("continuation-token"), answer) {
            Some(fault) => Err(Error::new(ErrorKind::Unexpected, fault)),
            None => Ok(()),
        }
    }

    fn fault(&self, prefix: &str, token: &str, answer: &Buffer) -> Option<&'static str> {
        let start = answer.slice(..answer.len().min(START)).to_vec();
        if !holds(&start, "ListBucketResult") {
            return Some(NO_LISTING);
        }
        // OpenDAL reports what can't be read.
        let page: Page = quick_xml::de::from_reader(answer.clone().reader()).ok()?;
        let is_asked = |name: &str| name.starts_with(prefix) && name.len() <= LONGEST;
        let mut contents = page.contents.iter();
        let mut prefixes = page.common_prefixes.iter();
        if !contents.all(|it| is_asked(&it.key) && it.etag.len() <= LONGEST)
            || !prefixes.all(|it| is_asked(&it.prefix))
        {
            return Some(NOT_ASKED);
        }
        let mut keys = HashSet::new();
        let mut below = HashSet::new();
        if !page.contents.iter().all(|it| keys.insert(&it.key))
            || !page.common_prefixes.iter().all(|it| below.insert(&it.prefix))
        {
            return Some(TWICE);
        }
        let next = &page.next_continuation_token;
        let is_empty = page.contents.is_empty() && page.common_prefixes.is_empty();
        let goes_on = page.is_truncated.unwrap_or(!next.is_empty() || !is_empty);
        let mut empty = self.empty.lock().ignore_poison();
        let number = match is_empty && goes_on {
            true => {
                let number = empty.entry(prefix.to_owned()).or_default();
                *number += 1;
                *number
            }
            false => {
                empty.remove(prefix);
                0
            }
        };
        (goes_on && (next.is_empty() || next == token) || number > MOST_EMPTY).then_some(NO_NEXT)
    }
}

/// The bytes of an answer in which its first element begins.
const START: usize = 512;

/// The most pages without an object, one after another: some stores leave out deleted objects.
const MOST_EMPTY: u32 = 100;

/// More bytes than a name has.
const LONGEST: usize = 8 << 10;

const NO_LISTING: &str = "the store's answer is no list of objects";
const NOT_ASKED: &str = "the store lists objects that were not asked for, or with endless names";
const TWICE: &str = "the store lists an object twice";
pub(crate) const NO_NEXT: &str = "the store's list neither ends nor goes on";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_fault(query: &str, page: &str, expected: Option<&str>) {
        let uri = format!("http://host/b?list-type=2&prefix=a%20b/{query}").parse().unwrap();
        let page = Buffer::from(page.to_owned());
        let found =
            Pages::default().check(&uri, &page).err().map(|error| error.message().to_owned());
        assert_eq!(found.as_deref(), expected);
    }

    fn page(rest: &str) -> String {
        format!("<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\">{rest}</ListBucketResult>")
    }

    #[test]
    fn honest_pages_pass() {
        let last = "<IsTruncated>false</IsTruncated><Contents><Key>a b/</Key></Contents>\
            <CommonPrefixes><Prefix>a b/c/</Prefix></CommonPrefixes>\
            <Contents><Key>a b/&lt;</Key><ETag>\"x\"</ETag></Contents>";
        assert_fault("", &page(last), None);
        assert_fault("", &page(""), None);
        let more =
            "<IsTruncated>true</IsTruncated><NextContinuationToken>2</NextContinuationToken>";
        assert_fault("&continuation-token=1", &page(more), None);
        let other = "http://host/b?prefix=x".parse().unwrap();
        assert!(Pages::default().check(&other, &Buffer::from("anything")).is_ok());
    }

    #[test]
    fn lists_without_an_end_are_refused() {
        let more = page("<IsTruncated>true</IsTruncated>");
        assert_fault("", &more, Some(NO_NEXT));
        assert_fault("", &page("<Contents><Key>a b/c</Key></Contents>"), Some(NO_NEXT));
        let same = page("<NextContinuationToken>a/+</NextContinuationToken>");
        assert_fault("&continuation-token=a%2F%2B", &same, Some(NO_NEXT));
    }

    #[test]
    fn empty_pages_end() {
        let (pages, mut number) = (Pages::default(), 0);
        let uri = "http://host/b?list-type=2&prefix=".parse().unwrap();
        let mut ask = |more: &str| {
            number += 1;
            let next = format!("<NextContinuationToken>{number}</NextContinuationToken>");
            pages.check(&uri, &Buffer::from(page(&(next + more)))).is_ok()
        };
        assert!((0..MOST_EMPTY).all(|_| ask("")));
        assert!(ask("<Contents><Key>a</Key></Contents>"));
        assert!((0..MOST_EMPTY).all(|_| ask("")));
        assert!(!ask(""));
    }

    #[test]
    fn other_objects_are_refused() {
        for key in ["a b", "b/c", "", &"a b/".repeat(10_000)] {
            let page = page(&format!(
                "<IsTruncated>false</IsTruncated><Contents><Key>{key}</Key></Contents>"
            ));
            assert_fault("", &page, Some(NOT_ASKED));
        }
    }

    #[test]
    fn doubled_objects_are_refused() {
        let object = "<Contents><Key>a b/c</Key></Contents>";
        let page = page(&format!("<IsTruncated>false</IsTruncated>{object}{object}"));
        assert_fault("", &page, Some(TWICE));
    }

    #[test]
    fn other_answers_are_no_lists() {
        for answer in ["", "<html>Please log in</html>", "<Error><Code>SlowDown</Code></Error>"] {
            assert_fault("", answer, Some(NO_LISTING));
        }
    }
}
