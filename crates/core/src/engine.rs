//! Engines.

use std::any::Any;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Cipher, Direction, EngineError, Session, SessionRequest, WipedBuffer};

/// Computes ciphers: a library on the CPU, a kernel driver, a token.
///
/// An engine only reports what it offers; a policy chooses among engines. Many threads use one
/// engine, and each opens its own sessions.
pub trait Engine: Any + Send + Sync {
    /// The engine's name, kind and version.
    fn description(&self) -> &Description;

    /// The offer for a cipher and direction; `None` when the engine lacks it.
    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer>;

    /// Opens a session, for one thread at a time.
    ///
    /// # Errors
    /// When the engine does not offer the cipher, or can't serve another session now.
    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError>;

    /// Returns whether the engine has its own key, such as an object in a token, which never leaves
    /// it. Such an engine processes only jobs without a key, in sessions without a key. With a key
    /// it fails with [`EngineError::HoldsKey`].
    fn holds_key(&self) -> bool {
        false
    }

    /// A buffer of this many zero bytes, in memory from which the engine copies to its device
    /// directly. Jobs whose input and output are in such buffers save the engine copies on the
    /// processor; jobs may also be in any other memory. Callers ask only engines whose offer [names
    /// bytes](Offer::bytes).
    ///
    /// `None` for engines that gain nothing from special memory, and when no such memory is left:
    /// any other buffer works then. The buffer may outlive the engine and its sessions.
    fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
        let _ = bytes;
        None
    }

    /// The number of jobs done and verified so far; `None` when no guard wraps the engine.
    fn account(&self) -> Option<Account> {
        None
    }
}

/// A guard's count of the jobs of its engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Jobs (and records) that the engine did and the guard passed on to the caller.
    pub jobs: u64,
    /// The number of these jobs that the reference engine recomputed with the same result.
    pub verified: u64,
    /// Jobs that the reference engine processed after the engine failed.
    pub retreated: u64,
    /// The error that took the engine out of service.
    pub fault: Option<EngineError>,
}

impl Account {
    /// Jobs whose results were not recomputed.
    pub fn unverified(&self) -> u64 {
        self.jobs.saturating_sub(self.verified)
    }
}

/// An engine's description, for people and for policies.
///
/// ```
/// # extern crate evener_core as evener;
/// use evener::Description;
///
/// let description = Description::module("token").detail("a token in slot 3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The name that selects the engine, such as `openssl` or `af_alg:DRIVER`.
    pub name: String,
    /// Where the engine computes.
    pub kind: Kind,
    /// Version, driver or device, for people: `OpenSSL 3.6.3`.
    pub detail: String,
}

impl Description {
    /// An engine of this name and kind.
    pub fn new(name: impl Into<String>, kind: Kind) -> Description {
        Description { name: name.into(), kind, detail: String::new() }
    }

    /// An engine of this name that computes on the calling core.
    pub fn cpu(name: impl Into<String>) -> Description {
        Description::new(name, Kind::Cpu)
    }

    /// An engine of this name whose work another device does.
    pub fn module(name: impl Into<String>) -> Description {
        Description::new(name, Kind::Module)
    }

    /// Sets [`Description::detail`].
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Description {
        Description { detail: detail.into(), ..self }
    }
}

/// Where an engine computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// It computes on the calling core.
    Cpu,
    /// Another device computes while the caller sleeps.
    Module,
}

/// The recommended use of an engine for one cipher and direction.
///
/// ```
/// # extern crate evener_core as evener;
/// use evener::Offer;
///
/// // Two workers, which give the engine 16 jobs at once.
/// let offer = Offer::new(2).batch(16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// Number of workers up to which throughput grows; for CPU engines, the number of cores.
    pub depth: usize,
    /// Recommended number of jobs in a batch; 1 for engines that gain nothing from larger batches. A
    /// batch may be larger.
    pub batch: usize,
    /// Recommended number of bytes of input in a batch, however many jobs hold them, for engines
    /// that copy to a device. 0 for engines to which only the number of jobs matters.
    pub bytes: usize,
    /// Number of processes that can have sessions at once; `None` for no limit. The number does not
    /// depend on how many sessions are open now.
    pub holders: Option<usize>,
    /// Approximate time that the first session of a process takes to open. A run with less work
    /// than that does not wait for it. Zero for engines that open at once, and when the time is
    /// unknown.
    pub opening: Duration,
}

impl Offer {
    /// This many workers, each of which processes one job at a time, of an engine that opens at
    /// once and has no limits.
    pub fn new(depth: usize) -> Offer {
        Offer { depth, batch: 1, bytes: 0, holders: None, opening: Duration::ZERO }
    }

    /// Sets [`Offer::batch`].
    #[must_use]
    pub fn batch(self, batch: usize) -> Offer {
        Offer { batch, ..self }
    }

    /// Sets [`Offer::bytes`].
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Offer {
        Offer { bytes, ..self }
    }

    /// Sets [`Offer::holders`].
    #[must_use]
    pub fn holders(self, holders: Option<usize>) -> Offer {
        Offer { holders, ..self }
    }

    /// Sets [`Offer::opening`].
    #[must_use]
    pub fn opening(self, opening: Duration) -> Offer {
        Offer { opening, ..self }
    }

    /// Recommended number of jobs of `length` bytes in a batch: at least 1.
    pub fn batch_of(&self, length: usize) -> usize {
        batch_of(self.batch, self.bytes, length as f64) as usize
    }
}

/// Number of jobs of mean length `length` that make a full batch, from the recommended numbers of
/// jobs and bytes.
pub fn batch_of(batch: usize, bytes: usize, length: f64) -> f64 {
    let by_bytes = (bytes as f64 / length.max(1.0)).floor().min(MOST_JOBS);
    by_bytes.max(batch as f64).max(1.0)
}

/// This many jobs keep any device busy; longer lists of jobs only take memory.
const MOST_JOBS: f64 = 65_536.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_full_by_jobs_or_by_bytes() {
        let offer = |batch, bytes| Offer::new(1).batch(batch).bytes(bytes);
        assert_eq!(offer(0, 0).batch_of(100), 1);
        assert_eq!(offer(16, 0).batch_of(1), 16);
        assert_eq!(offer(1, 4 << 20).batch_of(64 << 10), 64);
        assert_eq!(offer(100, 4 << 20).batch_of(64 << 10), 100);
        assert_eq!(offer(1, 4 << 20).batch_of(8 << 20), 1);
        assert_eq!(offer(1, usize::MAX).batch_of(0), 65_536);
    }
}
