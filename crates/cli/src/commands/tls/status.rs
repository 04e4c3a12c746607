//! `evener tls status`

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use evener::Failure;
use serde::Serialize;

use super::counters::{Count, Total, Work, read, sort, totals};
use super::prometheus;
use crate::document::print_json;
use crate::summary::size;
use crate::table::{self, Column};
use crate::trouble::{Ending, Trouble, complain, shown};

/// Show how many records Evener processed, by program
///
/// Processes count if their configuration has the line `counters = on` (`evener tls config
/// --counters`). Root sees the processes of all users, as they report themselves.
#[derive(Args)]
pub(crate) struct Status {
    /// Show each process, instead of a total for each program
    #[arg(long, conflicts_with = "prometheus")]
    all: bool,
    /// Show only this program, by its name in `ps -o comm`; repeatable
    #[arg(long = "program", value_name = "NAME")]
    programs: Vec<String>,
    /// Print one JSON document, which lists each process
    #[arg(long, conflicts_with_all = ["all", "prometheus"])]
    pub(super) json: bool,
    /// Print the text format of Prometheus
    #[arg(long)]
    prometheus: bool,
    /// File of counters, if the configuration names one [default: those of the user or, for root,
    /// of all users]
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
        let (mut processes, failures) = self.read()?;
        if !self.programs.is_empty() {
            processes.retain(|count| self.programs.iter().any(|name| is_named(count, name)));
        }
        sort(&mut processes);
        let ending = if failures.is_empty() { Ending::Done } else { Ending::SomeFailed };
        let print = |text: String| io::stdout().lock().write_all(text.as_bytes());
        if self.json {
            print_json(&Document { processes, failures })?;
        } else if self.prometheus {
            print(prometheus::text(totals(&processes))).map_err(Trouble::Output)?;
        } else if !processes.is_empty() || ending == Ending::Done {
            print(self.text(&processes)).map_err(Trouble::Output)?;
        }
        Ok(ending)
    }

    /// Reads the counts of the file, or of those in the usual places with the reasons why some
    /// can't be read.
    fn read(&self) -> Result<(Vec<Count>, Vec<Failure>), Trouble> {
        let failed =
            |path: &Path, cause| Trouble::File { action: "read", path: path.into(), cause };
        if let Some(path) = &self.file {
            let processes = read(path, None).map_err(|cause| failed(path, cause))?;
            return Ok((processes, Vec::new()));
        }
        let user = rustix::process::geteuid().as_raw();
        let (mut processes, mut failures) = (Vec::new(), Vec::new());
        for Usual { path, is_own } in usual_files(user) {
            match read(&path, is_own.then_some(user)) {
                Ok(counts) => processes.extend(counts),
                Err(cause) => {
                    let trouble = failed(&path, cause);
                    complain(&trouble);
                    // Other users can put anything there.
                    failures.extend(is_own.then(|| trouble.as_failure()));
                }
            }
        }
        Ok((processes, failures))
    }

    fn text(&self, processes: &[Count]) -> String {
        if processes.is_empty() {
            let of = match &self.programs[..] {
                [] => String::new(),
                names => format!(" of {}", shown(Path::new(&names.join(", ")))),
            };
            return format!(
                "nothing counted yet{of}: start programs with a configuration of `evener tls config \
                 --counters`, and restart them after you remove their file of counters; `evener tls \
                 check --service NAME` says more\n"
            );
        }
        let (terminal, now) = (table::width_of(io::stdout()), now());
        let lines = if self.all {
            let rows: Vec<_> = processes.iter().map(|count| process_row(count, now)).collect();
            table::lines(&columns(("process", 0), ("program", 0)), &rows, terminal)
        } else {
            let rows: Vec<_> = totals(processes).iter().map(|total| row(total, now)).collect();
            table::lines(&columns(("program", 0), ("processes", 1)), &rows, terminal)
        };
        lines.join("\n") + "\n"
    }
}

/// Returns whether a program has this name, cut to 15 bytes by the system.
fn is_named(count: &Count, name: &str) -> bool {
    count.program == name || (name.len() > 15 && name.get(..15) == Some(&count.program))
}

/// A file in one of the usual places, of this user or, for root, of another one.
struct Usual {
    path: PathBuf,
    is_own: bool,
}

/// The usual files that exist.
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

fn row(total: &Total, now: u64) -> [String; 10] {
    let program = match &*total.program {
        "" => "(several)".to_owned(),
        program => shown(Path::new(program)).to_string(),
    };
    cells(program, total.living.to_string(), &total.work, now)
}

fn process_row(count: &Count, now: u64) -> [String; 10] {
    let process = match (count.process, count.has_ended) {
        (0, _) => "ended".to_owned(),
        (process, true) => format!("{process} ended"),
        (process, false) => process.to_string(),
    };
    cells(process, shown(Path::new(&count.program)).to_string(), &count.work, now)
}

/// A row that begins with these cells.
fn cells(first: String, second: String, work: &Work, now: u64) -> [String; 10] {
    let size = |bytes: u64| size(bytes as f64);
    [
        first,
        second,
        work.encrypted_records.to_string(),
        size(work.encrypted_bytes),
        work.decrypted_records.to_string(),
        size(work.decrypted_bytes),
        work.forged_records.to_string(),
        work.module_records.to_string(),
        size(work.module_bytes),
        work.last_seen.map_or("-".to_owned(), |then| age(now.saturating_sub(then))),
    ]
}

/// The columns: records, and after them their bytes. A module's work is among them.
fn columns(first: Column, second: Column) -> [Column; 10] {
    [
        first,
        second,
        ("encrypted", 0),
        ("bytes", 2),
        ("decrypted", 0),
        ("bytes", 2),
        ("forged", 1),
        ("by module", 3),
        ("bytes", 3),
        ("last", 2),
    ]
}

/// The age of something, as text.
fn age(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds} s ago"),
        100..6000 => format!("{} min ago", seconds / 60),
        6000..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// The time in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_one_line_whatever_its_name() {
        let count = Count { program: "x\n  1  root".to_owned(), ..Count::default() };
        for all in [false, true] {
            let text = text(all, std::slice::from_ref(&count));
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(text.contains(r#""x\u{a}  1  root""#), "{text}");
        }
    }

    #[test]
    fn a_forking_server_has_one_line_unless_each_process_is_wanted() {
        let count = |process, has_ended| Count {
            process,
            program: "nginx".to_owned(),
            has_ended,
            work: Work { encrypted_records: 1, last_seen: Some(now()), ..Work::default() },
        };
        let counts: Vec<_> = (0..60).map(|process| count(process, process % 2 == 0)).collect();
        let text_of = |all| text(all, &counts);
        assert_eq!(text_of(true).lines().count(), 61);
        let total = text_of(false);
        let row: Vec<_> = total.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..3], ["nginx", "30", "60"], "{total}");
        assert!(total.ends_with(" s ago\n"), "{total}");
        assert!(text(false, &[]).starts_with("nothing counted yet: "));
    }

    #[test]
    fn ages_have_the_unit_that_is_read_best() {
        let ages = [0, 99, 100, 5999, 6000, 172_799, 172_800].map(age);
        let expected = ["0 s", "99 s", "1 min", "99 min", "1 h", "47 h", "2 days"]
            .map(|age| format!("{age} ago"));
        assert_eq!(ages, expected);
    }

    #[test]
    fn a_long_name_is_found_by_what_the_system_keeps_of_it() {
        let count = Count { program: "managesieve-log".to_owned(), ..Count::default() };
        assert!(is_named(&count, "managesieve-login") && is_named(&count, "managesieve-log"));
        assert!(!is_named(&count, "managesieve") && !is_named(&count, "nginx"));
    }

    fn text(all: bool, counts: &[Count]) -> String {
        let status = Status { all, programs: vec![], json: false, prometheus: false, file: None };
        status.text(counts)
    }
}
