//! C's `exit`, as the modules of engines call it.

#[allow(unsafe_code)]
mod sys;
