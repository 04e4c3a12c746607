//! This machine.

pub(crate) use evener_engines::{check_module as check, find_module as find};

/// Does a message of so many bytes.
#[inline(always)]
pub(crate) fn message<T>(_bytes: usize, work: impl FnOnce() -> T) -> T {
    work()
}

/// Does so many bytes within a message.
#[inline(always)]
pub(crate) fn part<T>(_bytes: usize, work: impl FnOnce() -> T) -> T {
    work()
}
