//! Options for messages and reports.

use std::ffi::OsString;

use clap::Args;

use super::MetricsOptions;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Telling {
    /// Print a report as one JSON document on standard output
    ///
    /// The report has the files, bytes and seconds, the work of each engine and worker, and every
    /// failure. If a path is not UTF-8, path_hex has it in hexadecimal
    #[arg(long, help_heading = "Messages")]
    pub(crate) json: bool,
    /// Print only failures
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Messages")]
    pub(crate) quiet: bool,
    /// Also print each file and each engine's work
    #[arg(short, long, help_heading = "Messages")]
    pub(crate) verbose: bool,
    /// Write progress as one JSON object per line to FILE or standard error
    ///
    /// Twice a second and at the end, Evener writes an object with seconds, files, bytes, the
    /// totals and the seconds left if they are known, and the bytes of each engine. With -v or
    /// --dry-run, each file also has a line. FILE may be /dev/fd/N. On standard error, messages
    /// begin with `evener:` and these lines with `{`
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = "", help_heading = "Messages")]
    pub(crate) json_progress: Option<OsString>,
    #[command(flatten)]
    pub(crate) metrics: MetricsOptions,
}
