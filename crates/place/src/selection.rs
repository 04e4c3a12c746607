//! Selects files of a tree by patterns.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use evener_core::{shown, shown_text};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::location::Location;
use crate::{FileError, Refusal};
use evener_seal::without_suffix;
use evener_seal::{LEADS_OUT, MalformedPath, NAMES_ROOT, path_below_root};

/// Globs and paths that select files by their path below the root of the tree: the path of the
/// plain file, without the suffix that encryption appends, whatever the operation's direction.
///
/// A glob with a slash is matched against the whole relative path, one without against the file's
/// name at any depth. `*` does not cross a slash, `**` does. Whatever an exclusion matches is left
/// out, a directory with all its contents. If there are inclusions, only files that one of them
/// matches are taken of the rest.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    include: Option<Globs>,
    exclude: Option<Globs>,
    /// If there are any, nothing else is taken. Normal components only.
    paths: Vec<PathBuf>,
}

impl Selection {
    /// Parses globs.
    ///
    /// # Errors
    /// Names the malformed glob and the reason. A glob that can match nothing is malformed.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Selection, MalformedGlob> {
        let (include, exclude) = (Globs::parse(include)?, Globs::parse(exclude)?);
        Ok(Selection { include, exclude, paths: Vec::new() })
    }

    /// Narrows the selection to the files and directories with these paths below the root, and
    /// their contents. A path that leads to nothing is a failure of the operation.
    ///
    /// # Errors
    /// Names a path that can lead to nothing below the root, and the reason.
    pub fn only<P: AsRef<Path>>(mut self, paths: &[P]) -> Result<Selection, MalformedPath> {
        for path in paths {
            self.paths.push(path_below_root(path.as_ref())?);
        }
        Ok(self)
    }

    /// Returns whether a file with this path below the root is taken.
    pub fn takes_file(&self, path: &Path) -> bool {
        let included = self.include.as_ref().is_none_or(|globs| globs.match_path(path));
        let named = self.paths.is_empty() || self.paths.iter().any(|it| path.starts_with(it));
        included && named && !self.excludes(path)
    }

    /// Returns whether a directory with this path below the root is entered.
    pub fn takes_directory(&self, path: &Path) -> bool {
        let leads = |it: &PathBuf| path.starts_with(it) || it.starts_with(path);
        let named = self.paths.is_empty() || self.paths.iter().any(leads);
        named && !self.excludes(path)
    }

    fn excludes(&self, path: &Path) -> bool {
        self.exclude.as_ref().is_some_and(|globs| globs.match_path(path))
    }

    /// Returns whether everything is taken, so that no path need be built.
    pub fn takes_everything(&self) -> bool {
        self.include.is_none() && self.exclude.is_none() && self.paths.is_empty()
    }

    /// The path to check for a name in a directory: its whole path, which takes as long to build as
    /// it is deep, or the name alone if nothing depends on more.
    pub(crate) fn path_of(&self, location: &Location, name: &OsStr) -> PathBuf {
        let mut globs = self.include.iter().chain(&self.exclude);
        let is_simple = self.paths.is_empty() && globs.all(|globs| globs.of_paths.is_empty());
        if is_simple { PathBuf::from(name) } else { location.path_of(name) }
    }

    /// The only paths below the root from which anything is taken, as given to [`Selection::only`];
    /// empty if the whole tree is eligible.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The same, recording which globs match anything and which paths exist.
    pub(crate) fn watch(&self) -> Watch<'_> {
        let unseen = |globs: &Option<Globs>| {
            let count = globs.as_ref().map_or(0, |globs| globs.texts.len());
            (0..count).map(|_| AtomicBool::new(false)).collect()
        };
        let (included, excluded) = (unseen(&self.include), unseen(&self.exclude));
        let found = self.paths.iter().map(|_| AtomicBool::new(false)).collect();
        Watch { selection: self, included, excluded, found }
    }
}

/// A selection at work on one tree.
pub(crate) struct Watch<'s> {
    selection: &'s Selection,
    /// One flag for each glob: whether it has matched.
    included: Vec<AtomicBool>,
    excluded: Vec<AtomicBool>,
    /// One flag for each path: whether anything is there.
    found: Vec<AtomicBool>,
}

impl Watch<'_> {
    /// As [`Selection::path_of`].
    pub(crate) fn path_of(&self, location: &Location, name: &OsStr) -> PathBuf {
        self.selection.path_of(location, name)
    }

    /// As [`Selection::takes_file`].
    pub(crate) fn takes_file(&self, path: &Path) -> bool {
        let include = self.selection.include.as_ref();
        let included = include.is_none_or(|globs| globs.find(path, &self.included));
        // All globs are checked in any case, so that none that matches is reported as matching
        // nothing.
        let excluded = self.excludes(path);
        self.note_path(path);
        included && !excluded && self.selection.takes_file(path)
    }

    /// As [`Selection::takes_directory`].
    pub(crate) fn takes_directory(&self, path: &Path) -> bool {
        self.note_path(path);
        !self.excludes(path) && self.selection.takes_directory(path)
    }

    /// Returns whether an object is taken, by its path and those of all that it is in.
    pub(crate) fn takes_below_root(&self, path: &Path) -> bool {
        self.selection.takes_everything()
            || path.parent().is_none_or(|above| self.enters(above)) && self.takes_file(path)
    }

    /// Returns whether a directory is taken, and all that it is in.
    pub(crate) fn enters(&self, path: &Path) -> bool {
        let mut way = path.ancestors().filter(|path| !path.as_os_str().is_empty());
        self.selection.takes_everything() || way.all(|above| self.takes_directory(above))
    }

    /// Returns whether an exclusion matches this path.
    pub(crate) fn excludes(&self, path: &Path) -> bool {
        let exclude = self.selection.exclude.as_ref();
        exclude.is_some_and(|globs| globs.find(path, &self.excluded))
    }

    fn note_path(&self, path: &Path) {
        let named = self.selection.paths.iter().zip(&self.found);
        for (_, found) in named.filter(|(named, _)| *named == path) {
            found.store(true, Ordering::Relaxed);
        }
    }

    /// The paths at which there is nothing, each with its error. `stripped` is the suffix that was
    /// stripped from sealed names for matching.
    pub(crate) fn missing(&self, stripped: Option<&OsStr>) -> Vec<(&Path, FileError)> {
        let named = self.selection.paths.iter().zip(&self.found);
        let missing = named.filter(|(_, found)| !found.load(Ordering::Relaxed));
        let told = missing.map(|(path, _)| {
            let suffix = stripped.filter(|suffix| ends_in(path.as_os_str(), suffix));
            let suffix = suffix.map(|suffix| shown(suffix).to_string());
            (path.as_path(), Refusal::NotFound { suffix }.into())
        });
        told.collect()
    }

    /// The notices about globs that have matched nothing. `stripped` is the suffix that was
    /// stripped from sealed names for matching.
    pub(crate) fn notices(&self, stripped: Option<&OsStr>) -> Vec<String> {
        let sides = [
            ("include", &self.selection.include, &self.included),
            ("exclude", &self.selection.exclude, &self.excluded),
        ];
        let mut notices = Vec::new();
        for (option, globs, seen) in sides {
            let texts = globs.iter().flat_map(|globs| &globs.texts);
            for (text, _) in texts.zip(seen).filter(|(_, seen)| !seen.load(Ordering::Relaxed)) {
                let mut notice =
                    format!("the glob to {option}, `{}`, matches nothing here", shown_text(text));
                if let Some(suffix) = stripped.filter(|suffix| ends_in(text.as_ref(), suffix)) {
                    notice.push_str(&without_suffix(&shown(suffix)));
                }
                notices.push(notice);
            }
        }
        notices
    }
}

/// Returns whether a glob or a path seems to name a sealed file.
pub(crate) fn ends_in(text: &OsStr, suffix: &OsStr) -> bool {
    text.as_encoded_bytes().ends_with(suffix.as_encoded_bytes())
}

/// A glob that can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed glob `{glob}`: {reason}")]
pub struct MalformedGlob {
    /// The glob as it was given.
    pub glob: String,
    /// The reason, as text.
    pub reason: String,
}

#[derive(Clone, Debug)]
struct Globs {
    of_names: GlobSet,
    of_paths: GlobSet,
    /// The globs as given: those for names, then those for paths.
    texts: Vec<String>,
    names: usize,
}

impl Globs {
    fn parse<S: AsRef<str>>(globs: &[S]) -> Result<Option<Globs>, MalformedGlob> {
        if globs.is_empty() {
            return Ok(None);
        }
        let (mut of_names, mut of_paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let (mut texts, mut texts_of_paths) = (Vec::new(), Vec::new());
        for text in globs.iter().map(AsRef::as_ref) {
            let (set, texts) = match text.contains('/') {
                true => (&mut of_paths, &mut texts_of_paths),
                false => (&mut of_names, &mut texts),
            };
            let glob = GlobBuilder::new(&below_root(text)?)
                .literal_separator(true)
                .build()
                .map_err(|error| malformed(text, &error))?;
            set.add(glob);
            texts.push(text.to_owned());
        }
        let build = |set: &GlobSetBuilder| set.build().map_err(|error| malformed("", &error));
        let names = texts.len();
        texts.append(&mut texts_of_paths);
        Ok(Some(Globs { of_names: build(&of_names)?, of_paths: build(&of_paths)?, texts, names }))
    }

    fn match_path(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        self.of_names.is_match(name) || self.of_paths.is_match(path)
    }

    /// As [`Globs::match_path`], but records in `seen` which globs match.
    fn find(&self, path: &Path, seen: &[AtomicBool]) -> bool {
        if seen.iter().all(|seen| seen.load(Ordering::Relaxed)) {
            return self.match_path(path);
        }
        let name = path.file_name().unwrap_or_default();
        let of_names = self.of_names.matches(name).into_iter();
        let of_paths = self.of_paths.matches(path).into_iter().map(|at| self.names + at);
        let matches: Vec<_> = of_names.chain(of_paths).collect();
        for seen in matches.iter().filter_map(|&at| seen.get(at)) {
            seen.store(true, Ordering::Relaxed);
        }
        !matches.is_empty()
    }
}

/// Strips from a glob what says no more than that it is below the root: `./`, and slashes at its
/// ends.
fn below_root(text: &str) -> Result<String, MalformedGlob> {
    let refused = |reason: &str| MalformedGlob { glob: text.to_owned(), reason: reason.to_owned() };
    let parts: Vec<_> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if text.is_empty() {
        return Err(refused("it is empty"));
    }
    if parts.is_empty() {
        return Err(refused(NAMES_ROOT));
    }
    if parts.contains(&"..") {
        return Err(refused(LEADS_OUT));
    }
    Ok(parts.join("/"))
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
    fn globs_are_below_the_root_however_they_say_so() {
        for glob in ["./a", "/a", "././a/", ".//a", "/./a"] {
            let selection = Selection::new(&[], &[glob]).unwrap();
            assert!(!selection.takes_directory(Path::new("a")), "{glob}");
            assert!(selection.takes_directory(Path::new("b/a")), "{glob}");
        }
        for glob in ["", ".", "./", "/", "..", "../a", "a/../b"] {
            let refused = Selection::new(&[glob], &[]).unwrap_err();
            assert_eq!(refused.glob, glob);
        }
    }

    #[test]
    fn globs_that_match_nothing_are_known() {
        let globs = (["*.rs", "docs/*", "x"], ["./a", "b", "x"]);
        let selection = Selection::new(&globs.0, &globs.1).unwrap();
        let watch = selection.watch();
        assert!(!watch.takes_file(Path::new("x")));
        assert!(watch.takes_file(Path::new("docs/y")));
        assert!(!watch.takes_directory(Path::new("a")));
        assert!(watch.takes_directory(Path::new("docs/a")));
        let expected = ["the glob to include, `*.rs`,", "the glob to exclude, `b`,"];
        assert_eq!(
            watch.notices(None),
            expected.map(|glob| format!("{glob} matches nothing here"))
        );
    }

    #[test]
    fn globs_of_sealed_names_are_explained() {
        let selection = Selection::new(&["*.txt.enc", "*.txt"], &[]).unwrap();
        let notices = selection.watch().notices(Some(".enc".as_ref()));
        let hint = "; files are chosen by the names that they had before, without `.enc`";
        assert_eq!(
            notices[0],
            format!("the glob to include, `*.txt.enc`, matches nothing here{hint}")
        );
        assert_eq!(notices[1], "the glob to include, `*.txt`, matches nothing here");
    }

    #[test]
    fn paths_take_what_they_lead_to_and_nothing_else() {
        let selection = Selection::new(&[], &["*.tmp"]).unwrap();
        let selection = selection.only(&["./a", "b/c/", "/d/e/f"]).unwrap();
        let watch = selection.watch();
        for (path, file, directory) in [
            ("a", true, true),
            ("a/x/y", true, true),
            ("a/x.tmp", false, false),
            ("ab", false, false),
            ("b", false, true),
            ("b/a", false, false),
            ("b/c/x", true, true),
            ("d/e", false, true),
        ] {
            assert_eq!(selection.takes_file(Path::new(path)), file, "{path}");
            assert_eq!(selection.takes_directory(Path::new(path)), directory, "{path}");
            assert_eq!(watch.takes_file(Path::new(path)), file, "{path}");
            assert_eq!(watch.takes_directory(Path::new(path)), directory, "{path}");
        }
        let missing = watch.missing(None).into_iter().map(|(path, _)| path);
        assert_eq!(missing.collect::<Vec<_>>(), [Path::new("b/c"), Path::new("d/e/f")]);
        for path in ["", ".", "/", "..", "a/../b"] {
            assert_eq!(Selection::default().only(&[path]).unwrap_err().path, Path::new(path));
        }
    }

    #[test]
    fn malformed_globs_are_named() {
        let error = Selection::new(&["[a"], &[]).unwrap_err();
        assert_eq!(error.glob, "[a");
    }
}
