//! Tests of headers of age files, with the age crate itself and the vectors of C2SP.

use std::collections::HashSet;

use evener_format::FileCipher;

use super::*;

fn identity() -> (Identity, Recipient) {
    let identity = Identity::generate();
    let recipient = identity.recipient().unwrap();
    (identity, recipient)
}

fn opening(identities: &[Identity]) -> Recipe {
    FileHeaders::opened_by(identities.to_vec(), None).recipe()
}

fn sealing(recipients: &[Recipient]) -> Recipe {
    let headers = FileHeaders::opened_by(Vec::new(), None);
    headers.for_recipients(recipients.to_vec()).unwrap().recipe()
}

fn key(file: &FileCipher) -> Vec<u8> {
    file.key().bytes().to_vec()
}

#[test]
fn each_recipient_opens_a_header_and_others_do_not() {
    let ((one, for_one), (two, for_two), (other, _)) = (identity(), identity(), identity());
    let recipe = sealing(&[for_one, for_two]);
    for _ in 0..3 {
        let (file, header) = recipe.create().unwrap();
        assert!(header.bytes().len() as u64 <= recipe.geometry().header);
        assert_eq!(file.geometry().header, header.bytes().len() as u64);
        for mine in [&one, &two] {
            let opened = opening(&[other.clone(), mine.clone()]).open(header.bytes()).unwrap();
            assert_eq!(key(&opened), key(&file));
            assert_eq!(opened.geometry(), file.geometry());
        }
        let refused = opening(std::slice::from_ref(&other)).open(header.bytes()).unwrap_err();
        assert_eq!(refused, FormatError::OtherRecipients);
        assert_eq!(opening(&[]).open(header.bytes()).unwrap_err(), FormatError::OtherRecipients);
        // The crate reads it too, and checks its code.
        let own = one.without_plugin().unwrap();
        let decryptor = Decryptor::new_buffered(header.bytes()).unwrap();
        assert!(decryptor.decrypt(std::iter::once(own)).is_ok());
    }
}

#[test]
fn a_header_is_wrapped_for_others() {
    let ((one, for_one), (two, for_two)) = (identity(), identity());
    let (file, header) = sealing(&[for_one]).create().unwrap();
    let (text, nonce) = header.bytes().split_at(header.bytes().len() - NONCE_LENGTH);
    let change = |identity: &Identity| {
        let headers = FileHeaders::opened_by(vec![identity.clone()], None);
        headers.for_recipients(vec![for_two.clone()]).unwrap().rewrap(text)
    };
    assert_eq!(change(&two).unwrap_err(), FormatError::OtherRecipients);
    let changed = [&change(&one).unwrap(), nonce].concat();
    let opened = opening(std::slice::from_ref(&two)).open(&changed).unwrap();
    assert_eq!(key(&opened), key(&file));
    assert_eq!(
        opening(std::slice::from_ref(&one)).open(&changed).unwrap_err(),
        FormatError::OtherRecipients
    );
    // The crate reads it too, and checks its code.
    let own = two.without_plugin().unwrap();
    let decrypted =
        |header: &[u8]| Decryptor::new_buffered(header)?.decrypt(std::iter::once(own)).map(drop);
    assert!(decrypted(&changed).is_ok());
    let mut damaged = changed.clone();
    damaged[changed.len() - NONCE_LENGTH - 10] ^= 1;
    assert!(decrypted(&damaged).is_err());
}

#[test]
fn no_two_files_share_anything() {
    let (_, recipient) = identity();
    let recipe = sealing(&[recipient]);
    let (mut shares, mut nonces, mut keys) = (HashSet::new(), HashSet::new(), HashSet::new());
    for _ in 0..4_000 {
        let (file, header) = recipe.create().unwrap();
        let (text, nonce) = header.bytes().split_at(header.bytes().len() - 16);
        let line = text.split(|&byte| byte == b'\n').nth(1).unwrap();
        let share = line.strip_prefix(b"-> X25519 ").unwrap();
        assert!(shares.insert(share.to_vec()) && nonces.insert(nonce.to_vec()));
        assert!(keys.insert(key(&file)));
    }
}

#[test]
fn every_change_of_a_header_is_noticed() {
    let (mine, recipient) = identity();
    let (file, header) = sealing(&[recipient]).create().unwrap();
    let end = header.bytes().len() - 16;
    for bit in 0..8 * end {
        let mut changed = header.bytes().to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(opening(std::slice::from_ref(&mine)).open(&changed).is_err(), "bit {bit}");
    }
    for length in 0..header.bytes().len() {
        assert!(
            opening(std::slice::from_ref(&mine)).open(&header.bytes()[..length]).is_err(),
            "{length}"
        );
    }
    let mut nonce = header.bytes().to_vec();
    nonce[end] ^= 1;
    assert_ne!(key(&opening(&[mine]).open(&nonce).unwrap()), key(&file));
}

#[test]
fn faults_are_named() {
    let (mine, recipient) = identity();
    let (_, header) = sealing(&[recipient]).create().unwrap();
    let text = String::from_utf8(header.bytes()[..header.bytes().len() - 16].to_vec()).unwrap();
    let told = |text: &str| {
        let file = [text.as_bytes(), &[0; 16]].concat();
        opening(std::slice::from_ref(&mine)).open(&file).unwrap_err().to_string()
    };
    let (start, mac) = text.rsplit_once("--- ").unwrap();
    let other = if mac.starts_with('A') { "B" } else { "A" };
    assert_eq!(told(&format!("{start}--- {other}{}", &mac[1..])), "its age header was changed");
    assert_eq!(
        told(&text.replace("X25519", "X25 519")),
        "it is encrypted for others: none of the \
         identities opens it"
    );
    assert_eq!(told(&text.replace("-> X", "> X")), "its age header is malformed");
    assert_eq!(told(&text.replace("/v1", "/v2")), "it is of a version of age not known here");
    assert_eq!(told(start), "its age header is malformed");
}

#[test]
fn recipients_that_do_not_go_together_are_refused_before_anything_is_written() {
    let (_, classic) = identity();
    let hybrid = POST_QUANTUM.trim().parse::<Recipient>().unwrap();
    let headers = || FileHeaders::opened_by(Vec::new(), None);
    assert!(headers().for_recipients(vec![hybrid.clone()]).is_ok());
    let mixed = headers().for_recipients(vec![hybrid, classic]).unwrap_err();
    assert!(matches!(mixed, KeyError::Wrap(_)), "{mixed}");
    assert!(matches!(headers().for_recipients(Vec::new()), Err(KeyError::NoRecipients)));
    let nobody = headers().recipe().create().unwrap_err();
    assert!(matches!(nobody, FormatError::Age(_)), "{nobody}");
}

#[test]
fn a_passphrase_opens_what_it_wrapped() {
    let passphrase = |text: &str| Passphrase::new(text.as_bytes(), "a test").unwrap();
    let with = |text| FileHeaders::opened_by(Vec::new(), Some(passphrase(text)));
    let sealing = with("swordfish").for_passphrase(passphrase("swordfish")).unwrap().recipe();
    assert!(sealing.for_one_file().is_some_and(|reason| reason.contains("recipient")));
    let (file, header) = sealing.create().unwrap();
    assert_eq!(key(&sealing.open(header.bytes()).unwrap()), key(&file));
    let wrong = with("sword").recipe().open(header.bytes()).unwrap_err();
    assert_eq!(wrong, FormatError::WrongPassphrase);
    let none = opening(&[identity().0]).open(header.bytes()).unwrap_err().to_string();
    assert!(none.contains("passphrase"), "{none}");
    let costly = String::from_utf8_lossy(header.bytes()).replace(" 18\n", " 22\n");
    let refused = sealing.open(costly.as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("2^22"), "{refused}");
}

#[test]
fn nothing_secret_is_shown() {
    let (mine, recipient) = identity();
    let headers = FileHeaders::opened_by(vec![mine.clone()], None);
    let shown = format!("{:?}", headers.for_recipients(vec![recipient]).unwrap().recipe());
    assert!(shown.contains("redacted") && !shown.contains(&mine.text()), "{shown}");
}

/// A tagged recipient of a hybrid of ML-KEM-768 and P-256.
const POST_QUANTUM: &str = include_str!("tagpq.txt");

#[test]
fn a_passphrase_alone_does_not_open_a_file_for_recipients() {
    let (_, recipient) = identity();
    let (_, header) = sealing(&[recipient]).create().unwrap();
    let headers =
        FileHeaders::opened_by(Vec::new(), Some(Passphrase::new(b"secret", "a test").unwrap()));
    let refused = headers.recipe().open(header.bytes()).unwrap_err();
    assert_eq!(refused, FormatError::IdentityNeeded);
}

#[test]
fn a_header_of_more_words_than_recipients_have_is_refused() {
    let (mine, recipient) = identity();
    let many = vec![recipient; 500];
    let (_, header) = sealing(&many).create().unwrap();
    let text = std::str::from_utf8(&header.bytes()[..header.bytes().len() - 16]).unwrap();
    let opened = |text: String| {
        let file = [text.as_bytes(), &[0; 16]].concat();
        opening(std::slice::from_ref(&mine)).open(&file).unwrap_err().to_string()
    };
    // A parsed header is seen to be changed.
    for (words, told) in [
        ("-> a\n\n".repeat(50), "its age header was changed"),
        ("-> a\n\n".repeat(9_000), "its age header is malformed"),
        (format!("-> a{}\n\n", " b".repeat(9_000)), "its age header is malformed"),
    ] {
        assert_eq!(opened(text.replacen("-> X25519", &format!("{words}-> X25519"), 1)), told);
    }
}

#[test]
fn a_passphrase_that_opens_nothing_is_given_up() {
    let wrapped = |text: &str| {
        let mut recipient = scrypt::Recipient::new(SecretString::from(text));
        recipient.set_work_factor(1);
        let recipient = &recipient as &dyn ::age::Recipient;
        [write_for(std::iter::once(recipient), None).unwrap().1, vec![0; 16]].concat()
    };
    let (mine, theirs) = (wrapped("swordfish"), wrapped("sword"));
    let passphrase = Passphrase::new(b"swordfish", "a test").unwrap();
    let headers = FileHeaders::opened_by(Vec::new(), Some(passphrase)).giving_up_after(2);
    let recipe = headers.recipe();
    for _ in 0..2 {
        assert!(recipe.open(&mine).is_ok());
        assert_eq!(recipe.open(&theirs).unwrap_err(), FormatError::WrongPassphrase);
    }
    for file in [&mine, &theirs] {
        let refused = recipe.open(file).unwrap_err().to_string();
        assert!(refused.contains("was not tried on it"), "{refused}");
    }
}
