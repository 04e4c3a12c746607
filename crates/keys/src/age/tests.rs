//! Tests round trips, errors, and both directions with the `age` program.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ::age::secrecy::ExposeSecret;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;

use super::super::age_text::is_identity;
use super::super::{Exposed, NoUnlock, create};
use super::*;

const TEXT: &[u8] = b"evener-key:v1:cobblestone-128:AAECAwQFBgcICQoLDA0ODw\n";

/// [`TEXT`] encrypted with `age -p -a` of age 1.1.1 and the passphrase "swordfish".
const FROM_AGE: &str = "\
-----BEGIN AGE ENCRYPTED FILE-----
YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBMNS9XaFVYSWRHVlVzNGhk
NE8rbC9BIDE4ClJaNzhhVW5adGIyR2I3RThWNUxFeHR5M2FQMXExZzQyWDNocWk4
WUpQN0UKLS0tIFpXbE54YytDank5bHpsOUlIai9sTnVDYnFFcEcwWWd5RzFON0lq
blVVVlUKjsF3lESNQ7pjTxb0hUqSsAp0cVaO4rQLiA4tKT5WrznjKp4Yicr+rTKK
5uWrVf5sACbPKR8sRpzVDajlTRmBjheYexBOWGGiMgunQAwP2MStnpL49w==
-----END AGE ENCRYPTED FILE-----
";

/// A key wrapped with the line `\u{FEFF} correct horse \t\r`, from when Evener took a file's whole
/// line.
const FROM_A_WHOLE_LINE: &str = "\
YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBlcE5xUnp4RWZjVWdqOVI3VUhON1dnIDE4CndYaDlYbUEw\
Y29uaWpnL0VZK2JWVmxreUFWbzNVajEyZGxRbGFPYVNpZGsKLS0tIGdEbWx1N2VzeitVZ1lCWXFHd3Z3dkREcDdW\
Rm9xc21tbUVkRVlRSU5rOGMK5PyBTnWSIypYXU7+Hlei4DA4kbUqu0COUt2hz6TBM2T0T6TP+7bnrOcaOWp/06yK\
d1Dt0Aon5HB+FAaHfiMQmjimwgEFkxma0AtqYp58FnB20puMz6A9dTXrCSAF6lg9P1KlkpofZloAjQ==";

/// Fast, and therefore good only for tests.
const SMALL_WORK_FACTOR: u8 = 4;

fn open(bytes: &[u8], unlock: &dyn Unlock) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    unwrap(bytes, Path::new("some.key"), unlock)
}

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.as_bytes(), "a test").unwrap()
}

/// A file of mode 0600.
fn private_file(directory: &Path, name: &str, contents: &[u8]) -> PathBuf {
    let path = directory.join(name);
    create(&path, contents).unwrap();
    path
}

fn identity_text(identity: &Identity) -> String {
    identity.text()
}

/// The recipient of an identity that has one.
fn recipient(identity: &Identity) -> Recipient {
    identity.recipient().unwrap()
}

#[test]
fn each_recipient_opens_it_and_nobody_else() {
    let (ann, bob, eve) = (Identity::generate(), Identity::generate(), Identity::generate());
    let wrapped = wrap(TEXT, &[recipient(&ann), recipient(&bob)]).unwrap();
    assert!(is_encrypted(&wrapped));
    assert!(!is_encrypted(TEXT));
    assert_eq!(*open(&wrapped, &vec![ann]).unwrap(), TEXT);
    assert_eq!(*open(&wrapped, &vec![eve.clone(), bob]).unwrap(), TEXT);
    assert!(matches!(open(&wrapped, &vec![eve]), Err(KeyError::WrongIdentity { .. })));
    assert!(matches!(open(&wrapped, &NoUnlock), Err(KeyError::IdentityNeeded { .. })));
    assert!(matches!(wrap(TEXT, &[]), Err(KeyError::NoRecipients)));
}

#[test]
fn a_passphrase_opens_it_and_no_other() {
    let right = passphrase("correct horse");
    let wrapped = wrap_with_work_factor(TEXT, &right, SMALL_WORK_FACTOR).unwrap();
    assert!(is_encrypted(&wrapped));
    assert_eq!(*open(&wrapped, &right).unwrap(), TEXT);
    let wrong = passphrase("battery staple");
    assert!(matches!(open(&wrapped, &wrong), Err(KeyError::WrongPassphrase { .. })));
    assert!(matches!(open(&wrapped, &NoUnlock), Err(KeyError::PassphraseNeeded { .. })));

    let latin = Passphrase::new(b"caf\xE9", "a test").unwrap();
    assert!(matches!(wrap_with_passphrase(TEXT, &latin), Err(KeyError::Passphrase { .. })));
}

#[test]
fn a_passphrase_opens_what_the_age_program_wrote() {
    let unlock = passphrase("swordfish");
    assert_eq!(*open(FROM_AGE.as_bytes(), &unlock).unwrap(), TEXT);
}

/// A passphrase from the first line of a file.
fn line(text: &str) -> Passphrase {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Passphrase::from_file(file.path()).unwrap()
}

#[test]
fn what_was_encrypted_with_a_whole_line_opens_with_it() {
    let wrapped = BASE64_STANDARD.decode(FROM_A_WHOLE_LINE).unwrap();
    let text = open(&wrapped, &line("\u{feff} correct horse \t\r\n")).unwrap();
    assert!(text.starts_with(b"evener-key:v1:cobblestone-256:"));
}

#[test]
fn a_line_opens_what_was_encrypted_with_it_or_with_what_is_typed() {
    let typed = passphrase("correct horse");
    let lines =
        ["\u{feff}correct horse\n", "correct horse\r\n", "correct horse \n", " correct horse \r"];
    for text in lines {
        let written = Passphrase::new(line(text).bytes(), "a test").unwrap();
        for old in [&written, &typed] {
            let wrapped = wrap_with_work_factor(TEXT, old, SMALL_WORK_FACTOR).unwrap();
            assert_eq!(*open(&wrapped, &line(text)).unwrap(), TEXT, "{text:?}");
        }
        let new = wrap_with_work_factor(TEXT, &line(text), SMALL_WORK_FACTOR).unwrap();
        assert_eq!(*open(&new, &typed).unwrap(), TEXT, "{text:?}");
        let wrong = wrap_with_work_factor(TEXT, &passphrase("correct"), SMALL_WORK_FACTOR).unwrap();
        let error = open(&wrong, &line(text)).unwrap_err();
        assert!(matches!(error, KeyError::WrongPassphrase { .. }), "{error}");
    }
}

/// Each guess takes a second and 256 MiB.
#[test]
fn a_passphrase_is_tried_once_unless_there_is_something_odd_about_it() {
    for (text, guesses) in [("plain\n", 1), ("two words\n", 1), ("crlf\r\n", 2), (" a \r\n", 3)] {
        let mut tried = Vec::new();
        let refused =
            try_passphrase(Path::new("some.key"), &line(text), |guess| -> Result<(), _> {
                tried.push(guess.expose_secret().to_owned());
                Err(DecryptError::DecryptionFailed)
            });
        assert!(matches!(refused, Err(KeyError::WrongPassphrase { .. })));
        assert_eq!(tried.len(), guesses, "{tried:?}");
        assert_eq!(tried[0], text.strip_suffix('\n').unwrap());
    }
}

#[test]
fn memory_that_cant_be_had_is_an_error() {
    // No system supplies this much memory.
    let error = wrap_with_work_factor(TEXT, &passphrase("correct horse"), 52).unwrap_err();
    assert!(matches!(error, KeyError::PassphraseMemory { bytes } if bytes == 1 << 62), "{error}");
    assert!(error.to_string().starts_with("a passphrase takes 4398046511104 MiB"), "{error}");
    assert!(has_memory_for(SMALL_WORK_FACTOR));
}

#[test]
fn the_work_that_a_file_asks_for_is_limited() {
    let right = passphrase("correct horse");
    let wrapped = wrap_with_work_factor(TEXT, &right, SMALL_WORK_FACTOR).unwrap();
    // The stanza's line is `-> scrypt SALT 4`.
    let end = wrapped.windows(3).position(|window| window == b" 4\n").unwrap();
    for factor in ["21", "22", "40", "63"] {
        let greedy = [&wrapped[..=end], factor.as_bytes(), &wrapped[end + 2..]].concat();
        let error = open(&greedy, &right).unwrap_err();
        assert!(matches!(error, KeyError::ExcessiveWork { limit: 20, .. }), "{error}");
        assert!(error.to_string().contains(&format!("2^{factor} ")), "{error}");
    }
}

#[test]
fn a_file_cut_or_changed_anywhere_is_refused() {
    let identity = Identity::generate();
    let wrapped = wrap(TEXT, &[recipient(&identity)]).unwrap();
    let identities = vec![identity];
    for length in 0..wrapped.len() {
        assert!(open(&wrapped[..length], &identities).is_err(), "cut to {length} bytes");
    }
    for index in 0..wrapped.len() {
        let mut changed = wrapped.clone();
        changed[index] ^= 0x20;
        assert!(open(&changed, &identities).is_err(), "byte {index}");
    }
    let longer = [&wrapped[..], b"\n"].concat();
    assert!(open(&longer, &identities).is_err());
}

#[test]
fn recipients_are_read_from_text_and_files() {
    let (ann, bob) = (recipient(&Identity::generate()), recipient(&Identity::generate()));
    assert_eq!(ann.to_string().parse::<Recipient>().unwrap(), ann);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recipients");
    fs::write(&path, format!("# the team\n{ann}\r\n\n{bob}")).unwrap();
    assert_eq!(Recipient::read_file(&path, &NoUnlock).unwrap(), [ann.clone(), bob]);

    fs::write(&path, format!("{ann}\nage1mistyped\n")).unwrap();
    let message = Recipient::read_file(&path, &NoUnlock).unwrap_err().to_string();
    assert!(message.contains("line 2") && message.contains("mistyped or broken"), "{message}");
    fs::write(&path, "# nobody\n").unwrap();
    let message = Recipient::read_file(&path, &NoUnlock).unwrap_err().to_string();
    assert!(message.contains("holds no recipients"), "{message}");
}

#[test]
fn a_secret_given_as_a_recipient_is_not_quoted() {
    let secret = identity_text(&Identity::generate());
    let message = secret.parse::<Recipient>().unwrap_err().to_string();
    assert!(message.contains("which is secret"), "{message}");
    assert!(!message.contains(&secret[20..]), "{message}");
    let hardware = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t";
    let message = hardware.parse::<Recipient>().unwrap_err().to_string();
    assert!(message.contains("only ssh-ed25519 and ssh-rsa"), "{message}");
    let message = "ssh-ed25519 AAAA".parse::<Recipient>().unwrap_err().to_string();
    assert!(
        message.contains("the SSH key is mistyped, cut short or broken into lines"),
        "{message}"
    );
}

#[test]
fn identities_are_read_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let (ann, bob) = (Identity::generate(), Identity::generate());
    let text = format!("# created: today\n{}\n\n{}\r\n", identity_text(&ann), identity_text(&bob));
    let path = private_file(directory.path(), "plain", text.as_bytes());
    let read = Identity::read_file(&path, &NoUnlock).unwrap();
    let recipients: Vec<_> = read.iter().map(recipient).collect();
    assert_eq!(recipients, [recipient(&ann), recipient(&bob)]);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = Identity::read_file(&path, &NoUnlock).unwrap_err();
    assert!(matches!(error, KeyError::OpenToOthers { .. }), "{error}");

    let secret = passphrase("correct horse");
    let locked = wrap_with_work_factor(text.as_bytes(), &secret, SMALL_WORK_FACTOR).unwrap();
    let path = private_file(directory.path(), "locked", &locked);
    assert_eq!(Identity::read_file(&path, &secret).unwrap().len(), 2);
    let error = Identity::read_file(&path, &NoUnlock).unwrap_err();
    assert!(matches!(error, KeyError::PassphraseNeeded { .. }), "{error}");
}

#[test]
fn an_identity_file_with_something_else_is_refused_unquoted() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        (
            "AGE-SECRET-KEY-1SWORDFISH",
            "line 2: the identity is mistyped, cut short or broken into lines",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "an SSH key stands alone in its file"),
        (
            "AGE-PLUGIN-YUBIKEY-SWORDFISH",
            "line 2: the identity is mistyped, cut short or broken into lines",
        ),
        ("AGE-SECRET-KEY-PQ-1SWORDFISH", "`age-plugin-pq -identity`"),
        ("swordfish", "line 2: this is no age identity"),
        ("# nothing", "it holds none"),
    ];
    for (index, (line, expected)) in cases.into_iter().enumerate() {
        let text = format!("# comment\n{line}\n");
        let path = private_file(directory.path(), &index.to_string(), text.as_bytes());
        let message = Identity::read_file(&path, &NoUnlock).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(!message.to_lowercase().contains("swordfish"), "{message}");
    }
}

#[test]
fn the_age_program_opens_ours() {
    let Some(age) = age_program() else { return };
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::generate();
    let text = identity_text(&identity);
    let identity_path = private_file(directory.path(), "identity", text.as_bytes());
    let wrapped = wrap(TEXT, &[recipient(&Identity::generate()), recipient(&identity)]).unwrap();
    let path = private_file(directory.path(), "wrapped", &wrapped);
    let output =
        Command::new(age).arg("-d").arg("-i").arg(identity_path).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, TEXT);
}

#[test]
fn we_open_what_the_age_program_writes() {
    let Some(age) = age_program() else { return };
    let identities = vec![Identity::generate()];
    let directory = tempfile::tempdir().unwrap();
    let plain = private_file(directory.path(), "plain", TEXT);
    for armour in [None, Some("-a")] {
        let output = Command::new(age)
            .args(armour)
            .args(["-r", &recipient(&identities[0]).to_string()])
            .arg(&plain)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(is_encrypted(&output.stdout), "{armour:?}");
        assert_eq!(*open(&output.stdout, &identities).unwrap(), TEXT, "{armour:?}");
    }
}

/// The program's name; `None`, with a line that says so, if there is none.
fn age_program() -> Option<&'static str> {
    let found = Command::new("age").arg("--version").stdout(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Some("age"),
        _ => {
            evener_core::lacking!("the program `age` is not installed");
            None
        }
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(
        head in prop::sample::select(vec![
            "",
            "age-encryption.org/v1\n",
            "age-encryption.org/v1\n-> X25519 ",
            "age-encryption.org/v1\n-> scrypt ",
            "-----BEGIN AGE ENCRYPTED FILE-----\n",
        ]),
        tail in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [head.as_bytes(), &tail].concat();
        prop_assert!(open(&bytes, &vec![Identity::generate()]).is_err());
    }

    #[test]
    fn recipients_and_identities_never_panic(text in "(age1|AGE-SECRET-KEY-1|ssh-)?\\PC{0,80}") {
        let _ = recipient::parse(&text);
        let _ = identity::parse(&text);
        let _ = is_identity(text.as_bytes());
    }
}

#[test]
fn a_thousand_recipients_take_no_minutes() {
    let identity = Identity::generate();
    let wrapped = wrap(TEXT, &vec![recipient(&identity); 5000]).unwrap();
    assert_eq!(*open(&wrapped, &vec![identity.clone()]).unwrap(), TEXT);
    // Without an end, and with a line that does not belong to a header.
    let header = wrapped.windows(4).position(|start| start == b"\n---").unwrap();
    for end in [&b"\n"[..], b"\n?\n--- ", b"\n---", b"\n--- x\n--- y\n"] {
        let broken = [&wrapped[..header], end].concat();
        let error = open(&broken, &vec![identity.clone()]).unwrap_err();
        assert!(matches!(error, KeyError::DamagedAge { .. }), "{error}");
    }
    let error = wrap(TEXT, &vec![recipient(&identity); 12_000]).unwrap_err();
    assert!(matches!(error, KeyError::TooManyRecipients { .. }), "{error}");
}

#[test]
fn recipients_for_whom_anybody_could_read_are_refused() {
    let mut one = [0; 32];
    one[0] = 1;
    // The points of low order that RFC 7748 discusses, of the curve and its twist.
    let order_8 = [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ];
    let mut minus_one = [0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    for point in [[0; 32], one, order_8, minus_one] {
        let text = bech32::encode::<bech32::Bech32>(bech32::Hrp::parse("age").unwrap(), &point);
        let error = text.unwrap().parse::<Recipient>().unwrap_err().to_string();
        assert!(error.starts_with("can't encrypt for the recipient given: it is a"), "{error}");
    }
    for point in [[0; 32], one, minus_one] {
        let blob = [b"\0\0\0\x0bssh-ed25519\0\0\0\x20", &point[..]].concat();
        let text = format!("ssh-ed25519 {} anybody", BASE64_STANDARD.encode(blob));
        let error = text.parse::<Recipient>().unwrap_err().to_string();
        assert!(error.contains("low order"), "{error}");
    }
}

#[test]
fn recipients_that_others_may_change_are_refused() {
    struct Lenient;
    impl Unlock for Lenient {
        fn takes_recipients(&self, _file: &Exposed<'_>) -> bool {
            true
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let ann = recipient(&Identity::generate());
    let path = private_file(directory.path(), "recipients", ann.to_string().as_bytes());
    for (mode, is_fine) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let read = Recipient::read_file(&path, &NoUnlock);
        assert_eq!(read.is_ok(), is_fine, "{mode:o}");
        assert!(is_fine || read.unwrap_err().to_string().contains("chmod go-w"));
        assert_eq!(Recipient::read_file(&path, &Lenient).unwrap(), std::slice::from_ref(&ann));
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    if std::os::unix::fs::chown(&path, Some(4321), None).is_err() {
        evener_core::lacking!("only root can give a file to another user");
        return;
    }
    let error = Recipient::read_file(&path, &NoUnlock).unwrap_err();
    assert!(error.to_string().contains("belongs to user 4321"), "{error}");
    assert_eq!(Recipient::read_file(&path, &Lenient).unwrap(), [ann]);
}
