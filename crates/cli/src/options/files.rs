//! Which files are taken, and how outputs are written.

use std::ffi::OsString;
use std::sync::Arc;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use evener::{Agree, KeyRing, Options, Selection};

use super::values;
use crate::deletion;
use crate::plan::Ends;
use crate::route::Route;
use crate::trouble::Trouble;

/// Which files of a tree are taken.
#[derive(Args, Clone, Debug)]
pub(crate) struct Choosing {
    /// Leave out what this matches: a name in SRC, or a path below it if it has a slash; may be given
    /// several times. Names are those of the plain files, also in an encrypted tree: `*.txt`, not
    /// `*.txt.enc`
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    exclude: Vec<String>,
    /// Take only files that this matches, in the same way; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    include: Vec<String>,
    /// Take what symbolic links below SRC point to; otherwise the links are recreated (SRC itself
    /// is followed). Does not go with --remove-source
    #[arg(long, help_heading = "Trees")]
    follow_symlinks: bool,
    /// What encrypting appends to names and decrypting strips
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

/// How outputs are written.
#[derive(Args, Debug)]
pub(crate) struct Writing {
    /// Go on with an operation that was interrupted: skip files whose output is complete (its
    /// size and time are right and its header fits the key; its content is not verified)
    #[arg(long, help_heading = "Outputs")]
    resume: bool,
    /// Bring DST up to date: encrypt (or decrypt) what is new, replace outputs whose source has
    /// changed, leave the others as they are. A source has changed if its size or its time is not
    /// the output's, or if anything of it was changed after the output was made (its ctime is not
    /// older than the output's: content, mode, owner, name). So a file whose time was set back is
    /// found, and a file that was only renamed or copied is done again. Directories get the mode
    /// and time of theirs, but DST itself keeps its mode. Outputs that were not made with this key
    /// are errors, and so are decrypted files that are newer than their source
    #[arg(long, conflicts_with_all = ["resume", "remove_source"], help_heading = "Outputs")]
    pub(crate) update: bool,
    /// With --update, when a tree is encrypted: delete outputs whose source has gone, and
    /// directories that are empty then. It asks first. Only files that the key opens are deleted,
    /// and nothing at all if any file failed or a directory could not be read. What --exclude
    /// leaves out stays; -n names what would go
    #[arg(long, requires = "update", help_heading = "Outputs")]
    delete: bool,
    /// Do not ask what --delete would ask
    #[arg(short, long, requires = "delete", help_heading = "Outputs")]
    yes: bool,
    /// Replace outputs that exist; otherwise they are errors. A device or a FIFO as DST is written
    /// into in any case, from its beginning
    #[arg(long, help_heading = "Outputs")]
    overwrite: bool,
    /// Remove each source file once its output was read back, compared and synced. Not for files
    /// that are being written meanwhile: what is added at the moment of the removal is lost
    #[arg(long, help_heading = "Outputs")]
    remove_source: bool,
    /// Have every output and its name on the device before the end
    #[arg(long, help_heading = "Outputs")]
    durable: bool,
    /// Keep owner and group (mode and time are kept anyway)
    #[arg(long, help_heading = "Outputs")]
    owner: bool,
    /// Keep extended attributes
    #[arg(long, help_heading = "Outputs")]
    xattrs: bool,
    /// Leave holes where a decrypted file has whole pages of zeros
    #[arg(long, help_heading = "Outputs")]
    sparse: bool,
    /// Write nothing and tell what would be done, and what could not be: all is checked but the
    /// content of files and the room on the disk
    #[arg(long, short = 'n', help_heading = "Outputs")]
    pub(crate) dry_run: bool,
}

impl Writing {
    pub(crate) fn apply(self, options: &mut Options) {
        options.resume = self.resume;
        options.update = self.update;
        options.delete = self.delete.then(|| -> Agree {
            if self.yes { Arc::new(|_| true) } else { Arc::new(deletion::is_wanted) }
        });
        options.overwrite = self.overwrite;
        options.remove_source = self.remove_source;
        options.durable = self.durable;
        options.owner = self.owner;
        options.xattrs = self.xattrs;
        options.sparse = self.sparse;
        options.dry_run = self.dry_run;
    }

    /// What `--resume` or `--update` can't tell of these keys, if it was given.
    pub(crate) fn warning(&self, ring: &KeyRing, key_is_fresh: bool) -> Option<String> {
        let reason = if !ring.primary().cipher().is_authenticated() {
            "nothing in files of `openssl enc` shows with which key they were made"
        } else if key_is_fresh && self.resume {
            "this run has a key of its own, and can't open the keys of earlier ones"
        } else {
            return None;
        };
        let option = match (self.resume, self.update) {
            (true, _) => "--resume",
            (_, true) => "--update",
            _ => return None,
        };
        Some(format!("{option} goes by size and time alone: {reason}"))
    }

    /// Refuses what means nothing where one end is a pipe, and what nobody can be asked.
    pub(crate) fn check(&self, route: &Route) -> Result<(), Trouble> {
        let need_files = [
            (self.resume, "--resume"),
            (self.update, "--update"),
            (self.remove_source, "--remove-source"),
            (self.owner, "--owner"),
            (self.xattrs, "--xattrs"),
            (self.sparse, "--sparse"),
            (self.dry_run, "--dry-run"),
        ];
        if self.delete && !self.yes && !self.dry_run && !deletion::can_be_asked() {
            return Err(Trouble::usage(
                "--delete asks before it deletes, and there is no terminal to ask on; --yes \
                 deletes without asking, and --dry-run only names what would go",
            ));
        }
        if self.delete && !route.has_tree() {
            return Err(Trouble::usage(
                "--delete looks for what has gone from a tree: SRC is none",
            ));
        }
        let has_pipe = route.ends.iter().any(Ends::has_pipe);
        match need_files.into_iter().find(|(given, _)| *given && has_pipe) {
            Some((_, name)) => Err(Trouble::Usage(format!("{name} does not go with a pipe"))),
            None => Ok(()),
        }
    }
}
