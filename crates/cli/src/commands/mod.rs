//! The commands, one per file: the arguments of each, and their meaning.

mod cat;
mod clean;
mod completions;
mod decrypt;
mod diff;
mod encrypt;
mod engines;
mod gate;
mod job;
mod keygen;
mod list;
mod man;
mod rekey;
mod rewrap;
mod signers;
mod speed;
mod tls;
mod verify;

pub(crate) use cat::Cat;
pub(crate) use clean::Clean;
pub(crate) use completions::Completions;
pub(crate) use decrypt::Decrypt;
pub(crate) use diff::Diff;
pub(crate) use encrypt::Encrypt;
pub(crate) use engines::Engines;
pub(crate) use gate::Gate;
pub(crate) use job::Job;
pub(crate) use keygen::Keygen;
pub(crate) use list::List;
pub(crate) use man::Man;
pub(crate) use rekey::Rekey;
pub(crate) use rewrap::Rewrap;
pub(crate) use signers::Signers;
pub(crate) use speed::Speed;
pub(crate) use tls::Tls;
pub(crate) use verify::Verify;
