//! Files, trees and their keys, exported.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

use facade::program::shown;
use facade::{Control, Operation};

use super::options::Wishes;
use super::pipe::{ends, is_piped};
use super::report::Outcome;
use super::watched::{ProgressFacts, watched};
use super::{FailureFacts, FileKeyHandle, FileOptions, ReportHandle, Summary};
use crate::boundary::sys::{
    Versioned, elements, input_and_output, optional_path, optional_text, path, read_versioned,
    text, write_versioned,
};
use crate::boundary::{enter, enter_or, given, hand_over};
use crate::parallel::PoolHandle;
use crate::status::{Status, Trouble};

// SAFETY: `repr(C)` with the size first, and nothing but integers, raw pointers and a nullable
// function pointer.
unsafe impl Versioned for FileOptions {
    const FIRST_SIZE: usize = std::mem::offset_of!(FileOptions, permits);
    const NAME: &'static str = "evener_options";
}

// SAFETY: `repr(C)` with the size first, and nothing but integers and a float.
unsafe impl Versioned for Summary {
    const FIRST_SIZE: usize = std::mem::offset_of!(Summary, doubtful_files);
    const NAME: &'static str = "evener_summary";
}

// SAFETY: `repr(C)` with the size first, and nothing but raw pointers.
unsafe impl Versioned for FailureFacts {
    const FIRST_SIZE: usize = size_of::<FailureFacts>();
    const NAME: &'static str = "evener_failure";
}

/// Makes a fresh key for files from the system's randomness: `cobblestone-256`, `cobblestone-128`
/// or `tink`; NULL for the first. Free it with `evener_file_key_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_file_key_generate(
    format: *const c_char,
    key: Option<&mut MaybeUninit<Option<Box<FileKeyHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(key, || {
            // SAFETY: the header asks the same of the caller.
            FileKeyHandle::generated(unsafe { optional_text(format, "format") }?)
        })
    })
}

/// Copies a raw key for files: 32 bytes for Cobblestone-256, 16 for Cobblestone-128. The caller
/// wipes the original. Free the key with `evener_file_key_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_file_key_from_bytes(
    bytes: *const u8,
    length: usize,
    key: Option<&mut MaybeUninit<Option<Box<FileKeyHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(key, || {
            // SAFETY: the header asks the same of the caller.
            FileKeyHandle::copied(unsafe { elements(bytes, length, "bytes") }?)
        })
    })
}

/// Reads a key file: Evener's own or a Tink keyset, plain (accessible only to its owner) or
/// encrypted with age. An encrypted one opens with a passphrase, or with a file of identities or
/// an SSH key, which may itself have the passphrase; both may be NULL. A passphrase is also tried
/// without a byte-order mark, blanks and a carriage return around it. Free the key with
/// `evener_file_key_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_file_key_load(
    path: *const c_char,
    passphrase: *const u8,
    passphrase_length: usize,
    identities: *const c_char,
    key: Option<&mut MaybeUninit<Option<Box<FileKeyHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(key, || {
            // SAFETY: the header asks the same of the caller, for all three.
            let (file, phrase, identities) = unsafe {
                (
                    self::path(path, "path")?,
                    elements(passphrase, passphrase_length, "passphrase")?,
                    optional_path(identities),
                )
            };
            let phrase = Some(phrase).filter(|_| !passphrase.is_null());
            FileKeyHandle::load(file, phrase, identities)
        })
    })
}

/// Takes the place of a key for age's own format, whose files have none: recipients, one a line
/// (`age1...`, or SSH keys), for whom it encrypts; and a file of identities or an SSH key, and a
/// passphrase, that decrypt. All may be NULL. Without recipients the passphrase encrypts, but no
/// trees, since age takes a second for each file. It can't be saved, and takes no context. Free it
/// with `evener_file_key_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_file_key_of_age(
    recipients: *const c_char,
    passphrase: *const u8,
    passphrase_length: usize,
    identities: *const c_char,
    key: Option<&mut MaybeUninit<Option<Box<FileKeyHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(key, || {
            // SAFETY: the header asks the same of the caller, for all three.
            let (recipients, phrase, identities) = unsafe {
                (
                    optional_text(recipients, "recipients")?,
                    elements(passphrase, passphrase_length, "passphrase")?,
                    optional_path(identities),
                )
            };
            let phrase = Some(phrase).filter(|_| !passphrase.is_null());
            FileKeyHandle::of_age(recipients, phrase, identities)
        })
    })
}

/// Writes a key to a new file of mode 0600 (where the file system takes modes: FAT, exFAT and NTFS may
/// not), which appears complete or not at all. An existing file
/// is not changed and is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_file_key_save(
    key: Option<&FileKeyHandle>,
    path: *const c_char,
) -> Status {
    // SAFETY: the header asks the same of the caller.
    enter(|| given(key, "key")?.save(unsafe { self::path(path, "path") }?))
}

/// Wipes and frees a key. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_file_key_free(key: Option<Box<FileKeyHandle>>) {
    enter_or((), || drop(key));
}

/// Computes the length of the output of `evener_seal` for `length` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn evener_sealed_length(
    key: Option<&FileKeyHandle>,
    length: usize,
    sealed_length: Option<&mut MaybeUninit<usize>>,
) -> Status {
    enter(|| {
        let sealed_length = given(sealed_length, "sealed_length")?.write(0);
        *sealed_length = given(key, "key")?.sealed_length(length)?;
        Ok(())
    })
}

/// Encrypts a buffer to the content of an encrypted file. As many threads as the pool has work on its
/// chunks. For the authenticated formats only. The context may be NULL. `written` may be NULL; it
/// is 0 after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_seal(
    key: Option<&FileKeyHandle>,
    pool: Option<&PoolHandle>,
    context: *const u8,
    context_length: usize,
    plaintext: *const u8,
    plaintext_length: usize,
    sealed: *mut u8,
    sealed_capacity: usize,
    written: Option<&mut MaybeUninit<usize>>,
) -> Status {
    let (input, output) = ((plaintext, plaintext_length), (sealed, sealed_capacity));
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe {
        let (context, (input, output)) =
            (elements(context, context_length, "context")?, input_and_output(input, output)?);
        note(written, || given(key, "key")?.seal(given(pool, "pool")?, context, input, output))
    })
}

/// Decrypts the output of `evener_seal` or the content of an encrypted file. The plaintext is never
/// longer than the input. If any part is not authentic or missing, there is no plaintext.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_unseal(
    key: Option<&FileKeyHandle>,
    pool: Option<&PoolHandle>,
    context: *const u8,
    context_length: usize,
    sealed: *const u8,
    sealed_length: usize,
    plaintext: *mut u8,
    plaintext_capacity: usize,
    written: Option<&mut MaybeUninit<usize>>,
) -> Status {
    let (input, output) = ((sealed, sealed_length), (plaintext, plaintext_capacity));
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe {
        let (context, (input, output)) =
            (elements(context, context_length, "context")?, input_and_output(input, output)?);
        note(written, || given(key, "key")?.unseal(given(pool, "pool")?, context, input, output))
    })
}

/// Encrypts a file, a tree or a pipe.
///
/// A tree goes to a tree: the same relative names with the suffix. A file goes to the file
/// `target`, or into the directory `target` under its name with the suffix. An output has no name
/// until it is complete. `options` may be NULL. A FIFO, a device or `/dev/fd/N`, on either side, is
/// read or written from beginning to end; plaintext comes out of it once its chunks are authenticated.
///
/// If the default state knows a sealed tree at the encrypted side or above it, and the tree is
/// gone, the status is `EVENER_STATUS_FILE`. `evener verify --allow-rollback` forgets such a tree.
///
/// If files fail, they are listed in the report, all others are done, and the status is
/// `EVENER_STATUS_INCOMPLETE`. `report` gets the report whatever the status: that of an operation
/// that could not begin, was cancelled or met a bug says what was done until then, and why it
/// ended. It gets NULL only if the arguments, options or engines can't be used, so that nothing was
/// tried. Free it with `evener_report_free`. `report` itself may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_encrypt_path(
    key: Option<&FileKeyHandle>,
    source: *const c_char,
    target: *const c_char,
    options: *const FileOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Encrypt;
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe {
        let target = Some(path(target, "target")?);
        process(operation, key, path(source, "source")?, target, options, report)
    })
}

/// Decrypts a file or a tree, see `evener_encrypt_path`. Only authenticated data gets a final name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_decrypt_path(
    key: Option<&FileKeyHandle>,
    source: *const c_char,
    target: *const c_char,
    options: *const FileOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Decrypt;
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe {
        let target = Some(path(target, "target")?);
        process(operation, key, path(source, "source")?, target, options, report)
    })
}

/// Authenticates a file or a tree and writes nothing, see `evener_encrypt_path`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_verify_path(
    key: Option<&FileKeyHandle>,
    source: *const c_char,
    options: *const FileOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Verify;
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe { process(operation, key, path(source, "source")?, None, options, report) })
}

/// Reads a report's numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_report_summary(
    report: Option<&ReportHandle>,
    summary: *mut Summary,
) -> Status {
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe { write_versioned(summary, &given(report, "report")?.summary()) })
}

/// Reads a failed file and the cause. The number must be less than the summary's `failures`. The
/// texts are valid until the report is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_report_failure(
    report: Option<&ReportHandle>,
    index: usize,
    failure: *mut FailureFacts,
) -> Status {
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe { write_versioned(failure, &given(report, "report")?.failure(index)?) })
}

/// Reads a file in doubt and the cause. The number must be less than the summary's
/// `doubtful_files`. The texts are valid until the report is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_report_doubt(
    report: Option<&ReportHandle>,
    index: usize,
    doubt: *mut FailureFacts,
) -> Status {
    // SAFETY: the header asks the same of the caller.
    enter(|| unsafe { write_versioned(doubt, &given(report, "report")?.doubt(index)?) })
}

/// The whole report as JSON, as the program's `--json` prints it, with the work of each engine and
/// worker. The text is valid until the report is freed. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn evener_report_json(report: Option<&ReportHandle>) -> *const c_char {
    enter_or(std::ptr::null(), || report.map_or(std::ptr::null(), |it| it.json().as_ptr()))
}

/// Frees a report. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_report_free(report: Option<Box<ReportHandle>>) {
    enter_or((), || drop(report));
}

/// Stores the number of bytes written; 0 on failure.
fn note(
    written: Option<&mut MaybeUninit<usize>>,
    work: impl FnOnce() -> Result<usize, Trouble>,
) -> Result<(), Trouble> {
    let written = written.map(|written| written.write(0));
    let length = work()?;
    if let Some(written) = written {
        *written = length;
    }
    Ok(())
}

/// # Safety
/// `options` and everything it points to keep the header's rules.
unsafe fn process(
    operation: Operation,
    key: Option<&FileKeyHandle>,
    source: &Path,
    target: Option<&Path>,
    options: *const FileOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Result<(), Trouble> {
    let place = report.map(|place| place.write(None));
    // SAFETY: as asked of the caller.
    let (options, wishes) = unsafe { read(options) }?;
    let control = Arc::new(Control::default());
    let key = given(key, "key")?;
    let names = wishes.names(key.names())?;
    let evener = wishes.evener(key.key_ring(wishes.context)?, names.clone())?;
    let contradictory = |reason| Trouble::new(Status::File, format!("{}: {reason}", shown(source)));
    let existing = wishes.existing().map_err(contradictory)?;
    let pipe = match is_piped(operation, key, &wishes, source)? {
        true => Some((
            ends(operation, &names, source, target)?,
            wishes.stream().map_err(contradictory)?,
        )),
        false => None,
    };
    let evener = evener.with_options(|options| {
        options.run.control = Arc::clone(&control);
        options.tree.existing = existing;
    });
    let operate = || {
        Outcome::of(operation.name(), source, &control, || match pipe {
            None => evener.process(operation, source, target),
            Some(((from, to), stream)) => {
                let evener = evener.with_options(|options| options.stream = stream);
                evener.process_stream(operation, from, to)
            }
        })
    };
    // SAFETY: as asked of the caller.
    let Outcome { report, verdict } = unsafe { told(options, &wishes, &control, operate) }?;
    if let Some(place) = place {
        *place = Some(Box::new(report));
    }
    verdict
}

/// Performs an operation, and calls the progress callback if there is one.
///
/// # Safety
/// `options` keeps the header's rules.
pub(crate) unsafe fn told(
    options: Option<FileOptions>,
    wishes: &Wishes<'_>,
    control: &Arc<Control>,
    operate: impl FnOnce() -> Outcome + Send,
) -> Result<Outcome, Trouble> {
    match options.and_then(|given| Some((given.progress?, given.user_data))) {
        Some((progress, user_data)) => {
            // SAFETY: the caller gave a function of this type, for calls with this pointer.
            let ask = |facts: &ProgressFacts| unsafe { progress(facts, user_data) } == 0;
            watched(control, wishes.interval(), ask, operate)
        }
        None => Ok(operate()),
    }
}

/// Reads options that may be NULL.
///
/// # Safety
/// `options` and everything it points to keep the header's rules for `'a`.
pub(crate) unsafe fn read<'a>(
    options: *const FileOptions,
) -> Result<(Option<FileOptions>, Wishes<'a>), Trouble> {
    if options.is_null() {
        return Ok((None, Wishes::default()));
    }
    // SAFETY: it is not NULL; the rest is asked of the caller.
    let options = unsafe { read_versioned(options) }?;
    // SAFETY: as asked of the caller.
    let wishes = unsafe { wishes(&options) }?;
    Ok((Some(options), wishes))
}

/// # Safety
/// Everything that `options` points to keeps the header's rules for `'a`.
unsafe fn wishes<'a>(options: &FileOptions) -> Result<Wishes<'a>, Trouble> {
    // SAFETY: as asked of the caller; so for all of these.
    let (names, context, suffix) = unsafe {
        (
            elements(options.engines, options.engine_count, "engines")?,
            elements(options.context, options.context_length, "context")?,
            optional_path(options.suffix),
        )
    };
    let engines = names.iter().map(|&name| {
        // SAFETY: as asked of the caller.
        unsafe { text(name, "an engine's name") }
    });
    Ok(Wishes {
        engines: engines.collect::<Result<_, _>>()?,
        workers: options.workers,
        memory: options.memory,
        suffix,
        context,
        flags: options.flags,
        progress_interval: options.progress_interval,
        permits: options.permits,
        permit_lease: options.permit_lease,
        gate: options.gate,
        max_cpu: options.max_cpu,
    })
}
