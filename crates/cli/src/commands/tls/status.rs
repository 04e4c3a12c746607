//! `evener tls status`

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use evener::Failure;
use serde::Serialize;

use super::counters::{Count, read};
use crate::document::print_json;
use crate::trouble::{Ending, Trouble, complain, shown};

/// Show how many records Evener did, process by process
///
/// Processes count where their configuration has the line `counters = on` (`evener tls config
/// --counters`). Root sees those of all users.
#[derive(Args)]
pub(crate) struct Status {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
        let (mut processes, mut failures) = (Vec::new(), Vec::new());
        for path in self.file.map_or_else(usual_files, |file| vec![file]) {
            match read(&path) {
                Ok(counts) => processes.extend(counts),
                Err(cause) => {
                    let trouble = Trouble::File { action: "read", path, cause };
                    complain(&trouble);
                    failures.push(trouble.as_failure());
                }
            }
        }
        let ending = if failures.is_empty() { Ending::Done } else { Ending::SomeFailed };
        if self.json {
            print_json(&Document { processes, failures })?;
        } else {
            print(&processes, ending, &mut io::stdout().lock()).map_err(Trouble::Output)?;
        }
        Ok(ending)
    }
}

/// The files that are there.
fn usual_files() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let own = [
        PathBuf::from(format!("/run/user/{user}/evener-tls")),
        PathBuf::from(format!("/dev/shm/evener-tls-{user}")),
    ];
    let mut files = own.to_vec();
    if user == 0 {
        files.extend(entries("/run/user").map(|path| path.join("evener-tls")));
        files.extend(entries("/dev/shm").filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let user = name.and_then(|name| name.strip_prefix("evener-tls-"));
            user.is_some_and(|user| user.parse::<u32>().is_ok())
        }));
    }
    files.retain(|path| path.exists());
    files.sort();
    files.dedup();
    files
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
            "no process has counted a record; with `counters = on` in the configuration they do"
        );
    }
    writeln!(
        out,
        "{:>10}  {:15} {:>12} {:>16} {:>12} {:>16} {:>8} {:>12} {:>16}",
        "process",
        "program",
        "encrypted",
        "bytes",
        "decrypted",
        "bytes",
        "forged",
        "by module",
        "bytes"
    )?;
    for count in processes {
        let process = match (count.process, count.has_ended) {
            (0, _) => "ended".to_owned(),
            (process, true) => format!("{process} ended"),
            (process, false) => process.to_string(),
        };
        writeln!(
            out,
            "{process:>10}  {:15} {:>12} {:>16} {:>12} {:>16} {:>8} {:>12} {:>16}",
            shown(Path::new(&count.program)).to_string(),
            count.encrypted_records,
            count.encrypted_bytes,
            count.decrypted_records,
            count.decrypted_bytes,
            count.forged_records,
            count.module_records,
            count.module_bytes,
        )?;
    }
    out.flush()
}

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
