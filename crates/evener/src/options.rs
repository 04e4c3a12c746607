//! The options of all operations.

use std::path::Path;

use evener_place::{RunSettings, StreamOptions, TransferOptions, TreeOptions};

/// The settings of an [`Evener`](crate::Evener): those that all operations share, and the options
/// of each kind of operation. The defaults are the program's.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Workers, memory, progress.
    pub run: RunSettings,
    /// For files and trees.
    pub tree: TreeOptions,
    /// For streams.
    pub stream: StreamOptions,
    /// For transfers between places.
    pub transfer: TransferOptions,
}

impl Options {
    /// Has trees and streams leave a file alone: as a source and as an output.
    pub fn protect(&mut self, path: &Path) {
        self.tree.protected.add(path);
        self.stream.protected.add(path);
    }
}
