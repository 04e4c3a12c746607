//! Sources and targets: one source, or several that go to one directory.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::iter::repeat;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use evener::format::Recipe;
use evener::program::{SharedTarget, takes_a_stream};
use evener::{
    Failure, KeyRing, Operation, Refusal, Report, SealedNames, Total, is_wrapped_key,
    wrapped_key_name,
};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::ends::{Ends, Head, Place, directory_of, identity, refuse_inside, with_those_above};
use crate::keys::{Intent, KeyPlace, Keyholder, opening};
use crate::options::{Format, OpeningKeys, Suffix, Telling};
use crate::stores::{Stores, refuse_among_several};
use crate::trouble::{Trouble, shown};

/// All ends of an operation.
pub(crate) struct Route {
    /// Each source and its target. There is at least one.
    pub(crate) ends: Vec<Ends>,
    /// The directory into which sources go under their own names, if there are several.
    shared: Option<PathBuf>,
    /// A directory that is to be made for them, or for a single file.
    new: Option<PathBuf>,
    /// Wrapped keys that were named among several sources to decrypt, as `DIRECTORY/*` does.
    keys: Vec<PathBuf>,
}

impl Route {
    /// Sources whose targets, if anything is written, are not in a directory that they share.
    pub(crate) fn of(ends: Vec<Ends>) -> Route {
        Route { ends, shared: None, new: None, keys: Vec::new() }
    }

    /// Interprets SRC... and DST, and refuses arguments that make no sense before anything is
    /// written.
    pub(crate) fn find(
        operation: Operation,
        mut paths: Vec<OsString>,
        suffix: &Suffix,
        telling: &Telling,
    ) -> Result<Route, Trouble> {
        let target = paths.pop().unwrap_or_default();
        let sources = paths;
        if sources.is_empty() {
            let (name, only) = (operation.name(), shown(Path::new(&target)));
            return Err(Trouble::Usage(format!(
                "{only} is alone, and both SRC and DST are needed: write `evener {name} SRC... DST`"
            )));
        }
        refuse_among_several(&sources, &target)?;
        match <[OsString; 1]>::try_from(sources) {
            Ok([source]) => Route::find_one(operation, source, target, telling),
            Err(sources) => Route::find_several(operation, sources, target, suffix, telling),
        }
    }

    fn find_one(
        operation: Operation,
        source: OsString,
        target: OsString,
        telling: &Telling,
    ) -> Result<Route, Trouble> {
        let is_file = fs::metadata(&source).is_ok_and(|source| source.is_file());
        let is_local = Stores::address(&target)?.is_none();
        let new = (is_file && is_local).then(|| directory_to_make(&target)).flatten();
        let ends = Ends::find(operation, source, Some(target), new.is_some(), telling)?;
        Ok(Route { ends: vec![ends], shared: None, new, keys: Vec::new() })
    }

    fn find_several(
        operation: Operation,
        sources: Vec<OsString>,
        target: OsString,
        suffix: &Suffix,
        telling: &Telling,
    ) -> Result<Route, Trouble> {
        let names = &suffix.names();
        let shared = shared_directory(operation, &sources, &target)?;
        let new = directory_to_make(&target);
        // Age files have none, whatever their names are.
        let has_keys = operation == Operation::Decrypt && !suffix.of_age;
        let is_key = |source: &OsString| has_keys && is_wrapped_key(source.as_ref());
        let (keys, sources): (Vec<_>, Vec<_>) = sources.into_iter().partition(is_key);
        let mut taken = Names::default();
        let mut ends = Vec::with_capacity(sources.len());
        for source in sources {
            if Place::of_source(source.clone()) == Place::Pipe {
                return Err(Trouble::usage("a pipe has no name to keep beside other sources"));
            }
            let path = PathBuf::from(&source);
            let Some(name) = path.file_name() else {
                let reason = "has no name that it could keep; call it by its name";
                return Err(Trouble::Usage(format!("{}: {reason}", shown(&path))));
            };
            let is_tree = path.is_dir();
            taken.add(operation, &path, name, is_tree, names)?;
            if is_tree {
                refuse_inside(&path, &shared)?;
            }
            // A file goes into the directory under its own name.
            let into = if is_tree { shared.join(name) } else { shared.clone() };
            let makes = new.is_some() && !is_tree;
            ends.push(Ends::find(operation, source, Some(into.into()), makes, telling)?);
        }
        if ends.is_empty() {
            return Err(Trouble::usage(
                "the sources are wrapped keys, and nothing else is there; if they are files of age, \
                 give --format age",
            ));
        }
        let keys = keys.into_iter().map(PathBuf::from).collect();
        let route = Route { ends, shared: Some(shared), new, keys };
        route.refuse_replacing(operation, names)?;
        Ok(route)
    }

    /// The wrapped keys among the sources, which open the others.
    pub(crate) fn keys(&self) -> &[PathBuf] {
        &self.keys
    }

    /// The only source, or the first of several.
    pub(crate) fn first(&self) -> &Ends {
        &self.ends[0]
    }

    /// Returns whether there is a tree, or several sources.
    pub(crate) fn has_many_files(&self) -> bool {
        self.shared.is_some() || self.has_tree()
    }

    /// Returns a directory of the only source's own name in its target, and the source, if the
    /// source itself holds nothing of that name. A run with several sources, this one among them,
    /// made that directory.
    pub(crate) fn held_before(&self) -> Option<(PathBuf, &Path)> {
        let Ends { source: Place::Path(source), target: Some(Place::Path(target)), .. } =
            self.first()
        else {
            return None;
        };
        let name = source.file_name().filter(|_| self.shared.is_none())?;
        let held = target.join(name);
        let is_own = fs::symlink_metadata(source.join(name)).is_ok();
        (held.is_dir() && !is_own).then_some((held, &**source))
    }

    /// The directory into which sources go under their own names, for the options of their run.
    pub(crate) fn shared_target(&self) -> Option<SharedTarget> {
        let mut target = SharedTarget::default();
        self.sources().for_each(|source| target.sources.add(source));
        self.shared.is_some().then_some(target)
    }

    /// Refuses outputs that could replace a source before it is read, as those of `* ./` would.
    fn refuse_replacing(&self, operation: Operation, names: &SealedNames) -> Result<(), Trouble> {
        let with_those_above = |source| with_those_above(source).into_iter().zip(repeat(source));
        let sources: HashMap<_, _> = self.sources().flat_map(with_those_above).collect();
        // A link in an output's place is neither followed nor replaced.
        let source_at = |output: &Path| {
            let there = fs::symlink_metadata(output).ok()?;
            sources.get(&identity(&there))
        };
        for Ends { source, target, source_is_tree, .. } in &self.ends {
            let (Place::Path(source), Some(Place::Path(target))) = (source, target) else {
                continue;
            };
            let refused = match output_of(operation, source, names) {
                _ if *source_is_tree => source_at(target)
                    .map(|other| (target, Refusal::AroundSource(shown(other).to_string()))),
                Some(output) => source_at(&target.join(&output)).map(|_| {
                    (source, Refusal::ReplacesSource(shown(Path::new(&output)).to_string()))
                }),
                None => None,
            };
            if let Some((path, refusal)) = refused {
                return Err(Failure { path: path.clone(), error: refusal.into() }.into());
            }
        }
        Ok(())
    }

    fn sources(&self) -> impl Iterator<Item = &Path> {
        self.ends.iter().filter_map(|ends| match &ends.source {
            Place::Path(path) => Some(&**path),
            Place::Pipe | Place::Objects(_) => None,
        })
    }

    /// The targets that are paths.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Path> {
        self.ends.iter().filter_map(|ends| match &ends.target {
            Some(Place::Path(path)) => Some(&**path),
            _ => None,
        })
    }

    /// Returns whether outputs get names that follow from those of their sources.
    pub(crate) fn has_suffixes(&self) -> bool {
        if self.ends.iter().any(Ends::has_objects) {
            return true;
        }
        let goes_into = |target: &Path| self.new.is_some() || target.is_dir();
        let into_directory =
            || matches!(&self.first().target, Some(Place::Path(target)) if goes_into(target));
        self.has_many_files() || into_directory()
    }

    /// Returns whether one of the sources is a tree.
    pub(crate) fn has_tree(&self) -> bool {
        self.ends.iter().any(|ends| ends.source_is_tree)
    }

    /// The total of all sources, if they are files.
    pub(crate) fn length(&self) -> Option<Total> {
        let bytes = self.ends.iter().map(|ends| ends.length).sum::<Option<u64>>()?;
        Some(Total { files: self.ends.len() as u64, bytes })
    }

    /// The place for a wrapped key; a pipe has none.
    pub(crate) fn key_place(
        &self,
        names: &SealedNames,
        stores: &Stores,
    ) -> Result<Option<KeyPlace>, Trouble> {
        match &self.first().target {
            Some(Place::Objects(prefix)) => {
                let sealed = self.sealed_name(names);
                let sealed = sealed.as_deref().map(|name| name.to_str().unwrap_or_default());
                KeyPlace::in_store(stores.open(prefix)?, prefix, sealed).map(Some)
            }
            _ => Ok(self.local_key_place(names)),
        }
    }

    fn local_key_place(&self, names: &SealedNames) -> Option<KeyPlace> {
        if let Some(shared) = &self.shared {
            return Some(KeyPlace::in_tree(shared));
        }
        let ends = self.first();
        let Some(Place::Path(target)) = &ends.target else { return None };
        if ends.source_is_tree {
            return Some(KeyPlace::in_tree(target));
        }
        if takes_a_stream(target) {
            return None;
        }
        match self.sealed_name(names) {
            // A file goes into a directory under its own name.
            Some(sealed) if self.new.is_some() || target.is_dir() => {
                Some(KeyPlace::beside(&target.join(sealed)))
            }
            _ => Some(KeyPlace::beside(target)),
        }
    }

    /// The name of a single file's encrypted output.
    fn sealed_name(&self, names: &SealedNames) -> Option<OsString> {
        let Ends { source: Place::Path(source), source_is_tree: false, .. } = self.first() else {
            return None;
        };
        Some(names.seal(source.file_name()?))
    }

    /// Makes the directory that the sources need, if it does not exist.
    pub(crate) fn make_directory(&self) -> Result<(), Trouble> {
        let Some(new) = &self.new else { return Ok(()) };
        match fs::create_dir(new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && new.is_dir() => Ok(()),
            made => made.map_err(|cause| cant_make(new, cause)),
        }
    }

    /// Removes that directory again if it is empty.
    pub(crate) fn remove_empty_directory(&self) {
        // The system refuses to remove a directory that is not empty.
        let _ = self.new.as_ref().map(fs::remove_dir);
    }

    /// Prepares a dry run: sources for a directory that is yet to be made have no target, and find
    /// nothing in their way.
    pub(crate) fn only_plan(&mut self) -> Result<(), Trouble> {
        let Some(new) = self.new.take() else { return Ok(()) };
        let access = Access::WRITE_OK | Access::EXEC_OK;
        accessat(CWD, directory_of(&new), access, AtFlags::EACCESS)
            .map_err(|errno| cant_make(&new, errno.into()))?;
        self.ends.iter_mut().for_each(|ends| ends.target = None);
        Ok(())
    }

    /// Treats files as streams, as base64 requires.
    pub(crate) fn take_as_streams(&mut self, option: &str) -> Result<(), Trouble> {
        self.ends.iter_mut().try_for_each(|ends| ends.take_as_stream(option))
    }

    /// Shows the output on a terminal only as far as it is text.
    pub(crate) fn show_only_text(&mut self) {
        self.ends.iter_mut().for_each(|ends| ends.only_text = true);
    }

    /// Reads the wrapped key at the head of each source that has one: see [`Ends::take_head`].
    pub(crate) fn take_heads(&mut self, is_wanted: bool) -> Result<Vec<Option<Head>>, Trouble> {
        self.ends.iter_mut().map(|ends| ends.take_head(is_wanted)).collect()
    }

    /// Finds the keys that open all sources, which have these heads.
    pub(crate) fn opening(
        &self,
        keys: &OpeningKeys,
        heads: &[Option<Head>],
        intent: Intent,
        with: (&Stores, &Keyholder<'_>),
    ) -> Result<KeyRing, Trouble> {
        let open = |ends: &Ends, head: &Option<Head>| {
            opening(keys, &ends.source, head.as_ref(), intent, with)
        };
        let mut each = self.ends.iter().zip(heads);
        let Some((first, head)) = each.next() else { return Err(Trouble::usage("no source")) };
        let mut ring = open(first, head)?;
        // Named keys are the same for all sources.
        if keys.name_a_key() || matches!(keys.format, Some(Format::Age | Format::Openssl)) {
            return Ok(ring);
        }
        let mut seen = HashSet::new();
        if head.is_none() {
            seen.insert(place_of_key(&first.source));
        }
        for (ends, head) in each {
            // Opening a key can take a second.
            if head.is_some() || seen.insert(place_of_key(&ends.source)) {
                let other = open(ends, head)?;
                // The same identities open all age files.
                if !ring.recipes().any(is_age) || !is_age(other.primary()) {
                    ring = ring.joined_by(other);
                }
            }
        }
        Ok(ring)
    }
}

fn is_age(recipe: &Recipe) -> bool {
    matches!(recipe, Recipe::Age(_))
}

/// Joins the reports of all sources. If one of several could not begin, that is among the failures.
/// No further source is begun after an interruption or, for a pipe, a failure.
pub(crate) fn do_each<'r>(
    operation: Operation,
    route: &'r Route,
    do_one: impl Fn(&'r Ends) -> Result<Report, Failure>,
) -> Result<Report, Failure> {
    if let [ends] = &*route.ends {
        return do_one(ends);
    }
    let mut whole = Report::default();
    operation.name().clone_into(&mut whole.operation);
    for ends in &route.ends {
        match do_one(ends) {
            Ok(report) => whole.absorb(report),
            Err(failure) => whole.failures.push(failure),
        }
        // Nothing may follow a gap in a pipe.
        let has_gap = ends.target == Some(Place::Pipe) && !whole.failures.is_empty();
        if whole.interrupted || has_gap {
            break;
        }
    }
    Ok(whole)
}

/// The name of a single file's output in a directory; `None` if it has none.
fn output_of(operation: Operation, source: &Path, names: &SealedNames) -> Option<OsString> {
    let name = source.file_name()?;
    match operation {
        Operation::Encrypt => Some(names.seal(name)),
        Operation::Decrypt | Operation::Verify => names.open(name).ok(),
    }
}

/// The directory that several sources go to.
fn shared_directory(
    operation: Operation,
    sources: &[OsString],
    target: &OsStr,
) -> Result<PathBuf, Trouble> {
    let path = Path::new(target);
    if Place::of_target(target.to_owned()) == Place::Pipe {
        return Err(Trouble::usage("several sources go to a directory, not to a pipe"));
    }
    let slash = if ends_in_slash(target) { "" } else { "/" };
    if operation == Operation::Decrypt && !slash.is_empty() {
        let first = sources.first().map_or(Path::new("SRC"), Path::new);
        let second = sources.get(1).map_or(Path::new("DST"), Path::new);
        let (first, second, last) = (shown(first), shown(second), shown(path));
        return Err(Trouble::Usage(format!(
            "it is not clear where this goes: to decrypt several sources into the directory \
             {last}, write `{last}/`; to decrypt only {last} of {first} into {second}, write \
             `{first} {second} --only {last}`"
        )));
    }
    if path.is_dir() || directory_to_make(target).is_some() {
        return Ok(path.to_owned());
    }
    let is_there = fs::symlink_metadata(path.components().as_path());
    let path = shown(path);
    Err(Trouble::Usage(match is_there {
        Ok(_) => format!("{path}: several sources go to a directory, and this is none"),
        Err(_) => format!(
            "{path}: several sources go to a directory, and there is none of this name; write \
             `{path}{slash}` to have it made"
        ),
    }))
}

/// The directory to make, if the target names one that does not exist: a slash at its end says so.
fn directory_to_make(target: &OsStr) -> Option<PathBuf> {
    let path = Path::new(target);
    let is_there = fs::symlink_metadata(path.components().as_path()).is_ok();
    (ends_in_slash(target) && !is_there).then(|| path.to_owned())
}

fn ends_in_slash(target: &OsStr) -> bool {
    target.as_bytes().ends_with(b"/")
}

fn cant_make(path: &Path, cause: io::Error) -> Trouble {
    Trouble::File { action: "make", path: path.to_owned(), cause }
}

/// The names of several sources, plain and sealed: no two sources may share either.
#[derive(Default)]
struct Names {
    plain: HashSet<OsString>,
    sealed: HashSet<OsString>,
}

impl Names {
    fn add(
        &mut self,
        operation: Operation,
        source: &Path,
        name: &OsStr,
        is_tree: bool,
        names: &SealedNames,
    ) -> Result<(), Trouble> {
        let plain = if is_tree { name.into() } else { names.plain(operation, name) };
        let sealed = match operation {
            Operation::Encrypt if !is_tree => names.seal(name),
            _ => name.to_owned(),
        };
        if self.plain.insert(plain.into_owned()) & self.sealed.insert(sealed) {
            return Ok(());
        }
        Err(Trouble::Usage(format!(
            "{}: another source has this name, and one would take the other's place; give them \
             one by one, each with a DST of its own",
            shown(source)
        )))
    }
}

/// Returns a path that is equal for two sources whose keys are found in one place.
fn place_of_key(source: &Place) -> PathBuf {
    let Place::Path(path) = source else { return PathBuf::new() };
    let own = path.with_file_name(wrapped_key_name(path.file_name(), 1));
    match path.is_dir() || own.exists() {
        true => path.clone(),
        false => directory_of(path).to_owned(),
    }
}
