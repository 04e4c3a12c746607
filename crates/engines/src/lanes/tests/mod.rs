//! Tests of every kernel that this machine can run, not only the fastest.

mod conformance;
mod differential;
mod guarded;
mod in_place;
mod messages;
#[path = "../../../../lanes/tests/common/sys.rs"]
mod sys;
