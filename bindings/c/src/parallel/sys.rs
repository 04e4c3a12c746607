//! One buffer on all cores, exported.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use facade::hazmat::Iv;

use super::{ParallelHandle, PoolHandle};
use crate::boundary::sys::{bytes_mut, elements, input_and_output, number, optional_text, text};
use crate::boundary::{enter, enter_or, given, hand_over};
use crate::cipher::{self, DirectionNumber};
use crate::key::KeyHandle;
use crate::session::{self, PaddingNumber};
use crate::status::{Status, Trouble};

/// Makes a pool of this many threads, including the caller's; 0 for one per core. They start at the
/// first use and sleep between calls. Free it with `evener_pool_free`.
#[unsafe(no_mangle)]
pub extern "C" fn evener_pool_new(
    threads: usize,
    pool: Option<&mut MaybeUninit<Option<Box<PoolHandle>>>>,
) -> Status {
    enter(|| hand_over(pool, || Ok(PoolHandle::new(threads))))
}

/// Frees a pool. Its threads end when everything that was opened with it is freed. NULL does
/// nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_pool_free(pool: Option<Box<PoolHandle>>) {
    enter_or((), || drop(pool));
}

/// Opens a cipher of the modes ECB, CBC or CTR for single buffers that all threads of a pool
/// process together: ECB, CTR, and CBC decryption. (CBC encryption runs on the calling thread, and
/// so does any mode on a buffer that takes less time than waking another thread.)
///
/// NULL for the pool makes a pool with one thread per core; NULL for the engine's name selects the
/// fastest engine. Free it with `evener_parallel_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_parallel_open(
    pool: Option<&PoolHandle>,
    engine: *const c_char,
    cipher: *const c_char,
    key: Option<&KeyHandle>,
    padding: MaybeUninit<PaddingNumber>,
    parallel: Option<&mut MaybeUninit<Option<Box<ParallelHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(parallel, || {
            // SAFETY: the header asks the same of the caller, for both.
            let (engine, cipher) =
                unsafe { (optional_text(engine, "engine")?, text(cipher, "cipher")?) };
            let (cipher, key) = (cipher::named(cipher)?, &given(key, "key")?.key);
            ParallelHandle::open(pool, engine, cipher, key, session::padding(number(padding))?)
        })
    })
}

/// Encrypts or decrypts a buffer into another. `written` may be NULL; it is 0 after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_parallel_crypt(
    parallel: Option<&ParallelHandle>,
    direction: MaybeUninit<DirectionNumber>,
    iv: *const u8,
    iv_length: usize,
    input: *const u8,
    input_length: usize,
    output: *mut u8,
    output_capacity: usize,
    written: Option<&mut MaybeUninit<usize>>,
) -> Status {
    enter(|| {
        let written = written.map(|written| written.write(0));
        let parallel = given(parallel, "parallel")?;
        let direction = cipher::direction(number(direction))?;
        // SAFETY: the header asks the same of the caller, for all three.
        let (iv, (input, output)) = unsafe {
            (
                self::iv(iv, iv_length)?,
                input_and_output((input, input_length), (output, output_capacity))?,
            )
        };
        let length = parallel.crypt(direction, iv, input, output)?;
        if let Some(written) = written {
            *written = length;
        }
        Ok(())
    })
}

/// Encrypts or decrypts a buffer in place, without padding. If the engine fails, the buffer is
/// lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_parallel_crypt_in_place(
    parallel: Option<&ParallelHandle>,
    direction: MaybeUninit<DirectionNumber>,
    iv: *const u8,
    iv_length: usize,
    data: *mut u8,
    length: usize,
) -> Status {
    enter(|| {
        let parallel = given(parallel, "parallel")?;
        let direction = cipher::direction(number(direction))?;
        // SAFETY: the header asks the same of the caller, for both.
        let (iv, data) = unsafe { (self::iv(iv, iv_length)?, bytes_mut(data, length, "data")?) };
        parallel.crypt_in_place(direction, iv, data)
    })
}

/// Wipes the key and frees a cipher for single buffers. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_parallel_free(parallel: Option<Box<ParallelHandle>>) {
    enter_or((), || drop(parallel));
}

/// # Safety
/// As for [`elements`].
unsafe fn iv(pointer: *const u8, length: usize) -> Result<Iv, Trouble> {
    // SAFETY: as asked of the caller.
    let iv = unsafe { elements(pointer, length, "iv") }?;
    Iv::new(iv).map_err(|_| Trouble::argument("no cipher's IV is that long"))
}
