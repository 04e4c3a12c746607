//! Object stores as places: Amazon S3 and what speaks its protocol, Google Cloud Storage, and Azure
//! Blob Storage.
//!
//! [`Objects`] is an [`Origin`](evener_place::Origin) and a [`Store`](evener_place::Store) over a
//! bucket and a prefix in it, an [`Address`]. Objects are created by conditional requests, so of two
//! writers one wins; several parts go through an upload that becomes visible at its end. Requests
//! that fail temporarily are repeated with the same bytes: nothing is sealed twice.
//!
//! The protocols are those of Apache OpenDAL, whose runtime stays in here: all calls block.

#![forbid(unsafe_code)]

mod address;
mod ahead;
mod amazon;
mod answer;
mod bandwidth;
mod blob;
mod credentials;
mod draft;
mod fault;
mod host;
mod latencies;
mod leftovers;
mod listing;
mod metadata;
mod objects;
mod operator;
mod page;
mod pager;
mod pool;
mod probe;
mod profile;
mod retention;
mod server;
mod traffic;
mod transport;
mod unanswered;
mod walk;
mod window;
mod wire;

pub use address::{Address, MalformedAddress, Provider};
pub use bandwidth::Bandwidth;
pub use leftovers::Leftovers;
pub use objects::Objects;
pub use operator::{Access, Settings};
pub use retention::Retention;
pub use server::server_name;
pub use traffic::{RequestFailure, Traffic};
