//! Options for messages and reports.

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
    /// Also print what each engine and worker did
    #[arg(short, long, help_heading = "Messages")]
    pub(crate) verbose: bool,
}
