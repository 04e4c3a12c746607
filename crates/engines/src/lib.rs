//! Evener's engines, one folder each, and the registry that lists them.
//!
//! Callers need only [`find`] and [`probe_all`], which return [`evener_core::Engine`]s. Every
//! module is wrapped in a [`guard()`]; only tests can get it without one (feature `raw`). A library
//! that must not contain OpenSSL is built without the feature `openssl` and calls [`find_module`].
//! Every folder has the same files, as far as the engine needs them:
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the engine: its description and its offers |
//! | `probe.rs` | finds the device or library on this machine |
//! | `session.rs` | processes jobs |
//! | `sys.rs` | foreign calls, and all `unsafe` |

mod guard;
mod modules;
#[cfg(any(test, feature = "raw"))]
pub mod raw;
mod registry;
pub mod self_test;

#[cfg(feature = "faulty")]
pub mod acting;
#[cfg(any(all(test, feature = "openssl"), feature = "conformance"))]
pub mod conformance;
mod cores;
#[cfg(feature = "openssl")]
pub mod cpu;
mod ending;
#[cfg(feature = "faulty")]
pub mod faulty;
mod features;
mod foreign;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "gpu")]
mod gpu;
pub mod lanes;
pub mod measure;
mod misfit;
#[cfg(feature = "openssl")]
mod openssl;
mod patience;
mod pkcs11;
mod probing;
mod serial;

#[cfg(target_os = "linux")]
mod af_alg;
#[cfg(target_os = "linux")]
mod cryptodev;
#[cfg(target_os = "linux")]
mod kernel;

pub use ending::process_ends;
pub use foreign::is_modules_thread;
pub use guard::{Watch, guard, is_watched, watched};
pub use modules::{check_module, find_module};
pub use pkcs11::{await_logins, expect_end, forget_refused_pins};
pub use probing::PinPrompt;
pub use registry::{Probed, find, find_with, loads_foreign_code, names, probe_all};
