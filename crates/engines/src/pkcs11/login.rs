//! Logs in to a token and finds a key in it, again whenever necessary.
//!
//! A login lasts while the process has any session with the token, so a [`Stay`] holds one session
//! only for the login. If sessions are scarce, a stay ends with the last working session and a new
//! one begins with the next, so that a process that waits for its turn holds no session. The PIN is
//! kept for this. A user at a PIN pad is not asked twice, so there the first stay continues.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use cryptoki_sys as ck;
use cryptoki_sys::{CK_KEY_TYPE, CK_OBJECT_HANDLE, CK_SLOT_ID, CK_TOKEN_INFO};
use evener_core::{Cipher, Direction, IgnorePoison, shown, shown_error};
use zeroize::Zeroizing;

use super::mechanism::takes_key;
use super::refused::PinFile;
use super::sys::{Channel, Module, current_user, has};
use super::uri::ObjectPattern;
use super::words::{Failure, refused};
use crate::probing::{Waiter, close_within};

/// The attendance of a login: whether somebody sees its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attendance {
    Attended,
    /// After a wrong PIN, no PIN is tried: nobody would notice before the token locks itself.
    Unattended,
}

/// The data for logging in to a token.
pub(super) struct Login {
    module: Arc<Module>,
    slot: CK_SLOT_ID,
    /// `None` if no login is needed.
    pin: Option<Pin>,
    /// The key to use, if the URI names one.
    key: Option<ObjectPattern>,
    current: Mutex<Current>,
    /// A stay that lasts as long as this value.
    kept: Option<Arc<Stay>>,
}

enum Current {
    Stay(Weak<Stay>),
    /// The token refused a later login. Another attempt might lock the PIN.
    Refused(String),
}

/// A login, if the token needs one, and the key that the URI names, if any.
pub(super) struct Stay {
    pub(super) held: Option<HeldKey>,
    /// `None` only while it is dropped.
    anchor: Option<Channel>,
}

impl Drop for Stay {
    /// The module may hang in this call too, and no caller waits here with a deadline.
    fn drop(&mut self) {
        if let Some(anchor) = self.anchor.take() {
            close_within(LONGEST_CLOSING, anchor);
        }
    }
}

impl Login {
    pub(super) fn new(
        module: &Arc<Module>,
        slot: CK_SLOT_ID,
        pin: Option<Pin>,
        key: Option<ObjectPattern>,
    ) -> Login {
        let current = Mutex::new(Current::Stay(Weak::new()));
        Login { module: Arc::clone(module), slot, pin, key, current, kept: None }
    }

    /// Logs in for the first time. The stay lasts unless sessions are `scarce`. A refused PIN is
    /// noted for its file.
    pub(super) fn try_out(
        &mut self,
        info: &CK_TOKEN_INFO,
        scarce: bool,
        file: Option<&PinFile>,
    ) -> Result<Arc<Stay>, String> {
        let anchor = self.open_between_others().map_err(|failure| refused(&failure))?;
        // Noted before the result is known: the process may be killed meanwhile, or ended by the
        // module.
        let trying = file.map(PinFile::note_try);
        let begun = self.begin(anchor);
        let stay = Arc::new(begun.map_err(|error| match error {
            Refusal::Login(failure) => {
                let is_wrong = failure.code == ck::CKR_PIN_INCORRECT;
                let mut words = refused(&failure);
                if is_wrong && has(info.flags, ck::CKF_USER_PIN_FINAL_TRY) {
                    words += "; that was the last try, it is locked now";
                }
                if let Some(unkept) = file.filter(|_| is_wrong).and_then(PinFile::note_refusal) {
                    words = format!("{words}; {unkept}");
                }
                file.filter(|_| !is_wrong).inspect(|file| file.forget());
                words
            }
            Refusal::Other(words) => {
                file.inspect(|file| file.forget());
                words
            }
        })?);
        file.inspect(|file| file.forget());
        drop(trying);
        self.current = Mutex::new(Current::Stay(Arc::downgrade(&stay)));
        if !scarce || matches!(self.pin, Some(Pin::Pad)) {
            self.kept = Some(Arc::clone(&stay));
        }
        Ok(stay)
    }

    /// The current stay, or a new one.
    pub(super) fn stay(&self) -> Result<Arc<Stay>, String> {
        let mut current = self.current.lock().ignore_poison();
        match &*current {
            Current::Stay(stay) => {
                if let Some(stay) = stay.upgrade() {
                    return Ok(stay);
                }
            }
            Current::Refused(words) => return Err(words.clone()),
        }
        let anchor = Channel::open(&self.module, self.slot).map_err(|failure| refused(&failure))?;
        match self.begin(anchor) {
            Ok(stay) => {
                let stay = Arc::new(stay);
                *current = Current::Stay(Arc::downgrade(&stay));
                Ok(stay)
            }
            Err(Refusal::Login(failure)) => {
                let words = refused(&failure);
                *current = Current::Refused(words.clone());
                Err(words)
            }
            Err(Refusal::Other(words)) => Err(words),
        }
    }

    /// Returns whether the user logs in, and may have private objects.
    pub(super) fn is_private(&self) -> bool {
        self.pin.is_some()
    }

    /// Returns whether the URI names a key in the token.
    pub(super) fn names_key(&self) -> bool {
        self.key.is_some()
    }

    fn begin(&self, mut anchor: Channel) -> Result<Stay, Refusal> {
        if let Some(pin) = &self.pin {
            let start = Instant::now();
            let mut result = anchor.log_in(pin.bytes());
            // SoftHSM returns this error while another process is writing to the token, which takes
            // a moment. Every module reports a wrong PIN as such.
            while start.elapsed() < LONGEST_WRITING
                && result.is_err_and(|failure| failure.code == ck::CKR_GENERAL_ERROR)
            {
                thread::sleep(BETWEEN_LOOKS);
                result = anchor.log_in(pin.bytes());
            }
            match result {
                Ok(()) => {}
                Err(failure) if failure.code == ck::CKR_USER_ALREADY_LOGGED_IN => {}
                Err(failure) => return Err(Refusal::Login(failure)),
            }
        }
        let find = |pattern| find_key(&mut anchor, pattern);
        let held = self.key.as_ref().map(find).transpose().map_err(Refusal::Other)?;
        Ok(Stay { held, anchor: Some(anchor) })
    }

    /// Opens a session; retries while other processes that probe the token hold its last sessions
    /// for a moment.
    fn open_between_others(&self) -> Result<Channel, Failure> {
        let start = Instant::now();
        loop {
            match Channel::open(&self.module, self.slot) {
                Err(failure)
                    if failure.code == ck::CKR_SESSION_COUNT && start.elapsed() < LONGEST_LOOK =>
                {
                    thread::sleep(BETWEEN_LOOKS);
                }
                opened => return opened,
            }
        }
    }
}

enum Refusal {
    Login(Failure),
    Other(String),
}

/// The way in which the user logs in.
pub(super) enum Pin {
    Typed(Zeroizing<Vec<u8>>),
    /// With the token's own PIN pad.
    Pad,
}

impl Pin {
    /// The token's PIN, from its file or from the prompt; `token` is the name for the prompt.
    pub(super) fn find(
        info: &CK_TOKEN_INFO,
        token: &str,
        file: Option<&Path>,
        waiter: &Waiter,
    ) -> Result<Pin, String> {
        // Some tokens would count the attempt as a wrong PIN.
        if has(info.flags, ck::CKF_USER_PIN_LOCKED) {
            return Err(refused(&Failure { function: "C_GetTokenInfo", code: ck::CKR_PIN_LOCKED }));
        }
        if let Some(path) = file {
            let pin = read_pin(path).map_err(|error| {
                format!("the PIN file {} can't be read: {}", shown(path), shown_error(&error))
            })?;
            return Ok(Pin::Typed(pin));
        }
        if has(info.flags, ck::CKF_PROTECTED_AUTHENTICATION_PATH) {
            waiter.expect(LONGEST_TYPING);
            return Ok(Pin::Pad);
        }
        waiter.ask(token).map(Pin::Typed).ok_or_else(|| {
            "the token asks for a PIN; put it in a file and name that as pin-source=file:PATH"
                .to_owned()
        })
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Pin::Typed(pin) => Some(pin),
            Pin::Pad => None,
        }
    }
}

/// A process' turn to find a token and try a PIN. Other processes that have the PIN from the same
/// file wait, so that they see whether it was wrong.
pub(super) struct Turn {
    /// Locked until it is closed.
    _file: File,
}

impl Turn {
    /// Waits for the turn, with the file that holds the PIN. Returns `None` if the file is not a
    /// regular one or can't be opened, which is an error where the PIN is read. If somebody sees a
    /// wrong PIN, the wait is short, and the result is `None` after it: many processes may be on
    /// their way to a token that is far away.
    pub(super) fn take(file: &Path, attendance: Attendance) -> Result<Option<Turn>, String> {
        // Opening a pipe would wait for a writer.
        if !file.is_file() {
            return Ok(None);
        }
        let Ok(opened) = File::open(file) else { return Ok(None) };
        if attendance == Attendance::Attended {
            let start = Instant::now();
            while let Err(TryLockError::WouldBlock) = opened.try_lock() {
                if start.elapsed() >= LONGEST_LOOK {
                    return Ok(None);
                }
                thread::sleep(BETWEEN_LOOKS);
            }
            return Ok(Some(Turn { _file: opened }));
        }
        opened.lock().map_err(|error| {
            format!("the PIN file {} can't be locked: {}", shown(file), shown_error(&error))
        })?;
        Ok(Some(Turn { _file: opened }))
    }
}

/// A key object in the token.
#[derive(Clone, Copy)]
pub(super) struct HeldKey {
    pub(super) handle: CK_OBJECT_HANDLE,
    kind: CK_KEY_TYPE,
    /// The length in bytes, if the type has several lengths.
    length: Option<usize>,
    encrypts: bool,
    decrypts: bool,
}

impl HeldKey {
    pub(super) fn serves(&self, cipher: Cipher, direction: Direction) -> bool {
        let allowed = match direction {
            Direction::Encrypt => self.encrypts,
            Direction::Decrypt => self.decrypts,
        };
        allowed && takes_key(cipher, self.kind, self.length)
    }
}

/// The first line of a file that only its owner can access, without the line end.
fn read_pin(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // Allocated at once, because growing would leave a copy.
    let mut pin = Zeroizing::new(Vec::with_capacity(LONGEST_PIN + 2));
    let file = File::open(path)?;
    check_private(&file.metadata()?).map_err(io::Error::other)?;
    file.take(LONGEST_PIN as u64 + 2).read_to_end(&mut pin)?;
    let end = pin.iter().position(|&byte| byte == b'\n').unwrap_or(pin.len());
    pin.truncate(end);
    if pin.last() == Some(&b'\r') {
        pin.pop();
    }
    // Not tried: a wrong PIN may lock the token.
    if pin.starts_with(BYTE_ORDER_MARK) || pin.contains(&0) {
        return Err(io::Error::other(
            "it begins with a byte-order mark, or is text in UTF-16; save the PIN alone, as plain \
             text",
        ));
    }
    if pin.is_empty() || pin.len() > LONGEST_PIN {
        return Err(io::Error::other("its first line is empty or too long to be a PIN"));
    }
    Ok(pin)
}

/// Rejects a file that other users can read or write, by the rules for key files. Pipes and devices
/// are accepted, because the user opened them for this process.
fn check_private(metadata: &Metadata) -> Result<(), String> {
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_file() {
        return Ok(());
    }
    if mode & 0o077 != 0 {
        return Err(format!(
            "its mode {mode:o} lets others use it; make it its owner's alone (chmod 600, on a file system that \
             takes modes)"
        ));
    }
    let user = current_user();
    if ![0, metadata.uid()].contains(&user) && metadata.uid() != 0 {
        return Err(format!(
            "it belongs to the user {}, and this program runs as {user}",
            metadata.uid()
        ));
    }
    Ok(())
}

fn find_key(anchor: &mut Channel, pattern: &ObjectPattern) -> Result<HeldKey, String> {
    let handles = anchor
        .find_keys(pattern.label.as_deref(), pattern.id.as_deref())
        .map_err(|failure| refused(&failure))?;
    let handle = match handles.as_slice() {
        [one] => *one,
        [] => return Err("the token shows no secret key that matches the URI".to_owned()),
        _ => return Err("several keys match the URI; select one with object= and id=".to_owned()),
    };
    let kind = anchor.number(handle, ck::CKA_KEY_TYPE).ok_or("the token hides the key's type")?;
    let length = anchor.number(handle, ck::CKA_VALUE_LEN).map(|length| length as usize);
    if kind == ck::CKK_AES && length.is_none() {
        return Err("the token hides the key's length".to_owned());
    }
    let encrypts = anchor.is_set(handle, ck::CKA_ENCRYPT);
    let decrypts = anchor.is_set(handle, ck::CKA_DECRYPT);
    Ok(HeldKey { handle, kind, length, encrypts, decrypts })
}

/// The longest PIN, in bytes. Tokens take much shorter ones.
const LONGEST_PIN: usize = 1_024;

/// In UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Time limit for typing at a token's PIN pad.
const LONGEST_TYPING: Duration = Duration::from_secs(300);

/// A session that takes longer to close is abandoned.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

/// A token that another process writes to is complete again after this time.
const LONGEST_WRITING: Duration = Duration::from_millis(200);

/// A process that probes a token holds a session for some milliseconds.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_pin_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
        fs::write(&path, "1234\n").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o620, 0o660] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let words = read_pin(&path).unwrap_err().to_string();
            assert!(words.contains(&format!("{mode:o}")) && words.contains("chmod 600"), "{words}");
            assert!(!words.contains("1234"));
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(read_pin(&path).is_ok());
        }
    }

    #[test]
    fn a_pin_is_the_first_line_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
        let read = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            read_pin(&path).map(|pin| pin.to_vec()).ok()
        };
        assert_eq!(read(b"1234"), Some(b"1234".to_vec()));
        assert_eq!(read(b"12 34\r\nnote\n"), Some(b"12 34".to_vec()));
        assert_eq!(read(b"\n1234"), None);
        for marked in [&b"\xEF\xBB\xBF1234\r\n"[..], b"\xFF\xFE1\x002\x00\n\x00", b"1234\x00\n"] {
            assert_eq!(read(marked), None, "{marked:?}");
        }
        assert_eq!(read(&[b'1'; LONGEST_PIN + 1]), None);
        assert!(read_pin(directory.path()).is_err());
    }
}
