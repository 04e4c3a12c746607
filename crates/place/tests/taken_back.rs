//! Tests claims that are taken back from a module that hangs. Whatever it does later, the run
//! equals one on the cores alone: in each byte, in each figure of the report, and in calling no
//! engine faulty.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use common::late::{End, Late, Pace, Plan};
use common::{
    Options, assert_same_tree, bytes, cobblestone, every_key_ring, home, options, process,
    process_stream, snapshot,
};
use evener_core::{Engine, SessionRequest};
use evener_pipeline::PolicyName;
use evener_pipeline::costs::{Costs, EngineCosts, Processed};
use evener_place::{
    Control, Existing, FileOutcome, KeyRing, Operation, Progress, Report, StreamSource,
    StreamTarget,
};

/// How and when a late batch ends.
const ENDS: [(Late, End); 5] = [
    (Late::Right, End::Afterwards),
    (Late::Right, End::Meanwhile),
    (Late::Wrong, End::Meanwhile),
    (Late::Panic, End::Meanwhile),
    (Late::Scribble, End::Meanwhile),
];

/// The module's batch in which it hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    First,
    Tenth,
    Last,
}

const MOMENTS: [Moment; 3] = [Moment::First, Moment::Tenth, Moment::Last];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Encrypt,
    Decrypt,
    RemoveSource,
    Update,
    EncryptPipe,
    DecryptPipe,
}

impl Deed {
    fn operation(self) -> Operation {
        match self {
            Deed::Decrypt | Deed::DecryptPipe => Operation::Decrypt,
            _ => Operation::Encrypt,
        }
    }

    fn is_pipe(self) -> bool {
        matches!(self, Deed::EncryptPipe | Deed::DecryptPipe)
    }
}

/// Directories of [`FILES`] files each; each directory is one task.
const DIRECTORIES: usize = 8;
const FILES: usize = 6;

/// The names of the files that have several names.
const LINK: [&str; 3] = ["directory-2/file-12", "link", "directory-1/link"];
const LINK_2: [&str; 3] = ["directory-3/file-20", "link-2", "directory-1/link-2"];

/// A tree with hard links and a file in segments, and a stream; the cores seal them.
struct Stage {
    home: tempfile::TempDir,
    keys: KeyRing,
}

impl Stage {
    fn new(keys: KeyRing) -> Stage {
        let stage = Stage { home: home(), keys };
        let plain = stage.at("plain");
        for directory in 0..DIRECTORIES {
            let below = plain.join(format!("directory-{directory}"));
            fs::create_dir_all(&below).unwrap();
            for number in 0..FILES {
                let number = directory * FILES + number;
                // No file's result is right for another file.
                let content = [&[number as u8][..], &bytes(100 + number * 50)].concat();
                fs::write(below.join(format!("file-{number}")), content).unwrap();
            }
        }
        for [first, second, third] in [LINK, LINK_2] {
            fs::hard_link(plain.join(first), plain.join(second)).unwrap();
            fs::hard_link(plain.join(first), plain.join(third)).unwrap();
        }
        fs::write(plain.join("large"), bytes(1_200_000)).unwrap();
        fs::write(stage.at("stream"), bytes(6_300_000)).unwrap();
        stage.trust(Operation::Encrypt, &plain, &stage.at("sealed"));
        stage.trust(Operation::Encrypt, &stage.at("stream"), &stage.at("stream.enc"));
        stage
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Runs the operation on the cores.
    fn trust(&self, operation: Operation, from: &Path, to: &Path) {
        let report = process(operation, &self.keys, from, Some(to), &options()).unwrap();
        assert!(report.is_success(), "{report:?}");
    }

    /// Creates a deed's inputs in its own directory.
    fn prepare(&self, deed: Deed, own: &Path) {
        match deed {
            Deed::RemoveSource => copy(&self.at("plain"), &own.join("source")),
            Deed::Update => {
                let source = own.join("source");
                copy(&self.at("plain"), &source);
                copy(&self.at("sealed"), &own.join("out"));
                fs::remove_file(own.join("out/directory-5/file-33.enc")).unwrap();
                for name in ["large", "link", "directory-4/file-25", "directory-6/file-38"] {
                    let file = File::options().write(true).open(source.join(name)).unwrap();
                    file.write_all_at(b"news", 7).unwrap();
                    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(9)).unwrap();
                }
                for number in 0..2 * FILES {
                    let name = format!("out/directory-{}/file-{number}.enc", number / FILES);
                    fs::remove_file(own.join(name)).unwrap();
                }
            }
            _ => {}
        }
    }

    fn perform(&self, deed: Deed, own: &Path, options: &Options) -> Report {
        let to = own.join("out");
        let tree = |from: &Path, options: &Options| {
            process(deed.operation(), &self.keys, from, Some(&to), options).unwrap()
        };
        let pipe = |from: &Path| {
            let source = StreamSource::Descriptor(File::open(from).unwrap().into());
            let target = StreamTarget::Descriptor(File::create(&to).unwrap().into());
            process_stream(deed.operation(), &self.keys, source, target, options).unwrap()
        };
        match deed {
            Deed::Encrypt => tree(&self.at("plain"), options),
            Deed::Decrypt => tree(&self.at("sealed"), options),
            Deed::RemoveSource => {
                tree(&own.join("source"), &options.clone().with(|it| it.tree.remove_source = true))
            }
            Deed::Update => tree(
                &own.join("source"),
                &options.clone().with(|it| it.tree.existing = Existing::update()),
            ),
            Deed::EncryptPipe => pipe(&self.at("stream")),
            Deed::DecryptPipe => pipe(&self.at("stream.enc")),
        }
    }

    /// Compares every byte, mode, time and link, and the rest of the source.
    fn check(&self, deed: Deed, own: &Path) {
        let (out, back) = (own.join("out"), own.join("back"));
        let (result, suffix) = match deed.operation() {
            Operation::Encrypt => (&back, ".enc"),
            _ => (&out, ""),
        };
        if result == &back {
            self.trust(Operation::Decrypt, &out, &back);
        }
        match deed {
            Deed::EncryptPipe | Deed::DecryptPipe => {
                assert!(fs::read(result).unwrap() == fs::read(self.at("stream")).unwrap());
                return;
            }
            Deed::Update => assert_same_tree(&own.join("source"), result),
            _ => assert_same_tree(&self.at("plain"), result),
        }
        for names in [LINK, LINK_2] {
            let number = |name| fs::metadata(out.join(format!("{name}{suffix}"))).unwrap().ino();
            let [first, second, third] = names.map(number);
            assert!(first == second && second == third, "{names:?}");
        }
        if deed == Deed::RemoveSource {
            let left = snapshot(&own.join("source"));
            let left: Vec<_> = left.iter().filter(|(_, entry)| entry.is_file()).collect();
            assert!(left.is_empty(), "{:?}", left[0].0);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// The result of a run, apart from its times and engines.
#[derive(Debug, PartialEq, Eq)]
struct Sum {
    figures: [u64; 12],
    notices: Vec<String>,
    progress: Progress,
    /// The reported files, each once, and the outcomes. Chance decides which name of a file comes
    /// first.
    told: (Vec<PathBuf>, BTreeMap<String, usize>),
    /// Files, jobs and bytes of all engines together.
    efforts: [u64; 3],
}

/// Performs a deed on these engines; returns its result.
fn run(stage: &Stage, deed: Deed, own: &Path, options: Options) -> (Report, Sum) {
    stage.prepare(deed, own);
    let source = snapshot(&stage.at("plain"));
    let told: Arc<Mutex<Vec<(PathBuf, FileOutcome)>>> = Arc::default();
    let control = Arc::new(Control::default());
    let listener = Arc::new({
        let (told, roots) = (told.clone(), [own.join("source"), stage.home.path().to_owned()]);
        move |path: &Path, outcome| {
            let below = roots.iter().find_map(|root| path.strip_prefix(root).ok());
            told.lock().unwrap().push((below.unwrap_or(path).to_owned(), outcome));
        }
    });
    let options = options.with(|it| {
        it.run.listener = Some(listener);
        it.run.control = control.clone();
    });
    let report = stage.perform(deed, own, &options);
    assert!(snapshot(&stage.at("plain")) == source, "{deed:?}: the source is not whole");
    let (mut paths, mut outcomes) = (Vec::new(), BTreeMap::new());
    for (path, outcome) in told.lock().unwrap().drain(..) {
        paths.push(path);
        *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
    }
    paths.sort();
    let sum = |of: fn(&evener_place::Effort) -> u64| report.engines.values().map(of).sum();
    let result = Sum {
        figures: [
            report.files,
            report.bytes,
            report.bytes_written,
            report.hard_links,
            report.files_skipped,
            report.files_updated,
            report.files_unchanged,
            report.files_deleted,
            report.left_out,
            report.symlinks,
            report.directories,
            u64::from(report.interrupted),
        ],
        notices: report.notices.iter().map(|notice| notice.reason.clone()).collect(),
        progress: control.progress(),
        told: (paths, outcomes),
        efforts: [sum(|it| it.files), sum(|it| it.jobs), sum(|it| it.bytes)],
    };
    (report, result)
}

fn options_on(seats: Vec<Arc<dyn Engine>>, policy: PolicyName) -> Options {
    let reference = evener_engines::find("openssl").ok();
    Options::new(seats).with(|it| {
        it.run.policy = Some(policy.into());
        it.run.reference = reference;
    })
}

/// Performs a deed with a module that hangs, and compares it with the cores alone.
fn compare(
    stage: &Stage,
    deed: Deed,
    moments: &[Moment],
    ends: &[(Late, End)],
    (policy, lends): (PolicyName, bool),
) {
    let cores = Arc::new(Plan::new(u64::MAX, ENDS[0], Pace::Free, false));
    let own = home();
    let alone = options_on(vec![cores.core()], policy);
    let (report, expected) = run(stage, deed, own.path(), alone);
    assert!(report.is_success(), "{deed:?}: {report:?}");
    stage.check(deed, own.path());
    let all = cores.by_cores();
    let cipher = stage.keys.primary().cipher();
    let direction = deed.operation().direction();
    let tries_keys = stage.keys.primary().format().contains("tink");
    let is_chained = deed == Deed::EncryptPipe && cipher.tag_length() == 0;
    for (&moment, &end) in moments.iter().flat_map(|moment| ends.iter().map(move |it| (moment, it)))
    {
        let at = match moment {
            Moment::First => 0,
            Moment::Tenth => 9,
            // The cores have claimed one piece, and the module another.
            Moment::Last if deed.is_pipe() => all - 4,
            // The cores have claimed one task.
            Moment::Last => all - FILES as u64 - 1,
        };
        let pace = match deed {
            _ if policy != PolicyName::Pull => Pace::Offered,
            // One engine processes everything, and it is never the module.
            _ if is_chained => Pace::Free,
            _ if deed.is_pipe() => Pace::Until,
            _ => Pace::Last,
        };
        let plan = Arc::new(Plan::new(at, end, pace, lends));
        let seats = plan.seats(&SessionRequest { cipher, direction, key: None }).to_vec();
        let own = home();
        let options = options_on(seats, policy).with(|it| it.run.costs = cheap_module(&plan.name));
        let (report, result) = run(stage, deed, own.path(), options);
        let what = format!("{deed:?} in {cipher}, {policy}, {moment:?} {at} of {all}, {end:?}");
        println!("{what}: {:.3} s", report.seconds);
        let may_be_let_go = deed.is_pipe() && moment != Moment::First;
        let is_let_go = may_be_let_go && plan.was_let_go() || pace == Pace::Offered;
        assert!(plan.has_hung() || is_chained || is_let_go, "{what}: {report:?}");
        // Results come late, whether right or wrong, when nobody wants them any more.
        if plan.has_hung() {
            plan.release();
        }
        assert!(report.is_success(), "{what}: {:?}", report.failures);
        assert!(report.retired.is_empty(), "{what}: {:?}", report.retired);
        assert!(report.doubtful.is_empty() && report.doubtful_unnamed == 0, "{what}");
        for effort in report.engines.values() {
            let verified = effort.verified_jobs.zip(effort.unverified_jobs);
            assert!(verified.is_none_or(|(one, other)| one + other == effort.jobs), "{what}");
        }
        // A file that is begun again has its keys tried again, and those tries count as jobs.
        let efforts = if tries_keys { expected.efforts } else { result.efforts };
        assert_eq!(Sum { efforts, ..result }, expected, "{what}");
        stage.check(deed, own.path());
    }
}

/// Makes the cost-based policy prefer the module.
fn cheap_module(module: &str) -> Costs {
    let mut costs = Costs::default();
    for (name, micros) in [(module, 10), ("core", 10_000)] {
        let mut own = EngineCosts::new(1);
        for bytes in [100, 1_000, 16_384, 262_144] {
            let time = Duration::from_micros(micros);
            let (batches, jobs, bytes) = (10, 10, 10 * bytes);
            let (wall, cpu) = (10 * time, 10 * time);
            own.learn(&Processed { batches, jobs, bytes, wall, cpu }, false);
        }
        costs.insert(name, own);
    }
    costs
}

fn under_pull(deed: Deed) {
    compare(&Stage::new(cobblestone()), deed, &MOMENTS, &ENDS, (PolicyName::Pull, false));
}

#[test]
fn a_tree_is_encrypted_as_by_the_cores_alone() {
    under_pull(Deed::Encrypt);
}

#[test]
fn a_tree_is_decrypted_as_by_the_cores_alone() {
    under_pull(Deed::Decrypt);
}

#[test]
fn sources_are_removed_as_by_the_cores_alone() {
    under_pull(Deed::RemoveSource);
}

#[test]
fn outputs_are_updated_as_by_the_cores_alone() {
    under_pull(Deed::Update);
}

#[test]
fn a_pipe_is_encrypted_as_by_the_cores_alone() {
    under_pull(Deed::EncryptPipe);
}

#[test]
fn a_pipe_is_decrypted_as_by_the_cores_alone() {
    under_pull(Deed::DecryptPipe);
}

/// In CBC the segments of a file, and the pieces of a pipe, are processed one by one.
#[test]
fn what_chains_goes_on_where_it_was_taken_back() {
    let rings = every_key_ring().into_iter();
    let cbc = rings.filter(|(name, _)| name == "openssl aes-256-cbc").map(|ring| ring.1);
    for keys in cbc {
        let stage = Stage::new(keys);
        for deed in [Deed::Encrypt, Deed::Decrypt, Deed::EncryptPipe, Deed::DecryptPipe] {
            compare(&stage, deed, &MOMENTS, &ENDS[..2], (PolicyName::Pull, false));
        }
    }
}

#[test]
fn work_is_taken_back_under_adaptive_too() {
    let stage = Stage::new(cobblestone());
    for deed in [Deed::Encrypt, Deed::RemoveSource, Deed::DecryptPipe] {
        compare(&stage, deed, &[Moment::First], &ENDS[1..], (PolicyName::Adaptive, false));
    }
}

/// The module may write to its memory as long as it likes; the run no longer uses that memory.
#[test]
fn memory_that_a_module_lends_is_left_to_it() {
    let stage = Stage::new(cobblestone());
    for deed in [Deed::Encrypt, Deed::Decrypt, Deed::EncryptPipe, Deed::DecryptPipe] {
        compare(&stage, deed, &[Moment::First], &ENDS, (PolicyName::Pull, true));
    }
}

/// The core reads the file again, in a state other than that in which its names were found.
#[test]
fn a_file_with_several_names_that_changes_while_a_module_has_it_keeps_them() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    // The core claims one directory, and the module the other.
    let directories = ["one", "other"].map(|name| plain.join(name));
    for directory in &directories {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("first"), bytes(5_000)).unwrap();
        fs::hard_link(directory.join("first"), directory.join("second")).unwrap();
        fs::write(directory.join("third"), bytes(4_000)).unwrap();
    }
    let keys = cobblestone();
    let mut plan = Plan::new(0, (Late::Right, End::Afterwards), Pace::Last, true);
    plan.deed = Some(Box::new(move || {
        for directory in &directories {
            fs::write(directory.join("first"), bytes(6_000)).unwrap();
        }
    }));
    let plan = Arc::new(plan);
    let (cipher, direction) = (keys.primary().cipher(), Operation::Encrypt.direction());
    let seats = plan.seats(&SessionRequest { cipher, direction, key: None }).to_vec();
    let options = options_on(seats, PolicyName::Pull);
    let report = process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options).unwrap();
    assert!(plan.has_hung(), "{report:?}");
    plan.release();
    assert!(report.is_success() && report.retired.is_empty(), "{report:?}");
    assert_eq!((report.files, report.hard_links), (4, 2));
    for directory in ["one", "other"] {
        let number = |name| fs::metadata(sealed.join(directory).join(name)).unwrap().ino();
        assert_eq!(number("first.enc"), number("second.enc"));
    }
    process(Operation::Decrypt, &keys, &sealed, Some(&back), &common::options()).unwrap();
    assert_same_tree(&plain, &back);
}

/// If several keys may fit, an engine tries them.
#[test]
fn the_key_of_a_file_is_found_as_by_the_cores_alone() {
    let rings = every_key_ring().into_iter();
    for keys in rings.filter(|(name, _)| name == "tink").map(|ring| ring.1) {
        let stage = Stage::new(keys);
        for deed in [Deed::Decrypt, Deed::DecryptPipe] {
            compare(&stage, deed, &MOMENTS[..2], &ENDS[..2], (PolicyName::Pull, false));
        }
    }
}
