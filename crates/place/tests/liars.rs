//! Tests engines that lie in every way, under every policy, in every operation. In all cases, no
//! wrong byte comes with a success status, the report names what may be wrong, and if every job is
//! verified or every output read back, nothing is.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::{Options, bytes, cobblestone, home, options, process, process_stream, snapshot};
use evener_core::{
    Cipher, Direction, Engine, EngineError, InPlaceJob, Iv, Job, Key, Padding, RecordLayout,
    Records, SessionRequest,
};
use evener_engines::faulty::{Fault, Faulty};
use evener_engines::{Watch, guard};
use evener_pipeline::{PolicyName, Pool, parallel};
use evener_place::{
    Existing, KeyRing, Operation, Report, StreamSource, StreamTarget, buffer, random_access,
};

const LIES: &[Fault] = &[
    Fault::Wrong,
    Fault::Repeat,
    Fault::Swap,
    Fault::Short,
    Fault::Undone,
    Fault::Reject,
    Fault::Late(Duration::from_millis(1)),
    Fault::Long(1_000),
    Fault::Symmetric,
    Fault::Rare(100_000),
    Fault::Among(&[0, 9, 20, 21, 22]),
    Fault::Error,
    Fault::Vanish,
    Fault::Panic,
    Fault::Hang(Duration::MAX),
];

/// Returns whether good samples are between the wrong jobs, so that these may be missed.
fn is_seldom(lie: Fault) -> bool {
    matches!(lie, Fault::Rare(_) | Fault::Among(_))
}

/// The number of jobs before the lie: during the session's tests, immediately, and later.
const MOMENTS: [u64; 3] = [0, 6, 19];

const DEADLINE: Duration = Duration::from_secs(2);

fn openssl() -> Arc<dyn Engine> {
    evener_engines::find("openssl").unwrap()
}

fn liar(lie: Fault, after: u64, verify_every: Option<u64>, retreats: bool) -> Arc<dyn Engine> {
    let deadline = matches!(lie, Fault::Hang(_)).then_some(DEADLINE);
    // Panics are caught only on the helper's thread.
    let deadline = deadline.or((lie == Fault::Panic).then_some(10 * DEADLINE));
    let faulty = Faulty::new(openssl(), lie, after);
    guard(faulty as Arc<dyn Engine>, openssl(), Watch { verify_every, deadline, retreats })
}

/// A tree, and its version sealed by a sound engine.
struct Stage {
    home: tempfile::TempDir,
    keys: KeyRing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Encrypt,
    Decrypt,
    Verify,
    Stream,
    RemoveSource,
    Resume,
}

const DEEDS: [Deed; 6] =
    [Deed::Encrypt, Deed::Decrypt, Deed::Verify, Deed::Stream, Deed::RemoveSource, Deed::Resume];

impl Stage {
    fn new() -> Stage {
        let stage = Stage { home: home(), keys: cobblestone() };
        fs::create_dir(stage.at("plain")).unwrap();
        for number in 0..8 {
            let name = format!("small-{number}");
            fs::write(stage.at("plain").join(name), bytes(100 + 300 * number)).unwrap();
        }
        for number in 0..3 {
            let name = format!("chunks-{number}");
            fs::write(stage.at("plain").join(name), bytes(50_000 + number)).unwrap();
        }
        fs::write(stage.at("plain/large"), bytes(700_000)).unwrap();
        let report = stage.run(Operation::Encrypt, "plain", "sealed", &options());
        assert!(report.is_success());
        stage
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run(&self, operation: Operation, from: &str, to: &str, options: &Options) -> Report {
        let to = (operation != Operation::Verify).then(|| self.at(to));
        process(operation, &self.keys, &self.at(from), to.as_deref(), options).unwrap()
    }

    /// Performs the deed, and returns the report and the wrong outputs, by their plain names.
    fn perform(&self, deed: Deed, options: &Options) -> (Report, BTreeSet<PathBuf>) {
        for left in ["out", "source", "back"] {
            let _ = fs::remove_dir_all(self.at(left));
        }
        match deed {
            Deed::Encrypt => {
                let report = self.run(Operation::Encrypt, "plain", "out", options);
                (report, self.wrong_ciphertexts())
            }
            Deed::Decrypt => {
                let report = self.run(Operation::Decrypt, "sealed", "out", options);
                (report, self.wrong_plaintexts("out"))
            }
            Deed::Verify => (self.run(Operation::Verify, "sealed", "", options), BTreeSet::new()),
            Deed::Stream => {
                fs::create_dir(self.at("out")).unwrap();
                let source = StreamSource::File(self.at("plain/large"));
                let target = StreamTarget::File(self.at("out/large.enc"));
                let report =
                    process_stream(Operation::Encrypt, &self.keys, source, target, options);
                (report.unwrap(), self.wrong_ciphertexts())
            }
            Deed::RemoveSource => {
                copy(&self.at("plain"), &self.at("source"), |_| true);
                let options = options.clone().with(|it| it.tree.remove_source = true);
                let report = self.run(Operation::Encrypt, "source", "out", &options);
                let wrong = self.wrong_ciphertexts();
                for name in snapshot(&self.at("plain")).into_keys() {
                    let output = self.at("out").join(sealed_name(&name));
                    let is_sealed = output.exists() && !wrong.contains(&name);
                    let is_there = self.at("source").join(&name).exists();
                    assert!(is_there || is_sealed, "{} is lost", name.display());
                }
                (report, wrong)
            }
            Deed::Resume => {
                copy(&self.at("sealed"), &self.at("out"), |name| name.ends_with("1.enc"));
                let options = options.clone().with(|it| it.tree.existing = Existing::resume());
                let report = self.run(Operation::Encrypt, "plain", "out", &options);
                (report, self.wrong_ciphertexts())
            }
        }
    }

    /// Outputs that a sound engine does not turn back into the originals.
    fn wrong_ciphertexts(&self) -> BTreeSet<PathBuf> {
        let sealed = snapshot(&self.at("out"));
        self.run(Operation::Decrypt, "out", "back", &options());
        let back = snapshot(&self.at("back"));
        let mut wrong = self.wrong_plaintexts("back");
        let files = sealed.iter().filter(|(_, entry)| entry.is_file());
        // A file without an output there was not authentic.
        wrong.extend(
            files.map(|(name, _)| name.with_extension("")).filter(|name| !back.contains_key(name)),
        );
        wrong
    }

    fn wrong_plaintexts(&self, directory: &str) -> BTreeSet<PathBuf> {
        let right = snapshot(&self.at("plain"));
        let there = snapshot(&self.at(directory)).into_iter();
        there.filter(|(name, entry)| entry.content != right[name].content).map(|it| it.0).collect()
    }
}

fn sealed_name(name: &Path) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".enc");
    name.into()
}

fn copy(from: &Path, to: &Path, is_wanted: fn(&str) -> bool) {
    fs::create_dir(to).unwrap();
    for (name, entry) in snapshot(from) {
        if entry.is_file() && is_wanted(name.to_str().unwrap()) {
            let target = to.join(&name);
            fs::write(&target, entry.content).unwrap();
            let modified = fs::metadata(from.join(name)).unwrap().modified().unwrap();
            fs::File::open(target).unwrap().set_modified(modified).unwrap();
        }
    }
}

/// `right`, or the report to the caller. Anything else fails.
fn judge(report: &Report, wrong: &BTreeSet<PathBuf>, must_be_right: bool, what: &str) -> String {
    assert!(!must_be_right || wrong.is_empty(), "{what}: {wrong:?} are wrong");
    let doubtful = report.doubtful.iter().map(|doubt| doubt.path.file_stem().unwrap().into());
    let named: BTreeSet<PathBuf> = doubtful.collect();
    let unnamed: Vec<_> = wrong.difference(&named).collect();
    let is_told = !report.is_success();
    assert!(wrong.is_empty() || is_told, "{what}: {wrong:?} are wrong: {report:?}");
    assert!(unnamed.is_empty(), "{what}: {unnamed:?} are not named: {report:?}");
    match (is_told, wrong.len()) {
        (false, _) => "right".to_owned(),
        (true, 0) => "told".to_owned(),
        (true, wrong) => format!("told, {wrong} named"),
    }
}

#[test]
fn no_lie_about_files_is_a_success() {
    let stage = Stage::new();
    let policies = PolicyName::ALL.iter().flat_map(|&policy| [(policy, false), (policy, true)]);
    println!("| lie | policy | alone | verified | {DEEDS:?} |");
    for &lie in LIES {
        let is_slow = matches!(lie, Fault::Hang(_));
        for (policy, is_alone) in policies.clone().take(if is_slow { 1 } else { 4 }) {
            for verify_every in [None, Some(1)] {
                let mut cells = Vec::new();
                for (index, deed) in DEEDS.into_iter().enumerate() {
                    let after = MOMENTS[index % MOMENTS.len()];
                    let engine = liar(lie, after, verify_every, false);
                    let mut seats = vec![engine; 2];
                    if !is_alone {
                        seats.push(openssl());
                    }
                    let options = Options::new(seats).with(|it| {
                        it.run.policy = Some(policy.into());
                        it.run.reference = Some(openssl());
                    });
                    let (report, wrong) = stage.perform(deed, &options);
                    let must_be_right = verify_every == Some(1) || deed == Deed::RemoveSource;
                    let what =
                        format!("{lie} after {after}, {policy}, alone: {is_alone}, {deed:?}");
                    // Some jobs are wrong and most are not, and the random choice may miss those.
                    if is_seldom(lie) && !must_be_right && report.is_success() {
                        let unverified =
                            report.engines.values().filter_map(|it| it.unverified_jobs);
                        assert!(wrong.is_empty() || unverified.sum::<u64>() > 0, "{what}");
                        cells.push(format!("unverified, {} wrong", wrong.len()));
                    } else {
                        cells.push(judge(&report, &wrong, must_be_right, &what));
                    }
                }
                let verified = verify_every.map_or("as usual", |_| "all");
                println!("| {lie} | {policy} | {is_alone} | {verified} | {} |", cells.join(" | "));
            }
        }
    }
}

/// The result of work in memory: the number of wrong results without an error, and whether the
/// caller got a report.
#[derive(Default)]
struct Work {
    wrong: usize,
    is_told: bool,
}

impl Work {
    fn note(&mut self, done: Result<(), EngineError>, is_right: bool) {
        match done {
            Ok(()) => self.wrong += usize::from(!is_right),
            Err(_) => self.is_told = true,
        }
    }
}

const IV: [u8; 16] = [1; 16];

/// Processes messages one by one, records and messages in place.
fn sessions(engine: &dyn Engine, direction: Direction, work: &mut Work) -> Result<(), EngineError> {
    let (cipher, iv) = (Cipher::Aes128Ctr, Iv::new(&IV).unwrap());
    let key = Key::new(&[5; 16]).unwrap();
    let request = SessionRequest { cipher, direction, key: Some(&key) };
    let sound = openssl();
    let mut sound = sound.open(&request)?;
    let mut session = engine.open(&request)?;
    for number in 0..20 {
        let input = bytes(50 + 400 * number);
        let (mut right, mut output) = (vec![0; input.len()], vec![0; input.len()]);
        sound.process(&mut [Job::new(iv, &input, &mut right)])?;
        let done = session.process(&mut [Job::new(iv, &input, &mut output)]);
        work.note(done, output == right);
        let mut data = input.clone();
        let done = session.process_in_place(&mut InPlaceJob::new(cipher, direction, iv, &mut data));
        work.note(done, data == right);
    }
    let layout = RecordLayout::packed(cipher, direction, Padding::None, 30, 64);
    let (ivs, input) = (bytes(30 * 16), bytes(30 * 64));
    let (mut right, mut output) = (vec![0; input.len()], vec![0; input.len()]);
    let records = |output| Records::new(cipher, direction, layout, &ivs, &input, output).unwrap();
    sound.process_records(&mut records(&mut right))?;
    let done = session.process_records(&mut records(&mut output));
    work.note(done, output == right);
    work.is_told |= session.finish().is_err();
    Ok(())
}

/// Processes buffers that several threads share.
fn buffers(engine: &dyn Engine, direction: Direction, work: &mut Work) -> Result<(), EngineError> {
    let (cipher, iv) = (Cipher::Aes128Ctr, Iv::new(&IV).unwrap());
    let key = Key::new(&[5; 16]).unwrap();
    let request = SessionRequest { cipher, direction, key: Some(&key) };
    let pool = Pool::new(NonZeroUsize::new(2).unwrap());
    let input = bytes(1_200_000);
    let mut right = vec![0; input.len()];
    openssl().open(&request)?.process(&mut [Job::new(iv, &input, &mut right)])?;
    for _ in 0..2 {
        let mut output = vec![0; input.len()];
        let done =
            parallel::process(&pool, engine, &request, &mut Job::new(iv, &input, &mut output));
        work.note(done, output == right);
        let mut data = input.clone();
        let mut job = InPlaceJob::new(cipher, direction, iv, &mut data);
        let done = parallel::process_in_place(&pool, engine, &request, &mut job);
        work.note(done, data == right);
    }
    Ok(())
}

#[test]
fn no_lie_in_memory_is_a_success() {
    type Deed = fn(&dyn Engine, Direction, &mut Work) -> Result<(), EngineError>;
    let deeds: [(&str, Deed); 2] = [("sessions", sessions), ("buffers", buffers)];
    for &lie in LIES {
        for (name, deed) in deeds {
            for (index, verify_every) in [None, Some(1), None].into_iter().enumerate() {
                let after = MOMENTS[index];
                let what = format!("{lie} after {after}, {name}, verifying {verify_every:?}");
                let engine = liar(lie, after, verify_every, true);
                let mut work = Work::default();
                for direction in [Direction::Encrypt, Direction::Decrypt] {
                    work.is_told |= deed(&*engine, direction, &mut work).is_err();
                }
                let account = engine.account().unwrap();
                let is_known = work.is_told || account.fault.is_some();
                println!("{what}: {} wrong, told: {is_known}, {account:?}", work.wrong);
                let may_be_missed = is_seldom(lie) && account.unverified() > 0;
                assert!(work.wrong == 0 || is_known || may_be_missed, "{what}");
                assert!(work.wrong == 0 || verify_every.is_none(), "{what}: {}", work.wrong);
            }
        }
    }
}

#[test]
fn whole_files_in_memory_and_parts_of_files_are_right_or_refused() {
    let stage = Stage::new();
    let content = bytes(700_000);
    for &lie in LIES.iter().filter(|lie| !is_seldom(**lie)) {
        for after in MOMENTS {
            let what = format!("{lie} after {after}");
            let engine = liar(lie, after, None, true);
            let seats = vec![engine.clone(), engine];
            let lying = Options::new(seats).with(|it| it.run.reference = Some(openssl()));
            let length = buffer::sealed_length(&stage.keys, content.len() as u64).unwrap();
            let mut sealed = vec![0; length as usize];
            if buffer::seal(&stage.keys, &content, &mut sealed, &lying.run).is_ok() {
                let mut opened = vec![0; sealed.len()];
                let sound = buffer::open(&stage.keys, &sealed, &mut opened, &options().run);
                assert_eq!(sound.ok(), Some(content.len()), "{what}");
                assert!(opened[..content.len()] == content, "{what}");
            }
            let engine = liar(lie, after, Some(1), true);
            let opened = random_access(stage.at("sealed/large.enc"), &stage.keys, engine.clone());
            let file = match opened {
                Ok(file) => file,
                // An engine that was never there can't be replaced.
                Err(error) => {
                    assert!(lie == Fault::Vanish && after == 0, "{what}: {error}");
                    continue;
                }
            };
            for offset in [0, 300_000, 16_380] {
                let mut part = vec![0; 40_000];
                let count = file.read_at(&mut part, offset).unwrap();
                assert_eq!(count, part.len(), "{what}");
                assert!(part == content[offset as usize..][..count], "{what}");
            }
        }
    }
}
