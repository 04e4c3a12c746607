//! This machine.

pub(crate) use evener_engines::{check_module as check, find_module as find};

/// Runs the work of a message of this many bytes.
#[inline(always)]
pub(crate) fn message<T>(_bytes: usize, work: impl FnOnce() -> T) -> T {
    work()
}

/// Runs the work of this many bytes within a message.
#[inline(always)]
pub(crate) fn part<T>(_bytes: usize, work: impl FnOnce() -> T) -> T {
    work()
}
