//! Tests round trips through pipes.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::{Options, age, bytes, cobblestone, every_key_ring, options, process, process_stream};
use evener_core::Profile;
use evener_engines::faulty::{Fault, Faulty};
use evener_engines::{Watch, guard};
use evener_pipeline::costs::Costs;
use evener_place::{
    Control, Existing, FileError, KeyRing, Operation, Report, StreamSource, StreamTarget,
};

/// Sends `input` through a pipe in uneven portions and collects the output of another.
fn through(operation: Operation, keys: &KeyRing, input: &[u8]) -> (Vec<u8>, Report) {
    let (from, mut feed) = pipe().unwrap();
    let (mut collect, to) = pipe().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for portion in input.chunks(77_777) {
                // A reader closes its end when it has read enough.
                if feed.write_all(portion).is_err() {
                    return;
                }
            }
        });
        let collected = scope.spawn(move || {
            let mut all = Vec::new();
            collect.read_to_end(&mut all).unwrap();
            all
        });
        let source = StreamSource::Descriptor(from.into());
        let target = StreamTarget::Descriptor(to.into());
        let report = process_stream(operation, keys, source, target, &options()).unwrap();
        (collected.join().unwrap(), report)
    })
}

#[test]
fn every_format_streams_in_both_directions() {
    let sizes = [0, 1, 16_383, 16_384, 65_536, 262_144, 262_145, 3_000_000];
    for (name, keys) in every_key_ring() {
        for size in sizes {
            let plain = bytes(size);
            let (sealed, report) = through(Operation::Encrypt, &keys, &plain);
            assert!(report.is_success(), "{name} {size}: {:?}", report.failures);
            assert_eq!((report.bytes, report.bytes_written), (size as u64, sealed.len() as u64));
            let (back, report) = through(Operation::Decrypt, &keys, &sealed);
            assert!(report.is_success(), "{name} {size}: {:?}", report.failures);
            assert!(back == plain, "{name} {size}: other bytes came back");
        }
    }
}

#[test]
fn streams_and_files_are_the_same_format() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::write(at("plain"), bytes(700_000)).unwrap();
    for (name, keys) in every_key_ring() {
        let (sealed, _) = through(Operation::Encrypt, &keys, &bytes(700_000));
        fs::write(at("sealed"), &sealed).unwrap();
        let replacing = options().with(|it| {
            it.stream.overwrite = true;
            it.tree.existing = Existing::Overwrite;
        });
        let decrypt = |from: &Path, to: &Path| {
            process(Operation::Decrypt, &keys, from, Some(to), &replacing).unwrap()
        };
        assert!(decrypt(&at("sealed"), &at("back")).is_success(), "{name}");
        assert_eq!(fs::read(at("back")).unwrap(), bytes(700_000), "{name}");

        let encrypted =
            process(Operation::Encrypt, &keys, &at("plain"), Some(&at("sealed")), &replacing);
        assert!(encrypted.unwrap().is_success());
        let source = StreamSource::File(at("sealed"));
        let target = StreamTarget::File(at("streamed"));
        let report = process_stream(Operation::Decrypt, &keys, source, target, &replacing).unwrap();
        assert!(report.is_success(), "{name}: {:?}", report.failures);
        assert_eq!(fs::read(at("streamed")).unwrap(), bytes(700_000), "{name}");
    }
}

#[test]
fn no_unauthenticated_byte_comes_out() {
    let keys = cobblestone();
    let plain = bytes(1_000_000);
    let (sealed, _) = through(Operation::Encrypt, &keys, &plain);
    for damage in [57, 300_000, sealed.len() - 1] {
        let mut damaged = sealed.clone();
        damaged[damage] ^= 1;
        let (out, report) = through(Operation::Decrypt, &keys, &damaged);
        assert_eq!(report.failures.len(), 1);
        assert!(plain.starts_with(&out) && out.len() <= damage, "{damage}: {}", out.len());
    }
    for length in [0, 55, 56, 56 + 16_400, 600_000] {
        let (out, report) = through(Operation::Decrypt, &keys, &sealed[..length]);
        assert_eq!(report.failures.len(), 1, "{length}");
        assert!(plain.starts_with(&out) && out.len() < plain.len(), "{length}");
    }
}

/// When decrypting, a chunk alone is enough. When encrypting, a byte behind it may have to show that
/// it is not the last.
#[test]
fn a_chunk_comes_out_while_the_source_is_open() {
    for (keys, chunk) in [(age(), 65_536), (cobblestone(), 16_384)] {
        let plain = bytes(3 * chunk);
        let (sealed, _) = through(Operation::Encrypt, &keys, &plain);
        let end = if keys.is_of_age() { 0 } else { 16 };
        let header = sealed.len() - 3 * (chunk + 16) - end;
        for (operation, input, start, each, out) in [
            (Operation::Decrypt, &sealed, header, chunk + 16, chunk),
            // A part of what comes out is the header.
            (Operation::Encrypt, &plain, 1, chunk, chunk + 16),
        ] {
            let (from, mut feed) = pipe().unwrap();
            let (mut collect, to) = pipe().unwrap();
            let (tell, told) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(move || {
                    let (start, rest) = input.split_at(start);
                    feed.write_all(start).unwrap();
                    for piece in rest[..2 * each].chunks(each) {
                        feed.write_all(piece).unwrap();
                        let told = told.recv_timeout(Duration::from_secs(60));
                        told.expect("the chunk did not come out");
                    }
                    feed.write_all(&rest[2 * each..]).unwrap();
                });
                scope.spawn(move || {
                    let mut some = vec![0; out];
                    for _ in 0..2 {
                        collect.read_exact(&mut some).unwrap();
                        tell.send(()).unwrap();
                    }
                    collect.read_to_end(&mut some).unwrap();
                });
                let source = StreamSource::Descriptor(from.into());
                let target = StreamTarget::Descriptor(to.into());
                let report = process_stream(operation, &keys, source, target, &options()).unwrap();
                assert!(report.is_success(), "{:?}", report.failures);
            });
        }
    }
}

#[test]
fn a_failed_stream_leaves_no_file() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("out");
    let (sealed, _) = through(Operation::Encrypt, &cobblestone(), &bytes(100_000));
    fs::write(home.path().join("cut"), &sealed[..50_000]).unwrap();
    let source = StreamSource::File(home.path().join("cut"));
    let report = process_stream(
        Operation::Decrypt,
        &cobblestone(),
        source,
        StreamTarget::File(target.clone()),
        &options(),
    );
    assert_eq!(report.unwrap().failures.len(), 1);
    assert!(!target.exists());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn a_closed_reader_ends_the_stream() {
    let (from, to) = pipe().unwrap();
    drop(from);
    let source = File::open("/dev/zero").unwrap();
    let report = process_stream(
        Operation::Encrypt,
        &cobblestone(),
        StreamSource::Descriptor(OwnedFd::from(source)),
        StreamTarget::Descriptor(to.into()),
        &options(),
    );
    let failure = report.unwrap().failures.remove(0);
    assert!(matches!(failure.error, FileError::System { .. }), "{}", failure.error);
}

#[test]
fn an_output_that_does_not_block_is_waited_for() {
    let (from, mut feed) = pipe().unwrap();
    let (mut collect, to) = pipe().unwrap();
    rustix::fs::fcntl_setfl(&to, rustix::fs::OFlags::NONBLOCK).unwrap();
    let input = bytes(8 << 20);
    let sealed = thread::scope(|scope| {
        scope.spawn(|| {
            feed.write_all(&input).unwrap();
            drop(feed);
        });
        let collected = scope.spawn(move || {
            // Meanwhile the pipe fills up.
            thread::sleep(Duration::from_millis(300));
            let mut all = Vec::new();
            collect.read_to_end(&mut all).unwrap();
            all
        });
        let source = StreamSource::Descriptor(from.into());
        let target = StreamTarget::Descriptor(to.into());
        let keys = cobblestone();
        process_stream(Operation::Encrypt, &keys, source, target, &options()).unwrap();
        collected.join().unwrap()
    });
    let (opened, _) = through(Operation::Decrypt, &cobblestone(), &sealed);
    assert!(opened == input);
}

#[test]
fn a_silent_pipe_can_be_stopped() {
    let (from, _kept_open) = pipe().unwrap();
    let control = Arc::new(Control::default());
    let stopping = options().with(|it| it.run.control = control.clone());
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(50));
            control.stop();
        });
        let source = StreamSource::Descriptor(from.into());
        let report = process_stream(
            Operation::Verify,
            &cobblestone(),
            source,
            StreamTarget::Nowhere,
            &stopping,
        );
        let report = report.unwrap();
        assert!(report.interrupted && report.failures.is_empty());
    });
}

/// A policy starts a module only for work that is worth its session. The data in the buffers may
/// never be worth it, and then nothing more is read: a worker must come regardless.
#[test]
fn a_worker_comes_however_little_the_buffers_hold() {
    let openssl = evener_engines::find("openssl").unwrap();
    let module = || {
        let module = Faulty::new(Arc::clone(&openssl), Fault::Error, u64::MAX);
        guard(module, Arc::clone(&openssl), Watch::default())
    };
    let few = Options::new(vec![module()]).with(|it| it.run.memory = 128 << 10);
    let slow = module();
    let name = &slow.description().name;
    let profile = format!(
        r#"{{"machine": "m", "cores": 2, "cipher": "aes-256-gcm", "direction": "encrypt", "engines": [
            {{"name": "{name}", "kind": "module", "depth": 1, "batch": 1, "open_us": 300000.0, "points": [
                {{"bytes": 1024, "wall_us": 1.0, "cpu_us": 0.5}},
                {{"bytes": 65536, "wall_us": 65.0, "cpu_us": 1.0}}]}}]}}"#
    );
    let costs = Costs::from_profile(&profile.parse::<Profile>().unwrap());
    for (name, keys) in every_key_ring() {
        let keys = Arc::new(keys);
        for options in
            [few.clone(), Options::new(vec![slow.clone()]).with(|it| it.run.costs = costs.clone())]
        {
            let (done, is_done) = mpsc::channel();
            let (keys, told) = (Arc::clone(&keys), name.clone());
            thread::spawn(move || {
                let home = tempfile::tempdir().unwrap();
                let path = home.path().join("plain");
                fs::write(&path, bytes(3_000_000)).unwrap();
                let source = StreamSource::File(path);
                let to = StreamTarget::Nowhere;
                let report = process_stream(Operation::Encrypt, &keys, source, to, &options);
                // One chunk of Tink or age takes more memory.
                let is_refused = |failure: &evener_place::Failure| {
                    matches!(failure.error, FileError::Memory { .. })
                        && matches!(&*told, "tink" | "age")
                };
                assert!(report.as_ref().map_or_else(is_refused, Report::is_success), "{report:?}");
                done.send(()).unwrap();
            });
            is_done.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| panic!("{name}"));
        }
    }
}

/// Gives its bytes in uneven portions, and then an error or the end.
struct Portions<'a>(&'a [u8], bool);

impl Read for Portions<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() && self.1 {
            return Err(std::io::Error::other("the tape is torn"));
        }
        let count = self.0.len().min(buffer.len()).min(33_333);
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// Takes so many bytes, and no more.
struct Bounded(Vec<u8>, usize);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = bytes.len().min(self.1 - self.0.len()).min(10_001);
        self.0.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_is_anything_that_is_read_and_written() {
    for (name, keys) in every_key_ring() {
        let perform = |operation, input: &[u8], fails, room| {
            let mut output = Bounded(Vec::new(), room);
            let source = StreamSource::Reader(Box::new(Portions(input, fails)));
            let target = StreamTarget::Writer(Box::new(&mut output));
            let report = process_stream(operation, &keys, source, target, &options()).unwrap();
            (output.0, report)
        };
        let plain = bytes(1_000_000);
        let (sealed, report) = perform(Operation::Encrypt, &plain, false, usize::MAX);
        assert!(report.is_success(), "{name}: {:?}", report.failures);
        assert_eq!((report.bytes, report.bytes_written), (1_000_000, sealed.len() as u64));
        let (back, report) = perform(Operation::Decrypt, &sealed, false, usize::MAX);
        assert!(report.is_success() && back == plain, "{name}: {:?}", report.failures);

        let (_, torn) = perform(Operation::Encrypt, &plain, true, usize::MAX);
        assert!(torn.failures[0].to_string().contains("the tape is torn"), "{name}: {torn:?}");
        let (full, report) = perform(Operation::Encrypt, &plain, false, 500_000);
        assert_eq!((full.len(), report.failures.len()), (500_000, 1), "{name}");
        assert!(report.failures[0].to_string().contains("can't write the output"), "{name}");
    }
}
