//! Tests transfers in a process of their own, which is killed or sees a different file system.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use evener_place::Operation;

use crate::common::child::shim;
use crate::common::{assert_same_tree, bytes, home, options};
use crate::{decrypt, fill, local, perform, scene, succeed};

/// Nothing but for a process with this environment, which encrypts until it is killed.
#[test]
fn child() {
    let Some(sealed) = env::var_os("EVENER_LOCAL_PLACE") else { return };
    let sealed = Path::new(&sealed);
    let overwrites = env::var_os("EVENER_LOCAL_OVERWRITE").is_some();
    let options = options().with(|it| {
        it.transfer.overwrite = overwrites;
        it.transfer.resume = !overwrites;
        it.run.memory = 300_000;
    });
    let (origin, store) = (local(&sealed.with_file_name("plain")), local(sealed));
    let report = perform(Operation::Encrypt, &origin, Some(&store), &options);
    report.failures.iter().for_each(|failure| eprintln!("{failure}"));
    report.notices.iter().for_each(|notice| eprintln!("{}", notice.reason));
}

fn child_at(sealed: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "in_a_process::child", "--quiet", "--nocapture"])
        .env("EVENER_LOCAL_PLACE", sealed);
    command
}

fn told_by(command: &mut Command) -> String {
    let output = command.env("LD_PRELOAD", shim()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_file_system_without_hard_links_gets_files() {
    let (_home, [plain, sealed, back]) = scene();
    for nameless in [true, false] {
        let mut command = child_at(&sealed);
        command.env("EVENER_FAULT_NO_LINKS", "1");
        if !nameless {
            command.env("EVENER_FAULT_NO_TMPFILE", "1");
        }
        let told = told_by(&mut command);
        assert!(told.contains("2 hard links are stored as files of their own, since"), "{told}");
    }
    decrypt(&local(&sealed), &local(&back));
    assert_same_tree(&plain, &back);
}

#[test]
fn names_that_the_store_takes_for_one_lose_nothing_in_silence() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("Sub")).unwrap();
    fs::create_dir_all(plain.join("sub")).unwrap();
    for name in ["A", "a", "B", "b", "1", "Sub/x", "sub/x"] {
        fs::write(plain.join(name), name).unwrap();
    }
    symlink("upper", plain.join("Link")).unwrap();
    symlink("lower", plain.join("link")).unwrap();
    let mut command = child_at(&sealed);
    command.env("EVENER_LOCAL_OVERWRITE", "1").env("EVENER_FAULT_FOLD_BELOW", &sealed);
    let told = told_by(&mut command);
    for [one, other] in [["/A: ", "/a: "], ["/B: ", "/b: "], ["/Link: ", "/link: "]] {
        let is_of = |line: &&str| line.contains(one) || line.contains(other);
        let lines: Vec<_> = told.lines().filter(is_of).collect();
        assert!(
            lines.len() == 1 && lines[0].contains("takes their two names for one"),
            "{one}: {told}"
        );
    }
    assert!(told.contains("/Sub") || told.contains("/sub"), "{told}");
}

#[test]
fn a_killed_run_leaves_whole_outputs_and_is_resumed() {
    let home = home();
    let plain = home.path().join("plain");
    fill(&plain);
    for number in 0..60 {
        fs::create_dir(plain.join(format!("d{number}"))).unwrap();
        fs::write(plain.join(format!("d{number}/file")), bytes(number * 7_000)).unwrap();
    }
    let command = |sealed: &Path| {
        let mut command = child_at(sealed);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let begun = Instant::now();
    assert!(command(&home.path().join("whole")).status().unwrap().success());
    let whole = begun.elapsed();
    let mut killed = 0;
    for round in 0..10 {
        let [sealed, back] =
            ["sealed", "back"].map(|name| home.path().join(format!("{name}{round}")));
        let mut child = command(&sealed).spawn().unwrap();
        thread::sleep(whole.mul_f64(f64::from(round) / 10.0));
        let _ = child.kill();
        killed += u32::from(!child.wait().unwrap().success());
        if sealed.exists() {
            succeed(Operation::Verify, &local(&sealed), None);
        }
        assert!(command(&sealed).status().unwrap().success());
        decrypt(&local(&sealed), &local(&back));
        assert_same_tree(&plain, &back);
    }
    assert!(killed > 0, "every run was over before it was killed");
}
