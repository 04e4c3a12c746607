//! The engines of the machine.

pub(crate) mod sys;

use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{Arc, OnceLock};

use facade::engines::{Probed, find, probe_all};
use facade::{Cipher, Direction, Engine, EngineError, Evener, Kind};

use crate::status::Trouble;

/// The list of engines, found and absent.
pub struct EngineList {
    entries: Vec<Entry>,
}

/// An engine. Any number of threads may use it at once.
pub struct EngineHandle {
    pub(crate) engine: Arc<dyn Engine>,
    /// Why it is out of service, if it is.
    fault: OnceLock<CString>,
}

/// The counts of an engine's guard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AccountFacts {
    /// `sizeof(evener_account)`, set by the caller.
    pub size: usize,
    /// Jobs that the engine did and the guard passed on.
    pub jobs: u64,
    /// How many of them the reference engine recomputed with the same result.
    pub verified: u64,
    /// Jobs that the reference engine did after the engine had failed.
    pub retreated: u64,
    /// Why the engine is out of service, as one line that belongs to the engine; NULL while it is
    /// in service.
    pub fault: *const c_char,
}

/// The description of an engine. The texts belong to the list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EngineFacts {
    /// `sizeof(evener_engine_info)`, set by the caller.
    pub size: usize,
    /// The name that `evener_engine_open` takes.
    pub name: *const c_char,
    /// Version, driver or device; NULL when the engine is absent.
    pub detail: *const c_char,
    /// Why the engine is absent, and what to do; NULL if it is present.
    pub absent: *const c_char,
    /// An `evener_kind`.
    pub kind: u32,
}

/// Where an engine's work is done.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindNumber {
    /// The engine is absent.
    Absent = 0,
    /// It computes on the calling core.
    Cpu = 1,
    /// Another device computes while the caller sleeps.
    Module = 2,
}

/// The recommended use of an engine for a cipher and direction.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OfferFacts {
    /// `sizeof(evener_offer)`, set by the caller.
    pub size: usize,
    /// Number of threads up to which throughput grows; the number of cores for CPU engines.
    pub depth: usize,
    /// Recommended number of jobs in one call; 1 for engines that gain nothing from more.
    pub batch: usize,
    /// Number of processes that can have sessions at once; 0 for no limit.
    pub holders: usize,
}

impl EngineList {
    pub(crate) fn probe() -> EngineList {
        EngineList { entries: probe_all().iter().map(Entry::from).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn facts(&self, index: usize) -> Result<EngineFacts, Trouble> {
        let count = self.len();
        self.entries.get(index).map(Entry::facts).ok_or_else(|| {
            Trouble::argument(format!("there is no engine {index}: there are {count}"))
        })
    }
}

impl EngineHandle {
    /// Finds an engine by its name and parameters; without a name, the default engine.
    pub(crate) fn open(selector: Option<&str>) -> Result<EngineHandle, EngineError> {
        let engine = find(selector.unwrap_or(Evener::REFERENCE_ENGINE))?;
        Ok(EngineHandle { engine, fault: OnceLock::new() })
    }

    /// All zero for an engine that needs no guard.
    pub(crate) fn account(&self) -> AccountFacts {
        let account = self.engine.account().unwrap_or_default();
        // The first fault; it never changes.
        let fault = account.fault.map(|fault| {
            let text = fault.to_string().replace('\0', "\u{FFFD}");
            self.fault.get_or_init(|| CString::new(text).unwrap_or_default()).as_ptr()
        });
        AccountFacts {
            size: size_of::<AccountFacts>(),
            jobs: account.jobs,
            verified: account.verified,
            retreated: account.retreated,
            fault: fault.unwrap_or(ptr::null()),
        }
    }

    pub(crate) fn offer(
        &self,
        cipher: Cipher,
        direction: Direction,
    ) -> Result<OfferFacts, EngineError> {
        let offer = self.engine.offer(cipher, direction).ok_or_else(|| {
            EngineError::not_offered(cipher, direction).of(&self.engine.description().name)
        })?;
        Ok(OfferFacts {
            size: size_of::<OfferFacts>(),
            depth: offer.depth,
            batch: offer.batch,
            holders: offer.holders.unwrap_or(0),
        })
    }
}

struct Entry {
    name: CString,
    detail: Option<CString>,
    absent: Option<CString>,
    kind: u32,
}

impl Entry {
    fn facts(&self) -> EngineFacts {
        let optional = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |t| t.as_ptr());
        EngineFacts {
            size: size_of::<EngineFacts>(),
            name: self.name.as_ptr(),
            detail: optional(&self.detail),
            absent: optional(&self.absent),
            kind: self.kind,
        }
    }
}

impl From<&Probed> for Entry {
    fn from(probed: &Probed) -> Entry {
        let text = |text: &str| CString::new(text.replace('\0', "\u{FFFD}")).unwrap_or_default();
        match &probed.engine {
            Ok(engine) => {
                let description = engine.description();
                Entry {
                    name: text(&description.name),
                    detail: Some(text(&description.detail)),
                    absent: None,
                    kind: match description.kind {
                        Kind::Cpu => KindNumber::Cpu as u32,
                        _ => KindNumber::Module as u32,
                    },
                }
            }
            Err(error) => Entry {
                name: text(probed.name),
                detail: None,
                absent: Some(text(&error.to_string())),
                kind: KindNumber::Absent as u32,
            },
        }
    }
}
