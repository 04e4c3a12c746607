//! Evener as an OpenSSL provider: AES-128, 192 and 256 in GCM, CBC, CTR and ECB, for TLS and other
//! users of `EVP`. Programs that use OpenSSL load it through their configuration, unmodified.
//!
//! One file serves OpenSSL 3.0 to 4.x. It neither contains nor links OpenSSL: it needs only the few
//! types in [`sys`]. `OSSL_provider_init` ([`entry`]) gives OpenSSL a table of functions
//! ([`dispatch`]). These convert C arguments to safe types and call the cipher ([`cipher`]), which
//! computes with the crate `evener-lanes`. Loading it starts no thread, opens files only for
//! counters and warnings, and keeps no state that a `fork` could corrupt. If the configuration
//! names a crypto module, the module does some of the work ([`module`]).

#![deny(unsafe_code)]

mod cipher;
mod config;
mod counters;
mod dispatch;
mod entry;
mod fork;
mod machine;
mod module;
mod params;
mod reasons;
#[allow(unsafe_code)]
mod sys;
mod upcalls;
mod warning;
