//! Lists what tests could not do here, and why.
//!
//! Cargo shows nothing of what a test prints that passes. So each skip is also added to the list
//! in the file that `EVENER_SKIPPED_LIST` names, which `make test` prints at its end.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

/// Says that a test, or a part of it, is skipped, and why; takes what `format!` takes. For what
/// the machine does not have: a device, an instruction, a kind of filesystem, a right.
#[macro_export]
macro_rules! skipped {
    ($($why:tt)*) => { $crate::skips::record(module_path!(), format_args!($($why)*)) };
}

/// As [`skipped!`], for what `scripts/install-needs` installs: where `CI` is set, its absence is
/// a failure.
#[macro_export]
macro_rules! lacking {
    ($($what:tt)*) => {{
        assert!(!$crate::skips::is_ci(), "missing where CI is set: {}", format_args!($($what)*));
        $crate::skips::record(module_path!(), format_args!($($what)*))
    }};
}

/// True if the environment asks for everything to be checked.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !["", "false", "0"].contains(&ci.as_str()))
}

/// Prints a skip and adds it to the list; [`skipped!`] calls this.
pub fn record(module: &str, why: fmt::Arguments<'_>) {
    println!("skipped: {why}");
    let Some(list) = std::env::var_os("EVENER_SKIPPED_LIST") else { return };
    // A test's thread has its name.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or_default();
    let line = format!("{module} {test}: {why}\n");
    let added = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&list)
        .and_then(|mut list| list.write_all(line.as_bytes()));
    added.unwrap_or_else(|error| panic!("can't add to the list of skips in {list:?}: {error}"));
}
