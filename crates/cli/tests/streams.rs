//! FIFOs and devices as sources.

mod common;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::{Fixture, has};
use rustix::fs::{Mode, OFlags};

/// Held by a test that uses the machine's loop devices, so that only one does at a time.
static DEVICES: Mutex<()> = Mutex::new(());

#[test]
fn a_fifo_is_read_from_beginning_to_end() {
    let fixture = Fixture::new();
    assert!(Command::new("mkfifo").arg(fixture.path("fifo")).status().unwrap().success());
    for target in ["sealed.enc", "-"] {
        let feed = "cat tree/deep/two > fifo &";
        let line = format!("{feed} $evener encrypt -q -k my.key fifo {target}");
        let ended = fixture.shell(&line);
        assert_eq!(ended.status, Some(0), "{target}: {}", ended.messages);
        if target == "-" {
            fs::write(fixture.path("from-pipe.enc"), &ended.output).unwrap();
        }
    }
    for sealed in ["sealed.enc", "from-pipe.enc"] {
        let line = format!("cat {sealed} > fifo & $evener decrypt -q -k my.key fifo {sealed}.out");
        assert_eq!(fixture.shell(&line).status, Some(0));
        let back = fs::read(fixture.path(&format!("{sealed}.out"))).unwrap();
        assert!(back == fs::read(fixture.path("tree/deep/two")).unwrap());
        let line = format!("cat {sealed} > fifo & $evener verify -k my.key fifo");
        assert_eq!(fixture.shell(&line).status, Some(0));
    }
    // A FIFO has no name to keep and no time, and can't be removed for its content.
    let ended = fixture.expect(2, &["encrypt", "-k", "my.key", "fifo", "tree"]);
    assert!(ended.messages.contains("name the file in tree that it goes to"), "{ended:?}");
    let ended = fixture.expect(2, &["encrypt", "--remove-source", "-k", "my.key", "fifo", "out"]);
    assert!(ended.messages.contains("does not go with a pipe"), "{ended:?}");
}

#[test]
fn what_a_command_prints_is_a_source() {
    if !has("bash") {
        evener_core::skipped!("there is no bash with its `<(command)`");
        return;
    }
    let fixture = Fixture::new();
    let line = "bash -c '$evener encrypt -q -k my.key <(cat tree/one) one.enc'";
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    fixture.expect(0, &["decrypt", "-q", "-k", "my.key", "one.enc", "one"]);
    assert_eq!(fs::read(fixture.path("one")).unwrap(), b"the first file");
    // A descriptor that leads to a file.
    let ended = fixture.shell("$evener encrypt -q -k my.key /dev/fd/3 - 3< tree/one > two.enc");
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    fixture.expect(0, &["verify", "-q", "-k", "my.key", "two.enc"]);
}

#[test]
fn a_device_is_read_to_its_end() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "/dev/null", "null.enc"]);
    fixture.expect(0, &["decrypt", "-q", "-k", "my.key", "null.enc", "null"]);
    assert_eq!(fs::read(fixture.path("null")).unwrap(), b"");
    let _alone = DEVICES.lock().unwrap();
    let device = ["/dev/loop7", "/dev/loop0", "/dev/ram0"]
        .into_iter()
        .find(|path| fs::File::open(path).is_ok());
    let Some(device) = device else {
        evener_core::skipped!("there is no block device to read");
        return;
    };
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", device, "device.enc"]);
    fixture.expect(0, &["verify", "-q", "-k", "my.key", "device.enc"]);
}

#[test]
fn a_stream_makes_do_with_the_memory_there_is() {
    let fixture = Fixture::new();
    fixture.expect(0, &["keygen", "--format", "tink", "-o", "tink.key"]);
    let encrypt = "cat tree/deep/two tree/deep/two tree/deep/two tree/deep/two tree/deep/two | \
                   $evener encrypt -q -k tink.key -j 4 - - --memory";
    // Each chunk is 1 MiB, and its output needs as much.
    let ended = fixture.shell(&format!("{encrypt} 1M"));
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
    assert!(ended.messages.contains("allow them with --memory 2M"), "{}", ended.messages);
    for memory in ["2M", "3M", "8M"] {
        let back = format!("$evener decrypt -q -k tink.key -j 4 --memory {memory} - -");
        let ended = fixture.shell(&format!("{encrypt} {memory} | {back}"));
        assert_eq!(ended.status, Some(0), "{memory}: {}", ended.messages);
        assert_eq!(ended.output, vec![7; 1_500_000], "{memory}");
    }
}

#[test]
fn a_file_that_changes_on_its_way_into_a_pipe_is_told() {
    let fixture = Fixture::new();
    fs::write(fixture.path("long"), vec![1; 8 << 20]).unwrap();
    let mut command = fixture.command(&["encrypt", "-k", "my.key", "long", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    // The program has begun, and waits for the pipe to be read.
    output.read_exact(&mut [0; 1000]).unwrap();
    let long = fs::File::options().write(true).open(fixture.path("long")).unwrap();
    long.set_len(9 << 20).unwrap();
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("changed while it was read"), "{words}");
}

#[test]
fn a_device_is_written_only_where_nobody_uses_it() {
    let fixture = Fixture::new();
    fs::write(fixture.path("image"), vec![0; 1 << 20]).unwrap();
    let image = fixture.path("image");
    let _alone = DEVICES.lock().unwrap();
    let attached = Command::new("losetup").args(["-f", "--show"]).arg(&image).output();
    let Some(attached) = attached.ok().filter(|attached| attached.status.success()) else {
        evener_core::skipped!("there is no loop device to attach a file to");
        return;
    };
    let device = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
    let ended = fixture.run(&["encrypt", "-k", "my.key", &device, &device]);
    // The device is opened exclusively, as by a mounted file system.
    let alone = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let held = rustix::fs::open(device.as_str(), alone, Mode::empty()).unwrap();
    let used = fixture.run(&["encrypt", "-k", "my.key", "tree/one", &device]);
    drop(held);
    // A child that another test is starting has a copy of the descriptor until it executes its
    // program.
    let until = Instant::now() + Duration::from_secs(20);
    let free = loop {
        let ended = fixture.run(&["encrypt", "-k", "my.key", "tree/one", &device]);
        if !ended.messages.contains("is in use") || Instant::now() > until {
            break ended;
        }
    };
    let told = free.messages.split("`head -c ").nth(1).expect("it tells what to read back");
    let length = told.split('`').next().unwrap();
    let line =
        format!("head -c {length} {device} | $evener decrypt -q -k my.key - - | cmp - tree/one");
    let back = fixture.shell(&line);
    assert!(Command::new("losetup").arg("-d").arg(&device).status().unwrap().success());
    assert!(ended.messages.contains("is the source itself"), "{ended:?}");
    assert!(used.messages.contains("is in use"), "{used:?}");
    assert_eq!(back.status, Some(0), "{back:?}");
    assert_eq!((ended.status, used.status, free.status), (Some(2), Some(2), Some(0)), "{free:?}");
}
