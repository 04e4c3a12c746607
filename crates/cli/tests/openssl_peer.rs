//! Files of `openssl enc`, in both directions.

mod common;

use std::fs;

use common::{Ended, Fixture, has};

fn run(fixture: &Fixture, status: i32, line: &str) -> Ended {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(status), "{line}: {}", ended.messages);
    ended
}

fn fixture() -> Option<Fixture> {
    if !has("openssl") {
        evener_core::lacking!("there is no program `openssl`");
        return None;
    }
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse\n");
    Some(fixture)
}

/// Encrypts with each program and decrypts with the other, with these options for each.
fn both_ways(fixture: &Fixture, ours: &str, theirs: &str, source: &str) {
    run(fixture, 0, "rm -f a b c d");
    let ours = format!("--format openssl --passphrase-file passphrase {ours}");
    let theirs = format!("{theirs} -pass file:passphrase");
    run(fixture, 0, &format!("$evener encrypt -q {ours} {source} a"));
    run(fixture, 0, &format!("openssl enc -d {theirs} -in a -out b 2>&1"));
    run(fixture, 0, &format!("cmp b {source}"));
    run(fixture, 0, &format!("openssl enc {theirs} -in {source} -out c 2>&1"));
    run(fixture, 0, &format!("$evener decrypt -q {ours} c d && cmp d {source}"));
    run(fixture, 0, &format!("cat c | $evener decrypt -q {ours} - - | cmp - {source}"));
    run(fixture, 0, &format!("$evener verify -q {ours} c"));
}

#[test]
fn short_names_and_ecb_are_openssls() {
    let Some(fixture) = fixture() else { return };
    for name in ["aes128", "aes192", "aes256", "camellia128", "camellia256", "des3"] {
        let rest = "1000 --digest sha512";
        let ours = format!("--cipher {name} --iterations {rest}");
        both_ways(&fixture, &ours, &format!("-{name} -pbkdf2 -iter 1000 -md sha512"), "tree/one");
    }
    // The file is longer than a chunk, in whole blocks.
    fs::write(fixture.path("whole"), vec![7; 131_072]).unwrap();
    fs::write(fixture.path("empty"), "").unwrap();
    for source in ["tree/one", "tree/deep/two", "whole", "empty"] {
        let ours = "--cipher aes-256-ecb --iterations 1000";
        both_ways(&fixture, ours, "-aes-256-ecb -pbkdf2 -iter 1000", source);
    }
    fixture.secret("key.hex", &"0f".repeat(16));
    let ours = "--format openssl --cipher aes-128-ecb --key-hex-file key.hex";
    let told = run(&fixture, 0, &format!("$evener encrypt {ours} tree/one raw"));
    assert!(told.messages.contains("warning: ECB shows which blocks"), "{}", told.messages);
    run(&fixture, 0, "openssl enc -d -aes-128-ecb -K $(cat key.hex) -in raw | cmp - tree/one");
    let ours = format!("{ours} --iv-hex-file key.hex");
    let told = run(&fixture, 2, &format!("$evener encrypt {ours} tree/one raw2"));
    assert!(told.messages.contains("ECB has no IV"), "{}", told.messages);
}

#[test]
fn every_cipher_of_openssl_enc_is_read_and_written() {
    let Some(fixture) = fixture() else { return };
    // The file has some chunks, and an end that is not a whole block.
    let mut long: Vec<u8> = (0..200_003_u32).map(|index| (index / 7) as u8).collect();
    long.rotate_left(1);
    fs::write(fixture.path("long"), &long).unwrap();
    let listed = run(&fixture, 0, "openssl enc -list | tr -s ' ' '\\n'");
    let listed = String::from_utf8(listed.output).unwrap();
    for cipher in evener::EncCipher::all().map(evener::Cipher::Enc) {
        let name = cipher.name();
        if !listed.lines().any(|line| line.strip_prefix('-') == Some(name)) {
            evener_core::skipped!("{name}: this program `openssl` does not have it");
            continue;
        }
        let refuses = format!("echo | openssl enc -{name} -k x -provider default -provider legacy");
        if fixture.shell(&format!("{refuses} -pbkdf2 > x.enc")).status != Some(0) {
            evener_core::skipped!("{name}: OpenSSL's legacy provider is not there");
            continue;
        }
        let theirs = format!("-{name} -pbkdf2 -iter 10 -provider default -provider legacy");
        let theirs = format!("openssl enc {theirs} -pass file:passphrase");
        let ours = format!("--format openssl --passphrase-file passphrase --cipher {name}");
        let ours = format!("{ours} --iterations 10");
        run(&fixture, 0, "rm -f a b");
        run(&fixture, 0, &format!("$evener encrypt -q {ours} long a"));
        run(&fixture, 0, &format!("{theirs} -d -in a | cmp - long"));
        run(&fixture, 0, &format!("{theirs} -in long | $evener decrypt -q {ours} - b"));
        run(&fixture, 0, "cmp b long");
        // One cipher of each mode is part of a tree, and read back before its source is removed.
        if ["aria-128-ecb", "cast5-cbc", "sm4-ctr", "aes-128-cfb1", "aria-192-ofb", "chacha20"]
            .contains(&name)
        {
            run(&fixture, 0, "rm -rf t s r && mkdir t && cp long t");
            run(&fixture, 0, &format!("$evener encrypt -q --remove-source {ours} t s"));
            run(&fixture, 0, &format!("$evener decrypt -q {ours} s r && cmp r/long long"));
            assert!(!fixture.path("t/long").exists());
        }
    }
    // The counter of ChaCha20 carries here.
    fixture.secret("key.hex", &"0f".repeat(32));
    fs::write(fixture.path("iv.hex"), "fffffffffffffffff1f2f3f4f5f6f7f8").unwrap();
    let raw = "--key-hex-file key.hex --iv-hex-file iv.hex";
    run(
        &fixture,
        0,
        &format!("$evener encrypt -q --format openssl --cipher chacha20 {raw} long raw"),
    );
    let line = "openssl enc -chacha20 -d -K $(cat key.hex) -iv $(cat iv.hex) -in raw";
    run(&fixture, 0, &format!("{line} | cmp - long"));
}

#[test]
fn a_key_or_iv_of_a_wrong_length_is_named() {
    let fixture = Fixture::new();
    for (key, iv, words) in [
        (32, 17, "aes-256-cbc takes an IV of 16 bytes, not 17"),
        (32, 12, "aes-256-cbc takes an IV of 16 bytes, not 12"),
        (32, 0, "aes-256-cbc takes an IV of 16 bytes, not 0"),
        (100, 16, "aes-256-cbc takes a key of 32 bytes, not 100"),
        (0, 16, "aes-256-cbc takes a key of 32 bytes, not 0"),
    ] {
        fixture.secret("key.hex", &"0f".repeat(key));
        fixture.secret("iv.hex", &"0f".repeat(iv));
        let raw = "--cipher aes-256-cbc --key-hex-file key.hex --iv-hex-file iv.hex";
        let told = run(&fixture, 2, &format!("$evener encrypt --format openssl {raw} tree out"));
        assert!(told.messages.contains(words), "{}", told.messages);
    }
}

#[test]
fn passphrases_that_only_openssl_takes_are_read_and_not_written() {
    let Some(fixture) = fixture() else { return };
    let ours = "--format openssl --cipher aes-256-cbc --iterations 10 --passphrase-file odd";
    let theirs = "openssl enc -aes-256-cbc -pbkdf2 -iter 10 -in tree/one";
    let long = "a".repeat(2000);
    for (given, refusal) in [
        ("", "its first line is empty, and an empty passphrase protects nothing"),
        (&long, "it is longer than 1023 bytes, and `openssl` ignores the rest"),
    ] {
        fixture.secret("odd", &format!("{given}\n"));
        run(&fixture, 0, &format!("{theirs} -out whole -pass pass:{given}"));
        let told = run(&fixture, 0, &format!("$evener decrypt {ours} whole - | cmp - tree/one"));
        let is_warned = told.messages.contains("2000 bytes, and all of them count");
        assert_eq!(is_warned, given == long, "{}", told.messages);
        run(&fixture, 0, &format!("{theirs} -out cut -pass file:odd"));
        run(&fixture, 0, "head -n 1 odd | head -c 1023 > first && chmod 600 first");
        let first = ours.replace("odd", "first");
        run(&fixture, 0, &format!("$evener decrypt -q {first} cut - | cmp - tree/one"));
        let told = run(&fixture, 2, &format!("$evener encrypt {ours} tree/one sealed"));
        assert!(told.messages.contains(refusal), "{}", told.messages);
        assert!(!fixture.path("sealed").exists());
    }
}

#[test]
fn files_without_salt_are_read_and_written() {
    let Some(fixture) = fixture() else { return };
    for cipher in ["aes-256-cbc", "aes-128-ctr"] {
        let ours = format!("--cipher {cipher} --iterations 1000 --nosalt");
        let theirs = format!("-{cipher} -pbkdf2 -iter 1000 -nosalt");
        both_ways(&fixture, &ours, &theirs, "tree/deep/two");
        assert!(!fs::read(fixture.path("a")).unwrap().starts_with(b"Salted__"));
    }
    let options = "--format openssl --passphrase-file passphrase --cipher aes-128-ctr --nosalt";
    let told = run(&fixture, 2, &format!("$evener encrypt {options} tree sealed"));
    assert!(told.messages.contains("use a passphrase, with salt"), "{}", told.messages);
}

#[test]
fn base64_is_read_and_written() {
    let Some(fixture) = fixture() else { return };
    fs::write(fixture.path("empty"), "").unwrap();
    for source in ["tree/one", "tree/deep/two", "empty"] {
        for (text, theirs) in [("-a", "-a"), ("-a -A", "-a -A"), ("--base64", "-base64")] {
            for salt in ["", "--nosalt"] {
                let ours = format!("--cipher aes-256-cbc --iterations 1000 {text} {salt}");
                let salt = salt.trim_start_matches('-');
                let salt = if salt.is_empty() { String::new() } else { format!("-{salt}") };
                let theirs = format!("-aes-256-cbc -pbkdf2 -iter 1000 {theirs} {salt}");
                both_ways(&fixture, &ours, &theirs, source);
            }
        }
    }
    let options = "--format openssl --passphrase-file passphrase --cipher aes-256-cbc -a";
    run(&fixture, 0, &format!("$evener encrypt -q {options} tree/deep/two text"));
    let text = fs::read_to_string(fixture.path("text")).unwrap();
    assert!(text.lines().all(|line| line.len() <= 64) && text.ends_with('\n'));
    let listed = fixture.expect(0, &["list", "text"]);
    assert!(String::from_utf8_lossy(&listed.output).contains(" openssl -a "), "{listed:?}");
    // One base64 text was cut; the other is no base64.
    fs::write(fixture.path("cut"), &text[..text.len() - 3]).unwrap();
    let decrypt = format!("$evener decrypt -q {options} --iterations 600000");
    fs::write(fixture.path("none"), "This is no base64.\n").unwrap();
    for source in ["cut", "none"] {
        let told = run(&fixture, 1, &format!("{decrypt} {source} out"));
        assert!(told.messages.contains("is no base64, or was cut short"), "{}", told.messages);
        assert!(!fixture.path("out").exists());
    }
    for (line, words) in [
        (format!("$evener encrypt {options} tree sealed"), "--base64 goes with a file or a pipe"),
        (format!("$evener encrypt {options} tree/one tree"), "tree is a directory, and with"),
        ("$evener encrypt -k my.key -a tree/one x".to_owned(), "--base64 goes only with"),
    ] {
        let told = run(&fixture, 2, &line);
        assert!(told.messages.contains(words), "{}", told.messages);
    }
}

#[test]
fn the_old_key_derivation_is_read_and_offered() {
    let Some(fixture) = fixture() else { return };
    for (ours, theirs) in [
        ("--cipher aes-256-cbc", "-aes-256-cbc"),
        ("--cipher aes-256-cbc --digest md5", "-aes-256-cbc -md md5"),
        ("--cipher aes-128-ctr --digest sha512", "-aes-128-ctr -md sha512"),
        ("--cipher des3 --nosalt --digest sha1", "-des3 -nosalt -md sha1"),
    ] {
        both_ways(&fixture, &format!("--kdf legacy {ours}"), theirs, "tree/one");
    }
    let options = "--format openssl --passphrase-file passphrase --cipher aes-256-cbc";
    // The program never writes it unless asked.
    run(&fixture, 0, &format!("$evener encrypt -q {options} tree/one new"));
    let line = "openssl enc -d -aes-256-cbc -pbkdf2 -iter 600000 -pass file:passphrase -in new";
    run(&fixture, 0, &format!("{line} | cmp - tree/one"));
    let told = run(&fixture, 0, &format!("$evener encrypt {options} --kdf legacy tree/one old"));
    assert!(told.messages.contains("warning: --kdf legacy makes it quick"), "{}", told.messages);
    let told =
        run(&fixture, 2, &format!("$evener decrypt {options} --kdf legacy --iterations 1 old x"));
    assert!(told.messages.contains("--kdf legacy has no iterations; "), "{}", told.messages);
    // It has a fixed salt: with other wrong keys, one in 256 gives padding that looks right.
    fs::write(fixture.path("text"), "The quick brown fox jumps over the lazy dog.\n").unwrap();
    let line = "openssl enc -aes-256-cbc -S 0001020304050607 -pass file:passphrase -in text";
    run(&fixture, 0, &format!("{line} -out body 2>&1"));
    let mut old = b"Salted__\x00\x01\x02\x03\x04\x05\x06\x07".to_vec();
    let body = fs::read(fixture.path("body")).unwrap();
    old.extend_from_slice(body.strip_prefix(&old.clone()[..]).unwrap_or(&body));
    fs::write(fixture.path("old"), old).unwrap();
    let told = run(&fixture, 1, &format!("$evener decrypt {options} --iterations 10000 old x"));
    assert!(told.messages.contains("without -pbkdf2 need --kdf legacy"), "{}", told.messages);
    let read = run(&fixture, 0, &format!("$evener decrypt -q {options} --kdf legacy old -"));
    assert_eq!(read.output, fs::read(fixture.path("text")).unwrap());
}
