//! What belongs to one process: a child that is forked has none of it.
//!
//! A descriptor of `/dev/crypto` that a child inherits is the same open device as its parent's, and
//! two processes that use it get each other's results. Neither may a child wait for a lock that a
//! thread of its parent held, or for a thread that it does not have. So all that leads to a module
//! is behind one pointer, in a page that the kernel gives to a child empty (`MADV_WIPEONFORK`),
//! however it was forked. What it led to is left as it is: nothing of it is used or dropped in the
//! child, whose copies of the descriptors stay open until it ends or runs another program.

#[allow(unsafe_code)]
mod sys;

pub(crate) use sys::OfProcess;
