//! Messages about the result of an operation.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use evener::sealed_trees::GenerationInfo;
use evener::{Effort, Notice, Operation, Report, SealedTree};
use evener_cli::messages::print_line;

use crate::hints::{self, Given};
use crate::options::Telling;
use crate::table::{self, Column};
use crate::trouble::{complain, shown};

/// Prints the result on standard error.
pub(crate) fn tell(operation: Operation, report: &Report, given: Given, telling: &Telling) {
    if !telling.quiet {
        for line in notices(&report.notices, telling.verbose || report.dry_run, "-v") {
            complain(&line);
        }
    }
    for failure in &report.failures {
        complain(&hints::line(failure, given));
    }
    let late = report.workers.iter().filter(|worker| worker.was_late);
    for engine in late.map(|worker| &worker.engine).collect::<BTreeSet<_>>() {
        complain(&format_args!(
            "engine `{engine}` was late with its last files; other engines did them"
        ));
    }
    for retired in &report.retired {
        complain(&format_args!("{}; it was taken out of service", retired.cause));
        if retired.doubtful_jobs > 0 {
            let jobs = count(retired.doubtful_jobs, "job");
            let were = if retired.doubtful_jobs == 1 { "was" } else { "were" };
            let advice = advice(operation);
            complain(&format_args!("{jobs} of it {were} not verified: {advice}"));
        }
    }
    for doubt in &report.doubtful {
        let (path, engine) = (shown(&doubt.path), &doubt.engine);
        complain(&format_args!("{path}: may be wrong: engine `{engine}` did some of it"));
    }
    if report.interrupted || !telling.quiet {
        complain(&line(operation, report, given));
    }
    if !telling.quiet {
        report.sealed.iter().flat_map(of_sealed).for_each(|line| complain(&line));
    }
    if !telling.quiet {
        for line in verification(report) {
            complain(&line);
        }
    }
    if telling.verbose && !telling.quiet {
        let terminal = table::width_of(io::stderr());
        for line in table::lines(&COLUMNS, &efforts(report), terminal) {
            // Beside lines of JSON, a prefix tells messages apart.
            match telling.json_progress {
                Some(_) => complain(&line),
                None => print_line(&line),
            }
        }
    }
}

/// The work of each worker and each engine.
fn efforts(report: &Report) -> Vec<[String; COLUMNS.len()]> {
    let row = |engine: &str, worker: String, effort: &Effort| {
        [
            engine.to_owned(),
            worker,
            effort.files.to_string(),
            effort.jobs.to_string(),
            size(effort.bytes as f64),
            format!("{:.3}", effort.busy_seconds),
            format!("{:.3}", effort.cpu_seconds),
        ]
    };
    let workers = report.workers.iter();
    let workers = workers.map(|each| row(&each.engine, each.worker.to_string(), &each.effort));
    let engines = report.engines.iter();
    workers.chain(engines.map(|(engine, effort)| row(engine, "all".to_owned(), effort))).collect()
}

/// Returns a line for each notice; of many similar ones, the first few and a number, unless all are
/// wanted. `option` lists them all.
pub(crate) fn notices(notices: &[Notice], all: bool, option: &str) -> Vec<String> {
    let mut alike: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for notice in notices {
        let before = alike.entry(&notice.reason).or_default();
        if all || *before < MOST_ALIKE {
            let is_of_all = notice.path.as_os_str().is_empty();
            let path = if is_of_all { String::new() } else { format!("{}: ", shown(&notice.path)) };
            lines.push(format!("{path}{}", notice.reason));
        }
        *before += 1;
    }
    if !all {
        for (reason, number) in alike.iter().filter(|(_, number)| **number > MOST_ALIKE) {
            lines.push(format!("{} more ({option} names them): {reason}", number - MOST_ALIKE));
        }
    }
    lines
}

/// The number of similar notices that are shown.
const MOST_ALIKE: usize = 5;

/// Advice about files in doubt, which have their final names and sizes.
fn advice(operation: Operation) -> &'static str {
    match operation {
        Operation::Verify => "do this again without it",
        _ => {
            "do this again without it and with --overwrite (--resume would leave them as they are)"
        }
    }
}

/// `encrypted 4000 files, 62.5 MiB in 0.085 s, 735.3 MiB/s`
pub(crate) fn line(operation: Operation, report: &Report, given: Given) -> String {
    let made = match &report.sealed {
        Some(SealedTree::Made(made)) => Some(made),
        _ => None,
    };
    let verb = match (operation, report.dry_run) {
        (Operation::Encrypt, false) if given.rekeys => "rekeyed",
        (Operation::Encrypt, true) if given.rekeys => "would rekey",
        (Operation::Encrypt, false) if given.seals || given.takes_shards => "sealed",
        (Operation::Encrypt, true) if given.seals => "would seal",
        (Operation::Encrypt, false) => "encrypted",
        (Operation::Decrypt, false) => "decrypted",
        (Operation::Encrypt, true) => "would encrypt",
        (Operation::Decrypt, true) => "would decrypt",
        (Operation::Verify, _) if given.only_looks => "looked at",
        (Operation::Verify, _) => "verified",
    };
    let stays = made.filter(|made| !made.is_new && !report.dry_run && !report.interrupted);
    let mut line = format!(
        "{}{verb} {}, {}",
        if report.interrupted { "interrupted; " } else { "" },
        count(report.files, "file"),
        size(report.bytes as f64),
    );
    // A dry run reads none of these bytes, so its time means nothing.
    if !report.dry_run {
        line.push_str(&format!(" in {:.3} s", report.seconds));
    }
    if !report.dry_run && !given.only_looks {
        let rate = report.bytes as f64 / report.seconds.max(1e-9);
        line.push_str(&format!(", {}/s", size(rate)));
    }
    let [updated, deleted] = match report.dry_run {
        false => [" updated", " deleted"],
        true => [" to update", " to delete"],
    };
    if let Some(stays) = stays {
        line = format!("nothing changed: generation {} stays", stays.generation);
    }
    let skipped = match given.rekeys {
        true => " under the new key already, not verified",
        false => " complete already, not verified",
    };
    let unchanged = if given.takes_shards { " made by another attempt" } else { " unchanged" };
    let further = [
        (report.files_skipped, skipped),
        (report.files_updated, updated),
        (report.files_unchanged, unchanged),
        (report.locks_extended, " locked for longer"),
        (report.files_deleted, deleted),
        (made.map_or(0, |made| made.moved), " moved"),
        (made.map_or(0, |made| made.gone), " gone"),
        (report.left_out, " left out"),
        (report.failures.len() as u64, " failed"),
        (report.doubtful.len() as u64, " in doubt"),
    ];
    for (number, what) in further {
        if number > 0 {
            line.push_str(&format!("; {number}{what}"));
        }
    }
    match &report.sealed {
        Some(SealedTree::Made(made)) if made.is_new => {
            line.push_str(&format!("; generation {}", made.generation));
        }
        Some(SealedTree::Read(read)) => line.push_str(&format!("; generation {}", read.number)),
        _ => {}
    }
    if report.interrupted && given.rekeys {
        line.push_str("; run it again to go on from here");
    } else if given.takes_shards {
        // The lines about the shards follow.
    } else if has_no_generation(report, given) {
        line.push_str("; no generation was made: run it again");
    } else if report.interrupted && report.directories > 0 && operation != Operation::Verify {
        let option = if report.update { "--update" } else { "--resume" };
        line.push_str(&format!("; {option} goes on from here"));
    }
    line
}

fn has_no_generation(report: &Report, given: Given) -> bool {
    let is_unmade = given.seals && !given.rekeys && !report.dry_run && report.sealed.is_none();
    is_unmade && (report.interrupted || !report.failures.is_empty())
}

/// What a user should know of a sealed tree that was made or read for the first time.
fn of_sealed(tree: &SealedTree) -> Vec<String> {
    match tree {
        SealedTree::Made(made) if made.is_new && made.generation == 1 => {
            let signed = |signer| format!("signed by {signer}; readers see this at first use");
            made.signer.iter().map(signed).collect()
        }
        SealedTree::Made(_) => Vec::new(),
        SealedTree::Read(read) => of_read(read),
    }
}

/// What a user should know of a sealed tree that was read.
pub(crate) fn of_read(read: &GenerationInfo) -> Vec<String> {
    let GenerationInfo { tree, number, signer, beyond, .. } = read;
    let mut lines = Vec::new();
    if read.is_first_seen {
        let signed = match signer {
            Some(signer) => format!("signed by {signer}"),
            None => "which nobody has signed".to_owned(),
        };
        lines.push(format!("first use of the tree {tree}, {signed} (generation {number})"));
    }
    if let Some(first) = beyond.first() {
        let more = match beyond.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        lines.push(format!(
            "there is a root {first}{more} after a gap, which was not read: roots may have been \
             removed"
        ));
    }
    lines
}

/// The number of verified jobs of guarded engines: `engine cryptodev: 12 of 4000 jobs were
/// verified, 3988 were not`.
fn verification(report: &Report) -> Vec<String> {
    let line = |(engine, effort): (&String, &evener::Effort)| {
        let (verified, unverified) = (effort.verified_jobs?, effort.unverified_jobs?);
        let jobs = count(verified + unverified, "job");
        Some(format!("engine {engine}: {verified} of {jobs} were verified, {unverified} were not"))
    };
    report.engines.iter().filter_map(line).collect()
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `512 B`, `1.5 KiB`, `2.0 GiB`.
pub(crate) fn size(bytes: f64) -> String {
    let mut size = bytes;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if size < 1023.95 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{size:.0} B") } else { format!("{size:.1} {unit}") }
}

/// The columns for the work of workers and engines.
const COLUMNS: [Column; 7] = [
    ("engine", 0),
    ("worker", 0),
    ("files", 0),
    ("jobs", 1),
    ("bytes", 0),
    ("busy s", 2),
    ("CPU s", 3),
];

#[cfg(test)]
mod tests {
    use evener::Failure;

    use super::*;

    #[test]
    fn what_may_be_wrong_is_to_be_replaced() {
        assert!(advice(Operation::Encrypt).contains("--overwrite"));
        assert!(advice(Operation::Decrypt).contains("--overwrite"));
        assert!(!advice(Operation::Verify).contains("--overwrite"));
    }

    #[test]
    fn of_many_notices_alike_some_are_shown() {
        let notice = |number: usize, reason: &str| Notice {
            path: format!("file {number}").into(),
            reason: reason.to_owned(),
        };
        let mut all: Vec<_> = (0..100).map(|number| notice(number, "no modes here")).collect();
        all.push(notice(7, "socket skipped"));
        let lines = notices(&all, false, "-v");
        assert_eq!(lines.len(), MOST_ALIKE + 2);
        assert_eq!(lines[MOST_ALIKE], "file 7: socket skipped");
        assert_eq!(lines[MOST_ALIKE + 1], "95 more (-v names them): no modes here");
        assert_eq!(notices(&all, true, "-v").len(), 101);
    }

    #[test]
    fn sizes_are_rounded_for_people() {
        let cases = [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (1024.0, "1.0 KiB"),
            (1_572_864.0, "1.5 MiB"),
            (1_073_741_823.0, "1.0 GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn the_line_says_what_was_done_and_what_was_not() {
        let mut report = Report::default();
        report.files = 1;
        report.bytes = 2048;
        report.seconds = 0.5;
        assert_eq!(
            line(Operation::Encrypt, &report, Given::default()),
            "encrypted 1 file, 2.0 KiB in 0.500 s, 4.0 KiB/s"
        );
        report.interrupted = true;
        report.files_skipped = 3;
        report.directories = 1;
        assert_eq!(
            line(Operation::Decrypt, &report, Given::default()),
            "interrupted; decrypted 1 file, 2.0 KiB in 0.500 s, 4.0 KiB/s; 3 complete already, not verified; \
             --resume goes on from here"
        );
        report = Report::default();
        report.files = 2;
        report.update = true;
        report.files_updated = 1;
        report.files_unchanged = 3;
        report.files_deleted = 4;
        report.left_out = 5;
        let counts = "; 1 updated; 3 unchanged; 4 deleted; 5 left out";
        assert!(line(Operation::Encrypt, &report, Given::default()).ends_with(counts));
        report.dry_run = true;
        assert_eq!(
            line(Operation::Encrypt, &report, Given::default()),
            "would encrypt 2 files, 0 B; 1 to update; 3 unchanged; 4 to delete; 5 left out"
        );
        report = Report::default();
        let error = crate::trouble::refused("the state can't be written");
        report.failures.push(Failure { path: "tree".into(), error });
        let told = line(Operation::Encrypt, &report, Given { seals: true, ..Given::default() });
        assert!(told.ends_with("; 1 failed; no generation was made: run it again"), "{told}");
    }
}
