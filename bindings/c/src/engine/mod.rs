//! The engines of the machine.

pub(crate) mod sys;

use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{Arc, OnceLock};

use facade::engines::{Probed, find, probe_all};
use facade::{Cipher, Direction, Engine, EngineError, Evener, Kind};

use crate::status::Trouble;

/// The engines that were found, and those that were looked for in vain.
pub struct EngineList {
    entries: Vec<Entry>,
}

/// An engine. Any number of threads may use it at once.
pub struct EngineHandle {
    pub(crate) engine: Arc<dyn Engine>,
    /// Why it is out of service, once it is.
    fault: OnceLock<CString>,
}

/// What the guard of an engine has seen of its work.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AccountFacts {
    /// `sizeof(evener_account)`, set by the caller.
    pub size: usize,
    /// Jobs that the engine did and that were handed on.
    pub jobs: u64,
    /// How many of them were computed again by the reference engine, with the same result.
    pub verified: u64,
    /// Jobs that the reference engine did instead, after the engine had failed.
    pub retreated: u64,
    /// Why the engine is out of service, as one line that belongs to the engine; NULL while it
    /// is not.
    pub fault: *const c_char,
}

/// What there is to know of an engine. The texts belong to the list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EngineFacts {
    /// `sizeof(evener_engine_info)`, set by the caller.
    pub size: usize,
    /// The name that `evener_engine_open` takes.
    pub name: *const c_char,
    /// Version, driver or device; NULL when the engine is absent.
    pub detail: *const c_char,
    /// Why the engine is absent, and what to do about it; NULL when it is there.
    pub absent: *const c_char,
    /// `EVENER_CPU` or `EVENER_MODULE`; 0 when the engine is absent.
    pub kind: u32,
}

/// How an engine likes to be used for a cipher and direction.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OfferFacts {
    /// `sizeof(evener_offer)`, set by the caller.
    pub size: usize,
    /// How many threads can use it at once with profit; for CPU engines the number of cores.
    pub depth: usize,
    /// How many jobs it likes in one call; 1 for engines that gain nothing from more.
    pub batch: usize,
    /// How many processes' sessions it serves at once; 0 for no such limit.
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
    /// Finds an engine by its name and parameters; the default one without.
    pub(crate) fn open(selector: Option<&str>) -> Result<EngineHandle, EngineError> {
        let engine = find(selector.unwrap_or(Evener::REFERENCE_ENGINE))?;
        Ok(EngineHandle { engine, fault: OnceLock::new() })
    }

    /// All zero for an engine that needs no guard.
    pub(crate) fn account(&self) -> AccountFacts {
        let account = self.engine.account().unwrap_or_default();
        // It is the first that was met and stays so.
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
            let engine = self.engine.description().name.clone();
            EngineError::NotOffered { engine, cipher, direction }
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
                        Kind::Cpu => sys::EVENER_CPU,
                        _ => sys::EVENER_MODULE,
                    },
                }
            }
            Err(error) => Entry {
                name: text(probed.name),
                detail: None,
                absent: Some(text(&error.to_string())),
                kind: 0,
            },
        }
    }
}
