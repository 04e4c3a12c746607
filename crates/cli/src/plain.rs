//! New keys, and other recipients, for plain encrypted trees, files, and pipes that were stored.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::format::Guess;
use evener::keys::{KeyFile, PipeHead};
use evener::place::{Entry, Kind, Local, Name, Origin as _};
use evener::program::{has_files, replace_head};
use evener::sealed_trees::Rewrapped;
use evener::{
    Control, Evener, Failure, Heads, KeyRing, Notice, OperationError, Protected, RekeyOptions,
    Report, SealedNames, TreeOptions,
};
use evener_cli::streams::{input, output};

use crate::ends::directory_of;
use crate::hints;
use crate::keys::{
    AgeRewrapping, KeyPlace, Keyholder, LastSteps, Wrapping, is_of_age, new_head, rewrap,
};
use crate::metrics::Metrics;
use crate::objects::{Address, Objects};
use crate::options::{Format, OpeningKeys};
use crate::progress::with_bar;
use crate::sealed::is_sealed;
use crate::stores::Stores;
use crate::trouble::{Trouble, refused, shown};

/// A plain tree or file, as far as its key is concerned.
pub(crate) enum Plain {
    Tree,
    File,
    /// Age files, each with a key of its own.
    Age,
    /// A file that begins with its wrapped key, and the bytes of that head.
    Pipe(Box<KeyFile>, Vec<u8>),
    Objects(Box<PlainObjects>),
}

impl Plain {
    /// Looks at a path, for these options.
    pub(crate) fn find(stores: &Stores, path: &Path, keys: &OpeningKeys) -> Result<Plain, Trouble> {
        if let Some(address) = Stores::address(path.as_os_str())? {
            if keys.format == Some(Format::Age) {
                return Err(Trouble::Usage(format!("{address}: {OF_AGE}")));
            }
            return PlainObjects::find(stores, &address).map(|found| Plain::Objects(found.into()));
        }
        let failed = |cause| Trouble::File { action: "open", path: path.to_owned(), cause };
        let metadata = fs::metadata(path).map_err(failed)?;
        if is_sealed(directory_of(path)) {
            return Err(Trouble::Usage(format!(
                "{} is a part of a sealed tree: name the tree itself",
                shown(path)
            )));
        }
        if is_of_age(keys, path) && (metadata.is_file() || has_files(path, false, false)) {
            return Ok(Plain::Age);
        }
        if metadata.is_dir() {
            return Ok(Plain::Tree);
        }
        if !metadata.is_file() {
            return Err(Trouble::Usage(format!("{} is neither a file nor a tree", shown(path))));
        }
        let mut file = File::open(path).map_err(failed)?;
        let mut beginning = [0; PipeHead::MAGIC.len()];
        if file.read_exact_at(&mut beginning, 0).is_err() || beginning != PipeHead::MAGIC {
            return Ok(Plain::File);
        }
        let Ok(key) = PipeHead::read(&mut file, path)? else { return Ok(Plain::File) };
        let mut head = vec![0; file.stream_position().map_err(failed)? as usize];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        Ok(Plain::Pipe(Box::new(key), head))
    }

    /// The place of its wrapped keys.
    pub(crate) fn key_place(&self, path: &Path) -> KeyPlace {
        match self {
            Plain::Tree => KeyPlace::in_tree(path),
            Plain::File | Plain::Age | Plain::Pipe(..) => KeyPlace::beside(path),
            Plain::Objects(objects) => objects.keys.clone(),
        }
    }
}

/// Plain objects of a store.
pub(crate) struct PlainObjects {
    place: Objects,
    /// The only one of them that is meant.
    only: Option<Name>,
    keys: KeyPlace,
}

impl PlainObjects {
    /// Those below an address, or the one that has it, opened for new keys.
    fn find(stores: &Stores, address: &Address) -> Result<PlainObjects, Trouble> {
        let (prefix, only) = match stores.split_object(address)? {
            Some((above, name)) => (above, Some(name)),
            None => (address.clone(), None),
        };
        let place = stores.open(&prefix)?;
        let file = only.as_ref().and_then(|name| name.path().to_str());
        let keys = KeyPlace::in_store(place.clone(), &prefix, file)?;
        Ok(PlainObjects { place, only, keys })
    }
}

/// The notice about a file with other names, which keep the old content.
pub(crate) fn of_other_names(path: &Path) -> Option<String> {
    let others = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.nlink().checked_sub(1)?;
    (others > 0).then(|| "the file has other names (hard links), which keep the old one".to_owned())
}

/// Other recipients, and what opens the keys so far.
pub(crate) struct Rewrapping<'r> {
    pub(crate) stores: &'r Stores,
    /// Counts the files that get a new beginning.
    pub(crate) metrics: &'r Metrics,
    pub(crate) wrapping: Wrapping,
    pub(crate) trusts_unopened: bool,
    pub(crate) keyholder: &'r Keyholder<'r>,
    /// Show the progress of a file on the terminal.
    pub(crate) has_bar: bool,
    /// Tells what the user should know.
    pub(crate) notice: &'r dyn Fn(&Path, &str),
}

impl Rewrapping<'_> {
    /// Wraps the keys of a plain tree or file. Also returns the files that failed.
    pub(crate) fn perform(
        &self,
        path: &Path,
        keys: &OpeningKeys,
    ) -> Result<(Rewrapped, Vec<Failure>), Trouble> {
        let Rewrapping { wrapping, trusts_unopened, keyholder, notice, .. } = self;
        let plain = Plain::find(self.stores, path, keys)?;
        match &plain {
            Plain::Tree | Plain::File | Plain::Objects(_) => {
                let (place, notice) = (plain.key_place(path), |line: &str| notice(path, line));
                let done = rewrap(&place, wrapping, *trusts_unopened, keyholder, notice)?;
                Ok((done, Vec::new()))
            }
            Plain::Pipe(key, head) => {
                let new = new_head(key, wrapping, *trusts_unopened, keyholder)?;
                self.replace(path, head, &new)?;
                Ok((one(), Vec::new()))
            }
            Plain::Age => self.perform_age(path),
        }
    }

    fn replace(&self, path: &Path, old: &[u8], new: &[u8]) -> Result<(), Failure> {
        let told = of_other_names(path);
        let control = Arc::new(Control::default());
        self.metrics.watch(&control);
        with_bar(&control, self.has_bar, || replace_head(path, old, new, &control))?;
        told.iter().for_each(|told| (self.notice)(path, told));
        Ok(())
    }

    /// Gives an age file another header, or all those of a tree.
    fn perform_age(&self, path: &Path) -> Result<(Rewrapped, Vec<Failure>), Trouble> {
        let headers = AgeRewrapping::new(&self.wrapping, self.trusts_unopened, self.keyholder)?;
        let change = |path: &Path| -> Result<(), Trouble> {
            let failed = |cause| Trouble::File { action: "read", path: path.to_owned(), cause };
            let mut file = File::open(path).map_err(failed)?;
            let old = headers.read(Vec::new(), &mut file, path)?.0;
            self.replace(path, &old, &headers.change(&old, path)?)?;
            Ok(())
        };
        if !path.is_dir() {
            return change(path).map(|()| (one(), Vec::new()));
        }
        let (mut done, mut failures) = (Rewrapped::default(), Vec::new());
        for entry in Local::new(path, &TreeOptions::default()).walk() {
            let changed = match entry {
                Ok(Entry { kind: Kind::Object, name, .. }) => {
                    let file = path.join(name.path());
                    let is_named =
                        SealedNames::of_age().open(file.file_name().unwrap_or_default()).is_ok();
                    match is_named && hints::guess(&file) == Some(Guess::Age) {
                        true => change(&file).map_err(|trouble| failure(&file, &trouble)),
                        false => continue,
                    }
                }
                Ok(_) => continue,
                Err(fault) => Err(Failure { path: path.to_owned(), error: fault.into() }),
            };
            match changed {
                Ok(()) => (done.keys, done.removed) = (done.keys + 1, done.removed + 1),
                Err(failure) => failures.push(failure),
            }
        }
        if done.keys == 0 && failures.is_empty() {
            return Err(Trouble::Usage(format!("{} holds no age file", shown(path))));
        }
        Ok((done, failures))
    }

    /// Copies standard input to standard output with another head.
    pub(crate) fn copy(&self) -> Result<(), Trouble> {
        let name = Path::new("standard input");
        let failed = |cause| Trouble::File { action: "read", path: name.to_owned(), cause };
        let mut source = File::from(input().try_clone_to_owned().map_err(failed)?);
        let Rewrapping { wrapping, trusts_unopened, keyholder, .. } = self;
        let head = match PipeHead::read(&mut source, name)? {
            Ok(key) => new_head(&key, wrapping, *trusts_unopened, keyholder)?,
            Err(begins) => {
                let headers = AgeRewrapping::new(wrapping, *trusts_unopened, keyholder)?;
                let (old, behind) = headers.read(begins.to_vec(), &mut source, name)?;
                [headers.change(&old, name)?, behind].concat()
            }
        };
        let mut target = File::from(output().try_clone_to_owned().map_err(Trouble::Output)?);
        target.write_all(&head).map_err(Trouble::Output)?;
        let mut buffer = vec![0; COPIED_AT_ONCE];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => target.write_all(&buffer[..count]).map_err(Trouble::Output)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// The result for one file.
fn one() -> Rewrapped {
    let mut rewrapped = Rewrapped::default();
    (rewrapped.keys, rewrapped.removed) = (1, 1);
    rewrapped
}

/// A file's failure.
fn failure(path: &Path, trouble: &Trouble) -> Failure {
    match trouble {
        Trouble::Failure(failure) => failure.clone(),
        trouble => Failure { path: path.to_owned(), error: trouble.as_failure().error },
    }
}

/// A new key for a plain tree or file.
pub(crate) struct Rekeying {
    pub(crate) old: KeyRing,
    pub(crate) heads: Heads,
    pub(crate) protected: Protected,
    pub(crate) dry_run: bool,
    pub(crate) last: LastSteps,
    /// The objects, if they are in a store.
    pub(crate) objects: Option<Box<PlainObjects>>,
}

impl Rekeying {
    /// Seals everything anew. When that is done, the old wrapped keys go. Failed files give a
    /// report, not an error.
    pub(crate) fn process(&self, evener: &Evener, path: &Path) -> Result<Report, Failure> {
        let told = of_other_names(path);
        let mut report = self.seal(evener, path, self.dry_run)?;
        if report.files + report.files_skipped == 0 || !report.is_success() {
            return Ok(report);
        }
        let note = |path: PathBuf, reason: String| Notice { path, reason };
        report.notices.extend(told.map(|told| note(path.to_owned(), told)));
        if self.dry_run {
            return Ok(report);
        }
        if self.heads.old > 0 || self.is_done(evener, path)? {
            let stay = self.last.take().into_iter();
            report.notices.extend(stay.map(|(path, reason)| note(path, reason)));
        } else {
            let error = refused(
                "files under an old key came while this ran, so the old wrapped keys stay: run this \
                 again",
            );
            report.failures.push(Failure { path: path.to_owned(), error });
        }
        Ok(report)
    }

    /// Returns whether no file has the new key.
    pub(crate) fn is_unbegun(&self, evener: &Evener, path: &Path) -> bool {
        self.seal(evener, path, true).is_ok_and(|report| report.files_skipped == 0)
    }

    /// Returns whether all files have the new key.
    fn is_done(&self, evener: &Evener, path: &Path) -> Result<bool, Failure> {
        let report = self.seal(evener, path, true)?;
        Ok(report.is_success() && report.files == 0)
    }

    fn seal(&self, evener: &Evener, path: &Path, dry_run: bool) -> Result<Report, Failure> {
        let options = RekeyOptions {
            protected: self.protected.clone(),
            heads: self.heads.clone(),
            dry_run,
            ..RekeyOptions::default()
        };
        let done = match &self.objects {
            None => evener.rekey(path, &self.old, &options),
            Some(found) => {
                evener.rekey_objects(&found.place, found.only.as_ref(), &self.old, &options)
            }
        };
        done.or_else(OperationError::into_report)
    }
}

const OF_AGE: &str = "Evener can't change the header of an age file in an object store: decrypt \
     the file, and encrypt it again";

const COPIED_AT_ONCE: usize = 1 << 20;
