//! Stores that do not tell whether they lock objects.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use evener_object::{Access, Objects, Retention, Settings};
use evener_place::{Fault, Metadata, Name, NewObject, Store};

#[test]
fn a_store_that_is_not_amazons_must_tell_that_it_locks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::default();
    settings.endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
    settings.access = Some(Access { id: "key".to_owned(), secret: "secret".to_owned() });
    let until = SystemTime::now() + Duration::from_secs(3600);
    settings.retention = Some(Retention::until(until));
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let lines = BufReader::new(&connection).lines().map(Result::unwrap);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let body = "<Error><Code>AccessDenied</Code><Message>No</Message></Error>";
            let length = body.len();
            let head = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length:";
            write!(connection, "{head} {length}\r\n\r\n{body}").unwrap();
        }
    });
    let place = Objects::new(&"s3://bucket/x".parse().unwrap(), &settings).unwrap();
    let (name, metadata) = (Name::new(Path::new("object")).unwrap(), Metadata::default());
    let told = match place.begin(&NewObject::new(&name, &metadata)) {
        Err(Fault::Refused(reason)) => reason,
        other => panic!("{:?}", other.err()),
    };
    assert!(told.contains("does not tell whether the bucket has object lock"), "{told}");
}
