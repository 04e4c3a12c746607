//! Builds the peers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evener_core::shown_error;

use crate::LabError;

/// A peer that was built.
pub(super) struct Built {
    /// The command that starts the peer, without the message's length.
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// Compiler and options, for the report.
    pub(super) recipe: String,
}

/// Builds the peer in C in a directory, with this build's own OpenSSL if its files still exist,
/// otherwise with the system's.
///
/// # Errors
/// [`LabError::Unavailable`], naming the compiler or library to install.
pub(super) fn openmp(directory: &Path) -> Result<Built, LabError> {
    let source = write(directory, "ctr_openmp.c", OPENMP)?;
    let program = directory.join("ctr_openmp");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args(["-O3", "-march=native", "-fopenmp", "-o"]).arg(&program).arg(&source);
    let library = match own_library() {
        Some((include, library)) => {
            command.arg("-I").arg(include).arg(library).args(["-ldl", "-lpthread"]);
            "the OpenSSL that Evener is built with"
        }
        None => {
            command.arg("-lcrypto");
            "the system's OpenSSL"
        }
    };
    let install = "install a C compiler with OpenMP (gcc) and libssl-dev";
    build(&mut command, install)?;
    let recipe = format!("{compiler} -O3 -march=native -fopenmp, with {library}");
    Ok(Built { program, arguments: Vec::new(), recipe })
}

/// Builds the peer in Java in a directory.
///
/// # Errors
/// [`LabError::Unavailable`], naming the program to install.
pub(super) fn java(directory: &Path) -> Result<Built, LabError> {
    let source = write(directory, "CtrThreads.java", JAVA)?;
    let (compiler, program) = jdk();
    let mut command = Command::new(compiler);
    command.arg("-d").arg(directory).arg(&source);
    build(&mut command, "install a JDK, or set JAVA_HOME to one")?;
    let arguments = ["-Xms1g", "-cp", &directory.to_string_lossy(), "CtrThreads"];
    let arguments = arguments.map(str::to_owned).to_vec();
    Ok(Built { program, arguments, recipe: "javac; java -Xms1g".to_owned() })
}

/// `javac` and `java` from `JAVA_HOME`, or those on the path.
fn jdk() -> (PathBuf, PathBuf) {
    let place = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin"));
    let place = place.unwrap_or_default();
    (place.join("javac"), place.join("java"))
}

fn write(directory: &Path, name: &str, source: &str) -> Result<PathBuf, LabError> {
    let path = directory.join(name);
    fs::write(&path, source).map_err(LabError::file("write", &path))?;
    Ok(path)
}

fn build(command: &mut Command, install: &str) -> Result<(), LabError> {
    let compiler = evener_core::shown(command.get_program()).to_string();
    let output = command.output().map_err(|error| {
        let cause = shown_error(&error);
        LabError::Unavailable(format!("can't start {compiler}: {cause}; {install}"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error")).or(said.lines().next());
    let first = first.unwrap_or("it said nothing");
    Err(LabError::Unavailable(format!("{compiler} failed: {first}; {install}")))
}

/// The headers and the static library of the OpenSSL built for this program.
fn own_library() -> Option<(PathBuf, PathBuf)> {
    if !cfg!(feature = "vendored-openssl") {
        return None;
    }
    let include = PathBuf::from(option_env!("EVENER_OPENSSL_INCLUDE")?);
    let install = include.parent()?;
    let libraries = ["lib", "lib64"].map(|place| install.join(place).join("libcrypto.a"));
    let library = libraries.into_iter().find(|library| library.exists())?;
    Some((include, library))
}

const OPENMP: &str = include_str!("../../../peers/threads/ctr_openmp.c");
const JAVA: &str = include_str!("../../../peers/threads/CtrThreads.java");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_said_with_what_to_do() {
        let error = build(&mut Command::new("/no/such/cc"), "install one").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/no/such/cc") && text.contains("install one"), "{text}");
    }

    #[test]
    fn a_compilers_first_error_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'note'; echo 'x.c:1: error: no omp.h' >&2; exit 1"]);
        let text = build(&mut command, "install it").unwrap_err().to_string();
        assert_eq!(text, "sh failed: x.c:1: error: no omp.h; install it");
    }
}
