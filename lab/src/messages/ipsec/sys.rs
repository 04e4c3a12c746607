//! intel-ipsec-mb 1.3, loaded at run time; only the part that the benchmark needs.
//!
//! The library's interface is a struct of function pointers, and its header turns them into macros.
//! The offsets of the pointers below and the layout of a job are those of `intel-ipsec-mb.h` 1.3.0;
//! libraries of other versions are not used.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use evener_core::{Cipher, Direction, Mode};

use super::super::load::Message;

/// A manager of the library, for one thread.
pub(super) struct Manager {
    state: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Manager {
    /// Loads the library and makes a manager.
    ///
    /// # Errors
    /// The missing part, as text.
    pub(super) fn new() -> Result<Manager, String> {
        if size_of::<usize>() != 8 {
            return Err("intel-ipsec-mb is for 64-bit systems".to_owned());
        }
        // SAFETY: the name is a C string; loading the library runs no code but its own
        // initialisation. It stays loaded.
        let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err("intel-ipsec-mb is not installed (Debian: libipsec-mb1)".to_owned());
        }
        let symbol = |name: &CStr| {
            // SAFETY: a handle from `dlopen` and a C string.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            if address.is_null() {
                return Err(format!("intel-ipsec-mb has no {}", name.to_string_lossy()));
            }
            Ok(address)
        };
        // SAFETY: these are the functions' types in the header; each is called as the header
        // requires. The version is a static C string.
        unsafe {
            let version: unsafe extern "C" fn() -> *const c_char =
                std::mem::transmute(symbol(c"imb_get_version_str")?);
            let version = CStr::from_ptr(version()).to_string_lossy();
            if !version.starts_with("1.3.") {
                return Err(format!(
                    "intel-ipsec-mb is version {version}, and only 1.3 is supported"
                ));
            }
            let allocate: unsafe extern "C" fn(u64) -> *mut c_void =
                std::mem::transmute(symbol(c"alloc_mb_mgr")?);
            let initialise: unsafe extern "C" fn(*mut c_void, *mut c_int) =
                std::mem::transmute(symbol(c"init_mb_mgr_auto")?);
            let free = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(
                symbol(c"free_mb_mgr")?,
            );
            let state = allocate(0);
            if state.is_null() {
                return Err("intel-ipsec-mb could not allocate a manager".to_owned());
            }
            initialise(state, ptr::null_mut());
            Ok(Manager { state, free })
        }
    }

    /// Expands a key of the cipher's length.
    pub(super) fn expand(&self, cipher: Cipher, key: &[u8]) -> Keys {
        assert_eq!(key.len(), cipher.key_length());
        let mut keys = Keys { encrypt: Room::new(), decrypt: Room::new() };
        let number = key.len() / 8 - 2;
        // SAFETY: both functions read a key of this length. The first writes up to 15 round keys to
        // each place; the second writes a `gcm_key_data` of 1,008 bytes, aligned to 64, to the
        // first place. Both fit.
        unsafe {
            if cipher.mode() == Mode::Gcm {
                let expand: unsafe extern "C" fn(*const u8, *mut Room) =
                    self.function(GCM_PRE + 8 * number);
                expand(key.as_ptr(), &raw mut *keys.encrypt);
            } else {
                let expand: unsafe extern "C" fn(*const u8, *mut Room, *mut Room) =
                    self.function(KEY_EXPANSION + 8 * number);
                expand(key.as_ptr(), &raw mut *keys.encrypt, &raw mut *keys.decrypt);
            }
        }
        keys
    }

    /// Submits a job for each message, flushes, and returns the number of completed jobs. `tags`
    /// has as many entries as `messages`, or none for ciphers without tags.
    pub(super) fn run_jobs(
        &mut self,
        task: &Task<'_>,
        messages: &mut [Message<'_>],
        tags: &mut [[u8; 16]],
    ) -> usize {
        let mut done = 0;
        // SAFETY: the functions' types are those of the header. `get_next_job` returns a job that
        // is ours until we submit it. All memory that the jobs name stays borrowed until the last
        // job is flushed, below.
        unsafe {
            let next: unsafe extern "C" fn(*mut c_void) -> *mut Job = self.function(GET_NEXT_JOB);
            let submit: unsafe extern "C" fn(*mut c_void) -> *mut Job = self.function(SUBMIT_JOB);
            let flush: unsafe extern "C" fn(*mut c_void) -> *mut Job = self.function(FLUSH_JOB);
            for (index, message) in messages.iter_mut().enumerate() {
                task.fill(&mut *next(self.state), message, tags.get_mut(index));
                done += completed(submit(self.state));
            }
            loop {
                let job = flush(self.state);
                if job.is_null() {
                    return done;
                }
                done += completed(job);
            }
        }
    }

    /// Submits jobs in bursts, and returns the number of completed jobs.
    pub(super) fn run_bursts(&mut self, task: &Task<'_>, jobs: &mut Jobs<'_>) -> usize {
        let key_length = task.cipher.key_length() as c_int;
        // SAFETY: the function's type is that of the header. The jobs name messages that
        // `Jobs` borrows, and the call returns when they are done.
        unsafe {
            let submit: unsafe extern "C" fn(
                *mut c_void,
                *mut Job,
                u32,
                c_int,
                c_int,
                c_int,
            ) -> u32 = self.function(SUBMIT_CIPHER_BURST);
            let bursts = jobs.jobs.chunks_mut(BURST).map(|jobs| {
                let (count, mode, way) = (jobs.len() as u32, task.mode(), task.direction());
                submit(self.state, jobs.as_mut_ptr(), count, mode, way, key_length) as usize
            });
            bursts.sum()
        }
    }

    /// Reads the function pointer at an offset in the manager.
    ///
    /// # Safety
    /// At this offset there is a function of the type `F`, a function pointer.
    unsafe fn function<F: Copy>(&self, place: usize) -> F {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) }
        // SAFETY: the caller guarantees the type; the manager is alive.
        unsafe { self.state.byte_add(place).cast::<F>().read() }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: the manager came from `alloc_mb_mgr` and is no longer used.
        unsafe { (self.free)(self.state) }
    }
}

/// A key in the library's form.
pub(super) struct Keys {
    encrypt: Box<Room>,
    decrypt: Box<Room>,
}

/// Room for round keys, or for a `gcm_key_data`.
#[repr(C, align(64))]
struct Room([u8; 1024]);

impl Room {
    fn new() -> Box<Room> {
        Box::new(Room([0; 1024]))
    }
}

/// The operation on every message.
pub(super) struct Task<'a> {
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    pub(super) iv: &'a [u8],
    pub(super) keys: &'a Keys,
}

/// Jobs for messages that stay borrowed.
pub(super) struct Jobs<'a> {
    jobs: Vec<Job>,
    messages: PhantomData<&'a mut [u8]>,
}

impl<'a> Task<'a> {
    /// A job for each message, of a cipher without tags.
    pub(super) fn jobs(&self, messages: &'a mut [Message<'_>]) -> Jobs<'a> {
        let fill = |message: &mut Message<'_>| {
            // SAFETY: a struct of numbers and pointers, for which zeros are valid.
            let mut job = unsafe { std::mem::zeroed() };
            self.fill(&mut job, message, None);
            job
        };
        Jobs { jobs: messages.iter_mut().map(fill).collect(), messages: PhantomData }
    }

    fn fill(&self, job: &mut Job, message: &mut Message<'_>, tag: Option<&mut [u8; 16]>) {
        // For GCM, both directions use the same key data.
        let is_gcm = self.cipher.mode() == Mode::Gcm;
        let decrypt = if is_gcm { &self.keys.encrypt } else { &self.keys.decrypt };
        let length = message.input.len().min(message.output.len());
        job.encrypt_keys = (&raw const *self.keys.encrypt).cast();
        job.decrypt_keys = (&raw const **decrypt).cast();
        job.key_length = self.cipher.key_length() as u64;
        job.source = message.input.as_ptr();
        job.destination = message.output.as_mut_ptr();
        job.cipher_offset = 0;
        job.cipher_length = length as u64;
        job.hash_offset = 0;
        job.hash_length = length as u64;
        job.iv = self.iv.as_ptr();
        job.iv_length = self.iv.len() as u64;
        job.mode = self.mode();
        job.direction = self.direction();
        job.hash = if is_gcm { AES_GMAC } else { NO_HASH };
        job.order = match self.direction {
            Direction::Encrypt => CIPHER_THEN_HASH,
            Direction::Decrypt => HASH_THEN_CIPHER,
        };
        if is_gcm {
            (job.aad, job.aad_length) = (ptr::null(), 0);
            if self.direction == Direction::Encrypt {
                job.tag = message.output[length..].as_mut_ptr();
            } else if let Some(tag) = tag {
                job.tag = tag.as_mut_ptr();
            }
            job.tag_length = 16;
        }
    }

    fn mode(&self) -> c_int {
        match self.cipher.mode() {
            Mode::Ctr => CTR,
            Mode::Gcm => GCM,
            _ => CBC,
        }
    }

    fn direction(&self) -> c_int {
        match self.direction {
            Direction::Encrypt => ENCRYPT,
            Direction::Decrypt => DECRYPT,
        }
    }
}

/// Returns the number of jobs that `job` counts for: one if it was completed.
///
/// # Safety
/// A job that the library returned, or null.
unsafe fn completed(job: *const Job) -> usize {
    // SAFETY: the caller's guarantee.
    usize::from(!job.is_null() && unsafe { (*job).status } == COMPLETED)
}

/// `IMB_JOB`.
#[repr(C)]
struct Job {
    encrypt_keys: *const c_void,
    decrypt_keys: *const c_void,
    key_length: u64,
    source: *const u8,
    destination: *mut u8,
    cipher_offset: u64,
    cipher_length: u64,
    hash_offset: u64,
    hash_length: u64,
    iv: *const u8,
    iv_length: u64,
    tag: *mut u8,
    tag_length: u64,
    /// The first fields of a union: those of GCM.
    aad: *const u8,
    aad_length: u64,
    _context: *const c_void,
    status: c_int,
    mode: c_int,
    direction: c_int,
    hash: c_int,
    order: c_int,
    _user_data: [*const c_void; 2],
    _functions: [*const c_void; 2],
    _segments: c_int,
    _next_iv: *const c_void,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Job>() == 200);

const NAME: &CStr = c"libIPSec_MB.so.1";

/// Offsets in `IMB_MGR`, in bytes. Functions for keys of 128, 192 and 256 bits follow each other.
const GET_NEXT_JOB: usize = 64;
const SUBMIT_JOB: usize = 72;
const FLUSH_JOB: usize = 96;
const KEY_EXPANSION: usize = 112;
const GCM_PRE: usize = 448;
const SUBMIT_CIPHER_BURST: usize = 984;

/// `IMB_MAX_BURST_SIZE`.
const BURST: usize = 128;

/// Members of the header's enumerations.
const CBC: c_int = 1;
const CTR: c_int = 2;
const GCM: c_int = 5;
const ENCRYPT: c_int = 1;
const DECRYPT: c_int = 2;
const CIPHER_THEN_HASH: c_int = 1;
const HASH_THEN_CIPHER: c_int = 2;
const NO_HASH: c_int = 8;
const AES_GMAC: c_int = 9;
const COMPLETED: c_int = 3;
