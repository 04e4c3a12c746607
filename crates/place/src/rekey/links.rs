//! The hard links of a tree, found before anything is replaced: afterwards the names of a file no
//! longer lead to one.

use std::collections::HashMap;

use crate::Name;
use crate::place::{Kind, Origin};

/// The further names of files, each with the name that stands for the file.
#[derive(Default)]
pub(super) struct Links(HashMap<Name, Name>);

impl Links {
    /// Walks through a tree. Of a file's names, the first that `takes` takes stands for it.
    pub(super) fn of(tree: &dyn Origin, takes: impl Fn(&Name) -> bool) -> Links {
        let mut leaders: HashMap<Name, Name> = HashMap::new();
        let mut further = HashMap::new();
        for entry in tree.walk().flatten() {
            let Kind::HardLink(first) = entry.kind else { continue };
            if !takes(&entry.name) {
                continue;
            }
            let leader = match takes(&first) {
                true => first,
                false => leaders.entry(first).or_insert_with(|| entry.name.clone()).clone(),
            };
            if leader != entry.name {
                further.insert(entry.name, leader);
            }
        }
        Links(further)
    }

    /// The name that stands for a file, if this is a further one.
    pub(super) fn leader(&self, name: &Name) -> Option<&Name> {
        self.0.get(name)
    }
}
