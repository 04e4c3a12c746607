//! Transfers through a proxy that fails: the right bytes arrive, or a clear error.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::proxy::{Act, Proxy, Request, at_first};
use common::{Server, assert_same, bytes, name, objects, perform};
use evener_object::{Access, Objects, Settings};
use evener_place::{
    Fault, FileError, Memory, Metadata, NewObject, Operation, Origin, Report, Store,
    TransferOptions,
};

/// Encrypts and decrypts through a proxy that fails a request in passing now and then.
#[track_caller]
fn all_arrives(choose: impl Fn(&Request) -> Act + Send + Sync + 'static) {
    let Some(server) = Server::s3() else { return };
    all_arrives_at(&server, choose);
    assert_eq!(server.open_uploads(), 0);
}

#[track_caller]
fn all_arrives_at(server: &Server, choose: impl Fn(&Request) -> Act + Send + Sync + 'static) {
    let proxy = Proxy::new(server.port, choose);
    let (plain, back, options) = (objects(), Memory::new(), TransferOptions::default());
    let place = server.through(proxy.port, "x");
    let report = perform(Operation::Encrypt, &plain, Some(&place), &options);
    assert!(report.is_success() && report.files == 6, "{:?}", report.failures);
    let report = perform(Operation::Decrypt, &place, Some(&back), &options);
    assert!(report.is_success() && report.files == 6, "{:?}", report.failures);
    assert_same(&plain, &back);
    proxy.assert_nothing_was_sealed_twice();
}

#[test]
fn storms_of_503_and_429_pass() {
    let is_hit = at_first(2);
    let status = |request: &Request| if request.number % 2 == 1 { 503 } else { 429 };
    all_arrives(move |it| if is_hit(it) { Act::Answer(status(it)) } else { Act::Pass });
}

/// A store that takes four requests at once soon gets no more than about that.
#[test]
fn a_store_that_says_503_gets_fewer_requests_at_once() {
    let Some(server) = Server::s3() else { return };
    let refused = Arc::new(AtomicU32::new(0));
    let seen = refused.clone();
    let proxy = Proxy::new(server.port, move |it| {
        sleep(Duration::from_millis(5));
        match it.in_flight > 4 {
            true => {
                seen.fetch_add(1, Ordering::SeqCst);
                Act::Answer(503)
            }
            false => Act::Pass,
        }
    });
    let plain = Memory::new();
    (0..300).for_each(|number| plain.insert(name(number.to_string()), b"content"));
    let (place, options) = (server.through(proxy.port, "x"), TransferOptions::default());
    let report = perform(Operation::Encrypt, &plain, Some(&place), &options);
    assert!(report.is_success() && report.files == 300, "{:?}", report.failures);
    let refused = u64::from(refused.load(Ordering::SeqCst));
    eprintln!("{refused} of {} requests were refused", proxy.requests());
    assert!(refused * 4 < proxy.requests(), "{refused} of {}", proxy.requests());
}

#[test]
fn a_pause_that_the_store_asks_for_is_made() {
    let Some(server) = Server::s3() else { return };
    let is_hit = at_first(1);
    let proxy = Proxy::new(server.port, move |it| match is_hit(it) {
        true => Act::AskLater,
        false => Act::Pass,
    });
    let begun = Instant::now();
    assert_eq!(server.through(proxy.port, "x").look(&name("object")), Ok(None));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(proxy.requests(), 2);
}

#[test]
fn connections_that_end_are_begun_anew() {
    let is_hit = at_first(1);
    all_arrives(move |it| if is_hit(it) { Act::Reset } else { Act::Pass });
}

#[test]
fn half_a_request_makes_no_object() {
    for server in [Server::s3(), Server::gcs(), Server::azure()].into_iter().flatten() {
        let is_hit = at_first(1);
        let is_put =
            |it: &Request| (it.is_put() || it.target.contains("uploadType=")) && !it.is_probe();
        let choose =
            move |it: &Request| if is_put(it) && is_hit(it) { Act::Break } else { Act::Pass };
        all_arrives_at(&server, choose);
    }
}

#[test]
fn an_object_of_another_length_is_removed() {
    let Some(server) = Server::s3() else { return };
    let is_hit = at_first(1);
    let proxy = Proxy::new(server.port, move |it| match it.target.contains("/1.enc") {
        true if it.is_put() && is_hit(it) => Act::LoseAnswer,
        true if it.method == "HEAD" => Act::OtherLength,
        _ => Act::Pass,
    });
    let (place, options) = (server.through(proxy.port, "x"), TransferOptions::default());
    let report = perform(Operation::Encrypt, &objects(), Some(&place), &options);
    assert_eq!((report.files, report.failures.len()), (5, 1), "{:?}", report.failures);
    let told = report.failures[0].error.to_string();
    assert!(told.contains("the store made an object of"), "{told}");
    assert!(!server.bucket().join("x/below/1.enc").exists());
}

#[test]
fn a_page_of_html_makes_no_object() {
    let Some(server) = Server::s3() else { return };
    let proxy = Proxy::new(server.port, |it| match it.is_complete() && !it.is_probe() {
        true => Act::Portal,
        false => Act::Pass,
    });
    let (place, options) = (server.through(proxy.port, "x"), TransferOptions::default());
    let report = perform(Operation::Encrypt, &objects(), Some(&place), &options);
    assert_eq!((report.files, report.failures.len()), (5, 1), "{:?}", report.failures);
    let told = report.failures[0].error.to_string();
    assert!(told.contains("is not that of an object store"), "{told}");
    assert_eq!(server.open_uploads(), 0);
}

#[test]
fn what_was_stored_although_the_answer_was_lost_counts() {
    // An upload whose beginning is lost stays open: nobody knows its number.
    let is_hit = at_first(2);
    all_arrives(move |it| match it.is_put() || it.is_complete() {
        true if is_hit(it) => Act::LoseAnswer,
        _ => Act::Pass,
    });
}

#[test]
fn the_version_is_told_although_the_answer_was_lost() {
    let Some(server) = Server::s3() else { return };
    let is_hit = at_first(2);
    let proxy = Proxy::new(server.port, move |it| {
        let makes_it = !it.is_probe() && (it.is_complete() || it.target.contains("/short"));
        if makes_it && is_hit(it) && it.method != "HEAD" { Act::LoseAnswer } else { Act::Pass }
    });
    let (place, metadata) = (server.through(proxy.port, "x"), Metadata::default());
    for (path, is_long) in [("short", false), ("long", true)] {
        let name = name(path);
        let mut object = NewObject::new(&name, &metadata);
        object.longest = 9 << 20;
        let mut draft = place.begin(&object).unwrap();
        if is_long {
            draft.write_at(&bytes(8 << 20), 0).unwrap();
        }
        let made = draft.publish(&[1]).unwrap();
        let there = place.look(&name).unwrap().unwrap().version;
        assert!(made.is_some() && made == there, "{path}: {made:?}, {there:?}");
    }
}

#[test]
fn bodies_that_are_cut_off_are_read_again() {
    let is_hit = at_first(2);
    all_arrives(move |it| if is_hit(it) && !it.is_begin() { Act::Cut } else { Act::Pass });
}

/// The report of a transfer through a proxy.
fn through(
    server: &Server,
    operation: Operation,
    near: &Memory,
    options: &TransferOptions,
    choose: impl Fn(&Request) -> Act + Send + Sync + 'static,
) -> Report {
    let proxy = Proxy::new(server.port, choose);
    let place = server.through(proxy.port, "x");
    match operation {
        Operation::Encrypt => perform(operation, near, Some(&place), options),
        _ => perform(operation, &place, Some(near), options),
    }
}

/// Failures that are refusals of conditions, and say nothing of an object that is there.
#[test]
fn refusals_without_an_object_are_no_conflicts() {
    let Some(server) = Server::s3() else { return };
    let (plain, options) = (objects(), TransferOptions::default());
    for status in [409, 412, 404] {
        let choose = move |it: &Request| match it.is_probe() {
            false if it.is_complete() || it.is_put() && !it.target.contains("partNumber") => {
                Act::Answer(status)
            }
            _ => Act::Pass,
        };
        let report = through(&server, Operation::Encrypt, &plain, &options, choose);
        assert_eq!((report.files, report.failures.len()), (0, 6), "{status}");
        for failure in &report.failures {
            let is_clear = matches!(failure.error, FileError::Place(Fault::Failed(_)));
            assert!(is_clear, "{status}: {:?}", failure.error);
        }
        assert_eq!(server.open_uploads(), 0, "{status}");
    }
}

#[test]
fn storms_that_do_not_end_leave_nothing_half() {
    let Some(server) = Server::s3() else { return };
    let options = TransferOptions::default();
    let report = through(&server, Operation::Encrypt, &objects(), &options, |it| {
        match it.is_complete() && !it.is_probe() {
            true => Act::Answer(503),
            false => Act::Pass,
        }
    });
    assert_eq!((report.files, report.failures.len()), (5, 1), "{:?}", report.failures);
    let error = report.failures[0].error.to_string();
    assert!(error.contains("s3://bucket/x/below/5.enc") && error.contains("503"), "{error}");
    assert_eq!(server.place("x").look(&name("below/5.enc")), Ok(None));
    assert_eq!(server.open_uploads(), 0);
}

#[test]
fn a_store_that_ignores_conditions_is_refused() {
    let Some(server) = Server::s3() else { return };
    let plain = Memory::new();
    plain.insert(name("1"), b"one");
    let ignores = |it: &Request| match it.is_probe() && it.is_put() {
        true => Act::Answer(200),
        false => Act::Pass,
    };
    let mut options = TransferOptions::default();
    let report = through(&server, Operation::Encrypt, &plain, &options, ignores);
    let error = &report.failures[0].error;
    assert!(matches!(error, FileError::Place(Fault::Refused(_))), "{error}");
    assert!(error.to_string().contains("ignores conditions"), "{error}");
    options.overwrite = true;
    let report = through(&server, Operation::Encrypt, &plain, &options, ignores);
    assert!(report.is_success(), "{:?}", report.failures);
}

#[test]
fn answers_of_another_version_are_no_content() {
    let Some(server) = Server::s3() else { return };
    let (plain, back, options) = (objects(), Memory::new(), TransferOptions::default());
    let report = perform(Operation::Encrypt, &plain, Some(&server.place("x")), &options);
    assert!(report.is_success());
    // The first answer of each object tells which version is read. Long ones have further reads.
    let report = through(&server, Operation::Decrypt, &back, &options, |it| {
        match it.method == "GET" && it.target.contains("/5.enc") {
            true if it.number % 2 == 0 => Act::OtherEtag,
            _ => Act::Pass,
        }
    });
    assert_eq!((report.files, report.failures.len()), (5, 1), "{:?}", report.failures);
    assert_eq!(report.failures[0].error, FileError::Place(Fault::Changed));
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_has_changed() {
    let servers = [Server::s3(), Server::gcs(), Server::azure()];
    for server in servers.into_iter().flatten() {
        let (place, path, metadata) = (server.place("x"), name("object"), Metadata::default());
        let put = |bytes: &[u8]| {
            let mut object = NewObject::new(&path, &metadata);
            object.replaces = true;
            place.begin(&object).unwrap().publish(bytes).unwrap();
        };
        put(&[1; 1000]);
        let (blob, read) = place.open(&path, &mut [0; 10]).unwrap();
        assert_eq!((blob.length(), read), (1000, 10));
        put(&[2; 1000]);
        let mut rest = [0; 990];
        assert_eq!(blob.read_at(&mut rest, 10), Err(Fault::Changed), "{}", server.scheme);
        place.remove(&path).unwrap();
        assert_eq!(blob.read_at(&mut rest, 10), Err(Fault::Changed), "{}", server.scheme);
    }
}

/// The run starts over with the new version, which arrives whole and is sealed under its own salt.
#[test]
fn a_source_that_is_overwritten_while_it_is_encrypted_arrives_whole() {
    let (Some(source), Some(target)) = (Server::s3(), Server::s3()) else { return };
    let (path, metadata, length) = (name("object"), Metadata::default(), 12_000_000);
    let direct = source.place("x");
    let put = move |bytes: &[u8]| {
        let mut object = NewObject::new(&path, &metadata);
        object.replaces = true;
        direct.begin(&object).unwrap().publish(bytes).unwrap();
    };
    put(&vec![1; length]);
    let reads = AtomicU32::new(0);
    let front = Proxy::new(source.port, move |it| {
        let is_read = it.method == "GET" && it.target.contains("/object");
        // The first read tells the version, and the second reads the rest of it.
        if is_read && reads.fetch_add(1, Ordering::SeqCst) == 1 {
            put(&vec![2; length]);
        }
        Act::Pass
    });
    let (back, options) = (Memory::new(), TransferOptions::default());
    let from = source.through(front.port, "x");
    let proxy = Proxy::new(target.port, |_| Act::Pass);
    let to = target.through(proxy.port, "y");
    let report = perform(Operation::Encrypt, &from, Some(&to), &options);
    assert!(report.is_success() && report.files == 1, "{:?}", report.failures);
    let report = perform(Operation::Decrypt, &to, Some(&back), &options);
    assert!(report.is_success(), "{:?}", report.failures);
    assert!(back.get(&name("object")).is_some_and(|it| *it == *vec![2; length]));
    proxy.assert_nothing_was_sealed_twice();
    assert_eq!(target.open_uploads(), 0);
}

#[test]
fn clocks_that_differ_are_named() {
    let proxy = Proxy::new(0, |_| Act::Skewed);
    let mut settings = Settings::default();
    settings.endpoint = Some(format!("http://127.0.0.1:{}", proxy.port));
    settings.access = Some(Access { id: "key".to_owned(), secret: "secret".to_owned() });
    let place = Objects::new(&"s3://bucket/x".parse().unwrap(), &settings).unwrap();
    let error = place.list(&name("below")).unwrap_err();
    let is_clear = error.to_string().contains("this machine's clock and the store's differ");
    assert!(is_clear && proxy.requests() == 1, "{error}");
}

#[test]
fn probe_objects_age_by_the_clock_of_the_store() {
    let Some(server) = Server::s3() else { return };
    let proxy = Proxy::new(server.port, |_| Act::Later);
    std::fs::create_dir(server.bucket().join("x")).unwrap();
    std::fs::write(server.bucket().join("x/.evener-0123456789abcdef.part"), "").unwrap();
    let clean = |port| server.through(port, "x").clean(Duration::from_secs(86_400), true).unwrap();
    let (now, later) = (clean(server.port), clean(proxy.port));
    assert_eq!((now.probes, now.younger), (0, 1));
    assert_eq!((later.probes, later.younger), (1, 0));
}
