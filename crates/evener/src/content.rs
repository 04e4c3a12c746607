//! A whole file's content in memory, and parts of a file.

use std::path::Path;
use std::sync::Arc;

use evener_core::{Direction, Engine};
use evener_place::Blob;
use evener_place::{Failure, FileError, Operation, RandomAccess, buffer, random_access};
use zeroize::Zeroizing;

use crate::Evener;
use crate::seated::Seated;
use crate::seats::seats;

impl Evener {
    /// Returns how many bytes [`Evener::seal`] makes of `length` bytes.
    ///
    /// # Errors
    /// When the format can't hold this length.
    pub fn sealed_length(&self, length: u64) -> Result<u64, FileError> {
        buffer::sealed_length(&self.keys, length)
    }

    /// Encrypts the content of a file in memory into `sealed`, which has room for
    /// [`sealed_length`](Evener::sealed_length) bytes, and returns the number of bytes written. The
    /// result is the content of an encrypted file. All engines work on its chunks, guarded as in
    /// [`Evener::process`]; chunks from an engine that computed wrong results are computed again.
    ///
    /// ```
    /// # use evener::{Evener, keys::{KeyFormat, KeyMaterial}};
    /// # let keys = KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?;
    /// let evener = Evener::new(keys)?;
    /// let mut sealed = vec![0; evener.sealed_length(5)? as usize];
    /// evener.seal(b"hello", &mut sealed)?;
    /// let mut plaintext = vec![0; sealed.len()];
    /// let length = evener.open(&sealed, &mut plaintext)?;
    /// assert_eq!(&plaintext[..length], b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When `sealed` is too short, no selected engine has the cipher, or the system has no random numbers.
    /// [`FileError::Interrupted`] when [`Control::stop`](crate::Control::stop) of the options was called. The
    /// content of `sealed` is then undefined.
    pub fn seal(&self, plaintext: &[u8], sealed: &mut [u8]) -> Result<usize, FileError> {
        let Seated { options, .. } = self.seated(Operation::Encrypt)?;
        buffer::seal(&self.keys, plaintext, sealed, &options.run)
    }

    /// Decrypts the content of an encrypted file in memory into `plaintext`, for which the length
    /// of `sealed` is always enough, and returns its length. Otherwise like [`Evener::seal`].
    ///
    /// # Errors
    /// When no key fits, any chunk is not authentic or the end is missing, and as [`Evener::seal`].
    /// Nothing is left in `plaintext` then.
    pub fn open(&self, sealed: &[u8], plaintext: &mut [u8]) -> Result<usize, FileError> {
        let Seated { options, .. } = self.seated(Operation::Decrypt)?;
        buffer::open(&self.keys, sealed, plaintext, &options.run)
    }

    /// Encrypts the first `length` bytes of a buffer with room for
    /// [`sealed_length`](Evener::sealed_length) bytes, and returns the length of the sealed file,
    /// which is then at its beginning. Otherwise like [`Evener::seal`], which copies nothing.
    ///
    /// ```
    /// # use evener::{Evener, keys::{KeyFormat, KeyMaterial}};
    /// # let evener = Evener::new(KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?)?;
    /// let mut buffer = b"a letter".to_vec();
    /// buffer.resize(evener.sealed_length(8)? as usize, 0);
    /// let length = evener.seal_in_place(&mut buffer, 8)?;
    /// let length = evener.open_in_place(&mut buffer[..length])?;
    /// assert_eq!(&buffer[..length], b"a letter");
    /// # Ok::<(), evener::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Evener::seal`].
    pub fn seal_in_place(&self, buffer: &mut [u8], length: usize) -> Result<usize, FileError> {
        let Seated { options, .. } = self.seated(Operation::Encrypt)?;
        buffer::seal_in_place(&self.keys, buffer, length, &options.run)
    }

    /// Decrypts a sealed file, which is all of the buffer, and returns the length of the plaintext,
    /// which is then at its beginning. Otherwise like [`Evener::open`], which copies nothing.
    ///
    /// # Errors
    /// As [`Evener::open`]. If no key fits, the buffer is unchanged; otherwise it is wiped.
    pub fn open_in_place(&self, buffer: &mut [u8]) -> Result<usize, FileError> {
        let Seated { options, .. } = self.seated(Operation::Decrypt)?;
        buffer::open_in_place(&self.keys, buffer, &options.run)
    }

    /// Encrypts the content of a file in memory. [`Evener::seal`] does so into a buffer of the
    /// caller's, which takes a large file half the time.
    ///
    /// ```
    /// # use evener::{Evener, keys::{KeyFormat, KeyMaterial}};
    /// # let evener = Evener::new(KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?)?;
    /// let sealed = evener.seal_bytes(b"a letter")?;
    /// assert_eq!(*evener.open_bytes(&sealed)?, b"a letter");
    /// # Ok::<(), evener::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Evener::seal`].
    pub fn seal_bytes(&self, plaintext: &[u8]) -> Result<Vec<u8>, FileError> {
        let length = self.sealed_length(plaintext.len() as u64)?;
        let mut sealed = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let length = self.seal(plaintext, &mut sealed)?;
        sealed.truncate(length);
        Ok(sealed)
    }

    /// Decrypts the content of an encrypted file in memory. The result is wiped when it is dropped.
    ///
    /// # Errors
    /// As [`Evener::open`].
    pub fn open_bytes(&self, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, FileError> {
        let mut plaintext = Zeroizing::new(vec![0; sealed.len()]);
        let length = self.open(sealed, &mut plaintext)?;
        plaintext.truncate(length);
        Ok(plaintext)
    }

    /// Opens an encrypted file for reading any part of it, on the first selected engine that has
    /// the cipher. A module has its guard; it does not wait at its gate. A long read uses all of the
    /// engine's workers.
    ///
    /// ```no_run
    /// # use std::io::{Read, Seek, SeekFrom};
    /// # fn example(evener: evener::Evener) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut file = evener.open_at("video.mp4.enc")?;
    /// let mut moov = vec![0; 1000];
    /// file.seek(SeekFrom::End(-1000))?;
    /// file.read_exact(&mut moov)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the file can't be read, no key fits, its last chunk is not authentic, or no engine has
    /// the cipher.
    pub fn open_at(&self, path: impl AsRef<Path>) -> Result<RandomAccess, Failure> {
        let fail = |error| Failure { path: path.as_ref().to_owned(), error };
        let engine = self.reader().map_err(fail)?;
        let workers = self.workers_of(&engine);
        let opened = random_access(path.as_ref(), &self.keys, engine).map_err(fail)?;
        Ok(opened.with_workers(workers))
    }

    /// Opens an encrypted object of any [place](crate::place), as [`Evener::open_at`] opens a file.
    ///
    /// # Errors
    /// As [`Evener::open_at`].
    pub fn open_blob(&self, blob: Box<dyn Blob>) -> Result<RandomAccess, FileError> {
        let engine = self.reader()?;
        let workers = self.workers_of(&engine);
        Ok(RandomAccess::of(blob, &self.keys, engine)?.with_workers(workers))
    }

    fn workers_of(&self, engine: &Arc<dyn Engine>) -> usize {
        let cipher = self.keys.primary().cipher();
        let engines = std::slice::from_ref(engine);
        seats(engines, cipher, Direction::Decrypt, self.settings.workers).len()
    }

    /// The first engine that decrypts files of the keys' format.
    fn reader(&self) -> Result<Arc<dyn Engine>, FileError> {
        let (cipher, direction) = (self.keys.primary().cipher(), Direction::Decrypt);
        let able = |engine: &&Arc<dyn Engine>| {
            engine.offer(cipher, direction).is_some() && !engine.holds_key()
        };
        let found = self.engines.iter().find(able).cloned();
        found.ok_or(FileError::NoEngine { cipher, direction })
    }
}
