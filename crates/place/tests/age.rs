//! Tests of age's format on files and pipes: C2SP's vectors, and every way to cut a file.

mod common;

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use ::age::secrecy::ExposeSecret;
use common::{Options, age, bytes, cobblestone, home, options, process, process_stream};
use evener_format::{Age, FormatError};
use evener_keys::age::{FileHeaders, Identity, wrap};
use evener_keys::{NoUnlock, Passphrase, create};
use evener_place::{
    Base64, Delete, Existing, FileError, KeyRing, Operation, Report, SealedNames, StreamSource,
    StreamTarget, Update, list, measure, random_access,
};
use sha2::{Digest, Sha256};

/// Has a stream processed. Returns what came out, even before a failure.
fn stream(operation: Operation, keys: &KeyRing, input: &[u8]) -> (Vec<u8>, Report) {
    stream_with(operation, keys, input, &options())
}

fn stream_with(
    operation: Operation,
    keys: &KeyRing,
    input: &[u8],
    options: &Options,
) -> (Vec<u8>, Report) {
    let mut output = Vec::new();
    let source = StreamSource::Reader(Box::new(input));
    let target = StreamTarget::Writer(Box::new(&mut output));
    let report = process_stream(operation, keys, source, target, options).unwrap();
    (output, report)
}

fn seal(keys: &KeyRing, plain: &[u8]) -> Vec<u8> {
    let (sealed, report) = stream(Operation::Encrypt, keys, plain);
    assert!(report.is_success(), "{:?}", report.failures);
    sealed
}

/// One of C2SP's vectors: <https://c2sp.org/CCTV/age>.
struct Vector {
    name: String,
    fields: Vec<(String, String)>,
    file: Vec<u8>,
}

impl Vector {
    fn all() -> Vec<Vector> {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/age"));
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_none()).map(|path| Vector::read(&path)).collect()
    }

    fn read(path: &std::path::Path) -> Vector {
        let all = fs::read(path).unwrap();
        let end = all.windows(2).position(|pair| pair == b"\n\n").unwrap();
        let fields = String::from_utf8(all[..end].to_vec()).unwrap();
        let fields = fields.lines().map(|line| line.split_once(": ").unwrap());
        let fields: Vec<_> = fields.map(|(name, value)| (name.into(), value.into())).collect();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut vector = Vector { name, fields, file: all[end + 2..].to_vec() };
        if vector.field("compressed").is_some() {
            vector.file = miniz_oxide::inflate::decompress_to_vec_zlib(&vector.file).unwrap();
        }
        vector
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| &*field.1)
    }

    fn expected(&self) -> &str {
        self.field("expect").unwrap()
    }

    /// The plaintext that the age crate gives out, even before a failure.
    fn opened_by_age(&self) -> Vec<u8> {
        let text = |name| self.field(name).unwrap_or_default();
        // The crate takes no blanks before armour.
        let file = match self.field("armored") {
            Some(_) => self.file.trim_ascii_start(),
            None => &self.file,
        };
        let reader = ::age::armor::ArmoredReader::new(file);
        let Ok(decryptor) = ::age::Decryptor::new_buffered(reader) else { return Vec::new() };
        let opened = match decryptor.is_scrypt() {
            true => {
                let mut identity =
                    ::age::scrypt::Identity::new(text("passphrase").to_owned().into());
                identity.set_max_work_factor(15);
                decryptor.decrypt(std::iter::once(&identity as &dyn ::age::Identity))
            }
            false => {
                let identities = self.fields.iter().filter(|field| field.0 == "identity");
                let identities: Vec<_> = identities
                    .filter_map(|field| field.1.parse::<::age::x25519::Identity>().ok())
                    .collect();
                decryptor.decrypt(identities.iter().map(|it| it as &dyn ::age::Identity))
            }
        };
        let mut plain = Vec::new();
        if let Ok(mut reader) = opened {
            let mut some = vec![0; CHUNK];
            while let Ok(count @ 1..) = reader.read(&mut some) {
                plain.extend_from_slice(&some[..count]);
            }
        }
        plain
    }

    /// The secrets that open it; `None` if they are of a kind that the age crate does not know.
    fn keys(&self) -> Option<KeyRing> {
        let home = home();
        let mut identities = Vec::new();
        for (_, text) in self.fields.iter().filter(|field| field.0 == "identity") {
            let path = home.path().join("identity");
            let _ = fs::remove_file(&path);
            create(&path, text.as_bytes()).unwrap();
            identities.extend(Identity::read_file(&path, &NoUnlock).ok()?);
        }
        let passphrase = self.field("passphrase");
        let passphrase = passphrase.map(|text| Passphrase::new(text.as_bytes(), "it").unwrap());
        Some(KeyRing::new(FileHeaders::opened_by(identities, passphrase).recipe()))
    }
}

#[test]
fn every_vector_has_the_outcome_that_it_expects() {
    let (mut done, mut unknown) = (0, Vec::new());
    for vector in Vector::all() {
        let name = &vector.name;
        let Some(keys) = vector.keys() else {
            unknown.push(vector.name);
            continue;
        };
        let (plain, report) = stream(Operation::Decrypt, &keys, &vector.file);
        let expected = vector.expected();
        assert_eq!(report.is_success(), expected == "success", "{name}: {:?}", report.failures);
        let error = report.failures.first().map(|failure| &failure.error);
        let told = error.map(ToString::to_string).unwrap_or_default();
        match (expected, error) {
            ("success", None) => {}
            ("no match", Some(FileError::Format(error))) => assert!(
                matches!(
                    error,
                    FormatError::IdentityNeeded
                        | FormatError::OtherRecipients
                        | FormatError::WrongPassphrase
                ),
                "{name}: {told}"
            ),
            ("HMAC failure", _) => assert_eq!(told, "its age header was changed", "{name}"),
            ("header failure", Some(FileError::Format(_))) => {}
            ("armor failure", Some(FileError::Format(_))) => {}
            ("payload failure", Some(error)) => {
                use FileError::{Format, Rejected, RejectedEnd};
                let is_of_payload = matches!(
                    error,
                    Rejected { .. } | RejectedEnd { .. } | Format(FormatError::Truncated)
                );
                assert!(is_of_payload, "{name}: {told}");
            }
            _ => panic!("{name}: expected {expected}, not {told}"),
        }
        let whole = vector.opened_by_age();
        if let Some(hash) = vector.field("payload") {
            let found: String =
                Sha256::digest(&whole).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, hash, "{name}: {} bytes came out", plain.len());
        }
        // Several chunks are processed together, and none of them comes out if one fails.
        assert!(whole.starts_with(&plain), "{name}");
        assert!(error.is_some() || plain == whole, "{name}");
        done += 1;
    }
    assert!(done >= 120, "{done} vectors, without {unknown:?}");
    assert!(unknown.iter().all(|name| name.contains("hybrid")), "{unknown:?}");
}

#[test]
fn a_file_and_a_part_of_it_have_the_same_outcome() {
    let home = home();
    let (sealed, opened) = (home.path().join("sealed.age"), home.path().join("opened"));
    let engine = evener_engines::find("openssl").unwrap();
    for vector in Vector::all() {
        let (name, is_armoured) = (&vector.name, vector.field("armored").is_some());
        let Some(keys) = vector.keys().filter(|_| !is_armoured) else { continue };
        fs::write(&sealed, &vector.file).unwrap();
        let report = process(Operation::Decrypt, &keys, &sealed, Some(&opened), &options());
        let report = report.unwrap();
        let expected = vector.expected();
        assert_eq!(report.is_success(), expected == "success", "{name}: {:?}", report.failures);
        assert_eq!(opened.exists(), expected == "success", "{name}");
        let part = random_access(&sealed, &keys, engine.clone());
        if expected == "success" {
            let plain = fs::read(&opened).unwrap();
            let mut part = part.unwrap();
            assert_eq!(part.len(), plain.len() as u64, "{name}");
            let mut again = Vec::new();
            part.read_to_end(&mut again).unwrap();
            assert!(again == plain, "{name}");
            fs::remove_file(&opened).unwrap();
        } else if let Ok(mut part) = part {
            // Its last chunk is authentic, so only another chunk is not.
            assert!(part.read_to_end(&mut Vec::new()).is_err(), "{name}");
        }
    }
}

#[test]
fn the_age_crate_and_evener_open_each_others_files() {
    let identity = ::age::x25519::Identity::generate();
    let home = home();
    let path = home.path().join("identity");
    create(&path, identity.to_string().expose_secret().as_bytes()).unwrap();
    let own = Identity::read_file(&path, &NoUnlock).unwrap();
    let recipients = own.iter().filter_map(Identity::recipient).collect();
    let headers = FileHeaders::opened_by(own, None).for_recipients(recipients).unwrap();
    let keys = KeyRing::new(headers.recipe());
    let recipient = identity.to_public();
    let mut state = 1_u64;
    for round in 0..500 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let near = [0, 1, 16, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK];
        let length = match round % 10 {
            0 => near[round / 10 % near.len()],
            _ => (state >> 40) as usize % 3_000,
        };
        let plain = bytes(length);
        let sealed = seal(&keys, &plain);
        let decryptor = ::age::Decryptor::new_buffered(&sealed[..]).unwrap();
        let mut reader =
            decryptor.decrypt(std::iter::once(&identity as &dyn ::age::Identity)).unwrap();
        let mut back = Vec::new();
        reader.read_to_end(&mut back).unwrap();
        assert!(back == plain, "{length}");

        let recipients = std::iter::once(&recipient as &dyn ::age::Recipient);
        let encryptor = ::age::Encryptor::with_recipients(recipients).unwrap();
        let mut theirs = Vec::new();
        let format = match round % 3 {
            0 => ::age::armor::Format::AsciiArmor,
            _ => ::age::armor::Format::Binary,
        };
        let armour = ::age::armor::ArmoredWriter::wrap_output(&mut theirs, format).unwrap();
        let mut writer = encryptor.wrap_output(armour).unwrap();
        writer.write_all(&plain).unwrap();
        writer.finish().and_then(|armour| armour.finish()).unwrap();
        let (back, report) = stream(Operation::Decrypt, &keys, &theirs);
        assert!(report.is_success() && back == plain, "{length}: {:?}", report.failures);
    }
}

#[test]
fn a_cut_at_any_chunk_is_seen_and_only_whole_chunks_come_out() {
    let keys = age();
    for chunks in [1, 2, 5] {
        for more in [0, 1, CHUNK - 1] {
            let plain = bytes((chunks - 1) * CHUNK + more);
            let sealed = seal(&keys, &plain);
            let header = Age::header_length(&sealed).unwrap() + 16;
            let (back, report) = stream(Operation::Decrypt, &keys, &sealed);
            assert!(report.is_success() && back == plain);
            let boundaries = (0..chunks).map(|chunk| header + chunk * (CHUNK + 16));
            for boundary in boundaries.chain([sealed.len()]) {
                for cut in boundary.saturating_sub(18)..=(boundary + 18).min(sealed.len() - 1) {
                    let (some, report) = stream(Operation::Decrypt, &keys, &sealed[..cut]);
                    assert!(!report.is_success(), "{} bytes cut to {cut}", sealed.len());
                    assert!(plain.starts_with(&some));
                    assert!(some.len() % CHUNK == 0, "half a chunk came out");
                }
            }
            for added in [1, 15, 16, 17, CHUNK + 16] {
                let longer = [&sealed[..], &vec![0; added]].concat();
                let (_, report) = stream(Operation::Decrypt, &keys, &longer);
                assert!(!report.is_success(), "{} bytes and {added}", sealed.len());
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_nonce_or_payload_is_seen() {
    let keys = age();
    let plain = bytes(2 * CHUNK + 100);
    let sealed = seal(&keys, &plain);
    let header = Age::header_length(&sealed).unwrap();
    let near_ends = (header..header + 40).chain(sealed.len() - 120..sealed.len());
    for (at, bit) in near_ends.chain((header..sealed.len()).step_by(997)).zip((0..8).cycle()) {
        let mut changed = sealed.clone();
        changed[at] ^= 1 << bit;
        let (some, report) = stream(Operation::Decrypt, &keys, &changed);
        assert!(!report.is_success() && plain.starts_with(&some), "byte {at}");
    }
}

#[test]
fn files_that_are_named_as_wrapped_keys_are_files() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("below")).unwrap();
    for name in ["notes.evener-key", "below/evener-key", "below/evener-key-2", "one"] {
        fs::write(plain.join(name), name).unwrap();
    }
    let keys = age();
    let options = options().with(|it| it.tree.names = SealedNames::of_age());
    let report = process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    let report = process(Operation::Decrypt, &keys, &sealed, Some(&back), &options).unwrap();
    assert!(report.is_success() && report.left_out == 0, "{:?}", report.notices);
    assert_eq!(common::snapshot(&back), common::snapshot(&plain));
    let total = measure(Operation::Decrypt, &keys, &sealed, None, &options.tree, || false);
    assert_eq!(total.unwrap().files, 4);
    let listing = list(&sealed, Some(&keys), &options.tree).unwrap();
    assert!(listing.files.iter().all(|file| file.format == "age"), "{:?}", listing.files);
    // At the root, the name would make the tree look like one with a wrapped key.
    fs::write(plain.join("evener-key"), "it").unwrap();
    let options = options.with(|it| it.tree.existing = Existing::Overwrite);
    let report = process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options).unwrap();
    let named = report.failures.iter().find(|failure| failure.path == plain.join("evener-key"));
    let told = named.expect("the file is refused").error.to_string();
    assert!(told.ends_with("rename it, or choose another suffix"), "{told}");
}

#[test]
fn wrapped_keys_beside_age_files_are_left_alone() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("below")).unwrap();
    for name in ["one", "two", "gone.evener-key"] {
        fs::write(plain.join(name), name).unwrap();
    }
    let identity = Identity::generate();
    let recipients: Vec<_> = identity.recipient().into_iter().collect();
    let headers = FileHeaders::opened_by(vec![identity], None).for_recipients(recipients.clone());
    let keys = KeyRing::new(headers.unwrap().recipe());
    let options = options().with(|it| it.tree.names = SealedNames::of_age());
    let run = |operation, from: &PathBuf, to: &PathBuf, options: &Options| {
        let report = process(operation, &keys, from, Some(to), options).unwrap();
        assert!(report.is_success(), "{:?}", report.failures);
        report
    };
    run(Operation::Encrypt, &plain, &sealed, &options);
    let key = wrap(b"evener-key:v1:cobblestone-256:AAAA\n", &recipients).unwrap();
    let beside = ["evener-key.age", "p.enc.evener-key-2.age", "below/evener-key.age"];
    beside.iter().for_each(|name| fs::write(sealed.join(name), &key).unwrap());

    fs::remove_file(plain.join("gone.evener-key")).unwrap();
    let delete = Some(Delete { agree: Arc::new(|_| true), unmounted: true });
    let update = Existing::Update(Update { delete, ..Update::default() });
    let deleting = options.clone().with(|it| it.tree.existing = update);
    assert_eq!(run(Operation::Encrypt, &plain, &sealed, &deleting).files_deleted, 1);
    let removing = options.clone().with(|it| it.tree.remove_source = true);
    assert_eq!(run(Operation::Decrypt, &sealed, &back, &removing).left_out, 3);
    assert!(beside.iter().all(|name| fs::read(sealed.join(name)).unwrap() == key));
    assert_eq!(common::snapshot(&back), common::snapshot(&plain));
}

#[test]
fn headers_without_grease_are_of_other_programs() {
    assert!(Age::may_be_ours(&seal(&age(), b"it")));
    for header in ["", "-> X25519 -grease\n", "-> X25519 x\nx-grease\n"] {
        let file = format!("age-encryption.org/v1\n{header}--- x\n-> x-grease y\n");
        assert!(!Age::may_be_ours(file.as_bytes()), "{header}");
    }
}

#[test]
fn a_tree_with_a_passphrase_is_refused_before_anything_is_made() {
    let home = home();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("one"), "1").unwrap();
    let passphrase = Passphrase::new(b"swordfish", "it").unwrap();
    let headers = FileHeaders::opened_by(Vec::new(), None).for_passphrase(passphrase).unwrap();
    let keys = KeyRing::new(headers.recipe());
    let refused = process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options());
    let error = refused.unwrap_err().error.to_string();
    assert!(error.contains("a second for the passphrase of each file"), "{error}");
    assert!(!sealed.exists());
}

#[test]
fn chunks_can_not_change_places() {
    let keys = age();
    let plain = bytes(4 * CHUNK);
    let sealed = seal(&keys, &plain);
    let header = Age::header_length(&sealed).unwrap() + 16;
    let chunk = |index: usize| &sealed[header + index * (CHUNK + 16)..][..CHUNK + 16];
    for order in [[1, 0, 2, 3], [0, 2, 1, 3], [0, 0, 2, 3], [0, 1, 3, 2], [3, 1, 2, 0]] {
        let chunks = order.map(chunk).concat();
        let mixed = [&sealed[..header], &chunks].concat();
        let (some, report) = stream(Operation::Decrypt, &keys, &mixed);
        assert!(!report.is_success() && plain.starts_with(&some), "{order:?}");
        let (_, other) = stream(Operation::Decrypt, &age(), &sealed);
        let error = &other.failures[0].error;
        assert_eq!(*error, FileError::Format(FormatError::OtherRecipients));
    }
}

#[test]
fn armour_is_written_and_read_without_being_asked_for() {
    let keys = age();
    let armoured = options().with(|it| it.stream.base64 = Some(Base64::Armour));
    for size in [0, 1, 47, 48, CHUNK, 3 * CHUNK + 5] {
        let plain = bytes(size);
        let (text, report) = stream_with(Operation::Encrypt, &keys, &plain, &armoured);
        assert!(report.is_success(), "{:?}", report.failures);
        assert!(text.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----\n"));
        assert!(text.ends_with(b"\n-----END AGE ENCRYPTED FILE-----\n"));
        for options in [&options(), &armoured] {
            let (back, report) = stream_with(Operation::Decrypt, &keys, &text, options);
            assert!(report.is_success(), "{size}: {:?}", report.failures);
            assert!(back == plain);
            assert_eq!(report.bytes, text.len() as u64);
        }
        let (_, cut) = stream(Operation::Decrypt, &keys, &text[..text.len() - 40]);
        let error = cut.failures[0].error.to_string();
        assert!(error.contains("armour"), "{error}");
    }
    let endless = [&b"-----BEGIN AGE ENCRYPTED FILE-----\n"[..], &[b'A'; 1 << 17]].concat();
    let (_, report) = stream(Operation::Decrypt, &keys, &endless);
    assert!(report.failures[0].error.to_string().contains("armour"));
}

#[test]
fn a_part_is_read_only_if_the_file_is_whole() {
    let home = home();
    let path = home.path().join("a.age");
    let keys = age();
    let engine = evener_engines::find("openssl").unwrap();
    let sealed = seal(&keys, &bytes(5 * CHUNK));
    let header = Age::header_length(&sealed).unwrap() + 16;
    for chunks in 1..5 {
        fs::write(&path, &sealed[..header + chunks * (CHUNK + 16)]).unwrap();
        let error = random_access(&path, &keys, engine.clone()).unwrap_err();
        assert!(matches!(error, FileError::RejectedEnd { .. }), "{error}");
    }
    fs::write(&path, &sealed).unwrap();
    let file = random_access(&path, &keys, engine).unwrap();
    let mut part = [0; 10];
    assert_eq!(file.read_at(&mut part, 2 * CHUNK as u64 - 5).unwrap(), 10);
    assert_eq!(part, bytes(5 * CHUNK)[2 * CHUNK - 5..][..10]);
}

#[test]
fn a_long_header_is_read_from_any_source() {
    let home = home();
    let (path, back) = (home.path().join("a.age"), home.path().join("a"));
    let identity = Identity::generate();
    let mut recipients: Vec<_> =
        (0..4_000).filter_map(|_| Identity::generate().recipient()).collect();
    recipients.extend(identity.recipient());
    let headers = FileHeaders::opened_by(vec![identity], None).for_recipients(recipients);
    let keys = KeyRing::new(headers.unwrap().recipe());
    let plain = bytes(9 * CHUNK);
    let sealed = seal(&keys, &plain);
    assert!(Age::header_length(&sealed).unwrap() > 380_000);
    let (again, report) = stream(Operation::Decrypt, &keys, &sealed);
    assert!(report.is_success() && again == plain, "{:?}", report.failures);
    fs::write(&path, &sealed).unwrap();
    let report = process(Operation::Decrypt, &keys, &path, Some(&back), &options()).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    assert!(fs::read(&back).unwrap() == plain);
    fs::remove_file(&back).unwrap();
    let report = process(Operation::Encrypt, &keys, &path, Some(&back), &options()).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
}

#[test]
fn keys_of_other_formats_do_not_open_it() {
    let sealed = seal(&age(), b"text");
    let (_, report) = stream(Operation::Decrypt, &cobblestone(), &[&sealed[..], &[0; 99]].concat());
    let error = report.failures[0].error.to_string();
    assert!(error.contains("age file"), "{error}");
    let (_, report) = stream(Operation::Decrypt, &age(), &seal(&cobblestone(), b"text"));
    let error = report.failures[0].error.to_string();
    assert!(error.contains("age-encryption.org"), "{error}");
}

#[test]
fn each_file_of_a_tree_has_its_own_share_and_nonce() {
    let home = home();
    let (plain, sealed) = (home.path().join("plain"), home.path().join("sealed"));
    fs::create_dir(&plain).unwrap();
    for number in 0..4_000 {
        fs::write(plain.join(number.to_string()), number.to_string()).unwrap();
    }
    let keys = age();
    let options = options().with(|it| it.tree.names = SealedNames::of_age());
    let report = process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    let (mut shares, mut nonces) = (HashSet::new(), HashSet::new());
    for entry in fs::read_dir(&sealed).unwrap() {
        let file = fs::read(entry.unwrap().path()).unwrap();
        let end = Age::header_length(&file).unwrap();
        shares.insert(file.split(|&byte| byte == b'\n').nth(1).unwrap().to_vec());
        nonces.insert(file[end..end + 16].to_vec());
    }
    assert_eq!((shares.len(), nonces.len()), (4_000, 4_000));
    let back = home.path().join("back");
    let report = process(Operation::Decrypt, &keys, &sealed, Some(&back), &options).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!(common::snapshot(&back), common::snapshot(&plain));
}

const CHUNK: usize = 65_536;
