//! The system's limit of open files.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to the system's maximum (the usual soft limit of 1024 is for
/// programs that use `select`), and makes room for them.
///
/// The kernel grows its table of descriptors on demand. In a process with several threads, the
/// growing thread then waits for all processors (RCU), about 6 ms each time. So the table grows
/// here, before there is a second thread.
pub(crate) fn prepare_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    BEFORE.get_or_init(|| limit.current);
    limit.current = limit.maximum;
    // If this fails, the old limit is enough for most trees.
    let _ = setrlimit(Resource::Nofile, limit);
    // If this fails, the table grows later.
    if let Ok(any) = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        let _ = copy_to_the_end(any.as_fd());
    }
}

/// Copies a descriptor to the end of the table, which code that closes foreign descriptors rarely
/// reaches. After a fork this makes the room, too.
pub(crate) fn copy_to_the_end(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = most.min(DESCRIPTORS).saturating_sub(1) as i32;
    Ok(fcntl_dupfd_cloexec(descriptor, last)?)
}

/// Starts another program under the limit that this one was started with: some programs close every
/// descriptor up to the limit, and `select` takes 1,024. Meanwhile the limit applies to other
/// threads too.
pub fn with_first_limit<T>(start: impl FnOnce() -> T) -> T {
    let raised = getrlimit(Resource::Nofile);
    if let Some(&current) = BEFORE.get() {
        // If this fails, so would the program.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..raised });
    }
    let started = start();
    let _ = setrlimit(Resource::Nofile, raised);
    started
}

/// The limit before it was raised; an inner `None` means no limit.
static BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// A tree takes about 70 for each worker, and 100 besides. The kernel keeps 8 bytes for each.
const DESCRIPTORS: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_many_descriptors() {
        prepare_open_files();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let room = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        let room: u64 = room.trim().parse().unwrap();
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(room >= most.min(DESCRIPTORS), "{room} of {most}");
    }
}
