//! Checks that an option of one command exists, under the same name, in all commands where it makes
//! sense.

use std::collections::{BTreeMap, BTreeSet};

use clap::Command;
use evener_cli::help::commands;

use crate::arguments::program;

/// The commands that process files alike. Of all their options, each lacks exactly these.
const OF_FILES: [(&str, &[&[&str]]); 4] = [
    // SRC itself can name a part of a tree. Nothing is shown on a terminal, and no holes are made.
    ("encrypt", &[&["only", "force", "sparse", "insecure-modes"], READING_TREES, LISTING_TREES]),
    // It deletes no plaintext.
    (
        "decrypt",
        &[
            MAKING_KEYS,
            SEALING_TREES,
            LISTING_TREES,
            &["quick", "sample", "skip-changing", "delete", "delete-unmounted", "yes"],
        ],
    ),
    ("verify", &[MAKING_KEYS, WRITING, SEALING_TREES, LISTING_TREES]),
    // The list is the result: it has no further messages, no progress and no links.
    (
        "list",
        &[
            MAKING_KEYS,
            WRITING,
            WORKING,
            SEALING_TREES,
            &["quick", "sample", "verbose", "json-progress", "metrics", "follow-symlinks"],
        ],
    ),
];

/// Options of commands that make keys.
const MAKING_KEYS: &[&str] = &["recipient", "recipients-file"];

/// Options that make sealed trees.
const SEALING_TREES: &[&str] = &["sealed", "sign", "pad", "checksum", "recipients-changed"];

/// Options that read sealed trees.
const READING_TREES: &[&str] = &["generation", "at", "quick", "sample"];

/// Options that list sealed trees.
const LISTING_TREES: &[&str] = &["long", "shallow", "generations"];

/// Options of commands that write files.
const WRITING: &[&str] = &[
    "skip-changing",
    "force",
    "resume",
    "update",
    "ignore-ctime",
    "delete",
    "delete-unmounted",
    "yes",
    "overwrite",
    "remove-source",
    "durable",
    "owner",
    "xattrs",
    "sparse",
    "insecure-modes",
    "dry-run",
];

/// Options of commands that need engines.
const WORKING: &[&str] = &[
    "engine",
    "retry-pin",
    "verify-engine",
    "policy",
    "profile",
    "gate",
    "permits",
    "gate-group",
    "gate-lease",
    "background",
    "max-cpu",
    "jobs",
    "memory",
];

/// A command, and another that has all its options except these.
const PARTS: [(&str, &str, &[&str]); 7] = [
    // A new key is written to a file of its own.
    ("keygen", "encrypt", &["output"]),
    // Measuring the costs prints nothing while it measures.
    ("speed", "engines", &["quiet"]),
    ("gate", "encrypt", &[]),
    ("gate reset", "gate", &[]),
    ("verify", "decrypt", &["quick", "sample"]),
    // The new key is beside those that open the tree.
    ("rekey", "encrypt", &["new-key", "trust-unopened"]),
    // Parts of a file have no names.
    ("cat", "decrypt", &["offset", "count"]),
];

/// Options that each command has, except these.
const OF_ALL: [(&str, &[&str]); 2] = [
    // Their output is for a person, a shell or another program, or there is none.
    (
        "json",
        &[
            "keygen",
            "cat",
            "job",
            "gate reset",
            "tls",
            "tls config",
            "tls check",
            "tls enable",
            "tls disable",
            "completions",
            "man",
        ],
    ),
    // They print nothing but their result.
    (
        "quiet",
        &[
            "job",
            "job simulate",
            "job status",
            "engines",
            "gate",
            "gate reset",
            "tls",
            "tls config",
            "tls check",
            "tls enable",
            "tls disable",
            "tls status",
            "completions",
            "man",
        ],
    ),
];

/// Returns each command's name, without the program's, with its options as the manual shows them.
fn options() -> BTreeMap<String, BTreeSet<String>> {
    let known = commands(&program(), "evener").into_iter();
    let named = known.filter_map(|(path, command)| {
        let name = path.strip_prefix("evener ")?.to_owned();
        Some((name, shown(&command)))
    });
    named.collect()
}

fn shown(command: &Command) -> BTreeSet<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn commands_for_files_have_the_same_options() {
    let options = options();
    let all: BTreeSet<_> = OF_FILES.iter().flat_map(|(name, _)| &options[*name]).cloned().collect();
    for (name, lacks) in OF_FILES {
        let missing: BTreeSet<_> = all.difference(&options[name]).cloned().collect();
        assert_eq!(missing, set(&lacks.concat()), "{name}");
    }
}

#[test]
fn a_smaller_command_has_the_options_of_the_larger_one() {
    let options = options();
    for (small, large, own) in PARTS {
        let others: BTreeSet<_> = options[small].difference(&options[large]).cloned().collect();
        assert_eq!(others, set(own), "{small} beside {large}");
    }
}

#[test]
fn what_all_have_all_have() {
    let options = options();
    for (option, without) in OF_ALL {
        let lacking = options.iter().filter(|(_, options)| !options.contains(option));
        let lacking: BTreeSet<_> = lacking.map(|(name, _)| name.clone()).collect();
        assert_eq!(lacking, set(without), "--{option}");
    }
}

/// A letter means the same option for every command, and an option has one letter.
#[test]
fn letters_mean_the_same_everywhere() {
    let (mut names, mut letters) = (BTreeMap::new(), BTreeMap::new());
    for (path, command) in commands(&program(), "evener") {
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long().map(str::to_owned) else { continue };
            if let Some(letter) = arg.get_short() {
                let name = names.entry(letter).or_insert(long.clone());
                assert_eq!(*name, long, "{path} -{letter}");
            }
            let letter = letters.entry(long.clone()).or_insert(arg.get_short());
            assert_eq!(*letter, arg.get_short(), "{path} --{long}");
        }
    }
}
