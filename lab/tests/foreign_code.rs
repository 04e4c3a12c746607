//! A provider that ends the process with a success status does not make a benchmark succeed.

use std::process::Command;

#[test]
fn code_that_ends_a_benchmark_makes_no_success() {
    let folder = tempfile::tempdir().unwrap();
    // Exit during the measurement, after the self-test with known answers.
    let code = "
        #include <unistd.h>
        static void act(int call) { if (call == 12) _exit(0); }
        #define ACT act";
    std::fs::write(folder.path().join("act.h"), code).unwrap();
    let source =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/engines/src/openssl/provider/counting.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-DCOUNT_FILE=\"/dev/null\""]);
    compiler.arg("-include").arg(folder.path().join("act.h")).arg(source).arg("-o");
    let Ok(compiled) = compiler.arg(folder.path().join("counting.so")).arg("-lcrypto").output()
    else {
        return evener_core::lacking!("there is no C compiler for a provider");
    };
    let complaint = String::from_utf8_lossy(&compiled.stderr);
    if complaint.contains("core_dispatch.h: No such file") || complaint.contains("find -lcrypto") {
        return evener_core::lacking!(
            "the system's OpenSSL 3 is not there to build a provider (libssl-dev)"
        );
    }
    assert!(compiled.status.success(), "{complaint}");
    let engine = format!("openssl:provider=counting,path={}", folder.path().display());
    for (arguments, told) in [
        ("speed aes-128-cbc --bytes 16 --engine", "code that engine `openssl:provider=counting,"),
        ("bench policies --sizes 16 --module", "code that engine `openssl:provider=counting,"),
        ("bench background --cipher aes-128-cbc --engine", "code that engine `openssl:provider="),
        (
            "bench processes --cipher aes-128-cbc --processes 2 --gate none --rounds 1 --engine",
            "2 of 2 processes: the engine's code ended it before its work was done",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evener-lab"));
        let ended = command.args(arguments.split(' ')).arg(&engine).output().unwrap();
        let words = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{arguments}: {words}");
        assert!(words.contains(told), "{arguments}: {words}");
    }
}
