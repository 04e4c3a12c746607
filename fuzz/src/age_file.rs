//! Files that age makes: encrypted key files, identities and recipients.

use std::path::Path;
use std::sync::LazyLock;

use evener_keys::age::{self, Identity, Recipient};
use evener_keys::{Exposed, KeyError, NoUnlock, Passphrase, Unlock};

use crate::memory_file::MemoryFile;

/// An age file, binary or in armour, that may hold a key; or a file of identities or recipients.
pub fn age_file(data: &[u8]) {
    let file = MemoryFile::new(data);
    let path = file.path();
    if age::is_encrypted(data) {
        let _ = age::unwrap(data, &path, &Opener { phrase: is_cheap(data) });
        // Neither opens a file without any secrets.
        assert!(age::unwrap(data, &path, &NoUnlock).is_err());
    }
    let _ = Identity::read_file(&path, &Opener { phrase: is_cheap(data) });
    if let Ok(recipients) = Recipient::read_file(&path, &Opener { phrase: false }) {
        for recipient in recipients {
            let again = recipient.to_string().parse::<Recipient>().expect("what it wrote");
            assert!(again == recipient);
        }
    }
}

/// Returns whether trying a passphrase takes at most 2^8 rounds: anybody can write a file that asks
/// for a million, and only more than that is refused.
fn is_cheap(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&data[..data.len().min(4096)]);
    let mut stanzas = text.split("-> scrypt ").skip(1).peekable();
    let is_cheap = |stanza: &str| {
        let rounds = stanza.lines().next().and_then(|line| line.split(' ').nth(1));
        rounds.and_then(|rounds| rounds.parse::<u8>().ok()).is_none_or(|rounds| rounds <= 8)
    };
    // Armour hides the number of rounds.
    !data.starts_with(b"-----BEGIN") && stanzas.peek().is_some() && stanzas.all(is_cheap)
}

struct Opener {
    phrase: bool,
}

impl Unlock for Opener {
    fn identities(&self) -> &[Identity] {
        &IDENTITIES
    }

    fn passphrase(&self, _path: &Path) -> Result<Option<Passphrase>, KeyError> {
        let phrase = || Passphrase::new(b"open sesame", "the fuzzer");
        self.phrase.then(phrase).transpose()
    }

    fn takes_recipients(&self, _file: &Exposed<'_>) -> bool {
        true
    }
}

/// The identity that opens the corpus' files.
const IDENTITY: &str = "AGE-SECRET-KEY-1XLDMGGY62L4PPGWQ8LTZ43GJH2YHGXQMLDER3793DZUNYX7L5VYS6003QQ";

pub(crate) static IDENTITIES: LazyLock<Vec<Identity>> = LazyLock::new(|| {
    let file = MemoryFile::new(IDENTITY.as_bytes());
    Identity::read_file(&file.path(), &NoUnlock).expect("an identity")
});
