//! The load of a task.

/// The load of a task, as far as its feed knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Number of jobs for an engine; at least 1.
    pub jobs: u64,
    /// Number of bytes of all jobs; `None` if unknown.
    pub bytes: Option<u64>,
    /// True if several workers can process it together: the worker that claims it
    /// [shares](crate::Queue::share) it before doing a part.
    pub is_divisible: bool,
}

impl Load {
    /// One job of this many bytes.
    pub fn job(bytes: u64) -> Load {
        Load { jobs: 1, bytes: Some(bytes), is_divisible: false }
    }

    /// This many jobs of unknown sizes.
    pub fn unknown(jobs: u64) -> Load {
        Load { jobs: jobs.max(1), bytes: None, is_divisible: false }
    }

    /// This many jobs with this many bytes together.
    pub fn jobs(jobs: u64, bytes: u64) -> Load {
        Load { jobs: jobs.max(1), bytes: Some(bytes), is_divisible: false }
    }

    /// The class of its jobs' mean size.
    pub fn class(self) -> SizeClass {
        self.bytes.map_or(SizeClass::UNKNOWN, |bytes| SizeClass::of(bytes / self.jobs.max(1)))
    }
}

/// Jobs of about one size: from a power of two up to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Jobs of unknown size.
    pub const UNKNOWN: SizeClass = SizeClass(0);

    /// Number of classes.
    pub const COUNT: usize = 48;

    /// The class of jobs of `bytes` bytes.
    pub fn of(bytes: u64) -> SizeClass {
        let power = bytes.max(1).ilog2() as usize;
        SizeClass((power + 1).min(SizeClass::COUNT - 1) as u8)
    }

    /// Its number, below [`SizeClass::COUNT`]; 0 is that of unknown sizes.
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn from_number(number: usize) -> SizeClass {
        SizeClass(number.min(SizeClass::COUNT - 1) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let of = |bytes| SizeClass::of(bytes).number();
        assert_eq!((of(0), of(1), of(2), of(3), of(4)), (1, 1, 2, 2, 3));
        assert_eq!((of(1023), of(1024)), (10, 11));
        assert_eq!(of(u64::MAX), SizeClass::COUNT - 1);
        assert_eq!(Load::jobs(4, 4096).class(), SizeClass::of(1024));
        assert_eq!(Load::unknown(0), Load::unknown(1));
        assert_eq!(Load::unknown(3).class(), SizeClass::UNKNOWN);
    }
}
