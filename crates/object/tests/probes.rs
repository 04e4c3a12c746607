//! Tests that the leftovers of probes are found and removed.

mod common;

use std::time::Duration;

use common::proxy::{Act, Proxy};
use common::{Server, bytes, name};
use evener_place::{Metadata, Name, NewObject, Origin, Store};

#[test]
fn all_leftovers_of_probes_are_removed_at_once() {
    for server in [Server::s3(), Server::gcs(), Server::azure()].into_iter().flatten() {
        // A killed run removes and aborts nothing.
        let proxy = Proxy::new(server.port, |it| match it.method.as_str() {
            "DELETE" => Act::Answer(403),
            _ => Act::Pass,
        });
        let is_s3 = server.scheme == "s3";
        for prefix in ["all/one", "all/one/deep/two", "other"] {
            let place = server.through(proxy.port, prefix);
            let (name, metadata) = (name("object"), Metadata::default());
            let mut draft = place.begin(&NewObject::new(&name, &metadata)).unwrap();
            draft.write_at(&bytes(8 << 20), 0).unwrap();
            draft.publish(&[1]).unwrap();
        }
        let (all, other) = (server.place("all"), server.place("other"));
        let day = all.clean(Duration::from_secs(86_400), false).unwrap();
        let uploads = if is_s3 { 2 } else { 0 };
        assert_eq!((day.uploads, day.probes, day.younger), (0, 0, 4 + uploads), "{day:?}");
        for dry_run in [true, false] {
            let found = all.clean(Duration::ZERO, dry_run).unwrap();
            assert_eq!((found.uploads, found.probes, found.younger), (uploads, 4, 0), "{found:?}");
        }
        let found = all.clean(Duration::ZERO, false).unwrap();
        assert_eq!((found.uploads, found.probes, found.younger), (0, 0, 0));
        let names = |place: &dyn Origin| -> Vec<Name> {
            let mut names: Vec<_> = place.walk().map(|entry| entry.unwrap().name).collect();
            names.sort();
            names
        };
        assert_eq!(names(&all), ["one/deep/two/object", "one/object"].map(name));
        assert_eq!(names(&other).len(), 3);
        let found = other.clean(Duration::ZERO, false).unwrap();
        assert_eq!((found.uploads, found.probes), (uploads / 2, 2));
        assert_eq!(names(&other), [name("object")]);
        assert_eq!(server.open_uploads(), 0);
    }
}
