//! A SoftHSM token in a directory of its own, for a test in a process of its own.
//!
//! SoftHSM reads the location of its tokens from the environment, once per process, so every test
//! runs itself again as a child with that environment.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The files that a test uses in its process.
pub(super) struct Home {
    directory: PathBuf,
    module: PathBuf,
}

pub(super) const PIN: &str = "648219";

/// Runs `body` in a child process with a new token `evener`, or reports why it can't. `test` is the
/// test's own name below this folder; `settings` go to [`Home::shim`].
pub(super) fn with_token(test: &str, settings: &[(&str, &str)], body: fn(&Home)) {
    let Some(module) = MODULES.iter().map(Path::new).find(|path| path.exists()) else {
        evener_core::lacking!("SoftHSM2 is not installed (Debian: softhsm2)");
        return;
    };
    if let Some(directory) = env::var_os(HOME) {
        return body(&Home { directory: directory.into(), module: module.to_owned() });
    }
    let directory = tempfile::tempdir().unwrap();
    let home = Home { directory: directory.path().to_owned(), module: module.to_owned() };
    fs::create_dir(home.tokens()).unwrap();
    let configuration = format!("directories.tokendir = {}\n", home.tokens().display());
    fs::write(home.at("softhsm2.conf"), configuration).unwrap();
    home.set_pin_file(&format!("{PIN}\n"));
    home.utility(&["--init-token", "--free", "--label", "evener", "--so-pin", "12345678"]);
    let mut child = home.command(env::current_exe().unwrap());
    child.args(["--exact", &format!("pkcs11::tests::{test}"), "--nocapture"]);
    child.env(HOME, directory.path()).env("EVENER_SHIM_MODULE", module);
    child.env("XDG_STATE_HOME", directory.path().join("state"));
    child.envs(settings.iter().copied());
    let output = child.output().unwrap();
    println!("{}", text(&output));
    assert!(output.status.success(), "{test} failed in its process");
}

impl Home {
    /// The rest of a `pkcs11:` URI of the token, with its PIN in a file.
    pub(super) fn uri(&self, path: &str) -> String {
        let pin = self.at("pin");
        format!("{path}?module-path={}&pin-source=file:{}", self.module.display(), pin.display())
    }

    /// The same for the module with limits and faults; `None` if there is no compiler.
    pub(super) fn shim(&self, path: &str) -> Option<String> {
        let shim = compile("shim.c", &self.directory)?;
        Some(Home { module: shim, directory: self.directory.clone() }.uri(path))
    }

    pub(super) fn module(&self) -> &Path {
        &self.module
    }

    /// The directory that holds the tokens' directories.
    pub(super) fn tokens(&self) -> PathBuf {
        self.at("tokens")
    }

    /// Puts an AES key into the token.
    pub(super) fn import_key(&self, label: &str, id: &str, bytes: &[u8]) {
        let file = self.at("key");
        fs::write(&file, bytes).unwrap();
        let file = file.to_str().unwrap();
        let token = ["--token", "evener", "--label", label, "--id", id];
        self.utility(&[&["--import", file, "--aes"], &token[..]].concat());
    }

    pub(super) fn pin_file(&self) -> PathBuf {
        self.at("pin")
    }

    /// Replaces the content of the PIN file.
    pub(super) fn set_pin_file(&self, pin: &str) {
        fs::write(self.at("pin"), pin).unwrap();
        fs::set_permissions(self.at("pin"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn utility(&self, arguments: &[&str]) {
        let output = self.command("softhsm2-util").args(arguments).args(["--pin", PIN]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "softhsm2-util: {}", text(&output));
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SOFTHSM2_CONF", self.at("softhsm2.conf"));
        command
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Compiles a module of this folder into a directory; `None` if there is no compiler.
pub(super) fn compile(source: &str, directory: &Path) -> Option<PathBuf> {
    let module = directory.join(source).with_extension("so");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pkcs11/tests/");
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    // Every call has its own arguments, which C before C23 leaves open with `()`.
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC"]);
    compiler.arg(format!("{folder}{source}")).args(["-ldl", "-o"]).arg(&module);
    let Ok(output) = compiler.output() else {
        evener_core::lacking!("there is no C compiler for the module {source}");
        return None;
    };
    assert!(output.status.success(), "{}", text(&output));
    Some(module)
}

pub(super) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

const HOME: &str = "EVENER_TEST_SOFTHSM_HOME";

const MODULES: &[&str] = &[
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib64/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/lib/pkcs11/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
];
