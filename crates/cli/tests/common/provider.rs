//! A provider of OpenSSL that works, and misbehaves at a given moment.

use std::fs;
use std::process::Command;

use super::{Ended, Fixture};

/// The number of files in the tree `many`, of 3,000 bytes each.
pub const FILES: usize = 30;

/// Adds a provider that runs `code` with the number of each `call` that processes data; false if
/// none can be built.
pub fn build(fixture: &Fixture, code: &str) -> bool {
    fixture.secret("passphrase", "open sesame\n");
    fs::create_dir(fixture.path("many")).unwrap();
    for number in 0..FILES {
        fs::write(fixture.path(&format!("many/{number}")), vec![number as u8; 3000]).unwrap();
    }
    let code = format!("{HEADERS}{code}\n#define ACT act\n");
    fs::write(fixture.path("act.h"), code).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../engines/src/openssl/provider/counting.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-DCOUNT_FILE=\"/dev/null\""]);
    compiler.arg("-include").arg(fixture.path("act.h")).arg(source).arg("-o");
    // The library must not be unloaded before the end.
    compiler.arg(fixture.path("counting.so")).args(["-lcrypto", "-lpthread", "-Wl,-z,nodelete"]);
    let Ok(compiled) = compiler.output() else {
        evener_core::lacking!("there is no C compiler for a provider");
        return false;
    };
    let complaint = String::from_utf8_lossy(&compiled.stderr);
    if complaint.contains("core_dispatch.h: No such file") || complaint.contains("find -lcrypto") {
        evener_core::lacking!(
            "the system's OpenSSL 3 is not there to build a provider (libssl-dev)"
        );
        return false;
    }
    assert!(compiled.status.success(), "{complaint}");
    true
}

const HEADERS: &str = "
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
";

pub const ENGINE: &str = "openssl:provider=counting,path=.";

/// The program with the provider.
pub fn command(fixture: &Fixture, arguments: &[&str]) -> Command {
    let (operation, rest) = arguments.split_first().unwrap();
    let usual = ["--format", "openssl", "--cipher", "aes-128-cbc", "--iterations", "1"];
    let given = ["--passphrase-file", "passphrase", "--engine", ENGINE];
    fixture.command(&[&[*operation], &usual[..], &given, rest].concat())
}

pub fn run(fixture: &Fixture, arguments: &[&str]) -> Ended {
    Ended::of(&mut command(fixture, arguments))
}
