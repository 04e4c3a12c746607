//! Signatures of roots, beside those of OpenSSH.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::Signer as _;
use evener_keys::KeyError;
use evener_keys::signing::{
    Dialogue, NAMESPACE, NoDialogue, OwnKey, PublicKey, PublicKeyFault, SignatureError,
    SigningError, UserKey, verify, verify_chain,
};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256, Sha512};
use zeroize::Zeroizing;

const MESSAGE: &[u8] = b"the body\nof a root\0\xFF";

/// A directory with keys; `None` where there is no OpenSSH.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Option<Scene> {
        if Command::new("ssh-keygen").arg("-?").output().is_err() {
            evener_core::lacking!("there is no ssh-keygen (openssh-client)");
            return None;
        }
        Some(Scene(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a program of OpenSSH here without the environment's agent.
    fn run(&self, program: &str, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.0).env_remove("SSH_AUTH_SOCK");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that refuses its arguments reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// As [`Scene::run`] for `ssh-keygen`, which succeeds. Returns its standard output.
    fn keygen(&self, arguments: &[&str], input: &[u8]) -> String {
        let ended = self.run("ssh-keygen", arguments, input);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{arguments:?}: {said}");
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Makes a key and returns its path.
    fn key(&self, name: &str, options: &[&str]) -> PathBuf {
        let mut arguments = vec!["-q", "-C", "ann", "-f", name];
        arguments.extend(options);
        self.keygen(&arguments, b"");
        self.path(name)
    }

    /// Has OpenSSH check a signature of [`MESSAGE`]; true if it is good.
    fn is_good(&self, signature: &[u8], message: &[u8], key: &PublicKey) -> bool {
        fs::write(self.path("signature"), armoured(signature)).unwrap();
        fs::write(self.path("allowed"), format!("ann@example.com {key}\n")).unwrap();
        let check = ["-Y", "check-novalidate", "-n", NAMESPACE, "-s", "signature"];
        let mut verify = check.to_vec();
        verify[1] = "verify";
        verify.extend(["-f", "allowed", "-I", "ann@example.com"]);
        let [one, two] = [&check[..], &verify]
            .map(|arguments| self.run("ssh-keygen", arguments, message).status.success());
        assert_eq!(one, two);
        one
    }
}

fn armoured(signature: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(signature);
    let lines = encoded.as_bytes().chunks(70).map(|line| std::str::from_utf8(line).unwrap());
    let lines: Vec<_> = lines.collect();
    format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", lines.join("\n"))
}

fn unarmoured(text: &str) -> Vec<u8> {
    let lines: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    BASE64_STANDARD.decode(lines).unwrap()
}

/// Signs without the environment's agent, and with these variables.
fn sign(key: &UserKey, variables: &[(&str, &Path)]) -> Result<Vec<u8>, SigningError> {
    sign_with(key, variables, &NoDialogue)
}

fn sign_with(
    key: &UserKey,
    variables: &[(&str, &Path)],
    dialogue: &dyn Dialogue,
) -> Result<Vec<u8>, SigningError> {
    key.sign_with(MESSAGE, dialogue, |command, talk| {
        command.env_remove("SSH_AUTH_SOCK").envs(variables.iter().copied());
        talk(&mut command.spawn()?);
        Ok(())
    })
}

/// Writes a program. Another process writes it: children of other tests would keep this one's open
/// file for a while, and no system runs a program that is open for writing.
fn script(path: &Path, text: &str) {
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\" && chmod 700 \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", write, "sh"]).arg(path).arg(text);
    assert!(shell.status().unwrap().success());
}

#[test]
fn openssh_verifies_the_signatures_of_an_own_key() {
    let Some(scene) = Scene::new() else { return };
    let key = OwnKey::generate().unwrap();
    for message in [MESSAGE, b"", &[7; 100_000]] {
        let signature = key.sign(message);
        assert_eq!(verify(&signature, message), Ok(key.public()));
        assert!(scene.is_good(&signature, message, &key.public()));
        assert!(!scene.is_good(&signature, b"another", &key.public()));
    }
}

#[test]
fn openssh_reads_the_file_of_an_own_key() {
    let Some(scene) = Scene::new() else { return };
    let key = OwnKey::generate().unwrap();
    key.store(&scene.path("own")).unwrap();
    let line = scene.keygen(&["-y", "-f", "own"], b"");
    assert_eq!(PublicKey::from_line(&line).unwrap().0, key.public());
    let listed = scene.keygen(&["-l", "-f", "own"], b"");
    assert_eq!(listed.split(' ').nth(1), Some(&*key.public().fingerprint()));
    let user = UserKey::new(&scene.path("own")).unwrap();
    assert_eq!(sign(&user, &[]).unwrap(), key.sign(MESSAGE));
}

#[test]
fn an_own_key_is_kept_in_a_private_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own");
    let key = OwnKey::generate().unwrap();
    assert_eq!(key.store(&path).unwrap().exposed, None);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let loaded = OwnKey::load(&path).unwrap();
    assert_eq!((loaded.public(), loaded.chain_key()), (key.public(), key.chain_key()));
    assert_eq!(loaded.sign(MESSAGE), key.sign(MESSAGE));
    assert_eq!(format!("{key:?}"), format!("OwnKey({}, redacted)", key.public()));

    let another = OwnKey::generate().unwrap();
    assert_ne!(another.public(), key.public());
    assert!(matches!(another.store(&path), Err(KeyError::Exists { .. })));
    let absent = OwnKey::load(&directory.path().join("absent")).unwrap_err().to_string();
    assert!(absent.starts_with("can't read the signing key"), "{absent}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let exposed = OwnKey::load(&path).unwrap_err();
    assert!(matches!(exposed, SigningError::Key(KeyError::OpenToOthers { .. })), "{exposed}");
}

#[test]
fn a_changed_file_of_an_own_key_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own");
    let key = OwnKey::generate().unwrap();
    key.store(&path).unwrap();
    let text = fs::read(&path).unwrap();
    for length in 0..text.len() - 2 {
        fs::write(&path, &text[..length]).unwrap();
        let error = OwnKey::load(&path).unwrap_err();
        assert!(matches!(error, SigningError::NotOwn { .. }), "{length}: {error}");
    }
    for index in 0..text.len() {
        let mut changed = text.clone();
        changed[index] ^= 1;
        fs::write(&path, &changed).unwrap();
        // What follows the keys, such as the comment, has no check.
        if let Ok(loaded) = OwnKey::load(&path) {
            assert_eq!(loaded.public(), key.public(), "{index}");
        }
    }
}

#[test]
fn a_chain_key_signs_and_is_another() {
    let key = OwnKey::generate().unwrap();
    let (chain, signature) = (key.chain_key(), key.sign_chain(MESSAGE));
    assert!(verify_chain(&chain, MESSAGE, &signature));
    assert!(!key.public().wire().ends_with(&chain));
    assert!(!verify_chain(&chain, b"another", &signature));
    assert!(!verify_chain(&OwnKey::generate().unwrap().chain_key(), MESSAGE, &signature));
    for bit in 0..64 * 8 {
        let mut changed = signature;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!verify_chain(&chain, MESSAGE, &changed), "bit {bit}");
    }
    // It is plain Ed25519 with a prefix.
    let verifying = ed25519_dalek::VerifyingKey::from_bytes(&chain).unwrap();
    let data = [b"evener-chain-v1\0", MESSAGE].concat();
    verifying.verify_strict(&data, &ed25519_dalek::Signature::from_bytes(&signature)).unwrap();

    // With the neutral element as key and as R, and 0 as s, lenient verification takes any message.
    let (mut neutral, mut forged) = ([0; 32], [0; 64]);
    (neutral[0], forged[0]) = (1, 1);
    assert!(!verify_chain(&neutral, MESSAGE, &forged));
}

#[test]
fn keys_of_users_sign() {
    let Some(scene) = Scene::new() else { return };
    for (name, options) in [("ed", &["-t", "ed25519"][..]), ("ec", &["-t", "ecdsa", "-b", "256"])] {
        let path = scene.key(name, &[options, &["-N", ""]].concat());
        let key = UserKey::new(&path).unwrap();
        assert_eq!(key.comment(), "ann");
        let signature = sign(&key, &[]).unwrap();
        assert_eq!(verify(&signature, MESSAGE).as_ref(), Ok(key.public()));
        assert_eq!(verify(&signature, b"another"), Err(SignatureError::Mismatch));
        assert!(scene.is_good(&signature, MESSAGE, key.public()));
        // The hash may be the shorter one.
        let shorter = scene
            .keygen(&["-Y", "sign", "-n", NAMESPACE, "-O", "hashalg=sha256", "-f", name], MESSAGE);
        assert_eq!(verify(&unarmoured(&shorter), MESSAGE).as_ref(), Ok(key.public()));
        // The public key may be named, or be read from the private key.
        let of_public = UserKey::new(&scene.path(&format!("{name}.pub"))).unwrap();
        verify(&sign(&of_public, &[]).unwrap(), MESSAGE).unwrap();
        fs::remove_file(scene.path(&format!("{name}.pub"))).unwrap();
        let of_private = UserKey::new(&path).unwrap();
        assert_eq!(of_private.public(), key.public());
        verify(&sign(&of_private, &[]).unwrap(), MESSAGE).unwrap();
    }
}

#[test]
fn other_namespaces_are_refused() {
    let Some(scene) = Scene::new() else { return };
    scene.key("id", &["-t", "ed25519", "-N", ""]);
    for namespace in ["git", "evener-tree-v", "evener-tree-v11", "Evener-tree-v1"] {
        let made = scene.keygen(&["-Y", "sign", "-n", namespace, "-f", "id"], MESSAGE);
        let refused = verify(&unarmoured(&made), MESSAGE);
        assert_eq!(refused, Err(SignatureError::Namespace), "{namespace}");
    }
}

#[test]
fn a_passphrase_is_asked_for() {
    let Some(scene) = Scene::new() else { return };
    let path = scene.key("id", &["-t", "ed25519", "-a", "1", "-N", "open sesame"]);
    let key = UserKey::new(&path).unwrap();
    let [right, wrong] = ["sesame", "barley"].map(|word| {
        script(&scene.path(word), &format!("echo open {word}"));
        let variables =
            [("SSH_ASKPASS", &*scene.path(word)), ("SSH_ASKPASS_REQUIRE", Path::new("force"))];
        sign(&key, &variables)
    });
    assert_eq!(verify(&right.unwrap(), MESSAGE).as_ref(), Ok(key.public()));
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("incorrect passphrase") && !wrong.contains('\n'), "{wrong}");
    // The public key in such a file is not encrypted.
    fs::remove_file(scene.path("id.pub")).unwrap();
    assert_eq!(UserKey::new(&path).unwrap().public(), key.public());
}

/// Runs a command on a terminal, where the passphrase is typed when it is asked for.
const TERMINAL: &str = r#"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
shown = b""
while True:
    try:
        shown += os.read(terminal, 1000)
    except OSError:
        break
    if b"Enter passphrase" in shown:
        os.write(terminal, b"the body\n")
        shown = b""
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// The file of a key, in a process that only signs.
const SIGNS_WITH: &str = "EVENER_TEST_SIGNS_WITH";

#[test]
fn signs_in_a_process_of_its_own() {
    let Some(path) = env::var_os(SIGNS_WITH) else { return };
    let key = UserKey::new(Path::new(&path)).unwrap();
    key.sign(MESSAGE, &NoDialogue).unwrap();
}

#[test]
fn a_passphrase_is_typed_on_the_terminal_and_never_taken_from_the_message() {
    let Some(scene) = Scene::new() else { return };
    if Command::new("python3").arg("-V").output().is_err() {
        evener_core::lacking!("there is no python3");
        return;
    }
    // It is the message's first line.
    let path = scene.key("id", &["-t", "ed25519", "-a", "1", "-N", "the body"]);
    let signs = |before: &[&str], display: Option<&str>| {
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(env::current_exe().unwrap());
        command.args(["--exact", "signs_in_a_process_of_its_own"]).env(SIGNS_WITH, &path);
        for variable in ["SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY"] {
            command.env_remove(variable);
        }
        let display = display.map(|display| ("DISPLAY", display));
        command.envs(display).stdin(Stdio::null()).output().unwrap()
    };
    for display in [None, Some(":999")] {
        let typed = signs(&["python3", "-c", TERMINAL], display);
        assert!(typed.status.success(), "{display:?}");
        let without = signs(&["setsid", "--wait"], display);
        let shown = String::from_utf8_lossy(&without.stdout);
        assert!(!without.status.success() && shown.contains("Failed {"), "{shown}");
    }
}

/// An agent, which ends with it.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_signs_where_there_is_only_the_public_key() {
    let Some(scene) = Scene::new() else { return };
    let socket = scene.path("agent");
    let mut agent = Command::new("ssh-agent");
    let agent = agent.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn();
    let _agent = Agent(agent.unwrap());
    while !socket.exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let path = scene.key("id", &["-t", "ed25519", "-N", ""]);
    let added = Command::new("ssh-add").arg("-q").arg(&path).env("SSH_AUTH_SOCK", &socket).output();
    assert!(added.unwrap().status.success());
    fs::remove_file(&path).unwrap();
    for path in [path, scene.path("id.pub")] {
        let key = UserKey::new(&path).unwrap();
        let signature = sign(&key, &[("SSH_AUTH_SOCK", &socket)]).unwrap();
        assert_eq!(verify(&signature, MESSAGE).as_ref(), Ok(key.public()));
        let alone = sign(&key, &[]).unwrap_err().to_string();
        assert!(alone.contains("ssh-keygen says: ") && !alone.contains('\n'), "{alone}");
    }
}

#[test]
fn other_kinds_are_refused_with_a_sentence() {
    let Some(scene) = Scene::new() else { return };
    for (name, options, kind) in [
        ("rsa", &["-t", "rsa", "-b", "2048"], "ssh-rsa"),
        ("ec", &["-t", "ecdsa", "-b", "384"], "ecdsa-sha2-nistp384"),
    ] {
        let path = scene.key(name, &[&options[..], &["-N", ""]].concat());
        let refused = UserKey::new(&path).unwrap_err().to_string();
        let sentence = format!("Evener checks no signatures of {kind} keys, only of ed25519, ");
        assert!(refused.contains(&sentence) && refused.contains(".pub"), "{refused}");
        let made = scene.keygen(&["-Y", "sign", "-n", NAMESPACE, "-f", name], MESSAGE);
        let refused = verify(&unarmoured(&made), MESSAGE);
        let fault = PublicKeyFault::Kind(kind.to_owned());
        assert_eq!(refused, Err(SignatureError::Key(fault)), "{name}");
    }
    let absent = UserKey::new(&scene.path("absent")).unwrap_err().to_string();
    assert!(absent.starts_with("can't read the public key"), "{absent}");
    fs::write(scene.path("text"), "hello\n").unwrap();
    let text = UserKey::new(&scene.path("text")).unwrap_err().to_string();
    assert!(text.contains("it is no public key of OpenSSH"), "{text}");
}

#[test]
fn signatures_of_another_key_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let [key, other] = [(); 2].map(|()| OwnKey::generate().unwrap());
    fs::write(path("id.pub"), key.public().to_string()).unwrap();
    script(
        &path("ssh-keygen"),
        &format!("/bin/cat >/dev/null; /bin/cat {}", path("made").display()),
    );
    let user = UserKey::new(&path("id")).unwrap();
    let signed_by = |key: &OwnKey, message| {
        fs::write(path("made"), armoured(&key.sign(message))).unwrap();
        sign(&user, &[("PATH", directory.path())])
    };
    assert_eq!(signed_by(&key, MESSAGE).unwrap(), key.sign(MESSAGE));
    let refused = signed_by(&other, MESSAGE).unwrap_err();
    assert!(matches!(refused, SigningError::OtherKey { .. }), "{refused}");
    let refused = signed_by(&key, b"another").unwrap_err();
    assert!(matches!(refused, SigningError::Unusable { .. }), "{refused}");
}

/// Remembers what it is told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Dialogue for Told {
    fn tell(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }

    fn ask(&self, _question: &str, _is_secret: bool) -> Option<Zeroizing<String>> {
        None
    }

    fn confirm(&self, _question: &str, _yes: &str, _no: Option<&str>) -> Option<bool> {
        None
    }
}

#[test]
fn failures_of_ssh_keygen_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("id");
    let own = OwnKey::generate().unwrap();
    fs::write(directory.path().join("id.pub"), own.public().to_string()).unwrap();
    let key = UserKey::new(&path).unwrap();
    let search = [("PATH", directory.path())];
    let missing = sign(&key, &search).unwrap_err().to_string();
    assert!(missing.contains("no program `ssh-keygen` in PATH; install"), "{missing}");

    let program = directory.path().join("ssh-keygen");
    for (text, end) in [
        ("echo first >&2; echo ' last \u{1b} '>&2; echo >&2; exit 3", "says: last \\u{1b}"),
        ("exit 3", "says: exit status: 3"),
        ("kill -9 $$", "says: signal: 9 (SIGKILL)"),
        (
            "while read -r x; do :; done; echo hello",
            "it is no SSH signature, or was changed or cut",
        ),
        ("exec /bin/cat", "it is no SSH signature, or was changed or cut"),
    ] {
        script(&program, text);
        let failed = sign(&key, &search).unwrap_err().to_string();
        assert!(failed.ends_with(end), "{text}: {failed}");
    }
    // It ends without having read what is longer than a pipe.
    script(&program, "exit 3");
    let long = key.sign_with(&[0; 1 << 20], &NoDialogue, |command, talk| {
        talk(&mut command.env("PATH", directory.path()).spawn()?);
        Ok(())
    });
    assert!(matches!(long, Err(SigningError::Failed { .. })));

    let told = Told::default();
    script(&program, "echo 'Confirm user presence for key ED25519-SK' >&2; echo more >&2; exit 3");
    sign_with(&key, &search, &told).unwrap_err();
    assert_eq!(told.0.into_inner().unwrap(), ["Confirm user presence for key ED25519-SK"]);
}

/// Strings of SSH, each behind its length.
fn strings(strings: &[&[u8]]) -> Vec<u8> {
    let prefixed = |string: &&[u8]| [&(string.len() as u32).to_be_bytes(), *string].concat();
    strings.iter().flat_map(prefixed).collect()
}

/// Signs as a security key would, with these flags. Each has its kind, its key's fields, and what
/// signs.
type SecurityKey = (&'static str, Vec<u8>, Box<dyn Fn(&[u8]) -> Vec<u8>>);

fn security_keys() -> [SecurityKey; 2] {
    let ed = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let point = ed.verifying_key().to_bytes();
    let ec = p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap();
    let ec_point = ec.verifying_key().to_encoded_point(false);
    [
        (
            "sk-ssh-ed25519@openssh.com",
            strings(&[&point, b"ssh:"]),
            Box::new(move |data| ed.sign(data).to_bytes().to_vec()),
        ),
        (
            "sk-ecdsa-sha2-nistp256@openssh.com",
            strings(&[b"nistp256", ec_point.as_bytes(), b"ssh:"]),
            Box::new(move |data| {
                let signature: p256::ecdsa::Signature = ec.sign(data);
                let halves = [signature.r().to_bytes(), signature.s().to_bytes()];
                let [r, s] = halves.map(|half| integer(&half));
                strings(&[&r, &s])
            }),
        ),
    ]
}

/// A positive number as an mpint.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|&byte| byte != 0).unwrap();
    let zero = if bytes[start] >= 0x80 { &[0][..] } else { &[] };
    [zero, &bytes[start..]].concat()
}

fn of_security_key(key: &SecurityKey, flags: u8) -> (Vec<u8>, PublicKey) {
    let (kind, fields, sign) = key;
    let wire = [strings(&[kind.as_bytes()]), fields.clone()].concat();
    let signed = strings(&[NAMESPACE.as_bytes(), b"", b"sha512", &Sha512::digest(MESSAGE)]);
    let signed = [b"SSHSIG", &signed[..]].concat();
    let trailer = [flags, 0, 0, 0, 9];
    let data = [&Sha256::digest("ssh:")[..], &trailer, &Sha256::digest(signed)].concat();
    let inner = [strings(&[kind.as_bytes(), &sign(&data)]), trailer.to_vec()].concat();
    let rest = strings(&[&wire, NAMESPACE.as_bytes(), b"", b"sha512", &inner]);
    let signature = [b"SSHSIG\0\0\0\x01", &rest[..]].concat();
    (signature, PublicKey::from_wire(&wire).unwrap())
}

#[test]
fn security_keys_must_be_touched() {
    let scene = Scene::new();
    for key in security_keys() {
        for flags in [1, 5] {
            let (signature, public) = of_security_key(&key, flags);
            assert_eq!(verify(&signature, MESSAGE), Ok(public.clone()), "{}", key.0);
            assert_eq!(verify(&signature, b"another"), Err(SignatureError::Mismatch));
            if let Some(scene) = &scene {
                assert!(scene.is_good(&signature, MESSAGE, &public), "{}", key.0);
            }
        }
        let (untouched, _) = of_security_key(&key, 4);
        assert_eq!(verify(&untouched, MESSAGE), Err(SignatureError::NotTouched), "{}", key.0);
    }
}

/// A signature of each kind over [`MESSAGE`].
fn signatures() -> Vec<Vec<u8>> {
    let mut all = vec![OwnKey::generate().unwrap().sign(MESSAGE)];
    all.extend(security_keys().iter().map(|key| of_security_key(key, 1).0));
    if let Some(scene) = Scene::new() {
        let path = scene.key("ec", &["-t", "ecdsa", "-b", "256", "-N", ""]);
        all.push(sign(&UserKey::new(&path).unwrap(), &[]).unwrap());
    }
    for signature in &all {
        verify(signature, MESSAGE).unwrap();
    }
    all
}

#[test]
fn changed_signatures_are_refused() {
    for signature in signatures() {
        for length in 0..signature.len() {
            let cut = verify(&signature[..length], MESSAGE);
            assert_eq!(cut, Err(SignatureError::Malformed), "{length}");
        }
        let longer = [&signature[..], b"\0"].concat();
        assert_eq!(verify(&longer, MESSAGE), Err(SignatureError::Malformed));
        for bit in 0..signature.len() * 8 {
            let mut changed = signature.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&changed, MESSAGE).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn other_encodings_are_refused() {
    let signature = OwnKey::generate().unwrap().sign(MESSAGE);
    let hash = signature.windows(6).position(|bytes| bytes == b"sha512").unwrap();
    let (before, behind) = signature.split_at(hash - 4);
    let (before, _) = before.split_at(before.len() - 4);
    let filled = [before, &strings(&[b"reserved"]), behind].concat();
    assert_eq!(verify(&filled, MESSAGE), Err(SignatureError::Malformed));

    let ec = p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap();
    for (compressed, is_taken) in [(false, true), (true, false)] {
        let point = ec.verifying_key().to_encoded_point(compressed);
        let fields = strings(&[b"nistp256", point.as_bytes()]);
        let wire = [strings(&[b"ecdsa-sha2-nistp256"]), fields.clone()].concat();
        assert_eq!(PublicKey::from_wire(&wire).is_ok(), is_taken);
        let kind = strings(&[b"sk-ecdsa-sha2-nistp256@openssh.com"]);
        let wire = [kind, fields, strings(&[b"ssh:"])].concat();
        assert_eq!(PublicKey::from_wire(&wire).is_ok(), is_taken);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        line in ".{0,200}",
    ) {
        prop_assert!(verify(&bytes, MESSAGE).is_err());
        prop_assert!(verify(&[b"SSHSIG\0\0\0\x01", &bytes[..]].concat(), MESSAGE).is_err());
        prop_assert!(PublicKey::from_wire(&bytes).is_err());
        prop_assert!(PublicKey::from_line(&line).is_err());
    }

    #[test]
    fn spoilt_signatures_never_panic(
        kind in 0..2_usize,
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (signature, _) = of_security_key(&security_keys()[kind], 1);
        let mut changed = signature.clone();
        for (place, byte) in places {
            changed[place.index(signature.len())] = byte;
        }
        prop_assert!(changed == signature || verify(&changed, MESSAGE).is_err());
    }
}
