//! The functions for fuzzing: one for each kind of input that Evener accepts from outside, and for
//! each kernel that can be compared with the reference engine.
//!
//! A function takes any bytes and panics when Evener breaks a promise: it panics itself, two ways
//! of reading the same file differ, forged bytes come out, or an engine's result is wrong. The
//! programs in `fuzz_targets` pass libFuzzer's bytes to them, and `tests/corpus.rs` the files in
//! `corpus/`, which are real files of each kind and inputs found by fuzzing.

#![deny(unsafe_code)]

mod age_file;
mod age_payload;
mod c_options;
mod forgery;
mod gate_file;
mod keys;
mod lanes;
mod memory_file;
#[allow(unreachable_pub, reason = "the tests of another crate use it too")]
#[path = "../../crates/place/tests/common/parts.rs"]
mod parts;
mod readers;
mod settings;
mod signing;
mod tree_index;
mod tree_open;

pub use age_file::age_file;
pub use age_payload::age_payload;
pub use c_options::c_options;
pub use forgery::{cobblestone, tink};
pub use gate_file::gate_file;
pub use keys::{key_file, tink_keyset};
pub use lanes::{lanes_jobs, lanes_records};
pub use readers::openssl_enc;
pub use settings::{pkcs11_uri, profile};
pub use signing::ssh_signature;
pub use tree_index::tree_index;
pub use tree_open::tree_open;

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also its corpus folder's.
pub const TARGETS: &[(&str, Target)] = &[
    ("age_file", age_file),
    ("age_payload", age_payload),
    ("c_options", c_options),
    ("cobblestone", cobblestone),
    ("gate_file", gate_file),
    ("key_file", key_file),
    ("lanes_jobs", lanes_jobs),
    ("lanes_records", lanes_records),
    ("openssl_enc", openssl_enc),
    ("pkcs11_uri", pkcs11_uri),
    ("profile", profile),
    ("ssh_signature", ssh_signature),
    ("tink", tink),
    ("tink_keyset", tink_keyset),
    ("tree_index", tree_index),
    ("tree_open", tree_open),
];
