//! gocryptfs: a file system in user space, written to and read with `cp -r`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Contender, ContenderFacts, copy, secret, version};
use crate::LabError;
use crate::peak::wait_with_peak;
use crate::process::{Cost, run};

pub(super) struct Gocryptfs {
    password: PathBuf,
    mount_point: PathBuf,
    facts: ContenderFacts,
}

impl Gocryptfs {
    pub(super) fn set_up(secrets: &Path) -> Result<Gocryptfs, LabError> {
        let facts = ContenderFacts {
            name: "gocryptfs",
            version: version(Path::new("gocryptfs"), "-version")?,
            usage: "`cp -r` into and out of a fresh mount, names not encrypted; mounting and \
                   unmounting are not timed",
        };
        let password = secrets.join("gocryptfs.password");
        secret::write(&password, &secret::password()?)?;
        let mount_point = secrets.join("mount");
        fs::create_dir(&mount_point).map_err(LabError::file("create", &mount_point))?;
        let contender = Gocryptfs { password, mount_point, facts };

        // A container often has the program but not the right to mount.
        let trial = secrets.join("gocryptfs.trial");
        contender.create(&trial)?;
        contender.mount(&trial)?.unmount()?;
        Ok(contender)
    }

    /// Makes an empty encrypted directory.
    fn create(&self, directory: &Path) -> Result<(), LabError> {
        fs::create_dir(directory).map_err(LabError::file("create", directory))?;
        let mut command = Command::new("gocryptfs");
        command.args(["-init", "-q", "-plaintextnames", "-passfile"]);
        run(command.arg(&self.password).arg(directory)).map(drop)
    }

    /// Mounts an encrypted directory and waits until it is ready.
    fn mount(&self, directory: &Path) -> Result<Mount<'_>, LabError> {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        let before = device(&self.mount_point);
        let daemon = Command::new("gocryptfs")
            .args(["-fg", "-q", "-nosyslog", "-passfile"])
            .arg(&self.password)
            .args([directory, &self.mount_point])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| LabError::Start { program: "gocryptfs".into(), source })?;
        let mut mount = Mount { point: &self.mount_point, daemon: Some(daemon) };

        let deadline = Instant::now() + PATIENCE;
        while device(&self.mount_point) == before {
            if mount.has_ended() || Instant::now() > deadline {
                return Err(LabError::Unavailable(
                    "gocryptfs can't mount here (it needs /dev/fuse and the right to mount)"
                        .to_owned(),
                ));
            }
            thread::sleep(PAUSE);
        }
        Ok(mount)
    }
}

impl Contender for Gocryptfs {
    fn facts(&self) -> &ContenderFacts {
        &self.facts
    }

    fn encrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        self.create(target)?;
        let mount = self.mount(target)?;
        let copied = copy(source, &self.mount_point.join(TREE))?;
        mount.unmount().map(|peak| Cost { peak: peak.max(copied.peak), ..copied })
    }

    fn decrypt(&self, source: &Path, target: &Path) -> Result<Cost, LabError> {
        let mount = self.mount(source)?;
        let copied = copy(&self.mount_point.join(TREE), target)?;
        mount.unmount().map(|peak| Cost { peak: peak.max(copied.peak), ..copied })
    }
}

/// A mounted directory; unmounted when dropped.
struct Mount<'a> {
    point: &'a Path,
    daemon: Option<Child>,
}

impl Mount<'_> {
    /// Unmounts and returns the daemon's peak resident set in KiB.
    ///
    /// At first gocryptfs opens a file in its own mount, and a mount with an open file is busy, so
    /// this tries again for a while.
    fn unmount(mut self) -> Result<u64, LabError> {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = run(Command::new("fusermount").arg("-u").arg(self.point)) {
            if Instant::now() > deadline {
                return Err(error);
            }
            thread::sleep(PAUSE);
        }
        let Some(daemon) = self.daemon.take() else { return Ok(0) };
        wait_with_peak(daemon)
            .map(|(_, peak)| peak)
            .map_err(LabError::file("wait for", "gocryptfs"))
    }

    fn has_ended(&mut self) -> bool {
        let ended = |daemon: &mut Child| matches!(daemon.try_wait(), Ok(None));
        !self.daemon.as_mut().is_some_and(ended)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let Some(daemon) = &mut self.daemon else { return };
        // Lazily, because a process may still use the mount. The daemon then ends by itself. It
        // must not be killed while it serves a mount: it might wait for an answer from its own
        // mount and never end.
        let was_mounted =
            run(Command::new("fusermount").args(["-u", "-z"]).arg(self.point)).is_ok();
        if !was_mounted {
            let _ = daemon.kill();
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
    }
}

/// The longest time for mounting, unmounting and ending.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval of the checks.
const PAUSE: Duration = Duration::from_millis(2);

/// The tree's name in the mounted directory, so that `cp` creates it like any other.
const TREE: &str = "tree";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_mount_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let contender = match Gocryptfs::set_up(directory.path()) {
            Ok(contender) => contender,
            Err(LabError::Unavailable(reason)) => {
                evener_core::skipped!("{reason}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let encrypted = directory.path().join("encrypted");
        contender.create(&encrypted).unwrap();
        let device = || fs::metadata(&contender.mount_point).unwrap().dev();
        let before = device();
        let mount = contender.mount(&encrypted).unwrap();
        assert_ne!(device(), before);
        drop(mount);
        assert_eq!(device(), before);
    }
}
