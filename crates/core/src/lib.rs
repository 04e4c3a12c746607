//! The types and traits that every part of Evener shares.
//!
//! Every backend that encrypts in Evener is an [`Engine`]: it reports what it offers, and opens a
//! [`Session`] for one [`Cipher`] and [`Direction`]. A session processes batches of [`Job`]s. A job
//! is one message with its IV; it borrows its input and its output, so the caller owns all data,
//! and an engine that fails has destroyed nothing.
//!
//! This crate has no threads, no input or output (but for tests, with the feature `skips`) and no
//! unsafe code.

#![forbid(unsafe_code)]

mod batch;
mod cipher;
mod enc_cipher;
mod engine;
mod error;
mod in_place;
mod iv;
mod job;
mod key;
mod loaded_key;
pub mod padding;
mod parcel;
pub mod parts;
mod poison;
mod profile;
mod recall;
mod records;
mod session;
mod shown;
#[cfg(feature = "skips")]
pub mod skips;
mod wipe;

pub use batch::emptied;
pub use cipher::{Cipher, Direction, Mode, UnknownCipher};
pub use enc_cipher::EncCipher;
pub use engine::{Account, Description, Engine, Kind, Offer, batch_of};
pub use error::EngineError;
pub use in_place::InPlaceJob;
pub use iv::{InvalidIv, Iv};
pub use job::{Job, Outcome, Rejection, Verification};
pub use key::{InvalidKey, Key};
pub use loaded_key::LoadedKey;
pub use padding::Padding;
pub use parcel::{KeyNumber, Parcel, PlacedJob};
pub use poison::IgnorePoison;
pub use profile::{EngineProfile, Includes, Point, Profile, ProfileError};
pub use recall::{Bell, Heeding, Recall};
pub use records::{RecordLayout, RecordParts, Records};
pub use session::{Guarded, Session, SessionRequest, Shortcuts};
pub use shown::{Shown, shown, shown_error, shown_json, shown_text};
pub use wipe::{Memory, WipedBuffer, wipe, wipe_stack};
