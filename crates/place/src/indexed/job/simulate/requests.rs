//! Requests to an object store, by their kinds.

use std::ops::{Add, AddAssign};

use serde::Serialize;

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Requests {
    /// Reads of an object or of a range of it.
    pub get: u64,
    /// Questions about an object.
    pub head: u64,
    /// Objects that are written in one request.
    pub put: u64,
    /// Uploads in parts that begin.
    pub begin: u64,
    /// Parts.
    pub part: u64,
    /// Uploads that become objects.
    pub complete: u64,
    /// Pages of listings.
    pub list: u64,
}

impl Requests {
    /// Those that stores count as reads of objects.
    pub fn reads(&self) -> u64 {
        self.get + self.head
    }

    /// Those that stores count as writes of objects.
    pub fn writes(&self) -> u64 {
        self.put + self.begin + self.part + self.complete
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.reads() + self.writes() + self.list
    }

    /// So many times as many.
    pub(super) fn times(self, number: u64) -> Requests {
        self.map(|each| each.saturating_mul(number))
    }

    /// Those of slice `number` of `slices`. All slices together have all of them.
    pub(super) fn slice(self, number: u64, slices: u64) -> Requests {
        self.map(|each| slice(each, number, slices))
    }

    fn map(self, change: impl Fn(u64) -> u64) -> Requests {
        let Requests { get, head, put, begin, part, complete, list } = self;
        Requests {
            get: change(get),
            head: change(head),
            put: change(put),
            begin: change(begin),
            part: change(part),
            complete: change(complete),
            list: change(list),
        }
    }
}

/// The part of a number that slice `number` of `slices` has. All slices together have all of it.
pub(super) fn slice(all: u64, number: u64, slices: u64) -> u64 {
    let until = |end: u64| (u128::from(all) * u128::from(end) / u128::from(slices.max(1))) as u64;
    until(number + 1) - until(number)
}

impl Add for Requests {
    type Output = Requests;

    fn add(self, other: Requests) -> Requests {
        Requests {
            get: self.get + other.get,
            head: self.head + other.head,
            put: self.put + other.put,
            begin: self.begin + other.begin,
            part: self.part + other.part,
            complete: self.complete + other.complete,
            list: self.list + other.list,
        }
    }
}

impl AddAssign for Requests {
    fn add_assign(&mut self, other: Requests) {
        *self = *self + other;
    }
}
