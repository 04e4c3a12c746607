//! Limits of the system.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the system's maximum: the usual soft limit of 1024 is for
/// programs that use `select`.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the old limit is enough for most trees.
    let _ = setrlimit(Resource::Nofile, limit);
}
