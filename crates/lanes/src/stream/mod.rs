//! Messages that come in pieces, one at a time: what libraries for ciphers are asked to do.

mod confidential;
mod gcm;
mod piece;

pub use confidential::{Chain, Confidential};
pub use gcm::{Gcm, TAG_LENGTH};
pub use piece::Text;
pub(crate) use piece::{End, Pad, Piece, Rest};
