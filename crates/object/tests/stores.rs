//! Tests transfers to and from servers of each protocol.

mod common;

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use common::{Server, assert_same, bytes, name, objects, perform};
use evener_object::{Bandwidth, Objects, Provider};
use evener_place::{
    Fault, FileError, Memory, Metadata, Name, NewObject, Operation, Origin, Store, TransferOptions,
};

/// All that every store must do, each in a place of its own.
fn conformance(server: &Server) {
    objects_go_there_and_back(&server.place("there/and back"));
    what_exists_is_refused_resumed_or_replaced(&server.place("exists"));
    one_of_two_racing_writers_wins(server);
    the_second_of_two_uploads_is_refused_at_its_end(&server.place("uploads"));
    listings_are_of_one_directory_or_of_all(&server.place("listed"));
    metadata_come_back(&server.place("metadata"));
    names_that_would_become_others_are_refused(&server.place("names"));
    empty_objects_are_read(&server.place("empty"));
    a_version_is_the_same_wherever_it_is_told(&server.place("versions"));
}

#[test]
fn s3() {
    let Some(server) = Server::s3() else { return };
    conformance(&server);
    assert_eq!(server.open_uploads(), 0);
}

#[test]
fn google_cloud_storage() {
    let Some(server) = Server::gcs() else { return };
    conformance(&server);
}

#[test]
fn azure_blob_storage() {
    let Some(server) = Server::azure() else { return };
    conformance(&server);
}

fn objects_go_there_and_back(place: &Objects) {
    let (plain, back, options) = (objects(), Memory::new(), TransferOptions::default());
    let report = perform(Operation::Encrypt, &plain, Some(place), &options);
    assert!(report.is_success() && report.files == 6, "{:?}", report.failures);
    let report = perform(Operation::Verify, place, None, &options);
    assert!(report.is_success() && report.files == 6, "{:?}", report.failures);
    let report = perform(Operation::Decrypt, place, Some(&back), &options);
    assert!(report.is_success(), "{:?}", report.failures);
    assert_same(&plain, &back);
}

/// As sources, objects of others may be empty; sealed ones never are.
fn empty_objects_are_read(place: &Objects) {
    let (name, metadata) = (name("empty"), Metadata::default());
    place.begin(&NewObject::new(&name, &metadata)).unwrap().publish(&[]).unwrap();
    let (blob, read) = place.open(&name, &mut [0; 100]).unwrap();
    assert_eq!((blob.length(), read), (0, 0));
}

fn what_exists_is_refused_resumed_or_replaced(place: &Objects) {
    let plain = objects();
    let encrypt =
        |options: &TransferOptions| perform(Operation::Encrypt, &plain, Some(place), options);
    let mut options = TransferOptions::default();
    assert!(encrypt(&options).is_success());
    let report = encrypt(&options);
    assert_eq!((report.files, report.failures.len()), (0, 6));
    let error = &report.failures[0].error;
    assert!(matches!(error, FileError::Place(Fault::Exists(_))), "{error}");
    options.resume = true;
    let report = encrypt(&options);
    assert!(report.is_success() && report.files_skipped == 6, "{:?}", report.failures);
    options.resume = false;
    options.overwrite = true;
    let report = encrypt(&options);
    assert!(report.is_success(), "{:?}", report.failures);
}

/// Of each object, one writer's bytes are there, and the other writer knows that they are not its.
fn one_of_two_racing_writers_wins(server: &Server) {
    let plain = objects();
    let write = || {
        let place = server.place("race");
        perform(Operation::Encrypt, &plain, Some(&place), &TransferOptions::default())
    };
    let [one, other] = thread::scope(|scope| {
        [scope.spawn(write), scope.spawn(write)].map(|writer| writer.join().unwrap())
    });
    assert_eq!(one.files + other.files, 6, "{:?}", other.failures);
    assert_eq!(one.failures.len() + other.failures.len(), 6);
    let back = Memory::new();
    let place = server.place("race");
    let report = perform(Operation::Decrypt, &place, Some(&back), &TransferOptions::default());
    assert!(report.is_success(), "{:?}", report.failures);
    assert_same(&plain, &back);
}

/// Both uploads have parts in the store before either is complete, so only a condition on the last
/// request can tell which comes second. A dependency sends it, and may change.
fn the_second_of_two_uploads_is_refused_at_its_end(place: &Objects) {
    let (name, metadata, part) = (name("twice"), Metadata::default(), bytes(8 << 20));
    let mut drafts = [7, 8].map(|last: u8| {
        let mut object = NewObject::new(&name, &metadata);
        object.longest = part.len() as u64 + 1;
        let mut draft = place.begin(&object).unwrap();
        draft.write_at(&part, 0).unwrap();
        (draft, last)
    });
    drafts.reverse();
    let [first, second] = drafts.map(|(draft, last)| draft.publish(&[last]));
    assert!(first.is_ok(), "{first:?}");
    assert_eq!(second, Err(Fault::Exists(name.clone())));
    let (blob, _) = place.open(&name, &mut []).unwrap();
    let mut last = [0];
    blob.read_at(&mut last, part.len() as u64).unwrap();
    assert_eq!((blob.length(), last), (part.len() as u64 + 1, [8]));
}

fn put(place: &Objects, path: &str, metadata: &Metadata) -> Result<Option<String>, Fault> {
    let name = Name::found(path.into());
    place.begin(&NewObject::new(&name, metadata))?.publish(&bytes(10))
}

/// Of new objects and of those that replace others, in one request and in two parts.
fn a_version_is_the_same_wherever_it_is_told(place: &Objects) {
    let metadata = Metadata::default();
    for (path, is_long) in [("one part", false), ("two parts", true)] {
        let name = name(path);
        let made = [false, true].map(|replaces| {
            let mut object = NewObject::new(&name, &metadata);
            (object.replaces, object.longest) = (replaces, 9 << 20);
            let mut draft = place.begin(&object).unwrap();
            if is_long {
                draft.write_at(&bytes(8 << 20), 0).unwrap();
            }
            let made = draft.publish(&[replaces.into()]).unwrap();
            let (blob, _) = place.open(&name, &mut [0; 9]).unwrap();
            let read = blob.version().map(|version| version.text);
            let looked = place.look(&name).unwrap().unwrap().version;
            let mut listed = place.list(&Name::root()).unwrap();
            listed.retain(|entry| entry.name == name);
            assert!(listed[0].version.is_some(), "{path}");
            assert_eq!((&read, &looked), (&listed[0].version, &listed[0].version), "{path}");
            assert_eq!(made, read, "{path}");
            read
        });
        assert_ne!(made[0], made[1], "{path}");
    }
}

fn listings_are_of_one_directory_or_of_all(place: &Objects) {
    for path in ["a/1", "a/b/2", "a.x", "z"] {
        put(place, path, &Metadata::default()).unwrap();
    }
    let names = |entries: Vec<evener_place::Entry>| {
        let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    };
    let all = place.walk().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(all.iter().all(|entry| entry.length == Some(10)), "{all:?}");
    assert_eq!(names(all), ["a/1", "a/b/2", "a.x", "z"].map(name));
    assert_eq!(names(place.list(&name("a")).unwrap()), ["a/1", "a/b"].map(name));
    assert_eq!(names(place.list(&Name::root()).unwrap()), ["a", "a.x", "z"].map(name));
    assert_eq!(names(place.list(&name("none")).unwrap()), []);
    place.remove(&name("a/b/2")).unwrap();
    assert_eq!(names(place.list(&name("a")).unwrap()), ["a/1"].map(name));
    assert_eq!(place.look(&name("a/b/2")).unwrap(), None);
    let missing = place.open(&name("a/b/2"), &mut [0; 9]).map(|_| ());
    assert_eq!(missing, Err(Fault::Missing(name("a/b/2"))));
}

fn metadata_come_back(place: &Objects) {
    let mut metadata = Metadata::default();
    metadata.mode = Some(0o640);
    metadata.modified = Some(SystemTime::UNIX_EPOCH + Duration::new(1_000_000_007, 89));
    metadata.owner = Some((1000, 100));
    put(place, "with", &metadata).unwrap();
    assert_eq!(place.look(&name("with")).unwrap().unwrap().metadata, metadata);
    let (blob, read) = place.open(&name("with"), &mut [0; 100]).unwrap();
    assert_eq!((blob.metadata(), read), (Some(&metadata), 10));
    put(place, "without", &Metadata::default()).unwrap();
    let (blob, _) = place.open(&name("without"), &mut []).unwrap();
    let uploaded = blob.metadata().unwrap().modified.unwrap();
    let age = SystemTime::now().duration_since(uploaded).unwrap_or_default();
    assert!(age < Duration::from_secs(600), "{age:?}");
}

fn names_that_would_become_others_are_refused(place: &Objects) {
    let long = "x".repeat(1024);
    for bad in [" begins", "ends\t", "a//b", "a/../b", "line\nbreak", "\u{fffe}", &long] {
        let refused = put(place, bad, &Metadata::default());
        assert!(matches!(refused, Err(Fault::Refused(_))), "{bad}: {refused:?}");
    }
    let mut good = vec!["in ner", "quote\"&<>'", "ä/ö+%20", "#?*", "a:b"];
    match place.address().provider {
        Provider::Azure => assert!(put(place, "a\\c", &Metadata::default()).is_err()),
        _ => good.push("a\\c"),
    }
    for good in &good {
        put(place, good, &Metadata::default()).unwrap_or_else(|fault| panic!("{good}: {fault}"));
    }
    let mut names: Vec<_> = place.walk().map(|entry| entry.unwrap().name).collect();
    names.sort();
    let mut expected: Vec<_> = good.iter().map(name).collect();
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn what_the_store_refuses_is_told() {
    let Some(server) = Server::s3() else { return };
    let mut settings = server.settings(server.port);
    settings.access.as_mut().unwrap().secret = "wrong".to_owned();
    let place = Objects::new(&"s3://bucket/x".parse().unwrap(), &settings).unwrap();
    let fault = place.look(&name("x")).unwrap_err().to_string();
    assert!(fault.contains("refuses access"), "{fault}");
    let fault = place.list(&Name::root()).unwrap_err().to_string();
    assert!(fault.contains("SignatureDoesNotMatch"), "{fault}");
    settings.access = None;
    settings.profile = Some("there is none of this name".to_owned());
    let fault = Objects::new(&"s3://bucket/x".parse().unwrap(), &settings)
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(fault.contains("there is no profile `there is none of this name`"), "{fault}");
    let settings = server.settings(server.port);
    let place = Objects::new(&"s3://nobodys/x".parse().unwrap(), &settings).unwrap();
    let fault = place.list(&Name::root()).unwrap_err().to_string();
    assert!(fault.contains("NoSuchBucket"), "{fault}");
}

#[test]
fn no_more_bytes_move_than_there_may() {
    let Some(server) = Server::s3() else { return };
    let mut settings = server.settings(server.port);
    settings.stall = Duration::from_millis(500);
    // Half a megabyte there and back, at a quarter of one a second.
    settings.bandwidth = Some(Bandwidth::new((250 << 10).try_into().unwrap()));
    let [one, other] = ["s3://bucket/x", "s3://bucket/x"]
        .map(|address| Objects::new(&address.parse().unwrap(), &settings).unwrap());
    let (path, metadata, begun) = (name("object"), Metadata::default(), Instant::now());
    let draft = one.begin(&NewObject::new(&path, &metadata)).unwrap();
    draft.publish(&bytes(500 << 10)).unwrap();
    let mut read = vec![0; 500 << 10];
    other.open(&path, &mut read).unwrap();
    assert!(read == bytes(500 << 10));
    // All pieces but the last take their full time.
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
}
