//! The boundary for calls from C: it stops panics and checks every pointer.

pub(crate) mod sys;

use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Status, Trouble};

/// Runs the body of an exported function. An error's message is kept for the thread; a panic
/// becomes [`Status::Internal`].
pub(crate) fn enter(body: impl FnOnce() -> Result<(), Trouble>) -> Status {
    // Unwind safety: a panic may leave only a session half changed, and its poisoned lock then
    // rejects further calls.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(trouble)) => trouble.keep(),
        Err(panic) => Trouble::new(Status::Internal, words_of(&*panic)).keep(),
    }
}

/// Runs the body of an exported function that returns no status; `fallback` is its result after a
/// panic.
pub(crate) fn enter_or<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Makes NULL an error.
pub(crate) fn given<T>(argument: Option<T>, name: &str) -> Result<T, Trouble> {
    argument.ok_or_else(|| Trouble::argument(format!("{name} is NULL")))
}

/// Stores the result of `make` in the caller's pointer; NULL on failure.
pub(crate) fn hand_over<T>(
    place: Option<&mut MaybeUninit<Option<Box<T>>>>,
    make: impl FnOnce() -> Result<T, Trouble>,
) -> Result<(), Trouble> {
    let place = given(place, "the place for the result")?.write(None);
    *place = Some(Box::new(make()?));
    Ok(())
}

/// The message for a panic.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a defect of Evener's: {}", words.unwrap_or("no more is known"))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::status;

    #[test]
    fn a_panic_becomes_a_status_with_its_words() {
        let status = enter(|| panic!("the {} fell off", "wheel"));
        assert_eq!(status, Status::Internal);
        let message = status::last_message(CStr::to_owned);
        assert_eq!(message.to_str(), Ok("a defect of Evener's: the wheel fell off"));
        assert_eq!(enter_or(7, || panic!("again")), 7);
    }

    #[test]
    fn an_error_keeps_its_status() {
        assert_eq!(enter(|| Err(Trouble::argument("no"))), Status::InvalidArgument);
        assert_eq!(enter(|| Ok(())), Status::Ok);
    }
}
