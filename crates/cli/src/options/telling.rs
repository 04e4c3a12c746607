//! Options for messages and reports.

use std::ffi::OsString;

use clap::Args;

#[derive(Args, Clone, Debug)]
pub(crate) struct Telling {
    /// Print a report as one JSON document on standard output: files, bytes, seconds, the work of
    /// each engine and worker, and every failure. A path that is not UTF-8 is also in path_hex, in
    /// hexadecimal
    #[arg(long, help_heading = "Messages")]
    pub(crate) json: bool,
    /// Print nothing but failures
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Messages")]
    pub(crate) quiet: bool,
    /// Also print the name of each file, and what each engine and worker did
    #[arg(short, long, help_heading = "Messages")]
    pub(crate) verbose: bool,
    /// Write progress as one JSON object a line, twice a second and at the end, to FILE (which may be
    /// /dev/fd/N), or to standard error: seconds, files, bytes, the totals and the seconds left where
    /// they are known, and each engine's bytes. With -v or --dry-run each file has a line too.
    /// Messages on standard error begin with `evener:`, these lines with `{`
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = "", help_heading = "Messages")]
    pub(crate) json_progress: Option<OsString>,
}
