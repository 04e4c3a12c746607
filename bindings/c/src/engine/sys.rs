//! Engines, exported.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use super::{AccountFacts, EngineFacts, EngineHandle, EngineList, OfferFacts};
use crate::boundary::sys::{Versioned, number, optional_text, text, write_versioned};
use crate::boundary::{enter, enter_or, given, hand_over};
use crate::cipher::{self, DirectionNumber};
use crate::status::Status;

// SAFETY: `repr(C)` with the size first, and nothing but integers and raw pointers.
unsafe impl Versioned for EngineFacts {
    const FIRST_SIZE: usize = size_of::<EngineFacts>();
    const NAME: &'static str = "evener_engine_info";
}

// SAFETY: `repr(C)` with the size first, and nothing but integers.
unsafe impl Versioned for OfferFacts {
    const FIRST_SIZE: usize = size_of::<OfferFacts>();
    const NAME: &'static str = "evener_offer";
}

// SAFETY: `repr(C)` with the size first, and nothing but integers and raw pointers.
unsafe impl Versioned for AccountFacts {
    const FIRST_SIZE: usize = size_of::<AccountFacts>();
    const NAME: &'static str = "evener_account";
}

/// Probes for every engine. Free the list with `evener_engine_list_free`.
#[unsafe(no_mangle)]
pub extern "C" fn evener_engine_list_new(
    list: Option<&mut MaybeUninit<Option<Box<EngineList>>>>,
) -> Status {
    enter(|| hand_over(list, || Ok(EngineList::probe())))
}

/// Number of engines in the list, including absent ones; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn evener_engine_list_length(list: Option<&EngineList>) -> usize {
    enter_or(0, || list.map_or(0, EngineList::len))
}

/// Reads the description of the engine with this number. The texts are valid until the list is
/// freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_engine_list_at(
    list: Option<&EngineList>,
    index: usize,
    info: *mut EngineFacts,
) -> Status {
    enter(|| {
        let facts = given(list, "list")?.facts(index)?;
        // SAFETY: the header asks the same of the caller.
        unsafe { write_versioned(info, &facts) }
    })
}

/// Frees a list. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_engine_list_free(list: Option<Box<EngineList>>) {
    enter_or((), || drop(list));
}

/// Finds an engine by its name, with parameters if it has any, such as `openssl` or
/// `af_alg:DRIVER`; NULL for the default engine. Free it with `evener_engine_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_engine_open(
    name: *const c_char,
    engine: Option<&mut MaybeUninit<Option<Box<EngineHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(engine, || {
            // SAFETY: the header asks the same of the caller.
            Ok(EngineHandle::open(unsafe { optional_text(name, "name") }?)?)
        })
    })
}

/// Reads the recommended use of an engine for a cipher; returns `EVENER_STATUS_NOT_OFFERED` if the
/// engine lacks it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_engine_offer(
    engine: Option<&EngineHandle>,
    cipher: *const c_char,
    direction: MaybeUninit<DirectionNumber>,
    offer: *mut OfferFacts,
) -> Status {
    enter(|| {
        // SAFETY: the header asks the same of the caller.
        let cipher = cipher::named(unsafe { text(cipher, "cipher") }?)?;
        let facts =
            given(engine, "engine")?.offer(cipher, cipher::direction(number(direction))?)?;
        // SAFETY: the header asks the same of the caller.
        unsafe { write_versioned(offer, &facts) }
    })
}

/// Reads the counts of a module's guard. The guard recomputes some jobs, chosen at random. After a
/// failure, `openssl` does all further jobs, and the counts show it. All counts are zero for CPU
/// engines, which have no guard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_engine_account(
    engine: Option<&EngineHandle>,
    account: *mut AccountFacts,
) -> Status {
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe { write_versioned(account, &given(engine, "engine")?.account()) })
}

/// Frees an engine. Its sessions stay open. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_engine_free(engine: Option<Box<EngineHandle>>) {
    enter_or((), || drop(engine));
}
