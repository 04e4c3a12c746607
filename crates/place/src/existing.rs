//! The treatment of outputs that exist before an operation.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// How an operation treats outputs that exist already.
#[derive(Clone, Debug, Default)]
pub enum Existing {
    /// They are errors.
    #[default]
    Refuse,
    /// They are replaced.
    Overwrite,
    /// Complete ones are left as they are, and their sources are skipped. An output is complete if
    /// it has the expected size, the source's time and, in formats that show it, the right key. Its
    /// content is not verified. Where sources are removed, it is compared with the source, and made
    /// again.
    Resume {
        /// Replace outputs that are not complete. Otherwise they are errors.
        overwrite: bool,
    },
    /// They are brought up to date. Not with
    /// [`TreeOptions::remove_source`](crate::TreeOptions::remove_source).
    Update(Update),
}

impl Existing {
    /// Complete outputs are skipped, others are errors.
    pub fn resume() -> Existing {
        Existing::Resume { overwrite: false }
    }

    /// Outputs are brought up to date as [`Update::default`] says.
    pub fn update() -> Existing {
        Existing::Update(Update::default())
    }

    pub(crate) fn resumes(&self) -> bool {
        matches!(self, Existing::Resume { .. })
    }

    pub(crate) fn updates(&self) -> bool {
        matches!(self, Existing::Update(_))
    }

    pub(crate) fn overwrites(&self) -> bool {
        match self {
            Existing::Refuse => false,
            Existing::Overwrite => true,
            Existing::Resume { overwrite } | Existing::Update(Update { overwrite, .. }) => {
                *overwrite
            }
        }
    }

    /// Returns whether outputs of an older state of their source are replaced.
    pub(crate) fn replaces(&self) -> bool {
        self.overwrites() || self.updates()
    }

    pub(crate) fn ignores_ctime(&self) -> bool {
        matches!(self, Existing::Update(Update { ignore_ctime: true, .. }))
    }

    pub(crate) fn delete(&self) -> Option<&Delete> {
        match self {
            Existing::Update(update) => update.delete.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn deletes_unmounted(&self) -> bool {
        self.delete().is_some_and(|delete| delete.unmounted)
    }
}

/// Brings existing outputs up to date: replaces those whose source has changed, keeps complete
/// ones, and makes missing ones. A source has changed if its size or time differs from the
/// output's, or if its status (mode, owner, content) changed after the output was made.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// Also replace outputs that were not made with the keys, and decrypted files that are newer
    /// than their source. Otherwise they are errors.
    pub overwrite: bool,
    /// Compare only size and time. A source's status also changes when a link to it is made, as by
    /// snapshots with `cp -al`. If the outputs' file system keeps no times of change, a notice in
    /// the report says that the update compared size and time.
    pub ignore_ctime: bool,
    /// When a tree is encrypted: remove outputs whose source is gone.
    pub delete: Option<Delete>,
}

/// Removes outputs whose source is gone, once everything else is done without a failure, if outputs
/// of this source existed before. Only files that one of the keys opens, links whose source a file
/// has replaced, and directories left empty are removed. Age's identities also open files of other
/// programs: those of `age`, and wrapped keys, are kept. Nothing is removed beside a single file.
#[derive(Clone)]
pub struct Delete {
    /// Decides whether the outputs may be deleted.
    pub agree: Agree,
    /// Also delete below directories of the source that were mount points at an earlier run and no
    /// longer are, and below empty ones where it is not known which were mount points.
    pub unmounted: bool,
}

impl fmt::Debug for Delete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delete").field("unmounted", &self.unmounted).finish_non_exhaustive()
    }
}

/// Decides whether the outputs with these paths may be deleted. Called once, and never in a dry
/// run.
pub type Agree = Arc<dyn Fn(&[PathBuf]) -> bool + Send + Sync>;
