//! How much is told.

use clap::Args;

#[derive(Args, Clone, Debug)]
pub(crate) struct Telling {
    /// Print one JSON document on standard output: files, bytes, seconds, what each engine and
    /// worker did, and every failure. Beside a path that is not UTF-8 its bytes are in path_hex
    #[arg(long, help_heading = "Telling")]
    pub(crate) json: bool,
    /// Tell nothing but failures
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Telling")]
    pub(crate) quiet: bool,
    /// Also tell what each engine and worker did
    #[arg(short, long, help_heading = "Telling")]
    pub(crate) verbose: bool,
}
