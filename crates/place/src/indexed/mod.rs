//! Sealed trees: a place behind an encrypted index.
//!
//! A source becomes a generation of the tree: its files are encrypted under random names, and an
//! index, which is encrypted and perhaps signed, says what they are. docs/design/formats.md has the
//! format, docs/design/sealed-trees.md its reasons.

mod ahead;
mod assembler;
mod at_work;
mod attempt;
mod audience;
mod base;
mod blob;
mod clean;
mod commit;
mod depot;
mod diff;
mod distinct;
mod finished;
mod firsts;
mod hash;
mod index_writer;
mod job;
mod keys;
mod known;
mod list;
mod marker;
mod merge;
mod needed_files;
mod needs;
mod old;
mod origin;
mod own;
mod plain;
mod quick;
mod reader;
mod rewrap;
mod roots;
mod sample;
mod sealing;
mod signers;
mod snapshot;
mod sorted;
mod state;
mod succession;
mod total;
mod trust;
mod wanted;
mod writer;

pub use clean::{CleanOptions, Cleaned, clean};
pub use diff::{Change, Difference, Later, diff};
pub use job::{
    CleanedJob, Ends, Finished, JobInfo, JobStatus, PlanOptions, Planned, ShardEnd, ShardOptions,
    ShardRule, Worked, clean_job, finish, job_info, plan, run_shard, run_worker, simulate, status,
};
pub use keys::{Keychain, Opened};
pub use known::refuse_gone;
pub use list::{Depth, ListedEntry, generations, list};
pub use needed_files::{lasting_files, needed_files};
pub use quick::verify_quickly;
pub use reader::{At, GenerationInfo, is_sealed, open, open_files};
pub use rewrap::{Rewrapped, rewrap};
pub use roots::RootDigest;
pub use sample::verify_sample;
pub use signers::{SignerChange, TreeSigner, change_signers, own_signer, signers};
pub use state::{known_places, take_over};
pub use succession::{Sign, Signer};
pub use trust::Trust;
pub use writer::{OnAccepted, Sealed, SealedOptions, Wrap, rekey, seal};
