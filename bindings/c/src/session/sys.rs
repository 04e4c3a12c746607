//! Sessions, exported.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;

use facade::engines::{Iv, Job};

use super::{
    JobArguments, PaddingNumber, RecordsArguments, SessionHandle, default_engine, padding, settled,
};
use crate::boundary::sys::{
    Versioned, elements, input_and_output, number, read_versioned, size_of_given, text,
};
use crate::boundary::{enter, enter_or, given, hand_over};
use crate::cipher::{self, DirectionNumber};
use crate::engine::EngineHandle;
use crate::key::KeyHandle;
use crate::status::{Status, Trouble};

// SAFETY: `repr(C)` with the size first, and nothing but integers and raw pointers.
unsafe impl Versioned for JobArguments {
    const FIRST_SIZE: usize = size_of::<JobArguments>();
    const NAME: &'static str = "evener_job";
}

// SAFETY: `repr(C)` with the size first, and nothing but integers and raw pointers.
unsafe impl Versioned for RecordsArguments {
    const FIRST_SIZE: usize = size_of::<RecordsArguments>();
    const NAME: &'static str = "evener_records";
}

/// Opens an engine for a cipher, direction and key, for any number of messages. NULL for the engine
/// selects the default engine; give NULL for the key if each job has its own or the engine holds
/// one. Free the session with `evener_session_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_session_open(
    engine: Option<&EngineHandle>,
    cipher: *const c_char,
    direction: MaybeUninit<DirectionNumber>,
    key: Option<&KeyHandle>,
    session: Option<&mut MaybeUninit<Option<Box<SessionHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(session, || {
            // SAFETY: the header asks the same of the caller.
            let cipher = cipher::named(unsafe { text(cipher, "cipher") }?)?;
            let direction = cipher::direction(number(direction))?;
            let engine = match engine {
                Some(handle) => &*handle.engine,
                None => &**default_engine()?,
            };
            Ok(SessionHandle::open(engine, cipher, direction, key.map(|handle| &handle.key))?)
        })
    })
}

/// Processes `count` jobs, whose outputs must not overlap anything. Engines are faster with many at
/// once, see `evener_offer`.
///
/// Sets each job's `status` and `written`. Returns `EVENER_STATUS_OK` if all were done. If jobs
/// were rejected, returns the status of the first; all others are done. If the engine failed,
/// returns that; the jobs that were not done are pending. If an argument is not valid, no job is
/// done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_session_process(
    session: Option<&SessionHandle>,
    jobs: *mut JobArguments,
    count: usize,
) -> Status {
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe { process(given(session, "session")?, jobs, count) })
}

/// Processes one message: `evener_session_process` with the job's fields as arguments, for callers
/// for which structs are difficult. `written` may be NULL; it is 0 after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_session_crypt(
    session: Option<&SessionHandle>,
    padding: MaybeUninit<PaddingNumber>,
    iv: *const u8,
    iv_length: usize,
    aad: *const u8,
    aad_length: usize,
    input: *const u8,
    input_length: usize,
    output: *mut u8,
    output_capacity: usize,
    mut written: Option<&mut MaybeUninit<usize>>,
) -> Status {
    if let Some(written) = &mut written {
        written.write(0);
    }
    enter(|| {
        let arguments = JobArguments {
            size: size_of::<JobArguments>(),
            input,
            input_length,
            output,
            output_capacity,
            iv,
            iv_length,
            aad,
            aad_length,
            key: ptr::null(),
            padding: number(padding),
            status: 0,
            written: 0,
        };
        // SAFETY: the header asks the same of the caller.
        let mut job = unsafe { job(&arguments) }?;
        let result = given(session, "session")?.process(std::slice::from_mut(&mut job));
        if let Some(written) = written {
            written.write(settled(job.outcome).1);
        }
        result
    })
}

/// Processes one message with the default engine, without a session: good for a few messages, slow
/// for many. If the job has its own key, `key` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_crypt(
    cipher: *const c_char,
    direction: MaybeUninit<DirectionNumber>,
    key: Option<&KeyHandle>,
    job: *mut JobArguments,
) -> Status {
    enter(|| {
        // SAFETY: the header asks the same of the caller.
        let cipher = cipher::named(unsafe { text(cipher, "cipher") }?)?;
        let direction = cipher::direction(number(direction))?;
        let key = key.map(|handle| &handle.key);
        let session = SessionHandle::open(&**default_engine()?, cipher, direction, key)?;
        // SAFETY: the header asks the same of the caller.
        unsafe { process(&session, job, 1) }
    })
}

/// Processes records, which is several times as fast as a job for each. If records are rejected,
/// all others are done, and the status is that of the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_session_process_records(
    session: Option<&SessionHandle>,
    records: *mut RecordsArguments,
) -> Status {
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe { process_records(given(session, "session")?, records) })
}

/// Verifies the last message, if a module processed it and it was not verified yet. Fails if the
/// module computed wrong results: earlier results of the session may be wrong, and `openssl`
/// processes all later messages. `evener_session_free` verifies it too, but can't report the
/// result.
#[unsafe(no_mangle)]
pub extern "C" fn evener_session_finish(session: Option<&SessionHandle>) -> Status {
    enter(|| given(session, "session")?.finish())
}

/// Wipes a session's keys and frees it. No thread may be using it. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_session_free(session: Option<Box<SessionHandle>>) {
    enter_or((), || drop(session));
}

/// # Safety
/// `jobs` points to `count` jobs that keep the header's rules.
unsafe fn process(
    session: &SessionHandle,
    jobs: *mut JobArguments,
    count: usize,
) -> Result<(), Trouble> {
    if count == 0 {
        return Ok(());
    }
    // SAFETY: there is at least one job.
    let stride = unsafe { size_of_given(jobs) }?;
    if !stride.is_multiple_of(align_of::<JobArguments>()) || count > MOST_JOBS {
        return Err(Trouble::argument("jobs: no array has this size"));
    }
    // The address of each job, which may be longer than this version's struct.
    let place = |index: usize| jobs.cast::<u8>().wrapping_add(index * stride).cast();
    let mut batch = Vec::with_capacity(count);
    for index in 0..count {
        let place: *mut JobArguments = place(index);
        // SAFETY: the caller has `count` jobs of `stride` bytes each, checked below.
        let arguments = unsafe { read_versioned(place) }?;
        if arguments.size != stride {
            return Err(Trouble::argument(format!("job {index}: its size is not the first's")));
        }
        // SAFETY: the caller's jobs keep the header's rules.
        let job = unsafe { job(&arguments) };
        batch.push(job.map_err(|trouble| Trouble {
            message: format!("job {index}: {}", trouble.message),
            ..trouble
        })?);
    }
    let result = session.process(&mut batch);
    for (index, job) in batch.iter().enumerate() {
        let place: *mut JobArguments = place(index);
        let (status, written) = settled(job.outcome);
        // SAFETY: it was read above, so it is there and aligned; both fields are of the first
        // version, and the jobs' inputs, outputs and keys are elsewhere.
        unsafe {
            (&raw mut (*place).status).write(status as i32);
            (&raw mut (*place).written).write(written);
        }
    }
    result
}

/// # Safety
/// `place` points to records that keep the header's rules.
unsafe fn process_records(
    session: &SessionHandle,
    place: *mut RecordsArguments,
) -> Result<(), Trouble> {
    // SAFETY: as asked of the caller; so for all of these.
    let (arguments, ivs, (input, output)) = unsafe {
        let arguments = read_versioned(place)?;
        let ivs = elements(arguments.ivs, arguments.ivs_length, "ivs")?;
        let (input, output) = input_and_output(
            (arguments.input, arguments.input_length),
            (arguments.output, arguments.output_capacity),
        )?;
        (arguments, ivs, (input, output))
    };
    let layout = session.layout(&arguments)?;
    let mut records = session.records(layout, ivs, input, output)?;
    let result = session.process_records(&mut records);
    let status = result.as_ref().map_or_else(|trouble| trouble.status, |()| Status::Ok);
    let rejected = records.rejected();
    // SAFETY: it was read above, so it is there and aligned; all fields are of the first version,
    // and the buffers are elsewhere.
    unsafe {
        (&raw mut (*place).status).write(status as i32);
        (&raw mut (*place).done).write(records.done());
        (&raw mut (*place).rejected).write(rejected.len());
        (&raw mut (*place).first_rejected).write(rejected.first().map_or(0, |first| first.0));
    }
    result
}

/// # Safety
/// The pointers keep the header's rules for `'a`.
unsafe fn job<'a>(arguments: &JobArguments) -> Result<Job<'a>, Trouble> {
    // SAFETY: as asked of the caller; so for all of these.
    let (iv, aad, key, (input, output)) = unsafe {
        (
            elements(arguments.iv, arguments.iv_length, "iv")?,
            elements(arguments.aad, arguments.aad_length, "aad")?,
            arguments.key.as_ref().map(|handle| &handle.key),
            input_and_output(
                (arguments.input, arguments.input_length),
                (arguments.output, arguments.output_capacity),
            )?,
        )
    };
    let iv = Iv::new(iv).map_err(|_| Trouble::argument("no cipher's IV is that long"))?;
    Ok(Job { key, aad, padding: padding(arguments.padding)?, ..Job::new(iv, input, output) })
}

/// More jobs than fit into memory; a larger count is a negative number.
const MOST_JOBS: usize = isize::MAX.cast_unsigned() / 4096;
