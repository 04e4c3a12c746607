//! Protects the memory of a process that holds keys.

use rustix::io;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// The result of [`protect_process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// True if the process' memory stays out of the swap.
    pub is_locked: bool,
}

/// Keeps this process' memory, with the keys in it, out of core dumps, from other processes of the
/// same user, and out of the swap if that is allowed. For programs: it affects the whole process
/// permanently, so a library leaves it to its program. Call it before reading the first key.
/// Processes started later can dump core only up to a limit of 0, and are otherwise unaffected.
///
/// - A core dump has a limit of 0 (`RLIMIT_CORE`), and the process counts as not dumpable
///   (`PR_SET_DUMPABLE`): without the second, a program that takes core dumps (`core_pattern` with
///   `|`) gets one in spite of the limit. This also keeps out debuggers of the same user.
///   `/proc/self/fd`, through which outputs get their names on some systems, still belongs to the
///   process.
/// - All pages are locked in memory (`mlockall`), future pages on first use, if the process may
///   lock without limit: root's processes, others with `CAP_IPC_LOCK`, or any with `ulimit -l
///   unlimited`. Keys are in many
///   places, including the buffers of OpenSSL and stacks, so locking only some would guarantee
///   nothing; and under a limit, later allocations would fail. Without locking, encrypt the swap.
///
/// # Errors
/// When the operating system refuses the first; no system is known to refuse.
pub fn protect_process() -> io::Result<Protection> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Without the right to raise the limit, it stays unchanged.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    let limit = getrlimit(Resource::Memlock);
    // A process that may lock beyond its limit may lock beyond a limit of 0, and no other may.
    let may_try = limit.current.is_none()
        || setrlimit(Resource::Memlock, Rlimit { current: Some(0), ..limit }).is_ok();
    let is_locked = may_try
        && mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
            .is_ok();
    let _ = setrlimit(Resource::Memlock, limit);
    Ok(Protection { is_locked })
}
