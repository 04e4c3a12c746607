//! Stands for object stores in a program that was built without them.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use evener::place::{Abilities, Blob, Draft, Entry, Fault, Name, NewObject, Origin, Store};

/// There is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(Never);

/// Of it there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Never {}

impl Address {
    pub(crate) fn is_meant(text: &str) -> bool {
        ["s3://", "gs://", "az://"].iter().any(|scheme| text.starts_with(scheme))
    }

    pub(crate) fn join(&self, _: &str) -> Address {
        match self.0 {}
    }

    pub(crate) fn holds(&self, _: &Address) -> bool {
        match self.0 {}
    }

    pub(crate) fn split_last(&self) -> Option<(Address, &str)> {
        match self.0 {}
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        Err(format!("{text}: this program was built without object stores"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) endpoint: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) storage_class: Option<String>,
    pub(crate) retention: Option<Retention>,
    pub(crate) requests: usize,
    pub(crate) bandwidth: Option<Bandwidth>,
    pub(crate) on_silence: Option<fn(&Address)>,
    pub(crate) traffic: Traffic,
}

/// Counts no requests, since none are made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic;

impl Traffic {
    pub(crate) fn sent(&self) -> u64 {
        0
    }

    pub(crate) fn repeated(&self) -> u64 {
        0
    }

    pub(crate) fn given_up(&self) -> u64 {
        0
    }

    pub(crate) fn failed(&self, why: RequestFailure) -> u64 {
        match why.0 {}
    }
}

/// Of it there is no value.
#[derive(Clone, Copy)]
pub(crate) struct RequestFailure(Never);

impl RequestFailure {
    pub(crate) const ALL: [RequestFailure; 0] = [];

    pub(crate) fn name(self) -> &'static str {
        match self.0 {}
    }
}

#[derive(Clone)]
pub(crate) struct Bandwidth;

impl Bandwidth {
    pub(crate) fn new(_: NonZeroU64) -> Bandwidth {
        Bandwidth
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Retention {
    pub(crate) complies: bool,
}

impl Retention {
    pub(crate) fn until(_: SystemTime) -> Retention {
        Retention { complies: false }
    }
}

pub(crate) fn server_name(endpoint: &str) -> String {
    endpoint.to_owned()
}

/// There are none.
#[derive(Clone)]
pub(crate) struct Objects(Never);

impl Objects {
    pub(crate) fn new(address: &Address, _: &Settings) -> Result<Objects, Fault> {
        match address.0 {}
    }

    pub(crate) fn server(&self) -> &str {
        match self.0 {}
    }

    pub(crate) fn clean(&self, _: Duration, _: bool) -> Result<Leftovers, Fault> {
        match self.0 {}
    }

    pub(crate) fn retain(&self, _: &[Name]) -> Result<(), Fault> {
        match self.0 {}
    }

    pub(crate) fn has_objects(&self) -> Result<bool, Fault> {
        match self.0 {}
    }

    pub(crate) fn in_order(&self) -> std::iter::Empty<Result<Entry, Fault>> {
        match self.0 {}
    }

    pub(crate) fn beginning_with(&self, _: &str) -> Result<Vec<Entry>, Fault> {
        match self.0 {}
    }
}

/// There are none.
#[derive(serde::Serialize)]
pub(crate) struct Leftovers {
    pub(crate) uploads: u64,
    pub(crate) probes: u64,
    pub(crate) younger: u64,
}

impl Origin for Objects {
    fn abilities(&self) -> Abilities {
        match self.0 {}
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        match self.0 {}
    }

    fn open(&self, _: &Name, _: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        match self.0 {}
    }
}

impl Store for Objects {
    fn abilities(&self) -> Abilities {
        match self.0 {}
    }

    fn look(&self, _: &Name) -> Result<Option<Entry>, Fault> {
        match self.0 {}
    }

    fn begin(&self, _: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        match self.0 {}
    }

    fn origin(&self) -> Option<&dyn Origin> {
        match self.0 {}
    }

    fn sync(&self) -> Result<(), Fault> {
        match self.0 {}
    }
}
