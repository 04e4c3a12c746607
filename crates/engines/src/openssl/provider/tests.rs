use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

use evener_core::{Cipher, Direction, Engine, Iv, Job, Key, Outcome, SessionRequest};

use super::super::probe;
use super::*;

fn refusal(parameters: &str) -> String {
    let text = probe(parameters).wait().err().expect("found").to_string();
    println!("{text}");
    text
}

fn encrypt(engine: &dyn Engine, cipher: Cipher) -> Vec<u8> {
    let key = Key::new(&vec![3; cipher.key_length()]).unwrap();
    let iv = Iv::new(&vec![4; cipher.iv_length()]).unwrap();
    let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(&key) };
    let mut output = vec![0; 160];
    let mut batch = [Job::new(iv, &[5; 160], &mut output)];
    engine.open(&request).unwrap().process(&mut batch).unwrap();
    assert_eq!(batch[0].outcome, Outcome::Done { written: 160 });
    output
}

/// Builds the counting provider; `None` if that is not possible, after printing the reason.
fn build(directory: &Path) -> Option<Arc<dyn Engine>> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/openssl/provider/counting.c");
    let count = format!("-DCOUNT_FILE=\"{}\"", directory.join("count").display());
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", &count, source, "-o"]);
    compiler.arg(directory.join("counting.so")).arg("-lcrypto");
    let output = match compiler.output() {
        Ok(output) => output,
        Err(_) => {
            evener_core::lacking!("there is no C compiler for the provider");
            return None;
        }
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("core_dispatch.h: No such file") || complaint.contains("find -lcrypto") {
        evener_core::lacking!(
            "the system's OpenSSL 3 is not there to build a provider (libssl-dev)"
        );
        return None;
    }
    assert!(output.status.success(), "{complaint}");
    let parameters = format!("provider=counting,path={}", directory.display());
    Some(probe(&parameters).wait().unwrap_or_else(|error| panic!("{error}")).remove(0))
}

#[test]
fn a_provider_that_is_not_there_is_said_so_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let absent = refusal("provider=enigma");
    let told = "is not available: there is no provider `enigma` in /usr/lib/";
    assert!(absent.contains(told) && absent.ends_with("path= names another directory"));
    let elsewhere = refusal(&format!("provider=enigma,path={path}"));
    let told = format!("can't be loaded from {path}: there is no enigma.so; path= names");
    assert!(elsewhere.contains(&told), "{elsewhere}");
    fs::write(directory.path().join("enigma.so"), "no library").unwrap();
    let broken = refusal(&format!("provider=enigma,path={path}"));
    assert!(broken.contains("enigma.so can't be loaded: "), "{broken}");
    for text in [absent, elsewhere, broken] {
        assert!(!text.contains(".c:") && !text.contains("error:"), "{text}");
    }
}

/// In a process of its own, since libcrypto reads its configuration and its environment once.
#[test]
fn neither_configuration_nor_environment_decides_what_is_loaded() {
    let inside = "EVENER_TEST_CONFIGURED";
    if env::var_os(inside).is_some() {
        let engine = crate::find("openssl").unwrap();
        encrypt(&*engine, Cipher::Aes128Cbc);
        assert!(refusal("provider=counting").contains("path= names another"));
        // The default context: its path, providers and settings come only from a file.
        let fetched = openssl::cipher::Cipher::fetch(None, "aes-128-cbc", None);
        assert!(fetched.is_ok(), "the configuration file was read");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("openssl.cnf");
    let settings = "openssl_conf = all\n[all]\nalg_section = rules\n[rules]\n\
                    default_properties = provider=enigma\n";
    fs::write(&configuration, settings).unwrap();
    let _ = build(directory.path());
    let name = "openssl::provider::tests::\
                neither_configuration_nor_environment_decides_what_is_loaded";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(inside, "1".as_ref()), ("OPENSSL_MODULES", directory.path().as_os_str())])
        .env("OPENSSL_CONF", &configuration)
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    assert!(output.status.success());
}

#[test]
fn a_provider_that_is_not_there_is_said() {
    assert!(refusal("provider=enigma").contains("path= names another"));
    assert!(refusal("provider=enigma,path=/tmp").contains("from /tmp"));
    assert!(refusal("provider=base").contains("none of the ciphers"));
}

#[test]
fn the_legacy_provider_does_blowfish_and_nothing_else() {
    let engine = match probe("provider=legacy").wait() {
        Ok(mut engines) => engines.remove(0),
        Err(error) if cfg!(feature = "vendored-openssl") => panic!("{error}"),
        Err(error) => {
            evener_core::skipped!("{error}");
            return;
        }
    };
    println!("{:?}", engine.description());
    let offered = |cipher: &&Cipher| engine.offer(**cipher, Direction::Encrypt).is_some();
    let offered: Vec<_> = Cipher::ALL.iter().filter(offered).collect();
    assert_eq!(offered, [&Cipher::BfCbc]);
    crate::conformance::run(&*engine).assert_passed();
}

#[test]
fn work_goes_to_the_provider_that_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let Some(engine) = build(directory.path()) else { return };
    println!("{:?}", engine.description());
    assert_eq!(engine.description().kind, Kind::Module);
    let calls = || fs::metadata(directory.path().join("count")).map_or(0, |file| file.len());
    assert_eq!(calls(), 0);
    let openssl = crate::find("openssl").unwrap();
    for call in 1..=5 {
        assert_eq!(encrypt(&*engine, Cipher::Aes128Cbc), encrypt(&*openssl, Cipher::Aes128Cbc));
        assert_eq!(calls(), call);
    }
    assert!(engine.offer(Cipher::Aes256Cbc, Direction::Encrypt).is_none());
}

#[test]
fn a_provider_with_buffering_entry_points_conforms() {
    let directory = tempfile::tempdir().unwrap();
    let Some(engine) = build(directory.path()) else { return };
    crate::conformance::run(&*engine).assert_passed();
}
