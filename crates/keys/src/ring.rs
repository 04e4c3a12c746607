//! Key rings: the keys of an operation.

use evener_format::{FileCipher, FormatError, Recipe};

use crate::age_text::{is_armoured, is_encrypted};

/// The recipes (format, key and context) that an operation may use: the first encrypts, all of
/// them decrypt.
#[derive(Debug)]
pub struct KeyRing {
    primary: Recipe,
    others: Vec<Recipe>,
}

/// The recipes that a file's header fits.
pub enum Candidates {
    /// One recipe, known for certain or the only one.
    One(Box<FileCipher>),
    /// Several: only decrypting the first chunk shows which is right (Tink keysets).
    Several(Vec<FileCipher>),
}

impl KeyRing {
    /// A ring of one recipe.
    pub fn new(primary: Recipe) -> KeyRing {
        KeyRing { primary, others: Vec::new() }
    }

    /// Adds a recipe that decrypts.
    #[must_use]
    pub fn with(mut self, recipe: Recipe) -> KeyRing {
        self.others.push(recipe);
        self
    }

    /// Adds all recipes of another ring, for decrypting.
    #[must_use]
    pub fn joined_by(mut self, other: KeyRing) -> KeyRing {
        self.others.push(other.primary);
        self.others.extend(other.others);
        self
    }

    /// The recipe that encrypts.
    pub fn primary(&self) -> &Recipe {
        &self.primary
    }

    /// Every recipe, the primary first.
    pub fn recipes(&self) -> impl Iterator<Item = &Recipe> + Clone {
        std::iter::once(&self.primary).chain(&self.others)
    }

    /// Returns whether all of its files are age's own, which have no wrapped keys beside them.
    pub fn is_of_age(&self) -> bool {
        self.recipes().all(|recipe| matches!(recipe, Recipe::Age(_)))
    }

    /// Returns whether it can open any file: with age, recipients alone open none.
    pub fn opens_files(&self) -> bool {
        self.recipes().any(Recipe::opens_files)
    }

    /// The number of first bytes of a file that [`KeyRing::open`] takes, as far as `start`, those
    /// read so far, shows it: if it is more, read them and ask again.
    pub fn bytes_to_open(&self, start: &[u8]) -> usize {
        self.recipes().map(|recipe| recipe.bytes_to_open(start)).max().unwrap_or(0)
    }

    /// Finds the recipes that fit `start`, the first bytes of a file: as many bytes as
    /// [`KeyRing::bytes_to_open`] says, or all of a shorter file.
    ///
    /// # Errors
    /// When no recipe fits; the reason is that of the primary one.
    pub fn open(&self, start: &[u8]) -> Result<Candidates, FormatError> {
        if self.others.is_empty() {
            return Ok(Candidates::One(Box::new(open_with(&self.primary, start)?)));
        }
        let mut fitting = Vec::new();
        let mut refusal = None;
        for recipe in self.recipes() {
            match open_with(recipe, start) {
                Ok(cipher) => fitting.push(cipher),
                // The primary recipe's refusal says most about what was expected.
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match (fitting.len(), refusal) {
            (0, Some(error)) => Err(error),
            (1, _) => Ok(Candidates::One(Box::new(fitting.remove(0)))),
            _ => Ok(Candidates::Several(fitting)),
        }
    }
}

fn open_with(recipe: &Recipe, start: &[u8]) -> Result<FileCipher, FormatError> {
    let other = |reason| FormatError::OtherFormat { format: recipe.format(), reason };
    let needed = recipe.bytes_to_open(start);
    match recipe {
        Recipe::Age(_) if is_armoured(start) => Err(other(ARMOURED)),
        // A header that does not end tells more than that it is short.
        Recipe::Age(_) => recipe.open(start),
        _ if start.len() < needed => Err(FormatError::Truncated),
        _ => recipe.open(&start[..needed]).map_err(|error| match is_encrypted(start) {
            true => other(OF_AGE),
            false => error,
        }),
    }
}

const ARMOURED: &str = "it is in ASCII armour, which only a file alone or a pipe may be";
const OF_AGE: &str = "it is an age file; an identity or its passphrase opens it, not a key";
