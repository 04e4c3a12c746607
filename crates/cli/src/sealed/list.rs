//! Lists what a sealed tree holds.

use std::io::{self, Write};
use std::path::Path;

use evener::sealed_trees::{Depth, GenerationInfo, ListedEntry};
use evener::{Failure, FileError};
use serde_json::json;

use super::care::Tree;
use crate::document::print_json;
use crate::hints::{self, Given};
use crate::options::times;
use crate::trouble::{Ending, Trouble, complain, shown};

/// Lists the entries that the tree's options select.
pub(crate) fn entries(
    tree: &Tree,
    depth: Depth,
    is_long: bool,
    json: bool,
) -> Result<Ending, Trouble> {
    let (mut entries, mut failures) = (Vec::new(), Vec::new());
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut printed = Ok(());
    let read = tree.evener.list_tree(&tree.place()?, depth, &tree.sealed, &mut |entry| {
        match entry {
            Ok(entry) if json => entries.push(entry),
            Ok(entry) => printed = print(&entry, is_long, &mut out),
            Err(failure) => failures.push(failure),
        }
        printed.is_ok()
    })?;
    printed.and_then(|()| out.flush()).map_err(Trouble::Output)?;
    drop(out);
    tree.tell_of(&read);
    if json {
        print_json(&json!({ "generation": read, "entries": entries, "failures": failures }))?;
    }
    Ok(ending(&failures))
}

fn ending(failures: &[Failure]) -> Ending {
    for failure in failures {
        complain(&hints::line(failure, Given::default()));
    }
    if failures.is_empty() { Ending::Done } else { Ending::SomeFailed }
}

/// Prints an entry: its size, its time and its path, and in a long list its mode, owner and the file
/// that holds it.
fn print(entry: &ListedEntry, is_long: bool, out: &mut impl Write) -> io::Result<()> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let bytes = or_none(entry.bytes.map(|bytes| bytes.to_string()));
    let time = or_none(entry.modified.map(|(seconds, _)| times::shown(seconds)));
    if is_long {
        let mode = or_none(entry.mode.map(|mode| format!("{:04o}", mode & 0o7777)));
        let owner = or_none(entry.owner.map(|(user, group)| format!("{user}:{group}")));
        let stored = or_none(entry.stored.as_ref().map(|(name, _)| name.clone()));
        write!(out, "{mode:>4} {owner:>11} {stored:40} ")?;
    }
    let end = if entry.kind == "directory" { "/" } else { "" };
    write!(out, "{bytes:>15} {time:20} {}{end}", shown(or_root(&entry.path)))?;
    match (&entry.target, entry.kind) {
        (Some(target), "link") => writeln!(out, " = {}", shown(target)),
        (Some(target), _) => writeln!(out, " -> {}", shown(target)),
        (None, _) => writeln!(out),
    }
}

/// The path of an entry; `.` for the root of the tree.
pub(crate) fn or_root(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Lists the generations, the newest first.
pub(crate) fn generations(tree: &Tree, json: bool) -> Result<Ending, Trouble> {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    tree.evener.list_generations(&tree.place()?, &tree.sealed, &mut |number, is_whole, info| {
        if all.is_empty()
            && let Ok(newest) = &info
        {
            tree.tell_of(newest);
        }
        // Keys of removed generations are no longer needed.
        if let (Err(error), true) = (&info, is_whole) {
            let path = tree.path.join(format!("tree/{number:019}"));
            failures.push(Failure { path, error: error.clone() });
        }
        all.push((number, is_whole, info));
        true
    })?;
    if json {
        let row = |(number, is_whole, info): &(u64, bool, Result<GenerationInfo, FileError>)| json!({ "number": number, "is_whole": is_whole, "root": info.as_ref().ok() });
        let all: Vec<_> = all.iter().map(row).collect();
        print_json(&json!({ "generations": all, "failures": failures }))?;
    } else {
        let print = |out: &mut io::StdoutLock<'_>| -> io::Result<()> {
            writeln!(
                out,
                "{:>10} {:20} {:>12} {:>15} signed by",
                "generation", "time", "entries", "bytes"
            )?;
            for (number, is_whole, info) in &all {
                let gone = if *is_whole { "" } else { " (removed)" };
                let Ok(info) = info else {
                    if !is_whole {
                        writeln!(out, "{number:>10} {:20} {:>12} {:>15} -{gone}", "-", "-", "-")?;
                    }
                    continue;
                };
                let GenerationInfo { time, entries, bytes, signer, .. } = info;
                let signer = signer.as_deref().unwrap_or("-");
                let time = times::shown(*time);
                writeln!(out, "{number:>10} {time:20} {entries:>12} {bytes:>15} {signer}{gone}")?;
            }
            out.flush()
        };
        print(&mut io::stdout().lock()).map_err(Trouble::Output)?;
    }
    Ok(ending(&failures))
}
