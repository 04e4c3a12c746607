//! Tests walks: several directories are listed at once, and nothing is missing.

mod common;

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use common::pages::Pages;
use common::{Server, name};
use evener_object::Objects;
use evener_place::{Entry, Fault, Kind, Origin};

#[test]
fn directories_are_listed_at_once() {
    let names = directories(40, 20);
    let pages = Pages::new(&names, 10, Duration::from_millis(30), None);
    let (requests, in_flight) = (walk_all(&pages, &names), pages.most_in_flight());
    assert!((8..=16).contains(&in_flight), "{in_flight}");
    // One after another, it would be 80 requests.
    assert!(requests < 80 + 10, "{requests}");
    let few = Pages::new(&names, 10, Duration::from_millis(10), None);
    assert_all(&few.place(4), &names);
    assert_eq!(few.most_in_flight(), 4);
}

#[test]
fn small_trees_take_no_more_requests() {
    for (number, expected) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2)] {
        let names = directories(number, 50);
        let pages = Pages::new(&names, 100, Duration::ZERO, None);
        assert_eq!(walk_all(&pages, &names), expected, "{number}");
    }
}

#[test]
fn many_small_directories_are_not_listed_by_themselves() {
    let names = directories(3000, 2);
    let pages = Pages::new(&names, 100, Duration::ZERO, None);
    let requests = walk_all(&pages, &names);
    assert!(requests < 60 + 10, "{requests}");
}

#[test]
fn nothing_is_missing_or_doubled() {
    let hard = ["a", "a!", "a-b", "a-b/c", "a/", "a/b", "a/b/", "a/b/c", "a/b-c", "a0", "a/!/x"];
    let others = ["empty/", "empties/one/", "ä/ö", "ä/+ %", "!", "~/~"];
    let mut names: Vec<String> =
        [&hard[..], &others].concat().iter().map(|&it| it.into()).collect();
    let deep = (1..30).map(|depth| format!("{}end", "deep/".repeat(depth)));
    let chain = (0..50).map(|number| format!("{}{number}", "chain/".repeat(40)));
    let flat = (0..200).map(|number| format!("flat/{number}"));
    names.extend(deep.chain(chain).chain(flat).chain(directories(5, 40)));
    for most in [1, 3, 8, 30, 1000] {
        let pages = Pages::new(&names, most, Duration::ZERO, None);
        for requests in [2, 32] {
            assert_all(&pages.place(requests), &names);
        }
    }
}

#[test]
fn a_page_that_fails_ends_the_walk_with_its_error() {
    let names = directories(8, 25);
    let walk = |refused| {
        let pages = Pages::new(&names, 10, Duration::ZERO, refused);
        let (place, mut found) = (pages.place(8), HashSet::new());
        let mut walk = place.walk();
        let error = loop {
            match walk.next() {
                Some(Ok(entry)) => assert!(found.insert(entry.name)),
                Some(Err(fault)) => break Some(fault),
                None => break None,
            }
        };
        assert!(walk.next().is_none());
        (error, found.len(), pages.requests())
    };
    let (error, found, requests) = walk(None);
    assert_eq!((error, found), (None, 200));
    for refused in 0..requests - 1 {
        let (error, found, _) = walk(Some(refused));
        assert!(matches!(error, Some(Fault::Failed(_))), "{refused}: {error:?}, {found}");
    }
}

#[test]
fn a_consumer_that_waits_or_stops_ends_the_requests() {
    let names = directories(300, 20);
    let pages = Pages::new(&names, 10, Duration::ZERO, None);
    let place = pages.place(32);
    let mut walk = place.walk();
    walk.next().unwrap().unwrap();
    pages.wait_until_quiet();
    let waiting = pages.requests();
    assert!(waiting < 100, "{waiting}");
    walk.next().unwrap().unwrap();
    drop(walk);
    pages.wait_until_quiet();
    assert!(pages.requests() <= waiting + 2, "{waiting}, {}", pages.requests());
}

#[test]
fn names_that_are_not_clean_are_told() {
    for most in [5, 1000] {
        let mut names = directories(3, 30);
        let pages = {
            let unclean = ["b//x", "b/ok", " c/x", "../d"].map(str::to_owned);
            let all = [names.clone(), unclean.to_vec()].concat();
            Pages::new(&all, most, Duration::ZERO, None)
        };
        names.push("b/ok".to_owned());
        let (mut found, mut faults) = (Vec::new(), Vec::new());
        for entry in pages.place(32).walk() {
            match entry {
                Ok(entry) => found.push(entry.name),
                Err(Fault::Entry { name, .. }) => faults.push(name),
                Err(fault) => panic!("{fault}"),
            }
        }
        found.sort();
        let mut expected: Vec<_> = names.iter().map(name).collect();
        expected.sort();
        assert_eq!((found, faults.len()), (expected, 3), "{faults:?}");
    }
}

#[test]
fn a_server_lists_all() {
    let Some(server) = Server::s3() else { return };
    let names = directories(30, 110);
    for name in &names {
        let path = server.bucket().join("x").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    assert_all(&server.place("x"), &names);
}

fn directories(number: usize, objects: usize) -> Vec<String> {
    let paths = (0..number).flat_map(|directory| {
        (0..objects).map(move |object| format!("{directory:04}/below/{object:04}"))
    });
    paths.collect()
}

/// Walks, and returns the number of requests.
#[track_caller]
fn walk_all(pages: &Pages, names: &[String]) -> u64 {
    let place = pages.place(32);
    assert_all(&place, names);
    let both = pages.requests();
    assert_eq!(place.in_order().count(), names.len());
    2 * both - pages.requests()
}

/// Walks, and compares with a listing of one page after another. A directory comes before those in
/// it.
#[track_caller]
fn assert_all(place: &Objects, names: &[String]) {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for entry in place.walk() {
        let Entry { name, kind, .. } = entry.unwrap();
        if kind == Kind::Directory {
            let is_late = seen.iter().any(|it: &std::path::PathBuf| it.starts_with(name.path()));
            // An object may have the name of a directory.
            let has_object = names.iter().any(|it| **it == *name.path().to_str().unwrap());
            assert!(has_object || !is_late, "{name:?}");
        }
        seen.insert(name.path().to_owned());
        found.push((name, kind));
    }
    let in_order = place.in_order().map(Result::unwrap).map(|entry| (entry.name, entry.kind));
    let mut in_order: Vec<_> = in_order.collect();
    let key = |(name, kind): &(evener_place::Name, Kind)| (name.clone(), *kind == Kind::Directory);
    found.sort_by_key(key);
    in_order.sort_by_key(key);
    assert_eq!(found.len(), names.len());
    assert!(found == in_order, "the walk is another");
}
