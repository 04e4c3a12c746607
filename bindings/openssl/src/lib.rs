//! Evener as a provider of OpenSSL: AES-128, 192 and 256 in GCM, CBC, CTR and ECB, for TLS and for
//! other users of `EVP`. Programs that use OpenSSL load it by their configuration, as they are.
//!
//! One file serves OpenSSL 3.0 to 4.x. It has no copy of OpenSSL and links none: what it needs of
//! it are the few types in [`sys`]. `OSSL_provider_init` ([`entry`]) gives OpenSSL a table of
//! functions ([`dispatch`]); these make safe types of what C passes and call the cipher
//! ([`cipher`]), which does its work with the crate `evener-lanes`. When it is loaded it starts no
//! thread, opens no file but that of the counters, where they are wanted, and keeps no state that a
//! `fork` could spoil. Where the configuration names a crypto module, that does some of the work
//! ([`module`]).

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
