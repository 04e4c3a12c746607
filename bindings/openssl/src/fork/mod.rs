//! State that belongs to one process: a forked child has none of it.
//!
//! A descriptor of `/dev/crypto` that a child inherits is the same open device as its parent's, and
//! two processes that use it get each other's results. Nor may a child wait for a lock that a
//! thread of its parent held, or for a thread that it does not have. So one pointer leads to
//! everything about a module. It is in a page that the kernel gives to a child empty
//! (`MADV_WIPEONFORK`), however it was forked. The child neither uses nor drops what the pointer
//! led to, and its copies of the descriptors stay open until it ends or runs another program.

#[allow(unsafe_code)]
mod sys;

pub(crate) use sys::OfProcess;
