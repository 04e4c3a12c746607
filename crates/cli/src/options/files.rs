//! Options that select files and say how outputs are written.

use std::ffi::OsString;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use evener::{KeyRing, Options, Selection};

use super::values;
use crate::plan::Ends;
use crate::trouble::Trouble;

/// Options that select files.
#[derive(Args, Clone, Debug)]
pub(crate) struct Choosing {
    /// Skip what matches: any file or directory of that name below SRC, or, if GLOB has a slash,
    /// that path below SRC; repeatable
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    exclude: Vec<String>,
    /// Process only files that match; repeatable
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    include: Vec<String>,
    /// Follow symbolic links below SRC instead of recreating them (SRC itself is always followed);
    /// not with --remove-source
    #[arg(long, help_heading = "Trees")]
    follow_symlinks: bool,
    /// Suffix that encrypting appends to file names and decrypting removes
    #[arg(
        long,
        default_value = Options::DEFAULT_SUFFIX,
        value_parser = OsStringValueParser::new().try_map(values::suffix),
        help_heading = "Trees"
    )]
    pub(crate) suffix: OsString,
}

impl Choosing {
    pub(crate) fn apply(self, options: &mut Options) -> Result<(), Trouble> {
        options.selection = Selection::new(&self.include, &self.exclude)?;
        options.follow_symlinks = self.follow_symlinks;
        options.suffix = self.suffix;
        Ok(())
    }
}

/// Options for outputs.
#[derive(Args, Debug)]
pub(crate) struct Writing {
    /// Continue an interrupted run: skip files whose output is complete (its size and time are
    /// right and its header fits the key; its content is not verified)
    #[arg(long, help_heading = "Outputs")]
    resume: bool,
    /// Replace existing outputs; without it they are errors. A device or FIFO as DST is always
    /// written to, from its beginning
    #[arg(long, help_heading = "Outputs")]
    overwrite: bool,
    /// Remove each source file after its output was read back, compared and synced. Not for files
    /// that another program still writes to: data added during the removal is lost
    #[arg(long, help_heading = "Outputs")]
    remove_source: bool,
    /// Sync every output and its name to the storage device before the end
    #[arg(long, help_heading = "Outputs")]
    durable: bool,
    /// Keep owner and group (mode and time are always kept)
    #[arg(long, help_heading = "Outputs")]
    owner: bool,
    /// Keep extended attributes
    #[arg(long, help_heading = "Outputs")]
    xattrs: bool,
    /// Write pages of zeros as holes when decrypting
    #[arg(long, help_heading = "Outputs")]
    sparse: bool,
    /// Write nothing; report what would be done and what would fail. The content of files and the
    /// free space are not checked
    #[arg(long, short = 'n', help_heading = "Outputs")]
    pub(crate) dry_run: bool,
}

impl Writing {
    pub(crate) fn apply(self, options: &mut Options) {
        options.resume = self.resume;
        options.overwrite = self.overwrite;
        options.remove_source = self.remove_source;
        options.durable = self.durable;
        options.owner = self.owner;
        options.xattrs = self.xattrs;
        options.sparse = self.sparse;
        options.dry_run = self.dry_run;
    }

    /// The warning where `--resume` can't check that outputs fit these keys.
    pub(crate) fn warning(&self, ring: &KeyRing, key_is_fresh: bool) -> Option<String> {
        let reason = if !ring.primary().cipher().is_authenticated() {
            "nothing in files of `openssl enc` shows with which key they were made"
        } else if key_is_fresh {
            "this run made a new key, and can't open the keys of earlier runs"
        } else {
            return None;
        };
        self.resume.then(|| format!("--resume goes by size and time alone: {reason}"))
    }

    /// Rejects options that need files where one end is a pipe.
    pub(crate) fn check(&self, ends: &Ends) -> Result<(), Trouble> {
        let need_files = [
            (self.resume, "--resume"),
            (self.remove_source, "--remove-source"),
            (self.owner, "--owner"),
            (self.xattrs, "--xattrs"),
            (self.sparse, "--sparse"),
            (self.dry_run, "--dry-run"),
        ];
        match need_files.into_iter().find(|(given, _)| *given && ends.has_pipe()) {
            Some((_, name)) => Err(Trouble::Usage(format!(
                "{name} does not go with a pipe; leave it out, or name files"
            ))),
            None => Ok(()),
        }
    }
}
