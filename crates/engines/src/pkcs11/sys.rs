//! Calls into a PKCS #11 module (OASIS PKCS #11 v2.40, without the additions of later versions).

use std::ffi::{c_int, c_void};
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use cryptoki_sys as ck;
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_FLAGS, CK_FUNCTION_LIST, CK_KEY_TYPE, CK_MECHANISM,
    CK_MECHANISM_INFO, CK_MECHANISM_TYPE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_SLOT_ID,
    CK_TOKEN_INFO, CK_ULONG,
};
use evener_core::{Cipher, Direction, Mode};

use super::words::{self, Failure};
use crate::ending::{self, Call};
use crate::misfit::{self, Misfit};

/// The reason why a module could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("{0}")]
    Library(String),
    #[error("it is a library, but no PKCS #11 module")]
    NotAModule,
    #[error("{}", words::refused(.0))]
    Refused(Failure),
}

impl From<Failure> for LoadError {
    fn from(failure: Failure) -> LoadError {
        LoadError::Refused(failure)
    }
}

/// Calls a function of a module; `CKR_FUNCTION_NOT_SUPPORTED` if the module lacks it, and
/// `CKR_CRYPTOKI_NOT_INITIALIZED` when the process ends.
macro_rules! call {
    ($module:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match ($module.functions.$function, Call::begin()) {
            (_, None) => check(stringify!($function), ck::CKR_CRYPTOKI_NOT_INITIALIZED),
            (Some(function), Some(_)) => check(stringify!($function), function($($argument),*)),
            (None, Some(_)) => check(stringify!($function), ck::CKR_FUNCTION_NOT_SUPPORTED),
        }
    };
}

/// A module, loaded and initialised, for as long as the process lives.
///
/// It is never finalised or unloaded: both would end the sessions of other users of the same module
/// in this process, and threads of the module may outlive its code.
pub(super) struct Module {
    functions: CK_FUNCTION_LIST,
    /// True if nobody in this process had initialised it before.
    is_fresh: bool,
}

impl Module {
    /// Loads a module from a path, or from a file name that the system's loader finds.
    pub(super) fn load(path: &Path) -> Result<Module, LoadError> {
        ending::enter();
        wait_at_exit();
        let mut module = Module::open(path)?;
        wait_at_exit();
        module.is_fresh = module.initialise()?;
        wait_at_exit();
        Ok(module)
    }

    fn open(path: &Path) -> Result<Module, LoadError> {
        let Some(_call) = Call::begin() else {
            return Err(LoadError::Library("the process ends".to_owned()));
        };
        // SAFETY: loading runs the library's initialisers, as linking to it would. The user names
        // this library to be run in the process, and thereby trusts its code.
        let library = unsafe { ck::Pkcs11::new(path) };
        let library = library.map_err(|error| LoadError::Library(error.to_string()))?;
        let function = library.C_GetFunctionList.as_ref().map_err(|_| LoadError::NotAModule)?;
        let mut list: *mut CK_FUNCTION_LIST = ptr::null_mut();
        // SAFETY: the function has the signature that PKCS #11 gives to its name, and writes
        // one pointer, to `list`.
        check("C_GetFunctionList", unsafe { function(&mut list) })?;
        if list.is_null() {
            return Err(LoadError::NotAModule);
        }
        // SAFETY: the module returned success, so `list` points to its function list, which
        // lives as long as the library. It is copied, and every version of the standard begins
        // with the members of `CK_FUNCTION_LIST`.
        let functions = unsafe { *list };
        mem::forget(library);
        Ok(Module { functions, is_fresh: false })
    }

    /// Finalises the module and initialises it again, if nobody else in this process uses it.
    /// Returns whether it did. Some modules read their tokens only at this moment.
    pub(super) fn restart(&self) -> Result<bool, Failure> {
        if !self.is_fresh {
            return Ok(false);
        }
        // SAFETY: the argument is null, as the standard asks.
        unsafe { call!(self, C_Finalize(ptr::null_mut())) }?;
        let restarted = self.initialise().map(|_| true);
        wait_at_exit();
        restarted
    }

    /// Returns whether it was not initialised before.
    fn initialise(&self) -> Result<bool, Failure> {
        let mut arguments = ck::CK_C_INITIALIZE_ARGS {
            CreateMutex: None,
            DestroyMutex: None,
            LockMutex: None,
            UnlockMutex: None,
            flags: ck::CKF_OS_LOCKING_OK,
            pReserved: ptr::null_mut(),
        };
        // SAFETY: the arguments outlive the call, which only reads them.
        match unsafe { call!(self, C_Initialize((&raw mut arguments).cast())) } {
            Err(failure) if failure.code == ck::CKR_CRYPTOKI_ALREADY_INITIALIZED => Ok(false),
            other => other.map(|()| true),
        }
    }

    pub(super) fn info(&self) -> Result<ck::CK_INFO, Failure> {
        let mut info = ck::CK_INFO::default();
        // SAFETY: the module writes one `CK_INFO`.
        unsafe { call!(self, C_GetInfo(&mut info)) }?;
        Ok(info)
    }

    /// The slots that hold a token.
    pub(super) fn slots(&self) -> Result<Vec<CK_SLOT_ID>, Failure> {
        list(|slots, count| {
            // SAFETY: `list` passes null, or room for `count` slots, which bounds the writing.
            unsafe { call!(self, C_GetSlotList(ck::CK_TRUE, slots, count)) }
        })
    }

    pub(super) fn slot_info(&self, slot: CK_SLOT_ID) -> Result<ck::CK_SLOT_INFO, Failure> {
        let mut info = ck::CK_SLOT_INFO::default();
        // SAFETY: the module writes one `CK_SLOT_INFO`.
        unsafe { call!(self, C_GetSlotInfo(slot, &mut info)) }?;
        Ok(info)
    }

    pub(super) fn token_info(&self, slot: CK_SLOT_ID) -> Result<CK_TOKEN_INFO, Failure> {
        let mut info = CK_TOKEN_INFO::default();
        // SAFETY: the module writes one `CK_TOKEN_INFO`.
        unsafe { call!(self, C_GetTokenInfo(slot, &mut info)) }?;
        Ok(info)
    }

    pub(super) fn mechanisms(&self, slot: CK_SLOT_ID) -> Result<Vec<CK_MECHANISM_TYPE>, Failure> {
        list(|mechanisms, count| {
            // SAFETY: `list` passes null, or room for `count` entries, which bounds the writing.
            unsafe { call!(self, C_GetMechanismList(slot, mechanisms, count)) }
        })
    }

    pub(super) fn mechanism_info(
        &self,
        slot: CK_SLOT_ID,
        mechanism: CK_MECHANISM_TYPE,
    ) -> Result<CK_MECHANISM_INFO, Failure> {
        let mut info = CK_MECHANISM_INFO::default();
        // SAFETY: the module writes one `CK_MECHANISM_INFO`.
        unsafe { call!(self, C_GetMechanismInfo(slot, mechanism, &mut info)) }?;
        Ok(info)
    }
}

/// A PKCS #11 session, closed on drop. Every call takes `&mut self`, because the standard allows
/// only one caller at a time.
pub(super) struct Channel {
    module: Arc<Module>,
    handle: CK_SESSION_HANDLE,
}

/// A key to be made in a token, for as long as the session lives.
pub(super) struct NewKey<'a> {
    kind: CK_KEY_TYPE,
    bytes: &'a [u8],
    /// True if only a logged-in user may use it.
    is_private: bool,
}

impl<'a> NewKey<'a> {
    /// A cipher's key.
    pub(super) fn of(
        cipher: Cipher,
        kind: CK_KEY_TYPE,
        bytes: &'a [u8],
        is_private: bool,
    ) -> Result<NewKey<'a>, Misfit> {
        misfit::check("a key", bytes.len(), cipher.key_length())?;
        Ok(NewKey { kind, bytes, is_private })
    }
}

/// A mechanism with its parameters. The constructors ensure that these have the cipher's lengths.
#[derive(Clone, Copy)]
pub(super) struct Mechanism<'a>(Parameters<'a>);

#[derive(Clone, Copy)]
enum Parameters<'a> {
    /// Without parameters.
    Plain(CK_MECHANISM_TYPE),
    /// With an IV.
    Chained(CK_MECHANISM_TYPE, &'a [u8]),
    /// AES-CTR over all 128 bits of a counter block.
    Counter([u8; 16]),
    /// AES-GCM with a 16-byte tag.
    Gcm { iv: &'a [u8], aad: &'a [u8] },
}

impl<'a> Mechanism<'a> {
    /// A cipher's mechanism; `kind` is its number.
    pub(super) fn of(
        cipher: Cipher,
        kind: CK_MECHANISM_TYPE,
        iv: &'a [u8],
        aad: &'a [u8],
    ) -> Result<Mechanism<'a>, Misfit> {
        misfit::check("an IV", iv.len(), cipher.iv_length())?;
        let most = if cipher.is_authenticated() { aad.len() } else { 0 };
        misfit::check("additional data", aad.len(), most)?;
        Ok(Mechanism(match (cipher.mode(), iv.try_into()) {
            (Mode::Gcm, _) => Parameters::Gcm { iv, aad },
            (Mode::Ctr, Ok(block)) => Parameters::Counter(block),
            (Mode::Ecb, _) => Parameters::Plain(kind),
            _ => Parameters::Chained(kind, iv),
        }))
    }
}

impl Channel {
    /// Opens a read-only session. Keys made in it live only as long as the session.
    pub(super) fn open(module: &Arc<Module>, slot: CK_SLOT_ID) -> Result<Channel, Failure> {
        let mut handle = 0;
        let flags = ck::CKF_SERIAL_SESSION;
        // SAFETY: without a callback the application pointer is not used. One handle is written.
        unsafe { call!(module, C_OpenSession(slot, flags, ptr::null_mut(), None, &mut handle)) }?;
        Ok(Channel { module: Arc::clone(module), handle })
    }

    /// Logs the user in, in all sessions with the token; without a PIN, at its own PIN pad.
    pub(super) fn log_in(&mut self, pin: Option<&[u8]>) -> Result<(), Failure> {
        let (start, length) = pin.map_or((ptr::null(), 0), |pin| (pin.as_ptr(), pin.len()));
        // SAFETY: the module reads `length` bytes of the PIN, and does not write to it.
        unsafe {
            call!(
                self.module,
                C_Login(self.handle, ck::CKU_USER, start.cast_mut(), length as CK_ULONG)
            )
        }
    }

    pub(super) fn create_key(&mut self, key: &NewKey<'_>) -> Result<CK_OBJECT_HANDLE, Failure> {
        let (class, kind) = (ck::CKO_SECRET_KEY, key.kind);
        let (yes, no, private) = (ck::CK_TRUE, ck::CK_FALSE, u8::from(key.is_private));
        let mut template = [
            attribute(ck::CKA_CLASS, &class),
            attribute(ck::CKA_KEY_TYPE, &kind),
            attribute(ck::CKA_TOKEN, &no),
            attribute(ck::CKA_PRIVATE, &private),
            attribute(ck::CKA_SENSITIVE, &yes),
            attribute(ck::CKA_EXTRACTABLE, &no),
            attribute(ck::CKA_ENCRYPT, &yes),
            attribute(ck::CKA_DECRYPT, &yes),
            attribute_of_bytes(ck::CKA_VALUE, key.bytes),
        ];
        let mut object = 0;
        // SAFETY: every entry points to a value that lives to the end of this function and has
        // the length beside it; the module reads them. One handle is written.
        unsafe {
            call!(
                self.module,
                C_CreateObject(
                    self.handle,
                    template.as_mut_ptr(),
                    template.len() as CK_ULONG,
                    &mut object
                )
            )
        }?;
        Ok(object)
    }

    pub(super) fn destroy(&mut self, object: CK_OBJECT_HANDLE) -> Result<(), Failure> {
        // SAFETY: no pointers are passed.
        unsafe { call!(self.module, C_DestroyObject(self.handle, object)) }
    }

    /// The handles of secret keys with this label and identifier, at most two of them.
    pub(super) fn find_keys(
        &mut self,
        label: Option<&str>,
        id: Option<&[u8]>,
    ) -> Result<Vec<CK_OBJECT_HANDLE>, Failure> {
        let class = ck::CKO_SECRET_KEY;
        let mut template = vec![attribute(ck::CKA_CLASS, &class)];
        template.extend(label.map(|label| attribute_of_bytes(ck::CKA_LABEL, label.as_bytes())));
        template.extend(id.map(|id| attribute_of_bytes(ck::CKA_ID, id)));
        // SAFETY: every entry points to a value that outlives the call and has the length
        // beside it; the module reads them.
        unsafe {
            call!(
                self.module,
                C_FindObjectsInit(self.handle, template.as_mut_ptr(), template.len() as CK_ULONG)
            )
        }?;
        let mut found = [0; 2];
        let mut count = 0;
        // SAFETY: the module writes at most as many handles as there is room for, and a count.
        let result = unsafe {
            call!(
                self.module,
                C_FindObjects(self.handle, found.as_mut_ptr(), found.len() as CK_ULONG, &mut count)
            )
        };
        // SAFETY: no pointers are passed.
        let ended = unsafe { call!(self.module, C_FindObjectsFinal(self.handle)) };
        result.and(ended)?;
        Ok(found.into_iter().take(count as usize).collect())
    }

    /// A numeric attribute; `None` when the object does not have it or does not reveal it.
    pub(super) fn number(
        &mut self,
        object: CK_OBJECT_HANDLE,
        kind: CK_ATTRIBUTE_TYPE,
    ) -> Option<CK_ULONG> {
        let mut value: CK_ULONG = 0;
        self.read(object, kind, (&raw mut value).cast(), size_of::<CK_ULONG>()).then_some(value)
    }

    /// A Boolean attribute; false when the object does not have it or does not reveal it.
    pub(super) fn is_set(&mut self, object: CK_OBJECT_HANDLE, kind: CK_ATTRIBUTE_TYPE) -> bool {
        let mut value = ck::CK_FALSE;
        self.read(object, kind, (&raw mut value).cast(), size_of_val(&value))
            && value == ck::CK_TRUE
    }

    /// Reads an attribute of exactly `length` bytes into `value`, which has that much room.
    fn read(
        &mut self,
        object: CK_OBJECT_HANDLE,
        kind: CK_ATTRIBUTE_TYPE,
        value: *mut c_void,
        length: usize,
    ) -> bool {
        let mut entry = CK_ATTRIBUTE { type_: kind, pValue: value, ulValueLen: length as CK_ULONG };
        // SAFETY: the entry says how much room its value has, which the callers, both above,
        // take from a local variable that outlives the call.
        let result =
            unsafe { call!(self.module, C_GetAttributeValue(self.handle, object, &mut entry, 1)) };
        let read = entry.ulValueLen;
        result.is_ok() && read == length as CK_ULONG
    }

    /// Encrypts or decrypts one message and returns the length of the result.
    pub(super) fn transform(
        &mut self,
        direction: Direction,
        mechanism: Mechanism<'_>,
        key: CK_OBJECT_HANDLE,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Failure> {
        self.begin(direction, mechanism, key)?;
        let mut length = output.len() as CK_ULONG;
        let (from, to) = (input.as_ptr().cast_mut(), output.as_mut_ptr());
        let given = input.len() as CK_ULONG;
        // SAFETY: the module reads `given` bytes from `from`, does not write to them, and writes at
        // most `length` bytes to `to`: both are the slices' own lengths. The slices do not overlap,
        // because one is borrowed mutably.
        unsafe {
            match direction {
                Direction::Encrypt => {
                    call!(self.module, C_Encrypt(self.handle, from, given, to, &mut length))
                }
                Direction::Decrypt => {
                    call!(self.module, C_Decrypt(self.handle, from, given, to, &mut length))
                }
            }
        }?;
        Ok(length as usize)
    }

    fn begin(
        &mut self,
        direction: Direction,
        mechanism: Mechanism<'_>,
        key: CK_OBJECT_HANDLE,
    ) -> Result<(), Failure> {
        let mut counter = ck::CK_AES_CTR_PARAMS { ulCounterBits: 128, cb: [0; 16] };
        let mut gcm = ck::CK_GCM_PARAMS::default();
        let (kind, parameters, length) = match mechanism.0 {
            Parameters::Plain(kind) => (kind, ptr::null_mut(), 0),
            Parameters::Chained(kind, iv) => (kind, iv.as_ptr().cast_mut().cast(), iv.len()),
            Parameters::Counter(block) => {
                counter.cb = block;
                (ck::CKM_AES_CTR, (&raw mut counter).cast(), size_of_val(&counter))
            }
            Parameters::Gcm { iv, aad } => {
                gcm.pIv = iv.as_ptr().cast_mut();
                gcm.ulIvLen = iv.len() as CK_ULONG;
                gcm.ulIvBits = 8 * iv.len() as CK_ULONG;
                gcm.pAAD = aad.as_ptr().cast_mut();
                gcm.ulAADLen = aad.len() as CK_ULONG;
                gcm.ulTagBits = 128;
                (ck::CKM_AES_GCM, (&raw mut gcm).cast(), size_of_val(&gcm))
            }
        };
        let mut mechanism = CK_MECHANISM {
            mechanism: kind,
            pParameter: parameters,
            ulParameterLen: length as CK_ULONG,
        };
        // SAFETY: the mechanism points to the parameters that its type has, of the length
        // beside them; they, and what they point to, outlive the call, which copies them.
        unsafe {
            match direction {
                Direction::Encrypt => {
                    call!(self.module, C_EncryptInit(self.handle, &mut mechanism, key))
                }
                Direction::Decrypt => {
                    call!(self.module, C_DecryptInit(self.handle, &mut mechanism, key))
                }
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: no pointers are passed. A token that is gone has closed the session already.
        let _ = unsafe { call!(self.module, C_CloseSession(self.handle)) };
    }
}

/// The effective user ID of this process.
pub(super) fn current_user() -> u32 {
    unsafe extern "C" {
        safe fn geteuid() -> u32;
    }
    geteuid()
}

/// Registers [`ending::end`] to be called when the process ends, before the functions registered so
/// far. If there is no memory for it, the process ends as if it were not registered.
pub(super) fn wait_at_exit() {
    unsafe extern "C" {
        safe fn atexit(function: extern "C" fn()) -> c_int;
    }
    let _ = atexit(ending::end);
}

fn check(function: &'static str, code: CK_RV) -> Result<(), Failure> {
    if code == ck::CKR_OK { Ok(()) } else { Err(Failure { function, code }) }
}

/// Gets a list by the convention of asking for its length first.
fn list(
    mut ask: impl FnMut(*mut CK_ULONG, *mut CK_ULONG) -> Result<(), Failure>,
) -> Result<Vec<CK_ULONG>, Failure> {
    loop {
        let mut count = 0;
        ask(ptr::null_mut(), &mut count)?;
        if count > MOST_ENTRIES {
            return Err(Failure { function: "a list's length", code: ck::CKR_GENERAL_ERROR });
        }
        let mut entries = vec![0; count as usize];
        match ask(entries.as_mut_ptr(), &mut count) {
            // The list has grown meanwhile.
            Err(failure) if failure.code == ck::CKR_BUFFER_TOO_SMALL => {}
            Err(failure) => return Err(failure),
            Ok(()) => {
                entries.truncate(count as usize);
                return Ok(entries);
            }
        }
    }
}

fn attribute<T: Copy>(kind: CK_ATTRIBUTE_TYPE, value: &T) -> CK_ATTRIBUTE {
    CK_ATTRIBUTE {
        type_: kind,
        pValue: ptr::from_ref(value).cast_mut().cast(),
        ulValueLen: size_of::<T>() as CK_ULONG,
    }
}

fn attribute_of_bytes(kind: CK_ATTRIBUTE_TYPE, value: &[u8]) -> CK_ATTRIBUTE {
    CK_ATTRIBUTE {
        type_: kind,
        pValue: value.as_ptr().cast_mut().cast(),
        ulValueLen: value.len() as CK_ULONG,
    }
}

/// Returns whether all bits of `flag` are set.
pub(super) fn has(flags: CK_FLAGS, flag: CK_FLAGS) -> bool {
    flags & flag == flag
}

/// More slots or mechanisms than any token has; a longer list is an error.
const MOST_ENTRIES: CK_ULONG = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mechanism_or_key_has_a_wrong_length() {
        let of = |cipher, iv: usize, aad: usize| {
            Mechanism::of(cipher, 1, &[7; 16][..iv], &[8; 16][..aad]).is_ok()
        };
        assert!(of(Cipher::Aes128Cbc, 16, 0) && of(Cipher::Aes128Gcm, 12, 16));
        assert!(of(Cipher::Aes128Ecb, 0, 0) && of(Cipher::Aes128Ctr, 16, 0));
        for (cipher, iv, aad) in [
            (Cipher::Aes128Cbc, 0, 0),
            (Cipher::Aes128Ctr, 12, 0),
            (Cipher::Aes128Ecb, 16, 0),
            (Cipher::Aes128Gcm, 16, 0),
            (Cipher::DesEde3Cbc, 16, 0),
            (Cipher::Aes128Cbc, 16, 1),
        ] {
            assert!(!of(cipher, iv, aad), "{cipher} {iv} {aad}");
        }
        assert!(NewKey::of(Cipher::Aes128Cbc, ck::CKK_AES, &[1; 16], true).is_ok());
        assert!(NewKey::of(Cipher::Aes128Cbc, ck::CKK_AES, &[1; 24], true).is_err());
    }

    #[test]
    fn a_list_of_nonsense_length_is_refused() {
        let refused = list(|_, count| {
            // SAFETY: `list` passes the address of its own count.
            unsafe { *count = CK_ULONG::MAX };
            Ok(())
        });
        assert!(refused.is_err());
    }
}
