//! `evener tls status`

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use evener::Failure;
use serde::Serialize;

use super::counters::{Count, read, sort};
use crate::document::print_json;
use crate::summary::size;
use crate::table::{self, Column};
use crate::trouble::{Ending, Trouble, complain, shown};

/// Show how many records Evener did, process by process
///
/// Processes count where their configuration has the line `counters = on` (`evener tls config
/// --counters`). Root sees those of all users, as each user's processes say.
#[derive(Args)]
pub(crate) struct Status {
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
    /// The file, where the configuration names one
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    processes: Vec<Count>,
    failures: Vec<Failure>,
}

impl Status {
    pub(super) fn perform(self) -> Result<Ending, Trouble> {
        let failed =
            |path: &Path, cause| Trouble::File { action: "read", path: path.into(), cause };
        let user = rustix::process::geteuid().as_raw();
        let (mut processes, mut failures) = (Vec::new(), Vec::new());
        if let Some(path) = &self.file {
            processes = read(path, None).map_err(|cause| failed(path, cause))?;
        } else {
            for Usual { path, is_own } in usual_files(user) {
                match read(&path, is_own.then_some(user)) {
                    Ok(counts) => processes.extend(counts),
                    Err(cause) => {
                        let trouble = failed(&path, cause);
                        complain(&trouble);
                        // Other users can put there what they like.
                        failures.extend(is_own.then(|| trouble.as_failure()));
                    }
                }
            }
        }
        sort(&mut processes);
        let ending = if failures.is_empty() { Ending::Done } else { Ending::SomeFailed };
        if self.json {
            print_json(&Document { processes, failures })?;
        } else {
            print(&processes, ending, &mut io::stdout().lock()).map_err(Trouble::Output)?;
        }
        Ok(ending)
    }
}

/// A file in one of the usual places, of this user or, for root, of another one.
struct Usual {
    path: PathBuf,
    is_own: bool,
}

/// The files that are there.
fn usual_files(user: u32) -> Vec<Usual> {
    let own = [
        PathBuf::from(format!("/run/user/{user}/evener-tls")),
        PathBuf::from(format!("/dev/shm/evener-tls-{user}")),
    ];
    let mut others = Vec::new();
    if user == 0 {
        others.extend(entries("/run/user").map(|path| path.join("evener-tls")));
        others.extend(entries("/dev/shm").filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let user = name.and_then(|name| name.strip_prefix("evener-tls-"));
            user.is_some_and(|user| user.parse::<u32>().is_ok())
        }));
        others.retain(|path| !own.contains(path));
        others.sort();
    }
    let own = own.into_iter().map(|path| Usual { path, is_own: true });
    let others = others.into_iter().map(|path| Usual { path, is_own: false });
    own.chain(others).filter(|file| file.path.exists()).collect()
}

fn entries(directory: &str) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(Path::new(directory)).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn print(processes: &[Count], ending: Ending, out: &mut dyn Write) -> io::Result<()> {
    if processes.is_empty() && ending != Ending::Done {
        return Ok(());
    }
    if processes.is_empty() {
        return writeln!(
            out,
            "no record is counted here. Processes count with `counters = on` in the configuration; \
             those that run since before their file was removed are to be restarted"
        );
    }
    for line in table::lines(&COLUMNS, &rows(processes), table::width_of(io::stdout())) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn rows(processes: &[Count]) -> Vec<[String; COLUMNS.len()]> {
    let row = |count: &Count| {
        let process = match (count.process, count.has_ended) {
            (0, _) => "ended".to_owned(),
            (process, true) => format!("{process} ended"),
            (process, false) => process.to_string(),
        };
        let size = |bytes: u64| size(bytes as f64);
        [
            process,
            shown(Path::new(&count.program)).to_string(),
            count.encrypted_records.to_string(),
            size(count.encrypted_bytes),
            count.decrypted_records.to_string(),
            size(count.decrypted_bytes),
            count.forged_records.to_string(),
            count.module_records.to_string(),
            size(count.module_bytes),
        ]
    };
    processes.iter().map(row).collect()
}

/// The columns: records, and behind them their bytes. What a module did is among them.
const COLUMNS: [Column; 9] = [
    ("process", 0),
    ("program", 0),
    ("encrypted", 0),
    ("bytes", 2),
    ("decrypted", 0),
    ("bytes", 2),
    ("forged", 1),
    ("by module", 1),
    ("bytes", 3),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_one_line_whatever_its_name() {
        let count = Count { program: "x\n  1  root".to_owned(), ..Count::default() };
        let mut out = Vec::new();
        print(&[count], Ending::Done, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(r#""x\u{a}  1  root""#), "{text}");
    }
}
