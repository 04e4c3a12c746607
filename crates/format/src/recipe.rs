//! A format together with its secret.

use evener_core::{Cipher, Key};

use super::FormatError;
use super::age::{Age, AgeHeaders};
use super::cobblestone::{Cobblestone, CobblestoneSuite};
use super::file_cipher::FileCipher;
use super::geometry::Geometry;
use super::header::Header;
use super::openssl_enc::{OpensslEnc, OpensslSecret};
use super::tink::{Tink, TinkKey};

/// A format together with its secret: creates and reads any number of files, on any thread.
///
/// Creating the recipe computes the values that do not depend on the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Recipe {
    /// C2SP chunked encryption.
    Cobblestone(Cobblestone),
    /// Tink AES-GCM-HKDF streaming.
    Tink(Tink),
    /// age's own format.
    Age(Age),
    /// Files of the `openssl enc` program. Nothing authenticates them.
    OpensslEnc(OpensslEnc),
}

impl Recipe {
    /// Returns whether a header that [opens](Recipe::open) proves the format: a Tink header or a
    /// missing header does not.
    pub fn proves_format(&self) -> bool {
        match self {
            Recipe::Cobblestone(_) | Recipe::Age(_) => true,
            Recipe::OpensslEnc(_) => !self.repeats_ivs(),
            Recipe::Tink(_) => false,
        }
    }

    /// Cobblestone with an input key and a context, which may be empty; see [`Cobblestone`].
    ///
    /// # Errors
    /// [`FormatError::Length`] when the key's length is not the suite's.
    pub fn cobblestone(
        suite: CobblestoneSuite,
        key: &Key,
        context: &[u8],
    ) -> Result<Recipe, FormatError> {
        Cobblestone::new(suite, key, context).map(Recipe::Cobblestone)
    }

    /// Tink with one key of a keyset and associated data, which may be empty; see [`Tink`].
    ///
    /// # Errors
    /// [`FormatError::Parameters`] when Tink would refuse the key.
    pub fn tink(key: TinkKey, aad: &[u8]) -> Result<Recipe, FormatError> {
        Tink::new(key, aad).map(Recipe::Tink)
    }

    /// age with what writes and reads its headers; see [`Age`].
    pub fn age(headers: impl AgeHeaders + 'static) -> Recipe {
        Recipe::Age(Age::new(Box::new(headers)))
    }

    /// `openssl enc` with a cipher and a passphrase or key; see [`OpensslEnc`].
    ///
    /// # Errors
    /// [`FormatError::NoSuchCipher`], [`FormatError::Length`] for a raw key or IV, and
    /// [`FormatError::Parameters`] for iterations that OpenSSL can't count.
    pub fn openssl_enc(cipher: Cipher, secret: OpensslSecret) -> Result<Recipe, FormatError> {
        OpensslEnc::new(cipher, secret).map(Recipe::OpensslEnc)
    }

    /// The format's name, such as `cobblestone-256`.
    pub fn format(&self) -> &'static str {
        match self {
            Recipe::Cobblestone(recipe) => recipe.suite().name(),
            Recipe::Tink(_) => Tink::FORMAT,
            Recipe::Age(_) => Age::FORMAT,
            Recipe::OpensslEnc(_) => OpensslEnc::FORMAT,
        }
    }

    /// The cipher of every chunk.
    pub fn cipher(&self) -> Cipher {
        match self {
            Recipe::Cobblestone(recipe) => recipe.suite().cipher(),
            Recipe::Tink(recipe) => recipe.cipher(),
            Recipe::Age(_) => Cipher::ChaCha20Poly1305,
            Recipe::OpensslEnc(recipe) => recipe.cipher(),
        }
    }

    /// The division of every file into chunks. With age, each file has a header of its own length:
    /// this one has the longest that encryption makes; [`Age::geometry`] and a file's
    /// [`FileCipher`] have the actual one.
    pub fn geometry(&self) -> Geometry {
        match self {
            Recipe::Cobblestone(_) => Cobblestone::GEOMETRY,
            Recipe::Tink(recipe) => recipe.geometry(),
            Recipe::Age(recipe) => Age::geometry(recipe.headers().longest()),
            Recipe::OpensslEnc(recipe) => recipe.geometry(),
        }
    }

    /// The number of first bytes of a file that [`Recipe::open`] takes, as far as `start`, those
    /// read so far, shows it: if it is more, read them and ask again. With all formats but age it is
    /// the length of every file's header.
    pub fn bytes_to_open(&self, start: &[u8]) -> usize {
        match self {
            Recipe::Cobblestone(_) => Cobblestone::HEADER_LENGTH,
            Recipe::Tink(recipe) => recipe.header_length(),
            Recipe::Age(_) => Age::bytes_to_open(start),
            Recipe::OpensslEnc(recipe) => recipe.header_length(),
        }
    }

    /// Returns whether all files share one key and one IV, as with a raw key of `openssl enc` or
    /// without salt.
    ///
    /// Two such files reveal each other: in CTR whole plaintexts, in CBC which beginnings are
    /// equal. Create at most one file with such a recipe.
    pub fn repeats_ivs(&self) -> bool {
        matches!(self, Recipe::OpensslEnc(recipe) if recipe.repeats_ivs())
    }

    /// Returns whether it can open any file: with age, recipients alone open none.
    pub fn opens_files(&self) -> bool {
        match self {
            Recipe::Age(recipe) => recipe.headers().open_any(),
            _ => true,
        }
    }

    /// Returns whether a whole file, which it opens, is an age file that holds a key of another
    /// format.
    pub fn holds_key(&self, file: &[u8]) -> bool {
        matches!(self, Recipe::Age(recipe) if recipe.headers().holds_key(file))
    }

    /// The reason why many files should not be created with it, if there is one: with a passphrase or
    /// a plugin, age takes long for each.
    pub fn for_one_file(&self) -> Option<&'static str> {
        match self {
            Recipe::Age(recipe) => recipe.headers().for_one_file(),
            _ => None,
        }
    }

    /// The iterations of PBKDF2, if it derives files' keys from a passphrase.
    pub fn iterations(&self) -> Option<u32> {
        match self {
            Recipe::OpensslEnc(recipe) => recipe.iterations(),
            _ => None,
        }
    }

    /// Returns whether `EVP_BytesToKey` derives keys from a passphrase, which makes it quick to
    /// guess.
    pub fn has_legacy_kdf(&self) -> bool {
        matches!(self, Recipe::OpensslEnc(recipe) if recipe.has_legacy_kdf())
    }

    /// A new file: the cipher of its chunks, and its header, with fresh salt from the operating
    /// system.
    ///
    /// # Errors
    /// [`FormatError::Random`] and [`FormatError::Derivation`].
    pub fn create(&self) -> Result<(FileCipher, Header), FormatError> {
        match self {
            Recipe::Cobblestone(recipe) => recipe.create(),
            Recipe::Tink(recipe) => recipe.create(),
            Recipe::Age(recipe) => recipe.create(),
            Recipe::OpensslEnc(recipe) => recipe.create(),
        }
    }

    /// Reads the start of a file: `header` has at least [`Recipe::bytes_to_open`] bytes, or the
    /// whole file.
    ///
    /// Only Cobblestone and age detect a wrong key here. With Tink the first chunk fails to authenticate;
    /// `openssl enc` may notice malformed padding at the very end, or nothing.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when there are too few bytes, [`FormatError::OtherFormat`] when
    /// the header does not match this format and key, [`FormatError::WrongKey`],
    /// [`FormatError::Age`], and [`FormatError::Derivation`].
    pub fn open(&self, header: &[u8]) -> Result<FileCipher, FormatError> {
        match self {
            Recipe::Cobblestone(recipe) => recipe.open(header),
            Recipe::Tink(recipe) => recipe.open(header),
            Recipe::Age(recipe) => recipe.open(header),
            Recipe::OpensslEnc(recipe) => recipe.open(header),
        }
    }
}
