//! Evener encrypts in bulk with every crypto engine of a machine at once.
//!
//! | you have | take |
//! |---|---|
//! | files, trees, pipes | [`Evener`] |
//! | messages in memory, one or many | [`Aead`] |
//! | a whole file's content in memory | [`Evener::seal_bytes`], [`Evener::open_bytes`] |
//! | parts of an encrypted file | [`Evener::open_at`] |
//! | objects in places of your own, with trees on either side | [`Evener::transfer`] and [`place`] |
//! | more than one machine can encrypt alone | [`jobs`] |
//! | a format or device that prescribes CBC, CTR or ECB | [`hazmat`] |
//! | a device of your own | [`engines`] |
//!
//! Start with [`Evener`]: give it keys, select engines if the default does not suit, and encrypt,
//! decrypt or verify files, trees and pipes.
//!
//! ```
//! use evener::keys::{KeyFormat, KeyMaterial};
//! use evener::Evener;
//!
//! # fn example(meddle: fn(&std::path::Path)) -> Result<(), evener::Error> {
//! # let directory = tempfile::tempdir()?;
//! # let path = |name: &str| directory.path().join(name);
//! # std::fs::create_dir(path("photos"))?;
//! # std::fs::write(path("photos/one.jpg"), "not quite a picture")?;
//! let key = KeyMaterial::generate(KeyFormat::default())?;
//! evener::keys::create(&path("backup.key"), key.to_text().as_bytes())?;
//!
//! let evener = Evener::new(key.key_ring(b"")?)?;
//! let report = evener.encrypt(path("photos"), path("sealed"))?;
//! assert_eq!(report.files, 1);
//!
//! # meddle(&path("sealed/one.jpg.enc"));
//! // Goes no further if a file was changed.
//! evener.verify(path("sealed"))?;
//! evener.decrypt(path("sealed"), path("restored"))?;
//! assert_eq!(std::fs::read(path("restored/one.jpg"))?, b"not quite a picture");
//! # Ok(())
//! # }
//! # let changed = |file: &std::path::Path| {
//! #     let mut bytes = std::fs::read(file).unwrap();
//! #     bytes[60] ^= 1;
//! #     std::fs::write(file, bytes).unwrap();
//! # };
//! # example(|_| ())?;
//! # let error = example(changed).unwrap_err().to_string();
//! # assert!(error.contains("sealed/one.jpg.enc: chunk 0"), "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An operation in which a file failed returns an error, so that `?` stops the steps that rely on
//! it. [`OperationError`] defines which outcomes are errors and holds the [`Report`]. All other
//! files are done.
//!
//! # Features
//! `age` (default) opens and writes wrapped keys: key files that age encrypted, for recipients or with
//! a passphrase. Without it a build has less than half of the dependencies, and such a key is an error
//! that says so.
//!
//! `vendored-openssl` (default) builds OpenSSL 3.6 or later and links it statically;
//! `system-openssl` links the distribution's (with `default-features = false`). `gpu` (default) adds
//! the engine and the module of that name.

#![forbid(unsafe_code)]

mod aead;
mod age_keys;
mod builder;
mod content;
mod error;
mod evener;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod hazmat;
pub mod jobs;
mod nonce;
mod operations;
mod options;
mod profile;
pub mod sealed_trees;
mod seated;
mod seats;

pub use crate::aead::{Aead, AeadError, Opening, Sealed, Sealer, Sealing};
pub use crate::builder::EvenerBuilder;
pub use crate::error::Error;
pub use crate::evener::Evener;
pub use crate::nonce::{Nonce, NonceError, NonceSequence};
pub use crate::options::Options;
pub use crate::profile::default_profile;

pub use evener_core::{
    Cipher, Direction, EncCipher, Engine, EngineError, InvalidIv, InvalidKey, Key, Kind, Mode,
    Rejection, UnknownCipher,
};
pub use evener_pipeline::Pool;

pub use evener_keys::{is_wrapped_key, is_wrapped_key_name, wrapped_key_name};
pub use evener_place::{
    Agree, Base64, Contradiction, Control, Delete, Doubt, Effort, Existing, Failure, FileError,
    FileOutcome, Heads, KeyRing, Listed, Listener, Listing, MalformedGlob, MalformedPath,
    MalformedSuffix, Notice, Operation, OperationError, Progress, Protected, RandomAccess, Refusal,
    RekeyOptions, Report, Retirement, RunSettings, SealedNames, SealedTree, Selection, Settled,
    StreamOptions, StreamSource, StreamTarget, SystemError, Total, TransferOptions, TreeOptions,
    Update, WorkerEffort, list, list_place,
};

pub use evener_pipeline::{
    Courtesy, EngineWork, PolicyName, Tally, UnknownPolicy, Waits, claim_process,
};

/// Places: where objects lie, and how to add one.
pub mod place {
    pub use evener_place::{
        Abilities, Blob, Content, Draft, Entry, Fault, Kind, Local, MOST_LISTED, Memory, Metadata,
        Name, NewObject, Origin, ReadAhead, Stamp, Store, Tree, Version,
    };
}

/// Object stores: S3, Google Cloud Storage and Azure Blob Storage as places.
#[cfg(feature = "object-stores")]
pub use evener_object as objects;

/// The file formats.
pub mod format {
    pub use evener_format::*;
    pub use evener_keys::{Guess, recognise};
}

/// Keys and key files.
pub mod keys {
    pub use crate::age_keys::AgeKeys;
    pub use evener_keys::{
        CobblestoneSuite, Exposed, Fingerprint, HkdfHash, KeyError, KeyFile, KeyFormat,
        KeyMaterial, MalformedKey, Naming, NewKeyFile, NoUnlock, Oddity, Passphrase, PipeHead,
        Protection, TinkKey, TinkKeyset, TinkTemplate, UnknownKeyFormat, Unlock, age, create,
        faults, load, protect_process, signing,
    };
}

/// For the program `evener`: no part of the interface, and it may change at any time.
#[doc(hidden)]
pub mod program {
    pub use evener_core::{Shown, shown, shown_error, shown_json, shown_text};
    pub use evener_keys::{check_secret_file, plain_text};
    pub use evener_pipeline::hurry;
    pub use evener_place::{
        SharedTarget, commands_terminals, has_files, refuse_planted, replace_head, takes_a_stream,
    };

    pub use crate::profile::{check_profile, keep_profile};
}

/// The contract for custom policies, which decide which worker gets which task.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use evener::RunSettings;
/// use evener::policy::{Claim, Decision, MakePolicy, Policy, Seat, Setting, Waiting};
///
/// /// Gives all tasks to the first worker.
/// #[derive(Debug)]
/// struct First;
///
/// impl MakePolicy for First {
///     fn policy(&self, _: &[Seat], _: &Setting) -> Box<dyn Policy> {
///         Box::new(First)
///     }
/// }
///
/// impl Policy for First {
///     fn next(&self, worker: usize, _: &Waiting, _: Duration) -> Decision {
///         if worker == 0 { Decision::Claim(Claim::ONE) } else { Decision::Leave }
///     }
/// }
///
/// let run = RunSettings { policy: Some(Arc::new(First)), ..RunSettings::default() };
/// ```
pub mod policy {
    pub use evener_pipeline::policy::*;
    pub use evener_pipeline::{Load, SizeClass, Waiting};
}

/// The gate, which admits processes to an engine that only some of them may use at once.
pub mod gate {
    pub use evener_gate::*;
    pub use evener_pipeline::Turns;
}

/// The engines of this machine, and the contract for custom engines.
///
/// An [`Engine`] describes its offer and opens [`Session`](engines::Session)s; a session processes
/// [`Job`](engines::Job)s. `examples/own_engine.rs` is a complete engine.
///
/// Some engines load foreign code into the process
/// ([`loads_foreign_code`](engines::loads_foreign_code)), which can end it with a success status.
/// The program `evener` proves its success from outside that process; this library gives no such
/// guarantee.
pub mod engines {
    pub use evener_core::{
        Account, Description, Engine, EngineError, EngineProfile, Guarded, InPlaceJob, Iv, Job,
        KeyNumber, Kind, Memory, Offer, Outcome, Padding, Parcel, PlacedJob, Point, Profile,
        RecordLayout, RecordParts, Records, Rejection, Session, SessionRequest, Shortcuts,
        Verification, WipedBuffer, padding,
    };
    pub use evener_engines::{
        PinPrompt, Probed, Watch, await_logins, check_module, cpu, find, find_with,
        forget_refused_pins, loads_foreign_code, measure, names, probe_all, self_test, watched,
    };
}
