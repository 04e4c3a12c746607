//! Options that select files and say how outputs are written.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use evener::{
    Agree, Delete, Existing, KeyRing, Operation, Options, SealedNames, Selection, TreeOptions,
    Update,
};

use super::sealed::refuse_first;
use crate::deletion;
use crate::ends::{Ends, Place};
use crate::route::Route;
use crate::trouble::{Trouble, shown};

/// Options that select files.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Choosing {
    /// Skip files that match; repeatable
    ///
    /// GLOB matches the name of a file or directory below SRC or, if it contains a slash, its path
    /// below SRC. `*` does not match a slash, `**` does. Give the names as they were before
    /// encryption: `*.txt`, not `*.txt.enc`. A SRC that is itself a file is always processed
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    exclude: Vec<String>,
    /// Process only files that match; repeatable
    ///
    /// See --exclude, which takes precedence
    #[arg(long, value_name = "GLOB", help_heading = "Trees")]
    include: Vec<String>,
    /// Follow symbolic links below SRC instead of recreating them
    ///
    /// Evener always follows SRC itself. It leaves out links to a directory that contains SRC or
    /// DST, and links into /proc, /sys and the like, and counts them as failed. The option excludes
    /// --remove-source
    #[arg(long, help_heading = "Trees")]
    follow_symlinks: bool,
    /// Stay on the file system of SRC, as `du -x` does
    ///
    /// Evener names each directory where another file system is mounted, and recreates it empty
    #[arg(long, help_heading = "Trees")]
    one_file_system: bool,
    #[command(flatten)]
    pub(crate) suffix: Suffix,
}

/// The suffix of encrypted files.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Suffix {
    /// Suffix that encrypting appends to file names and decrypting removes [default: .enc; .age for
    /// files of age]
    #[arg(
        long,
        value_parser = OsStringValueParser::new().try_map(SealedNames::new),
        help_heading = "Trees"
    )]
    suffix: Option<SealedNames>,
    /// True if the files are age's own, which have another suffix.
    #[arg(skip)]
    pub(crate) of_age: bool,
}

impl Suffix {
    pub(crate) fn names(&self) -> SealedNames {
        let usual = if self.of_age { SealedNames::of_age } else { SealedNames::default };
        self.suffix.clone().unwrap_or_else(usual)
    }
}

impl Suffix {
    /// Refuses the option for a sealed tree.
    pub(crate) fn check_sealed(&self) -> Result<(), Trouble> {
        let reason = "--suffix: files of a sealed tree have random names";
        refuse_first(&[(self.suffix.is_some(), reason)], LEAVE_OUT)
    }
}

impl Choosing {
    /// Refuses options without effect: a choice among the files of a tree if there is none, and a
    /// suffix if no name is made or looked for.
    pub(crate) fn check(&self, has_tree: bool, has_suffixes: bool) -> Result<(), Trouble> {
        let given = [
            (!self.include.is_empty(), "--include chooses among the files of a tree"),
            (!self.exclude.is_empty(), "--exclude chooses among the files of a tree"),
            (self.follow_symlinks, "--follow-symlinks is for the links in a tree"),
            (self.one_file_system, "--one-file-system is for the directories of a tree"),
        ];
        if let Some((_, what)) = given.into_iter().find(|(given, _)| *given && !has_tree) {
            return Err(Trouble::Usage(format!("{what}, and no tree is given")));
        }
        if self.suffix.suffix.is_some() && !has_suffixes {
            return Err(Trouble::usage(
                "--suffix is for the files of a tree or a directory, and the one file here has its name",
            ));
        }
        Ok(())
    }

    /// Refuses to follow links if that is of no use.
    pub(crate) fn refuse_to_follow(&self, reason: &str) -> Result<(), Trouble> {
        match self.follow_symlinks {
            true => Err(Trouble::Usage(format!("--follow-symlinks is of no use: {reason}"))),
            false => Ok(()),
        }
    }

    /// Refuses options that mean nothing for a sealed tree.
    pub(crate) fn check_sealed(&self, operation: Operation) -> Result<(), Trouble> {
        let reads = operation != Operation::Encrypt;
        self.suffix.check_sealed()?;
        refuse_first(
            &[
                (
                    self.follow_symlinks && reads,
                    "--follow-symlinks: the links of a sealed tree are in its index",
                ),
                (
                    self.follow_symlinks,
                    "--follow-symlinks: a sealed tree keeps the links themselves",
                ),
                (
                    self.one_file_system && reads,
                    "--one-file-system: a sealed tree shows no file systems",
                ),
            ],
            LEAVE_OUT,
        )
    }

    pub(crate) fn apply(self, options: &mut TreeOptions) -> Result<(), Trouble> {
        options.selection = Selection::new(&self.include, &self.exclude)?;
        options.follow_symlinks = self.follow_symlinks;
        options.one_file_system = self.one_file_system;
        options.names = self.suffix.names();
        Ok(())
    }
}

/// Options that choose a part of an encrypted tree.
#[derive(Args, Clone, Debug)]
pub(crate) struct Part {
    /// Process only this part of a tree; repeatable
    ///
    /// PATH is a file or directory in the tree, as it was named before encryption, without `.enc`
    /// or `.age`. A path that does not exist is an error
    #[arg(long, value_name = "PATH", help_heading = "Trees")]
    only: Vec<PathBuf>,
}

impl Part {
    /// Refuses to take a part of anything but a single tree.
    pub(crate) fn check(&self, is_one_tree: bool) -> Result<(), Trouble> {
        if self.only.is_empty() || is_one_tree {
            return Ok(());
        }
        Err(Trouble::usage("--only chooses a part of a tree, so SRC is one tree"))
    }

    /// Adds paths.
    pub(crate) fn add(&mut self, paths: Vec<PathBuf>) {
        self.only.extend(paths);
    }

    pub(crate) fn apply(self, options: &mut TreeOptions) -> Result<(), Trouble> {
        let selection = std::mem::take(&mut options.selection);
        let in_only = |error| Trouble::Usage(format!("--only {error}"));
        options.selection = selection.only(&self.only).map_err(in_only)?;
        Ok(())
    }
}

/// The advice about an option that means nothing for a sealed tree.
const LEAVE_OUT: &str = "; leave it out";

/// Options for outputs.
#[derive(Args, Debug)]
pub(crate) struct Writing {
    /// Continue an interrupted run
    ///
    /// Evener skips each file whose output is complete: its size and time are right, and its header
    /// fits the key. It does not verify the content
    #[arg(long, help_heading = "Outputs")]
    pub(crate) resume: bool,
    /// Process only new and changed files
    ///
    /// Evener replaces outputs whose source has changed, and keeps the others. A source counts as
    /// changed if its size or time differs from the output's, or if its ctime is not older than the
    /// output. This also finds files whose time was set back, and repeats files that were only
    /// renamed. Directories get the mode and time of their source, but DST itself keeps its mode.
    /// Outputs of another key are errors, and so are decrypted files that are newer than their
    /// source
    #[arg(long, conflicts_with_all = ["resume", "remove_source"], help_heading = "Outputs")]
    pub(crate) update: bool,
    /// With --update: compare only size and time, not the ctime
    ///
    /// Creating a hard link, as `cp -al` does, also changes the ctime. An update always ignores it
    /// if DST shows none (sshfs, exFAT, or files decrypted from an object store), and says so
    #[arg(long, help_heading = "Outputs")]
    ignore_ctime: bool,
    /// With --update of an encrypted tree: delete outputs whose source is gone
    ///
    /// Evener asks first. It deletes only files that the key opens, and then directories that have
    /// become empty. It keeps symbolic links, and outputs of files that --exclude skips. --dry-run
    /// lists the files to delete.
    ///
    /// With --format age, --identity must open the files. Age files do not show which program made
    /// them: Evener recognises and keeps those of `age`, but not those of others such as rage, so
    /// keep other age files out of DST.
    ///
    /// Evener deletes nothing at all if a file failed, if it could not read a directory, or if DST
    /// held no output of SRC before. It also deletes nothing while a disk may be unmounted: if a
    /// directory of SRC was a mount point in an earlier run and is none now (DST/.evener-mounts
    /// lists them), or if it is empty and no run with --delete has recorded yet that it is no mount
    /// point. Deletions come last: if DST is full, make room there by hand
    #[arg(long, help_heading = "Outputs")]
    delete: bool,
    /// Let --delete also delete below directories that are no longer mounted, or are empty
    #[arg(long, help_heading = "Outputs")]
    delete_unmounted: bool,
    /// With --delete: delete without asking
    #[arg(short, long, help_heading = "Outputs")]
    yes: bool,
    /// Replace existing outputs
    ///
    /// Without this option, an existing output is an error. Evener always writes to a DST that is a
    /// device or FIFO, from its beginning
    #[arg(long, help_heading = "Outputs")]
    overwrite: bool,
    /// Remove each source file once its output has been read back, compared and synced
    ///
    /// Do not use it for files that another program still writes to: data added during the removal
    /// is lost. If you resume an interrupted run, directories get the time of the removal, and hard
    /// links may become copies
    #[arg(long, help_heading = "Outputs")]
    pub(crate) remove_source: bool,
    /// Sync every output and its name to the storage device before Evener exits
    #[arg(long, help_heading = "Outputs")]
    durable: bool,
    /// Keep owner and group, and the set-user-ID and set-group-ID bits
    ///
    /// Evener always keeps the time and the rest of the mode
    #[arg(long, help_heading = "Outputs")]
    owner: bool,
    /// Keep extended attributes, including access control lists
    ///
    /// Without this option, a file that has an access control list keeps as its group's permissions
    /// those that `ls` shows: the list's mask
    #[arg(long, help_heading = "Outputs")]
    xattrs: bool,
    /// Write pages of zeros as holes
    #[arg(long, help_heading = "Outputs")]
    sparse: bool,
    /// List the work without doing it
    ///
    /// Evener also lists the errors that it expects, and writes nothing. It checks neither the
    /// content of files nor the free space
    #[arg(long, short = 'n', help_heading = "Outputs")]
    pub(crate) dry_run: bool,
}

impl Writing {
    pub(crate) fn apply(self, options: &mut Options) {
        options.transfer.resume = self.resume;
        options.transfer.overwrite = self.overwrite;
        options.transfer.update = self.update;
        options.transfer.ignore_ctime = self.ignore_ctime;
        options.transfer.dry_run = self.dry_run;
        options.transfer.durable = self.durable;
        options.stream.overwrite = self.overwrite;
        options.stream.durable = self.durable;
        options.tree.existing = self.existing();
        options.tree.remove_source = self.remove_source;
        options.tree.durable = self.durable;
        options.tree.owner = self.owner;
        options.tree.xattrs = self.xattrs;
        options.tree.sparse = self.sparse;
        options.tree.dry_run = self.dry_run;
    }

    fn existing(&self) -> Existing {
        let overwrite = self.overwrite;
        if self.update {
            let (ignore_ctime, delete) = (self.ignore_ctime, self.delete.then(|| self.deletion()));
            Existing::Update(Update { overwrite, ignore_ctime, delete })
        } else if self.resume {
            Existing::Resume { overwrite }
        } else if overwrite {
            Existing::Overwrite
        } else {
            Existing::Refuse
        }
    }

    fn deletion(&self) -> Delete {
        let agree: Agree =
            if self.yes { Arc::new(|_| true) } else { Arc::new(deletion::is_wanted) };
        Delete { agree, unmounted: self.delete_unmounted }
    }

    /// Warns of what `--resume` or `--update` can't detect with these keys, if it was given.
    pub(crate) fn warning(&self, ring: &KeyRing, has_closed_keys: bool) -> Option<String> {
        let reason = if !ring.primary().cipher().is_authenticated() {
            "nothing in files of `openssl enc` shows with which key they were made"
        } else if !ring.opens_files() {
            "recipients can't open files; with --identity, Evener also tries that each output opens"
        } else if has_closed_keys && self.resume {
            "nothing was given that opens the keys of earlier runs (--identity, --passphrase)"
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

    /// Refuses options that mean nothing for a sealed tree.
    pub(crate) fn check_sealed(&self, operation: Operation) -> Result<(), Trouble> {
        let seals = operation == Operation::Encrypt;
        let always = [
            (self.remove_source, "--remove-source: a sealed tree does not replace its source"),
            (self.ignore_ctime, "--ignore-ctime: it is for --update of plain trees"),
        ];
        let sealing = [
            (
                self.delete,
                "--delete: a generation has no files that are gone, and earlier ones keep theirs",
            ),
            (self.delete_unmounted, "--delete-unmounted: nothing is deleted"),
            (self.yes, "--yes: nothing is asked"),
            (self.overwrite, "--overwrite: a new generation replaces none before it"),
            (self.sparse, "--sparse: it writes holes when decrypting"),
        ];
        let opening = [
            (
                self.update,
                "--update: use --resume for files that are missing, or --overwrite for all",
            ),
            (self.dry_run, "--dry-run: `evener list` shows what a sealed tree holds"),
            (self.delete, "--delete: decrypting deletes nothing"),
            (self.delete_unmounted, "--delete-unmounted: nothing is deleted"),
            (self.yes, "--yes: nothing is asked"),
        ];
        refuse_first(&always, LEAVE_OUT)?;
        refuse_first(if seals { &sealing } else { &opening }, LEAVE_OUT)
    }

    /// Refuses options that do not go with an object store.
    pub(crate) fn check_objects(&self) -> Result<(), Trouble> {
        let given = [
            (self.delete, "--delete removes outputs from directories only"),
            (self.remove_source, "--remove-source reads outputs back before they have names"),
            (self.sparse, "--sparse makes holes in files of directories"),
        ];
        refuse_first(&given, ", and one place is an object store; leave it out")
    }

    /// Rejects options that need files if one end is a pipe, options that need others, and a
    /// question that nobody can answer.
    pub(crate) fn check(&self, operation: Operation, route: &Route) -> Result<(), Trouble> {
        let need_files = [
            (self.resume, "--resume"),
            (self.update, "--update"),
            (self.remove_source, "--remove-source"),
            (self.owner, "--owner"),
            (self.xattrs, "--xattrs"),
            (self.sparse, "--sparse"),
            (self.dry_run, "--dry-run"),
        ];
        if self.yes && !self.delete {
            return Err(Trouble::usage(
                "--yes answers the question of --delete, which is not given",
            ));
        }
        if self.delete_unmounted && !self.delete {
            return Err(Trouble::usage("--delete-unmounted is a part of --delete: give both"));
        }
        if self.ignore_ctime && !self.update {
            return Err(Trouble::usage(
                "--ignore-ctime says how --update finds what has changed: give both",
            ));
        }
        if self.delete && !self.update {
            return Err(Trouble::usage(
                "--delete is a part of --update, which brings DST up to date: give both",
            ));
        }
        if self.durable && route.first().target == Some(Place::Pipe) {
            return Err(Trouble::usage(
                "--durable syncs files, and the output is a pipe; its reader can sync what it writes",
            ));
        }
        if self.overwrite && route.ends.iter().all(|ends| ends.target == Some(Place::Pipe)) {
            return Err(Trouble::usage(
                "--overwrite replaces files, and the output is a pipe or redirected by the shell",
            ));
        }
        if self.delete && !self.yes && !self.dry_run && !deletion::can_be_asked() {
            return Err(Trouble::usage(
                "--delete asks before it deletes, and there is no terminal to ask on; --yes \
                 deletes without asking, and --dry-run only names what would go",
            ));
        }
        if self.sparse && operation == Operation::Encrypt {
            return Err(Trouble::usage(
                "--sparse writes holes when decrypting; encrypting keeps no holes, but reads them \
                 as zeros",
            ));
        }
        if self.delete && !route.has_tree() {
            return Err(Trouble::usage(
                "--delete deletes outputs of files that are gone from a tree, and SRC is no tree",
            ));
        }
        if let Some((held, source)) = route.held_before().filter(|_| self.delete) {
            return Err(Trouble::Usage(format!(
                "--delete would delete {held}, which seems to be an earlier output of {source}; name \
                 {held} as DST to bring it up to date",
                held = shown(&held),
                source = shown(source)
            )));
        }
        let has_pipe = route.ends.iter().any(Ends::has_pipe);
        match need_files.into_iter().find(|(given, _)| *given && has_pipe) {
            Some((_, name)) => Err(Trouble::Usage(format!(
                "{name} does not go with a pipe, nor with a device, base64 or a stored pipe, which \
                 Evener reads like one; leave it out"
            ))),
            None => Ok(()),
        }
    }
}
