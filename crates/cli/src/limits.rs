//! What the system allows.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Lets the program open as many files as the system allows at most: the usual soft limit of
/// 1024 is for programs that use `select`.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is refused, the old limit will do for most trees.
    let _ = setrlimit(Resource::Nofile, limit);
}
