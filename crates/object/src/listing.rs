//! Lists the objects below a prefix, one page after another.

use std::path::PathBuf;

use evener_place::{Entry, Kind, Metadata, too_many};
use evener_seal::{Fault, Name};
use futures_util::TryStreamExt;
use opendal::Lister;
use opendal::options::ListOptions;

use crate::address::{Provider, is_clean};
use crate::fault::fault;
use crate::metadata::{metadata, version};
use crate::objects::Objects;

/// All objects below the prefix, in the store's order.
pub(crate) struct InOrder<'a> {
    objects: &'a Objects,
    state: State,
}

enum State {
    New,
    Listing(Lister),
    Over,
}

impl<'a> InOrder<'a> {
    pub(crate) fn new(objects: &'a Objects) -> InOrder<'a> {
        InOrder { objects, state: State::New }
    }

    fn advance(&mut self) -> Result<Option<opendal::Entry>, Fault> {
        if let State::New = self.state {
            self.state = State::Listing(lister(self.objects, "/", true)?);
        }
        let State::Listing(lister) = &mut self.state else { return Ok(None) };
        self.objects.wait(lister.try_next()).map_err(|error| fault(&error, &Name::root()))
    }
}

impl Iterator for InOrder<'_> {
    type Item = Result<Entry, Fault>;

    fn next(&mut self) -> Option<Result<Entry, Fault>> {
        loop {
            match self.advance() {
                Ok(Some(found)) => {
                    if let Some(entry) = entry(&found, self.objects.address().provider).transpose()
                    {
                        return Some(entry);
                    }
                }
                Ok(None) => return None,
                Err(fault) => {
                    self.state = State::Over;
                    return Some(Err(fault));
                }
            }
        }
    }
}

/// The entries directly in a directory, which are at most so many.
pub(crate) fn list(objects: &Objects, directory: &Name, most: usize) -> Result<Vec<Entry>, Fault> {
    let mut entries = Vec::new();
    list_each(objects, directory, &mut |entry| push(&mut entries, entry, directory, most))?;
    Ok(entries)
}

/// Has each entry directly in a directory taken.
pub(crate) fn list_each(
    objects: &Objects,
    directory: &Name,
    take: &mut dyn FnMut(Entry) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let key = match objects.key(directory)? {
        "/" => "/".to_owned(),
        key => format!("{key}/"),
    };
    each(objects, &key, directory, |found| match found.path() == key {
        true => Ok(()),
        false => entry(found, objects.address().provider)?.map_or(Ok(()), &mut *take),
    })
}

/// Lists the objects whose names begin with a text, without those in directories below it.
pub(crate) fn beginning_with(
    objects: &Objects,
    text: &str,
    most: usize,
) -> Result<Vec<Entry>, Fault> {
    let (mut entries, root) = (Vec::new(), Name::root());
    each(objects, text, &root, |found| {
        match entry(found, objects.address().provider)?.filter(|it| it.kind == Kind::Object) {
            Some(entry) => push(&mut entries, entry, &root, most),
            None => Ok(()),
        }
    })?;
    Ok(entries)
}

fn push(
    entries: &mut Vec<Entry>,
    entry: Entry,
    directory: &Name,
    most: usize,
) -> Result<(), Fault> {
    entries.push(entry);
    if entries.len() > most { Err(too_many(directory, most)) } else { Ok(()) }
}

fn each(
    objects: &Objects,
    key: &str,
    directory: &Name,
    mut take: impl FnMut(&opendal::Entry) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut lister = lister(objects, key, false)?;
    let mut next = || objects.wait(lister.try_next()).map_err(|error| fault(&error, directory));
    while let Some(found) = next()? {
        take(&found)?;
    }
    Ok(())
}

fn lister(objects: &Objects, key: &str, recursive: bool) -> Result<Lister, Fault> {
    let options = ListOptions { recursive, ..ListOptions::default() };
    let lister = objects.wait(objects.operator().lister_options(key, options));
    lister.map_err(|error| fault(&error, &Name::root()))
}

/// `None` is the prefix itself.
pub(crate) fn entry(found: &opendal::Entry, provider: Provider) -> Result<Option<Entry>, Fault> {
    let path = found.path();
    let (key, is_directory) = match path.strip_suffix('/') {
        Some(directory) => (directory, true),
        None => (path, false),
    };
    if key.is_empty() {
        return Ok(None);
    }
    let name = Name::found(PathBuf::from(key));
    if !is_clean(key) {
        return Err(Fault::Entry { name, reason: UNCLEAN.to_owned() });
    }
    if is_directory && found.metadata().content_length() > 0 {
        return Err(Fault::Entry { name, reason: WITH_CONTENT.to_owned() });
    }
    if is_directory {
        return Ok(Some(Entry::of(name, Kind::Directory, Metadata::default())));
    }
    let mut entry = Entry::new(name, Some(found.metadata().content_length()));
    entry.metadata = metadata(found.metadata());
    entry.version = version(found.metadata(), provider);
    Ok(Some(entry))
}

const WITH_CONTENT: &str = "its name ends with `/` and it has content, which no directory has, so it was not \
                            taken; give it another name";

pub(crate) const UNCLEAN: &str = "a part of this name is empty, `.` or `..`, or it has a control character, U+FFFE, \
     U+FFFF, or white space at an end, and Evener takes no such objects";
