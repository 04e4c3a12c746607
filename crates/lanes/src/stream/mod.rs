//! Messages that come in pieces, one at a time, as cipher libraries are asked to process them.

mod confidential;
mod gcm;
mod piece;

pub use confidential::{Chain, Confidential};
pub use gcm::{Gcm, TAG_LENGTH};
pub use piece::Text;
pub(crate) use piece::{End, Pad, Piece, Rest};
