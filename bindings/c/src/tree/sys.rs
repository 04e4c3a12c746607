//! Sealed trees, exported.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

use facade::place::Local;
use facade::sealed_trees::{SealedOptions, is_sealed, refuse_gone_at};
use facade::{Operation, RunSettings, TreeOptions};

use super::item::Item;
use super::operation::{Each, OpenTree, own_line};
use super::options::TreeWishes;
use super::{ItemCallback, SealedTreeOptions};
use crate::boundary::sys::{
    Versioned, elements, optional_path, optional_text, path, read_versioned,
};
use crate::boundary::{enter, given};
use crate::file::options::Wishes;
use crate::file::report::Outcome;
use crate::file::sys::{read, told};
use crate::file::{FileKeyHandle, FileOptions, ReportHandle};
use crate::status::{Status, Trouble};

// SAFETY: `repr(C)` with the size first, and nothing but integers and raw pointers.
unsafe impl Versioned for SealedTreeOptions {
    const FIRST_SIZE: usize = size_of::<SealedTreeOptions>();
    const NAME: &'static str = "evener_tree_options";
}

/// The place for a report.
type Place<'p> = Option<&'p mut MaybeUninit<Option<Box<ReportHandle>>>>;

/// Stores 1 if a directory says that it is a sealed tree, else 0. It fails if the directory can't
/// be read, its marker is damaged or of a later version, or the default state knows a sealed tree
/// there or in a directory above, and the tree is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_is_sealed(
    tree: *const c_char,
    answer: Option<&mut MaybeUninit<u32>>,
) -> Status {
    enter(|| {
        let answer = given(answer, "answer")?.write(0);
        // SAFETY: the header asks the same of the caller.
        let path = unsafe { path(tree, "tree") }?;
        let tree = Local::new(path, &TreeOptions::default());
        let found = is_sealed(&tree, &RunSettings::default());
        let found = found.map_err(|error| Trouble::new(Status::File, error.to_string()))?;
        if !found {
            refuse_gone_at(path, &SealedOptions::default())?;
        }
        *answer = found.into();
        Ok(())
    })
}

/// Seals a directory into a new generation of a sealed tree, which is made if there is none. Files
/// that are unchanged or moved since the generation before keep what was sealed. If nothing has
/// changed there is no new generation; the summary's `generation` and `generation_is_new` tell.
///
/// The key is one of 32 bytes (Cobblestone-256). With `evener_file_key_of_age` each generation has a
/// fresh key, wrapped for the recipients or with the passphrase, which is that of the generations
/// before, and the tree is signed. Identities open earlier generations. Without them, later calls need `state`, or else nobody can go on with
/// the tree. All fields of the options but those to read and to clean count. Otherwise as
/// `evener_encrypt_path`: files that failed keep the content of the generation before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_seal(
    key: Option<&FileKeyHandle>,
    source: *const c_char,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Encrypt;
    // SAFETY: the header asks the same of the caller, for all of these.
    unsafe {
        at_tree(operation, key, tree, options, report, |call| {
            let (source, key) = (path(source, "source")?, call.key);
            call.wrapping(key)?.told(|tree| tree.seal(source, key))
        })
    }
}

/// Seals the newest generation of a tree again, under another key: `new_key`, or a fresh one that is
/// wrapped for the recipients of `new_key`. Nothing is accepted under the old key after that, but it
/// still opens the generations before, until they are removed. `key` opens the tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_rekey(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    new_key: Option<&FileKeyHandle>,
    options: *const SealedTreeOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Encrypt;
    // SAFETY: the header asks the same of the caller, for all of these.
    unsafe {
        at_tree(operation, key, tree, options, report, |call| {
            let new_key = given(new_key, "new_key")?;
            let key = new_key.tree_key()?;
            call.wrapping(new_key)?.told(|tree| tree.rekey(key))
        })
    }
}

/// Decrypts a generation of a sealed tree, or the `paths` in it, to a directory. Only authenticated
/// data gets a final name. The summary's `generation` is the one that was read. Otherwise as
/// `evener_decrypt_path`. A tree of another key is `EVENER_STATUS_INVALID_KEY`, a changed one
/// `EVENER_STATUS_AUTHENTICATION_FAILED`, and one that is not believed (rolled back, signed by
/// others) `EVENER_STATUS_FILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_decrypt(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    target: *const c_char,
    options: *const SealedTreeOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Decrypt;
    // SAFETY: the header asks the same of the caller, for all of these.
    unsafe {
        at_tree(operation, key, tree, options, report, |call| {
            let target = path(target, "target")?;
            call.told(|tree| tree.read(Some(target)))
        })
    }
}

/// Authenticates a generation of a sealed tree and writes nothing, see `evener_tree_decrypt`. With
/// `EVENER_TREE_FLAG_QUICK` it reads no content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_verify(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Decrypt;
    // SAFETY: the header asks the same of the caller, for all of these.
    unsafe {
        at_tree(operation, key, tree, options, report, |call| call.told(|tree| tree.read(None)))
    }
}

/// Passes `each` the entries of a generation, or those of the `paths` in it, by directory, then by
/// name. Damaged parts are the report's failures; all others are listed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_list(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    each: ItemCallback,
    user_data: *mut c_void,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let passed = (each, user_data);
    // SAFETY: the header asks the same of the caller.
    unsafe { pass_items(key, tree, options, passed, report, |tree, each| tree.list(each)) }
}

/// Passes `each` the generations, the newest first. Those that the key does not open are the
/// report's failures, unless they were removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_generations(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    each: ItemCallback,
    user_data: *mut c_void,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let passed = (each, user_data);
    // SAFETY: the header asks the same of the caller.
    unsafe { pass_items(key, tree, options, passed, report, |tree, each| tree.generations(each)) }
}

/// Passes `each` what differs between the generation that the options name and a later state: the
/// directory `later` if it is not NULL, such as the source, whose files count as unchanged if size
/// and time are the same; else the generation `later_generation`, 0 for the newest one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_diff(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    later: *const c_char,
    later_generation: u64,
    options: *const SealedTreeOptions,
    each: ItemCallback,
    user_data: *mut c_void,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let passed = (each, user_data);
    // SAFETY: the header asks the same of the caller, for both.
    unsafe {
        let later = optional_path(later);
        pass_items(key, tree, options, passed, report, |tree, each| {
            tree.diff(later_generation, later, each)
        })
    }
}

/// Removes the generations that `keep` and `keep_within` do not keep, and what killed runs have
/// left. It first makes a generation that says so. If a kept generation can't be read whole, nothing
/// is removed. Files younger than a day, or than a run that is at work, stay. The report's JSON has
/// `kept`, `removed`, `files`, `bytes`, `spared` and `writers`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_clean(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Encrypt;
    // SAFETY: the header asks the same of the caller.
    unsafe { at_tree(operation, key, tree, options, report, |call| Ok(call.open.clean())) }
}

/// Wraps the keys of all generations for the recipients of `new_key`, without reading content. Old
/// wrappings are removed if an identity of either key has opened the new ones, or with
/// `EVENER_TREE_FLAG_TRUST_UNOPENED`. `key` opens the tree. The report's JSON has `keys`, `removed`
/// and `unchecked`, the old wrappings that stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_rewrap(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    new_key: Option<&FileKeyHandle>,
    options: *const SealedTreeOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Encrypt;
    // SAFETY: the header asks the same of the caller.
    unsafe {
        at_tree(operation, key, tree, options, report, |call| {
            let new_key = given(new_key, "new_key")?;
            call.open.opened_by([call.key, new_key])?.rewrap(new_key)
        })
    }
}

/// Passes `each` those who may sign the next generation, and those who are revoked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_signers(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    each: ItemCallback,
    user_data: *mut c_void,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let passed = (each, user_data);
    // SAFETY: the header asks the same of the caller.
    unsafe { pass_items(key, tree, options, passed, report, |tree, each| tree.signers(each)) }
}

/// Passes `each` the signer that this machine is for a tree, which may be absent. Another machine
/// admits it by its line. Its keys are made at first use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_own_signer(
    tree: *const c_char,
    options: *const SealedTreeOptions,
    each: ItemCallback,
    user_data: *mut c_void,
) -> Status {
    // SAFETY: the header asks the same of the caller, for all of these.
    enter(|| unsafe {
        let mut each = passing(each, user_data)?;
        let (_, wishes) = wishes(options)?;
        each(&own_line(path(tree, "tree")?, &wishes)?);
        Ok(())
    })
}

/// Changes who may sign a tree, in a generation of its own. An unsigned tree becomes a signed one.
/// All three texts have one signer a line, and may be NULL: `add` has lines of
/// `evener_tree_own_signer`; `remove` has fingerprints, `SHA256:...`, of those who sign no later
/// generation; `revoke` has `SHA256:...@N` for those of whom nothing after generation N is believed,
/// as when a key was stolen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_tree_change_signers(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    add: *const c_char,
    remove: *const c_char,
    revoke: *const c_char,
    options: *const SealedTreeOptions,
    report: Option<&mut MaybeUninit<Option<Box<ReportHandle>>>>,
) -> Status {
    let operation = Operation::Encrypt;
    // SAFETY: the header asks the same of the caller, for all of these.
    unsafe {
        at_tree(operation, key, tree, options, report, |call| {
            call.open.change_signers([
                optional_text(add, "add")?,
                optional_text(remove, "remove")?,
                optional_text(revoke, "revoke")?,
            ])
        })
    }
}

/// A call for a tree.
struct Call<'c> {
    open: OpenTree<'c>,
    key: &'c FileKeyHandle,
    files: Option<FileOptions>,
    wishes: &'c Wishes<'c>,
}

impl Call<'_> {
    /// Wraps the fresh keys of new generations.
    fn wrapping(self, key: &FileKeyHandle) -> Result<Self, Trouble> {
        Ok(Call { open: self.open.wrapping(key)?, ..self })
    }

    /// Performs an operation that reports progress.
    ///
    /// # Safety
    /// The options must follow the header's rules.
    unsafe fn told(
        &self,
        operate: impl FnOnce(&OpenTree<'_>) -> Outcome + Send,
    ) -> Result<Outcome, Trouble> {
        let open = &self.open;
        // SAFETY: as asked of the caller.
        unsafe { told(self.files, self.wishes, &open.control, || operate(open)) }
    }
}

/// Opens a tree, performs an operation on it, and stores its report, or NULL if there is none.
///
/// # Safety
/// All pointers must follow the header's rules.
unsafe fn at_tree(
    operation: Operation,
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    report: Place<'_>,
    operate: impl FnOnce(Call<'_>) -> Result<Outcome, Trouble>,
) -> Status {
    enter(|| {
        let place = report.map(|place| place.write(None));
        // SAFETY: as asked of the caller, for both.
        let (tree, (files, wishes)) = unsafe { (path(tree, "tree")?, wishes(options)?) };
        let key = given(key, "key")?;
        let open = OpenTree::new(operation, tree, &wishes, key)?;
        let call = Call { open, key, files, wishes: &wishes.files };
        let Outcome { report, verdict } = operate(call)?;
        if let Some(place) = place {
            *place = Some(Box::new(report));
        }
        verdict
    })
}

/// Passes a tree's items to the callback.
///
/// # Safety
/// All pointers must follow the header's rules.
unsafe fn pass_items(
    key: Option<&FileKeyHandle>,
    tree: *const c_char,
    options: *const SealedTreeOptions,
    (each, user_data): (ItemCallback, *mut c_void),
    report: Place<'_>,
    operate: impl FnOnce(&OpenTree<'_>, Each<'_>) -> Outcome,
) -> Status {
    // SAFETY: as asked of the caller, for both.
    unsafe {
        at_tree(Operation::Decrypt, key, tree, options, report, |call| {
            Ok(operate(&call.open, &mut passing(each, user_data)?))
        })
    }
}

/// # Safety
/// The caller gave `each` for calls with `user_data`.
unsafe fn passing(
    each: ItemCallback,
    user_data: *mut c_void,
) -> Result<impl FnMut(&Item) -> bool, Trouble> {
    let each = given(each, "each")?;
    Ok(move |item: &Item| {
        let facts = item.facts();
        // SAFETY: as asked of the caller; the item's texts outlive the call.
        unsafe { each(&raw const facts, user_data) == 0 }
    })
}

/// Reads options that may be NULL.
///
/// # Safety
/// `options` and everything it points to keep the header's rules for `'a`.
unsafe fn wishes<'a>(
    options: *const SealedTreeOptions,
) -> Result<(Option<FileOptions>, TreeWishes<'a>), Trouble> {
    if options.is_null() {
        return Ok((None, TreeWishes::default()));
    }
    // SAFETY: it is not NULL; the rest is asked of the caller, for all of these.
    unsafe {
        let options = read_versioned(options)?;
        let (given, files) = read(options.files)?;
        let paths = elements(options.paths, options.path_count, "paths")?;
        let paths = paths.iter().map(|&name| path(name, "a path"));
        let wishes = TreeWishes {
            files,
            flags: options.flags,
            state: optional_path(options.state),
            signer: optional_path(options.signer),
            signers: optional_text(options.signers, "signers")?,
            pin: optional_text(options.pin, "pin")?,
            generation: options.generation,
            time: options.time,
            padding: options.padding,
            paths: paths.collect::<Result<_, _>>()?,
            keep: options.keep,
            keep_within: options.keep_within,
            abandon: optional_text(options.abandon, "abandon")?,
        };
        Ok((given, wishes))
    }
}
