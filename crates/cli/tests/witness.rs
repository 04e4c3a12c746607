//! Success is proved from outside the process that loads foreign code.

mod common;

use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use common::provider::{ENGINE, FILES, build, command, run};
use common::{Ended, Fixture};

/// A call in the midst of the work, after the test with known answers.
const MIDST: usize = 20;

/// Checks that each existing output is whole, and returns their number.
fn whole_outputs(fixture: &Fixture) -> usize {
    let names = if fixture.path("out").exists() { fixture.names("out") } else { Vec::new() };
    for name in &names {
        // The length includes a salt and padding.
        assert_eq!(
            fs::metadata(fixture.path("out").join(name)).unwrap().len(),
            16 + 3008,
            "{name}"
        );
    }
    names.len()
}

#[test]
fn work_that_is_done_is_a_success_whatever_the_code_does_at_the_end() {
    let fixture = Fixture::new();
    let code = "
        static void act(int call) { (void)call; }
        __attribute__((destructor)) static void crash(void) { __builtin_trap(); }
        __attribute__((constructor)) static void start(void) { atexit(crash); }";
    if !build(&fixture, code) {
        return;
    }
    let ended = run(&fixture, &["encrypt", "--json", "many", "out"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert_eq!(ended.document()["files"], FILES);
    assert_eq!(whole_outputs(&fixture), FILES);
    let ended = run(&fixture, &["verify", "out"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let ended = run(&fixture, &["decrypt", "out", "back"]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    fixture.assert_same_tree("many", "back");
}

/// In a container without an init, processes can be of a group that has no number there.
#[test]
fn a_process_group_that_leads_outside_of_the_namespace_will_do() {
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    let inner = command(&fixture, &["encrypt", "--json", "many", "out"]);
    let mut outer = Command::new("unshare");
    outer.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        value.map(|value| outer.env(name, value));
    }
    let ended = Ended::of(outer.current_dir(fixture.path(".")));
    if ended.messages.starts_with("unshare:") {
        evener_core::skipped!("this process may make no namespaces: {}", ended.messages.trim());
        return;
    }
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert_eq!(ended.document()["files"], FILES);
}

#[test]
fn code_that_ends_the_program_makes_no_success() {
    for (code, how) in [
        ("_exit(0);", "ended with status 0"),
        ("quick_exit(0);", "ended with status 0"),
        ("exit(0);", "ended with status 0"),
        ("_exit(99);", "ended with status 99"),
        ("abort();", "was ended by SIGABRT"),
        ("kill(getpid(), 9);", "was ended by SIGKILL"),
        ("pthread_t thread; pthread_create(&thread, 0, crash, 0); pause();", "ended by SIGSEGV"),
    ] {
        let fixture = Fixture::new();
        let code = format!(
            "#include <signal.h>
            static void *crash(void *place) {{ return *(void *volatile *)place; }}
            static void act(int call) {{ (void)crash; if (call == {MIDST}) {{ {code} }} }}"
        );
        if !build(&fixture, &code) {
            return;
        }
        let ended = run(&fixture, &["encrypt", "-q", "-j", "1", "--json", "many", "out"]);
        assert_eq!(ended.status, Some(1), "{code}: {}", ended.messages);
        let told: Vec<_> =
            ended.messages.lines().filter(|line| line.contains("the process")).collect();
        assert_eq!(told.len(), 1, "{code}: {}", ended.messages);
        assert!(told[0].starts_with("evener: ") && told[0].contains(how), "{code}: {told:?}");
        assert!(told[0].contains("do the rest again"), "{told:?}");
        assert_eq!(how.contains("SIGKILL"), !told[0].contains(ENGINE), "{told:?}");
        let cause = &ended.document()["failures"][0]["cause"];
        assert!(told[0].ends_with(cause.as_str().unwrap()), "{cause}");
        let done = whole_outputs(&fixture);
        assert!(done > 0 && done < FILES, "{code}: {done}");
    }
}

#[test]
fn code_that_closes_the_programs_descriptors_makes_no_success() {
    let told =
        "code that engine `openssl:provider=counting,path=.` loads may have ended it, or closed";
    for (code, told) in [
        // The connection to the witness alone; and a file in its place.
        ("close(LAST);", told),
        (
            "int file = open(\"victim\", O_CREAT | O_RDWR, 0600); dup2(file, LAST); close(file);",
            told,
        ),
        // All descriptors.
        (
            "for (int file = 0; file <= LAST; file++) close(file);",
            "did not say that the work was done",
        ),
    ] {
        let fixture = Fixture::new();
        let code = format!(
            "#include <sys/resource.h>
            static int last(void) {{
                struct rlimit limit;
                getrlimit(RLIMIT_NOFILE, &limit);
                return limit.rlim_cur < 4096 ? limit.rlim_cur - 1 : 4095;
            }}
            #define LAST last()
            static void act(int call) {{ if (call == {MIDST}) {{ {code} }} }}"
        );
        if !build(&fixture, &code) {
            return;
        }
        let ended = run(&fixture, &["encrypt", "-j", "1", "many", "out"]);
        assert_eq!(ended.status, Some(1), "{code}: {}", ended.messages);
        assert!(ended.messages.contains(told), "{code}: {}", ended.messages);
        whole_outputs(&fixture);
        assert!(fs::read(fixture.path("victim")).unwrap_or_default().is_empty(), "{code}");
    }
}

/// The next descriptor that is opened gets the number, and a message would go into its file.
#[test]
fn no_message_goes_into_an_output_after_standard_descriptors_are_closed() {
    for number in [0, 1, 2] {
        let fixture = Fixture::new();
        let code = format!(
            "static void act(int call) {{
                if (call == {MIDST}) close({number});
                if (call >= {MIDST}) write({number}, \"the module speaks\", 17);
            }}"
        );
        if !build(&fixture, &code) {
            return;
        }
        // Each file has a line of messages, once its output is done.
        let ended = run(
            &fixture,
            &["encrypt", "-v", "-j", "1", "--remove-source", "--json", "many", "out"],
        );
        let removed = FILES - fixture.names("many").len();
        assert!(removed > 0, "{number}: {}", ended.messages);
        assert_eq!(whole_outputs(&fixture), removed, "{number}: {}", ended.messages);
        assert_eq!(ended.status == Some(0), removed == FILES, "{number}: {}", ended.messages);
        let usual = ["--format", "openssl", "--iterations", "1", "--cipher", "aes-128-cbc"];
        let given = ["decrypt", "--passphrase-file", "passphrase", "--engine", "openssl"];
        let decrypted = fixture.run(&[&given[..], &usual, &["out", "back"]].concat());
        assert_eq!(decrypted.status, Some(0), "{number}: {}", decrypted.messages);
        for name in fixture.names("back") {
            let plain = fs::read(fixture.path("back").join(&name)).unwrap();
            assert_eq!(plain, vec![name.parse::<u8>().unwrap(); 3000], "{number}: {name}");
        }
    }
}

#[test]
fn code_that_reads_standard_input_takes_nothing_from_the_source() {
    let fixture = Fixture::new();
    let code =
        "static void act(int call) { char taken[64]; (void)call; read(0, taken, sizeof taken); }";
    if !build(&fixture, code) {
        return;
    }
    let plain: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    fs::write(fixture.path("plain"), &plain).unwrap();
    let mut sealing = command(&fixture, &["encrypt", "-", "-"]);
    let sealed = Ended::of(sealing.stdin(File::open(fixture.path("plain")).unwrap()));
    assert_eq!(sealed.status, Some(0), "{}", sealed.messages);
    fs::write(fixture.path("sealed"), &sealed.output).unwrap();
    let mut opening = command(&fixture, &["decrypt", "-", "-"]);
    let opened = Ended::of(opening.stdin(File::open(fixture.path("sealed")).unwrap()));
    assert_eq!(opened.status, Some(0), "{}", opened.messages);
    assert!(opened.output == plain, "{} of {} bytes", opened.output.len(), plain.len());
}

/// Work abandoned in a driver may crash when the process ends; here anything that ends it does.
#[test]
fn a_crash_after_the_word_of_completion_changes_nothing() {
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    build_ending(&fixture, "abort();");
    for (arguments, status) in [
        (["encrypt", "--json", "many", "out"], 0),
        (["encrypt", "--json", "many", "out"], 1),
        (["decrypt", "--json", "many", "none"], 1),
    ] {
        let ended = Ended::of(&mut with_ending(&fixture, &arguments));
        assert_eq!(ended.status, Some(status), "{arguments:?}: {}", ended.messages);
        assert!(!ended.messages.contains("the process"), "{}", ended.messages);
        assert_eq!(ended.document()["files"], if status == 0 { FILES } else { 0 });
    }
}

/// Threads in a driver may leave it no core to end on. Readers of its output do not wait for its
/// end.
#[test]
fn a_process_that_ends_late_keeps_nobody_waiting() {
    let fixture = Fixture::new();
    if !build(&fixture, "static void act(int call) { (void)call; }") {
        return;
    }
    build_ending(&fixture, "sleep(60);");
    let begun = Instant::now();
    let mut command = with_ending(&fixture, &["encrypt", "-", "-"]);
    let ended = Ended::of(command.stdin(File::open(fixture.path("many/1")).unwrap()));
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(ended.output.len() > 3000, "{}", ended.output.len());
}

/// Compiles a library in which the working process ends with this code.
fn build_ending(fixture: &Fixture, code: &str) {
    let code = format!(
        "
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        void _exit(int status)
        {{
            if (getppid() != atoi(getenv(\"EVENER_TEST_PROCESS\"))) {{ {code} }}
            for (;;) syscall(SYS_exit_group, status);
        }}"
    );
    fs::write(fixture.path("ending.c"), code).unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-D_GNU_SOURCE", "-shared", "-fPIC", "-w", "-o"]);
    compiler.arg(fixture.path("ending.so")).arg(fixture.path("ending.c"));
    assert!(compiler.status().unwrap().success());
}

/// The program with that library.
fn with_ending(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = command(fixture, arguments);
    let process = std::process::id().to_string();
    command.env("LD_PRELOAD", fixture.path("ending.so")).env("EVENER_TEST_PROCESS", process);
    command
}

/// A driver for GPUs does this when it is looked for.
#[test]
fn commands_that_look_for_engines_have_a_witness_too() {
    let code = "#include <unistd.h>\nint cuInit(unsigned flags) { (void)flags; _exit(0); }";
    let fixture = Fixture::new();
    let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/src/cuda/tests/fake.c");
    let code = format!("#define cuInit other\n#include \"{fake}\"\n#undef cuInit\n{code}");
    fs::write(fixture.path("driver.c"), code).unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-D_GNU_SOURCE", "-w", "-shared", "-fPIC", "-o"]);
    compiler.arg(fixture.path("libcuda.so.1")).arg(fixture.path("driver.c"));
    let Ok(compiled) = compiler.output() else {
        evener_core::lacking!("there is no C compiler for a driver");
        return;
    };
    assert!(compiled.status.success(), "{compiled:?}");
    for arguments in [
        &["engines", "--json"][..],
        &["engines", "--measure"],
        &["speed", "--json"],
        &["speed", "--json", "--engine", "gpu"],
        &["encrypt", "-k", "my.key", "--json", "--engine", "gpu", "tree", "sealed"],
    ] {
        let mut command = fixture.command(arguments);
        let ended = Ended::of(command.env("LD_LIBRARY_PATH", fixture.path(".")));
        assert_eq!(ended.status, Some(1), "{arguments:?}: {}", ended.messages);
        assert!(ended.messages.contains("code that engine `gpu` loads"), "{}", ended.messages);
        if arguments.contains(&"--json") {
            let cause = ended.document()["failures"][0]["cause"].to_string();
            assert!(cause.contains("ended with status 0"), "{cause}");
        }
    }
}
