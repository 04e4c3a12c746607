//! The functions that OpenSSL offers its providers ("upcalls", provider-base(7)).

#[allow(unsafe_code)]
mod sys;

pub(crate) use sys::Core;
