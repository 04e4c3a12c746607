//! Finds a token.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cryptoki_sys as ck;
use cryptoki_sys::{CK_SLOT_ID, CK_TOKEN_INFO};
use evener_core::{Cipher, Direction, shown_text};

use super::login::{Attendance, Login, Pin, Turn};
use super::mechanism::{includes_length, mechanism};
use super::refused::PinFile;
use super::sys::{Module, has};
use super::uri::{Library, TokenPattern, Uri};
use super::words::{Failure, refused};
use crate::probing::Waiter;

/// A probed token, with the data for logging in.
pub(super) struct Token {
    pub(super) module: Arc<Module>,
    pub(super) slot: CK_SLOT_ID,
    /// For people: label, model, serial number, library.
    pub(super) detail: String,
    /// Number of sessions for all processes together; `None` if unknown or unlimited.
    pub(super) session_limit: Option<usize>,
    pub(super) login: Login,
    able: Vec<(Cipher, Direction)>,
}

impl Token {
    /// Finds the one token of the URI. The error is the reason why there is none.
    ///
    /// Tests the PIN and the key in a session. If sessions are scarce it is then closed, so that a
    /// process that probes or waits holds none.
    pub(super) fn find(
        uri: &Uri,
        attendance: Attendance,
        waiter: &Waiter,
    ) -> Result<Token, String> {
        let file = uri.pin_file.as_deref();
        // Taken before the search for the token: another process's login may be writing to the
        // token, and SoftHSM then reads half of it.
        let is_unattended = attendance == Attendance::Unattended;
        let turn = file.map(|file| Turn::take(file, attendance)).transpose()?.flatten();
        let module = Arc::new(load(&uri.library)?);
        let (slot, info) = find_slot_between_others(&module, &uri.token)?;
        let in_words = |failure: Failure| refused(&failure);
        let session_limit = match info.ulMaxSessionCount {
            ck::CK_EFFECTIVELY_INFINITE | ck::CK_UNAVAILABLE_INFORMATION => None,
            most => Some(most as usize),
        };
        let pin = if has(info.flags, ck::CKF_LOGIN_REQUIRED) {
            Some(Pin::find(&info, &describe(&info), file, waiter)?)
        } else {
            None
        };
        if is_unattended && pin.is_some() && has_wrong_pin(&module, slot).map_err(in_words)? {
            return Err(
                "a wrong PIN was entered before, so no other is tried here; log in once with \
                        the right one, as `evener speed --engine` with this URI does"
                    .to_owned(),
            );
        }
        let pin_file = file.and_then(|file| PinFile::of(file, &describe(&info)));
        pin_file.as_ref().map_or(Ok(()), PinFile::check)?;
        let mut login = Login::new(&module, slot, pin, uri.object.clone());
        let stay = login.try_out(&info, session_limit.is_some(), pin_file.as_ref())?;
        drop(turn);
        if session_limit == Some(1) {
            return Err("the token's only session is in use by this engine itself, which has to \
                        stay logged in; there is none to work in"
                .to_owned());
        }
        let mut able = able(&module, slot).map_err(in_words)?;
        if let Some(held) = stay.held {
            able.retain(|&(cipher, direction)| held.serves(cipher, direction));
            if able.is_empty() {
                return Err("the key is for no cipher that both the token and Evener have, or \
                            may not be used to encrypt or decrypt"
                    .to_owned());
            }
        }
        let library = module.info().map_err(in_words)?;
        let library = told(&library.libraryDescription);
        let detail = format!("{} ({library})", describe(&info));
        Ok(Token { module, slot, detail, session_limit, login, able })
    }

    /// Returns whether the token has the cipher, for the held key if there is one.
    pub(super) fn performs(&self, cipher: Cipher, direction: Direction) -> bool {
        self.able.contains(&(cipher, direction))
    }
}

/// Returns whether the last login of this token's user had a wrong PIN.
fn has_wrong_pin(module: &Module, slot: CK_SLOT_ID) -> Result<bool, Failure> {
    let flags = module.token_info(slot)?.flags;
    Ok(has(flags, ck::CKF_USER_PIN_COUNT_LOW) || has(flags, ck::CKF_USER_PIN_FINAL_TRY))
}

fn load(library: &Library) -> Result<Module, String> {
    let names: Vec<OsString> = match library {
        Library::Path(path) => vec![path.clone().into_os_string()],
        Library::Name(name) => vec![format!("lib{name}.so").into(), format!("{name}.so").into()],
        Library::Default => vec![DEFAULT_LIBRARY.into()],
    };
    if let Library::Path(path) = library
        && fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
    {
        // Opening a pipe would wait for a writer, and the process could not even end.
        let path = evener_core::shown(path);
        return Err(format!("the module {path} can't be used: it is no regular file"));
    }
    let mut reason = String::new();
    for name in &names {
        match Module::load(Path::new(name)) {
            Ok(module) => return Ok(module),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(match library {
        Library::Path(path) => {
            format!("the module {} can't be used: {reason}", evener_core::shown(path))
        }
        Library::Name(name) => format!(
            "the module `{name}` is not where libraries are looked for ({reason}); give its \
             place with module-path="
        ),
        Library::Default => format!(
            "no module was named, and the system has no default one ({reason}); name it, as in \
             pkcs11:token=NAME?module-path=/usr/lib/softhsm/libsofthsm2.so"
        ),
    })
}

/// As [`find_slot`], with a few retries while the module does not show the token. Another process
/// may be writing to it: SoftHSM rewrites a token's file at each login, and skips a half-written
/// one.
fn find_slot_between_others(
    module: &Module,
    pattern: &TokenPattern,
) -> Result<(CK_SLOT_ID, CK_TOKEN_INFO), String> {
    static SEARCHES: AtomicUsize = AtomicUsize::new(0);
    let is_alone = SEARCHES.fetch_add(1, Ordering::SeqCst) == 0;
    let mut found = find_slot(module, pattern);
    for _ in 0..LOOKS {
        if found.is_ok() || !is_alone {
            break;
        }
        thread::sleep(BETWEEN_LOOKS);
        match module.restart() {
            Ok(true) => found = find_slot(module, pattern),
            Ok(false) => break,
            Err(failure) => found = Err(refused(&failure)),
        }
    }
    SEARCHES.fetch_sub(1, Ordering::SeqCst);
    found
}

fn find_slot(
    module: &Module,
    pattern: &TokenPattern,
) -> Result<(CK_SLOT_ID, CK_TOKEN_INFO), String> {
    let in_words = |failure: Failure| refused(&failure);
    let library = module.info().map_err(in_words)?;
    let version = library.libraryVersion;
    let version = format!("{}.{}", version.major, version.minor);
    let library_fits = fits(&pattern.library_description, &library.libraryDescription)
        && fits(&pattern.library_manufacturer, &library.manufacturerID)
        && pattern.library_version.as_ref().is_none_or(|wanted| *wanted == version);
    if !library_fits {
        let name = told(&library.libraryDescription);
        return Err(format!("the module is `{name}` {version}, which does not match the URI"));
    }
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for slot in module.slots().map_err(in_words)? {
        // A token may be removed during the search.
        let Ok(info) = module.token_info(slot) else { continue };
        if !has(info.flags, ck::CKF_TOKEN_INITIALIZED) {
            continue;
        }
        let token_fits = fits(&pattern.label, &info.label)
            && fits(&pattern.manufacturer, &info.manufacturerID)
            && fits(&pattern.model, &info.model)
            && fits(&pattern.serial, &info.serialNumber)
            && pattern.slot_id.is_none_or(|wanted| wanted == slot);
        if token_fits && slot_fits(module, slot, pattern) {
            found.push((slot, info));
        } else {
            others.push(describe(&info));
        }
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] if others.is_empty() => Err("the module has no initialised token".to_owned()),
        [] => Err(format!("no token matches the URI; there are: {}", others.join(", "))),
        several => {
            let names: Vec<_> = several.iter().map(|(_, info)| describe(info)).collect();
            Err(format!(
                "several tokens are meant: {}; name one with token= or serial=",
                names.join(", ")
            ))
        }
    }
}

fn slot_fits(module: &Module, slot: CK_SLOT_ID, pattern: &TokenPattern) -> bool {
    if pattern.slot_description.is_none() && pattern.slot_manufacturer.is_none() {
        return true;
    }
    module.slot_info(slot).is_ok_and(|info| {
        fits(&pattern.slot_description, &info.slotDescription)
            && fits(&pattern.slot_manufacturer, &info.manufacturerID)
    })
}

/// The ciphers of the token's mechanism list.
fn able(module: &Module, slot: CK_SLOT_ID) -> Result<Vec<(Cipher, Direction)>, Failure> {
    let present = module.mechanisms(slot)?;
    let mut able = Vec::new();
    for &cipher in Cipher::ALL {
        let Some((kind, _)) = mechanism(cipher).filter(|(kind, _)| present.contains(kind)) else {
            continue;
        };
        let info = module.mechanism_info(slot, kind)?;
        if !includes_length(cipher, info.ulMinKeySize as usize, info.ulMaxKeySize as usize) {
            continue;
        }
        for (direction, flag) in
            [(Direction::Encrypt, ck::CKF_ENCRYPT), (Direction::Decrypt, ck::CKF_DECRYPT)]
        {
            if has(info.flags, flag) {
                able.push((cipher, direction));
            }
        }
    }
    Ok(able)
}

fn describe(info: &CK_TOKEN_INFO) -> String {
    let (label, model) = (told(&info.label), told(&info.model));
    format!("token `{label}`, {model}, serial {}", told(&info.serialNumber))
}

fn fits(wanted: &Option<String>, field: &[u8]) -> bool {
    wanted.as_ref().is_none_or(|wanted| *wanted == trimmed(field))
}

/// A field padded with spaces, as the standard requires, or with zeros.
fn trimmed(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_end_matches([' ', '\0']).to_owned()
}

/// A device's own text on one line, safe to print.
fn told(field: &[u8]) -> String {
    shown_text(&trimmed(field)).replace('\n', "\\u{a}")
}

/// The number of retries with a module that does not show the token, and the time before each.
const LOOKS: usize = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// p11-kit's module, which loads the modules of the system's configuration.
const DEFAULT_LIBRARY: &str = "p11-kit-proxy.so";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stays_on_its_line() {
        let label = told(b"a\nevener: all is well \x1b[2J  \0\0");
        assert_eq!(label, "a\\u{a}evener: all is well \\u{1b}[2J");
        assert_eq!(told("Schlüssel 1   ".as_bytes()), "Schlüssel 1");
    }
}
