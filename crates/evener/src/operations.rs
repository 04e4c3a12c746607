//! The operations on files, trees, streams and places.

use std::io::{Read, Write};
use std::path::Path;

use evener_place::{
    Failure, FileError, KeyRing, Listing, Notice, Operation, OperationError, RekeyOptions, Report,
    StreamSource, StreamTarget, Total, list, list_place, measure, process, process_stream, rekey,
    rekey_objects,
};
use evener_place::{Name, Origin, Store, transfer};

use crate::sealed_trees::{SealedOptions, refuse_gone_at};
use crate::seated::Seated;
use crate::{Evener, Options};

impl Evener {
    /// Encrypts a file or a tree, see [`Evener::process`].
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn encrypt(
        &self,
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> Result<Report, OperationError> {
        self.process(Operation::Encrypt, source, Some(target.as_ref()))
    }

    /// Decrypts a file or a tree, see [`Evener::process`].
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn decrypt(
        &self,
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> Result<Report, OperationError> {
        self.process(Operation::Decrypt, source, Some(target.as_ref()))
    }

    /// Authenticates everything in a file or a tree and writes nothing.
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn verify(&self, source: impl AsRef<Path>) -> Result<Report, OperationError> {
        self.process(Operation::Verify, source, None)
    }

    /// Encrypts, decrypts or verifies a file or a tree.
    ///
    /// A tree goes to a tree with the same relative names, as
    /// [`TreeOptions::names`](crate::TreeOptions::names) has them. A file goes to the file `target`, or under such a name into `target` if it is a
    /// directory. `target` is `None` exactly for [`Operation::Verify`].
    ///
    /// # Errors
    /// [`OperationError::Incomplete`] when files failed: all other files are done, and its report
    /// lists the failed ones. [`OperationError::NotBegun`] when the operation could not begin: the
    /// source does not exist, the target can't be made or is inside the source, no selected engine has
    /// the cipher, or the encrypted side was a sealed tree
    /// ([`refuse_gone_at`](crate::sealed_trees::refuse_gone_at)).
    pub fn process(
        &self,
        operation: Operation,
        source: impl AsRef<Path>,
        target: Option<&Path>,
    ) -> Result<Report, OperationError> {
        let source = source.as_ref();
        let encrypted = if operation == Operation::Encrypt { target } else { Some(source) };
        encrypted.map(refuse_gone).transpose()?;
        let Seated { options, notice } =
            self.seated(operation).map_err(|error| cannot_begin(source, error))?;
        noticed(process(operation, &self.keys, source, target, &options.run, &options.tree), notice)
    }

    /// Lists the encrypted files of a tree, or one, with their formats and sizes.
    ///
    /// # Errors
    /// When `path` does not exist, is neither a file nor a tree, or was a sealed tree.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Listing, Failure> {
        refuse_gone(path.as_ref())?;
        list(path.as_ref(), Some(&self.keys), &self.settings.options.tree)
    }

    /// Lists the objects of a [place](crate::place), as [`Evener::list`] lists files. `path` is the
    /// place's name in the list.
    pub fn list_place(&self, origin: &dyn Origin, path: impl AsRef<Path>) -> Listing {
        list_place(origin, path.as_ref(), Some(&self.keys), &self.settings.options.tree)
    }

    /// Encrypts, decrypts or verifies the objects of one [place](crate::place) into another, with
    /// their directories, links and metadata where the other has them. What it can't have is a
    /// failure or a notice of the report. `store` is `None` exactly for [`Operation::Verify`].
    ///
    /// ```
    /// use evener::place::{Local, Memory, Name};
    /// use evener::{Evener, Operation, TreeOptions};
    /// # use evener::keys::{KeyFormat, KeyMaterial};
    /// # let evener = Evener::new(KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?)?;
    /// # let directory = tempfile::tempdir()?;
    /// # let path = |name: &str| directory.path().join(name);
    /// # std::fs::create_dir_all(path("letters/2026"))?;
    /// # std::fs::write(path("letters/2026/first"), "Dear Sir")?;
    ///
    /// let local = |name| Local::new(path(name), &TreeOptions::default());
    /// let sealed = Memory::new();
    /// evener.transfer(Operation::Encrypt, &local("letters"), Some(&sealed))?;
    /// assert!(sealed.get(&Name::new("2026/first.enc")?).is_some());
    /// evener.transfer(Operation::Decrypt, &sealed, Some(&local("restored")))?;
    /// assert_eq!(std::fs::read(path("restored/2026/first"))?, b"Dear Sir");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn transfer(
        &self,
        operation: Operation,
        origin: &dyn Origin,
        store: Option<&dyn Store>,
    ) -> Result<Report, OperationError> {
        let Seated { options, notice } =
            self.seated(operation).map_err(|error| cannot_begin(Path::new(""), error))?;
        noticed(
            transfer(operation, &self.keys, origin, store, &options.run, &options.transfer),
            notice,
        )
    }

    /// Seals the files of a plain encrypted tree anew with this value's keys, or a single file, each
    /// in its own place. `old` opens them. An interrupted run goes on where it ended, and at every
    /// moment each file is whole, under the old key or the new one.
    ///
    /// ```
    /// # use evener::keys::{KeyFormat, KeyMaterial};
    /// use evener::{Evener, RekeyOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = |name: &str| directory.path().join(name);
    /// # std::fs::write(path("letter"), "Dear Sir")?;
    /// # let ring = || KeyMaterial::generate(KeyFormat::default())?.key_ring(b"").map_err(evener::Error::from);
    /// let old = Evener::new(ring()?)?;
    /// old.encrypt(path("letter"), path("letter.enc"))?;
    /// let new = Evener::new(ring()?)?;
    /// let report = new.rekey(path("letter.enc"), old.key_ring(), &RekeyOptions::default())?;
    /// assert_eq!(report.files, 1);
    /// new.verify(path("letter.enc"))?;
    /// # Ok::<(), evener::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OperationError::Incomplete`] when files failed, which are as they were; all others are done.
    /// [`OperationError::NotBegun`] when it could not begin, or `path` was a sealed tree.
    pub fn rekey(
        &self,
        path: impl AsRef<Path>,
        old: &KeyRing,
        options: &RekeyOptions,
    ) -> Result<Report, OperationError> {
        let path = path.as_ref();
        refuse_gone(path)?;
        let Seated { options: Options { run, .. }, notice } =
            self.seated(Operation::Encrypt).map_err(|error| cannot_begin(path, error))?;
        noticed(rekey(path, old, &self.keys, &run, options), notice)
    }

    /// As [`Evener::rekey`], for the objects of a store that has no directories, or for `only` one of
    /// them. A new object takes the place of the version that was read, and of no other.
    ///
    /// # Errors
    /// Those of [`Evener::rekey`].
    pub fn rekey_objects(
        &self,
        store: &dyn Store,
        only: Option<&Name>,
        old: &KeyRing,
        options: &RekeyOptions,
    ) -> Result<Report, OperationError> {
        let Seated { options: Options { run, .. }, notice } =
            self.seated(Operation::Encrypt).map_err(|error| cannot_begin(&store.label(), error))?;
        noticed(rekey_objects(store, only, (old, &self.keys), &run, options), notice)
    }

    /// Adds up the files that [`Evener::process`] would take from a tree, and their bytes, so that
    /// a caller can tell how much is left. It takes about as long as `du`; run it on a thread
    /// beside the operation.
    ///
    /// Returns `None` if the tree can't be read, the operation was stopped, or `is_over` says that
    /// nobody needs the total any more.
    pub fn measure(
        &self,
        operation: Operation,
        source: impl AsRef<Path>,
        target: Option<&Path>,
        is_over: impl Fn() -> bool,
    ) -> Option<Total> {
        let Options { run, tree, .. } = &self.settings.options;
        let is_over = || is_over() || run.control.is_stopped();
        measure(operation, &self.keys, source.as_ref(), target, tree, is_over)
    }

    /// Encrypts a stream, see [`Evener::process_stream`].
    ///
    /// ```
    /// # use evener::{Evener, keys::{KeyFormat, KeyMaterial}};
    /// # let evener = Evener::new(KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?)?;
    /// let mut sealed = Vec::new();
    /// evener.encrypt_stream(&b"a letter"[..], &mut sealed)?;
    /// # let mut opened = Vec::new();
    /// # evener.decrypt_stream(&sealed[..], &mut opened)?;
    /// # assert_eq!(opened, b"a letter");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Evener::process_stream`].
    pub fn encrypt_stream(
        &self,
        source: impl Read + Send,
        target: impl Write + Send,
    ) -> Result<Report, OperationError> {
        let source = StreamSource::Reader(Box::new(source));
        self.process_stream(Operation::Encrypt, source, StreamTarget::Writer(Box::new(target)))
    }

    /// Decrypts a stream, see [`Evener::process_stream`].
    ///
    /// # Errors
    /// As [`Evener::process_stream`].
    pub fn decrypt_stream(
        &self,
        source: impl Read + Send,
        target: impl Write + Send,
    ) -> Result<Report, OperationError> {
        let source = StreamSource::Reader(Box::new(source));
        self.process_stream(Operation::Decrypt, source, StreamTarget::Writer(Box::new(target)))
    }

    /// Encrypts, decrypts or verifies one stream from beginning to end.
    ///
    /// A chunk of plaintext is written only after it has been authenticated.
    ///
    /// # Errors
    /// [`OperationError::Incomplete`] when it failed later: its report has the failure, with the
    /// path `-` for a descriptor. [`OperationError::NotBegun`] when it could not begin: source or
    /// target can't be opened, or no selected engine has the cipher.
    pub fn process_stream(
        &self,
        operation: Operation,
        source: StreamSource<'_>,
        target: StreamTarget<'_>,
    ) -> Result<Report, OperationError> {
        let Seated { options, notice } =
            self.seated(operation).map_err(|error| cannot_begin(Path::new("-"), error))?;
        noticed(
            process_stream(operation, &self.keys, source, target, &options.run, &options.stream),
            notice,
        )
    }
}

/// The result with one more notice in its report.
fn noticed(
    result: Result<Report, OperationError>,
    notice: Option<Notice>,
) -> Result<Report, OperationError> {
    let mut report = result.or_else(OperationError::into_report)?;
    report.notices.extend(notice);
    report.into_result()
}

fn refuse_gone(path: &Path) -> Result<bool, Failure> {
    refuse_gone_at(path, &SealedOptions::default())
}

pub(crate) fn cannot_begin(path: &Path, error: FileError) -> Failure {
    Failure { path: path.to_owned(), error }
}
