//! Which files of a tree are taken.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Globs that choose files by their path below the root of the tree.
///
/// A glob with a slash is matched against the whole relative path, one without against the
/// file's name at any depth. `*` does not cross a slash, `**` does. What an exclusion matches
/// is left out, a directory with all that is in it; if there are inclusions, of the rest only
/// files that one of them matches are taken.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    include: Option<Globs>,
    exclude: Option<Globs>,
}

impl Selection {
    /// Parses globs.
    ///
    /// # Errors
    /// Says which glob is malformed and why.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Selection, MalformedGlob> {
        Ok(Selection { include: Globs::parse(include)?, exclude: Globs::parse(exclude)? })
    }

    /// Whether a file with this path below the root is taken.
    pub fn takes_file(&self, path: &Path) -> bool {
        let included = self.include.as_ref().is_none_or(|globs| globs.match_path(path));
        included && self.takes_directory(path)
    }

    /// Whether a directory with this path below the root is entered.
    pub fn takes_directory(&self, path: &Path) -> bool {
        self.exclude.as_ref().is_none_or(|globs| !globs.match_path(path))
    }

    /// Whether everything is taken, so that no path need be built.
    pub(crate) fn takes_everything(&self) -> bool {
        self.include.is_none() && self.exclude.is_none()
    }
}

/// A glob that can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed glob `{glob}`: {reason}")]
pub struct MalformedGlob {
    /// The glob as it was given.
    pub glob: String,
    /// In words.
    pub reason: String,
}

#[derive(Clone, Debug)]
struct Globs {
    of_names: GlobSet,
    of_paths: GlobSet,
}

impl Globs {
    fn parse<S: AsRef<str>>(globs: &[S]) -> Result<Option<Globs>, MalformedGlob> {
        if globs.is_empty() {
            return Ok(None);
        }
        let (mut of_names, mut of_paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for text in globs.iter().map(AsRef::as_ref) {
            let set = if text.contains('/') { &mut of_paths } else { &mut of_names };
            let below_root = text.trim_start_matches('/').trim_end_matches('/');
            let glob = GlobBuilder::new(below_root)
                .literal_separator(true)
                .build()
                .map_err(|error| malformed(text, &error))?;
            set.add(glob);
        }
        let build = |set: &GlobSetBuilder| set.build().map_err(|error| malformed("", &error));
        Ok(Some(Globs { of_names: build(&of_names)?, of_paths: build(&of_paths)? }))
    }

    fn match_path(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        self.of_names.is_match(name) || self.of_paths.is_match(path)
    }
}

fn malformed(glob: &str, error: &globset::Error) -> MalformedGlob {
    MalformedGlob { glob: glob.to_owned(), reason: error.kind().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_choose_by_name_or_path() {
        let selection = Selection::new(&["*.rs", "docs/**"], &["target", "/a/b.rs"]).unwrap();
        for (path, taken) in [
            ("x.rs", true),
            ("deep/down/x.rs", true),
            ("docs/any/thing", true),
            ("x.c", false),
            ("a/b.rs", false),
            ("c/a/b.rs", true),
        ] {
            assert_eq!(selection.takes_file(Path::new(path)), taken, "{path}");
        }
        assert!(!selection.takes_directory(Path::new("deep/target")));
        assert!(selection.takes_directory(Path::new("src")));
        assert!(Selection::default().takes_file(Path::new("anything")));
    }

    #[test]
    fn malformed_globs_are_named() {
        let error = Selection::new(&["[a"], &[]).unwrap_err();
        assert_eq!(error.glob, "[a");
    }
}
