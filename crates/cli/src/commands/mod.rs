//! The commands, one per file: the arguments of each, and their meaning.

mod cat;
mod completions;
mod decrypt;
mod encrypt;
mod engines;
mod gate;
mod keygen;
mod list;
mod man;
mod speed;
mod tls;
mod verify;

pub(crate) use cat::Cat;
pub(crate) use completions::Completions;
pub(crate) use decrypt::Decrypt;
pub(crate) use encrypt::Encrypt;
pub(crate) use engines::Engines;
pub(crate) use gate::Gate;
pub(crate) use keygen::Keygen;
pub(crate) use list::List;
pub(crate) use man::Man;
pub(crate) use speed::Speed;
pub(crate) use tls::Tls;
pub(crate) use verify::Verify;
