//! The command line as readable transcripts: every `tests/cmd/*.md` is run as written.

use std::env;
use std::path::{Path, PathBuf};

#[test]
fn transcripts() {
    let program = Path::new(env!("CARGO_BIN_EXE_evener"));
    let cases = trycmd::TestCases::new();
    cases.register_bin("evener", program);
    for name in ["cat", "chmod", "cmp", "diff", "find", "head", "ls", "mkdir", "sh", "stat"] {
        cases.register_bin(name, find(name).expect("every system has these programs"));
    }
    match find("openssl") {
        Some(path) => {
            cases.register_bin("openssl", path);
        }
        None => {
            evener_core::lacking!("tests/cmd/openssl.md: there is no program `openssl`");
            cases.skip("tests/cmd/openssl.md");
        }
    }
    // The shell needs the path.
    let directory = program.parent().expect("the program is in a directory").to_owned();
    let path = env::join_paths(std::iter::once(directory).chain(directories())).unwrap();
    cases.env("PATH", path.to_str().expect("the path is UTF-8"));
    cases.env("LC_ALL", "C");
    cases.env("COLUMNS", "100");
    // Nothing learnt here may get into the user's directories.
    let cache = tempfile::tempdir().expect("there is a place for temporary files");
    for name in ["XDG_CACHE_HOME", "XDG_STATE_HOME"] {
        cases.env(name, cache.path().to_str().expect("the path is UTF-8"));
    }
    cases.case("tests/cmd/*.md");
}

fn find(name: &str) -> Option<PathBuf> {
    directories().map(|directory| directory.join(name)).find(|path| path.is_file())
}

fn directories() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}
