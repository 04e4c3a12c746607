//! Texts for a module's return values, with advice.

use cryptoki_sys as ck;
use cryptoki_sys::CK_RV;

/// A call that a module refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) function: &'static str,
    pub(super) code: CK_RV,
}

/// The text for a refused call, such as `C_Login: the PIN is wrong`.
pub(super) fn refused(failure: &Failure) -> String {
    let Failure { function, code } = *failure;
    match meaning(code) {
        Some(meaning) => format!("{meaning} ({function})"),
        None => format!("{function} returned the error 0x{code:X}"),
    }
}

/// Returns whether this return value of a decryption means that the message is not authentic. The
/// standard has had a separate value for it since version 3.0; before, modules returned one of
/// these.
pub(super) fn means_forged(code: CK_RV) -> bool {
    [ck::CKR_AEAD_DECRYPT_FAILED, ck::CKR_ENCRYPTED_DATA_INVALID, ck::CKR_SIGNATURE_INVALID]
        .contains(&code)
}

/// Returns whether this return value of a decryption may mean either a message that is not
/// authentic or a failing token; SoftHSM uses it for both.
pub(super) fn may_mean_forged(code: CK_RV) -> bool {
    [ck::CKR_GENERAL_ERROR, ck::CKR_FUNCTION_FAILED].contains(&code)
}

fn meaning(code: CK_RV) -> Option<&'static str> {
    Some(match code {
        ck::CKR_PIN_INCORRECT => {
            "the PIN is wrong; tokens lock themselves after some wrong ones, so check it first"
        }
        ck::CKR_PIN_LEN_RANGE | ck::CKR_PIN_INVALID => "the PIN can't be one of this token's",
        ck::CKR_PIN_EXPIRED => "the PIN has expired and must be changed",
        ck::CKR_PIN_LOCKED => {
            "the PIN is locked after too many wrong ones; the token's security officer can set \
             a new one"
        }
        ck::CKR_USER_PIN_NOT_INITIALIZED => "the token has no user PIN yet",
        ck::CKR_USER_ANOTHER_ALREADY_LOGGED_IN => {
            "another user, such as the security officer, is logged in"
        }
        ck::CKR_USER_NOT_LOGGED_IN => {
            "nobody is logged in to the token (any more); it may have been reset"
        }
        ck::CKR_SESSION_COUNT => {
            "the token has no session left; use fewer workers or end its other users"
        }
        ck::CKR_SESSION_HANDLE_INVALID | ck::CKR_SESSION_CLOSED => {
            "the session has ended: the token was removed or reset"
        }
        ck::CKR_TOKEN_NOT_PRESENT | ck::CKR_DEVICE_REMOVED | ck::CKR_SLOT_ID_INVALID => {
            "the token was removed"
        }
        ck::CKR_KEY_HANDLE_INVALID | ck::CKR_OBJECT_HANDLE_INVALID => {
            "the key is no longer in the token: it was deleted, or the token was removed"
        }
        ck::CKR_TOKEN_NOT_RECOGNIZED => "the token is not one that the module knows",
        ck::CKR_TOKEN_NOT_INITIALIZED => "the token is not initialised",
        ck::CKR_DEVICE_ERROR => "the token has failed",
        ck::CKR_DEVICE_MEMORY | ck::CKR_TOKEN_RESOURCE_EXCEEDED => "the token is out of memory",
        ck::CKR_HOST_MEMORY => "the module is out of memory",
        ck::CKR_MECHANISM_INVALID | ck::CKR_FUNCTION_NOT_SUPPORTED => {
            "the token does not have this mechanism"
        }
        ck::CKR_MECHANISM_PARAM_INVALID => "the token refuses this mechanism's parameters",
        ck::CKR_KEY_TYPE_INCONSISTENT => "the key is not one for this mechanism",
        ck::CKR_KEY_SIZE_RANGE => "the token does not take keys of this length",
        ck::CKR_KEY_FUNCTION_NOT_PERMITTED => "the key may not be used for this",
        ck::CKR_TEMPLATE_INCONSISTENT
        | ck::CKR_TEMPLATE_INCOMPLETE
        | ck::CKR_ATTRIBUTE_VALUE_INVALID
        | ck::CKR_ATTRIBUTE_READ_ONLY
        | ck::CKR_ACTION_PROHIBITED
        | ck::CKR_SESSION_READ_ONLY
        | ck::CKR_TOKEN_WRITE_PROTECTED => {
            "the token takes no keys from outside, as one in FIPS mode; name a key that is in \
             it with object= or id="
        }
        ck::CKR_DATA_LEN_RANGE | ck::CKR_ENCRYPTED_DATA_LEN_RANGE => {
            "the token does not take messages of this length"
        }
        ck::CKR_CANT_LOCK | ck::CKR_NEED_TO_CREATE_THREADS => {
            "the module can't be used by several threads"
        }
        ck::CKR_GENERAL_ERROR | ck::CKR_FUNCTION_FAILED => {
            "the module failed without saying why; its own log may"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_shown_as_a_number() {
        let failure = |code| Failure { function: "C_Login", code };
        assert!(refused(&failure(ck::CKR_PIN_LOCKED)).contains("locked"));
        assert_eq!(refused(&failure(0x8000_0001)), "C_Login returned the error 0x80000001");
    }
}
