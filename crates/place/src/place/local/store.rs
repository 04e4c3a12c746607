//! Writing a local tree.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;
use rustix::fs::{AtFlags, FileType, Stat, fstat, fsync, symlinkat, syncfs, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::nearby::Use;
use super::spellings::Spellings;
use super::{Local, Rules, fault, fault_of_output, leads_nowhere};
use crate::exposure::refuse_exposed;
use crate::identity::Identity;
use crate::naming::{kind_of_name, refuse_special};
use crate::place::{
    Abilities, Draft, Entry, Fault, Kind, Metadata, Name, NewObject, Origin, Store, Tree,
};
use crate::temporary::{refuse_temporary, sweep, symlink_over};
use crate::tree::{Attempt, Link, Made, TreeOutput, finish_new_directory, refuse_no_link};
use crate::{FileError, Refusal};
use evener_seal::Draft as _;

impl Store for Local {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK.with_metadata()
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        match self.look_for(name) {
            Err(error) if leads_nowhere(&error) => Ok(None),
            found => found.map_err(|error| fault(error, name)),
        }
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        let begun = self.begin_file(object).map_err(|error| fault_of_output(error, object.name))?;
        Ok(Box::new(begun))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        Some(self)
    }

    fn sync(&self) -> Result<(), Fault> {
        let written = self.written.lock().ignore_poison();
        let synced = written.iter().try_for_each(|directory| syncfs(&**directory));
        synced.map_err(|errno| fault(FileError::system("sync it")(errno), &Name::root()))
    }

    fn tree(&self) -> Option<&dyn Tree> {
        Some(self)
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.remove_entry(name).map_err(|error| match leads_nowhere(&error) {
            true => Fault::Missing(name.clone()),
            false => fault(error, name),
        })
    }

    fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        for rules in &self.rules {
            notices.extend(rules.metadata.unkept.notices());
            notices.extend(rules.outputs.iter().flat_map(|it| it.notices()).map(str::to_owned));
        }
        notices.sort();
        notices.dedup();
        notices
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

impl Tree for Local {
    fn make_directory(&self, directory: &NewObject<'_>) -> Result<bool, Fault> {
        self.make_or_find(directory).map_err(|error| fault(error, directory.name))
    }

    fn symlink(&self, link: &NewObject<'_>, target: &Path) -> Result<(), Fault> {
        self.make_symlink(link, target).map_err(|error| fault(error, link.name))
    }

    fn hard_link(&self, link: &NewObject<'_>, object: &Name) -> Result<(), Fault> {
        self.make_link(link, object).map_err(|error| fault(error, link.name))
    }

    fn settle(&self, directory: &NewObject<'_>, is_new: bool) -> Result<bool, Fault> {
        self.finish(directory, is_new).map_err(|error| fault(error, directory.name))
    }
}

impl Local {
    fn look_for(&self, name: &Name) -> Result<Option<Entry>, FileError> {
        if name.path().as_os_str().is_empty() {
            let root = self.root(None)?;
            let status = fstat(&**root).map_err(FileError::system("read its status"))?;
            let metadata = self.metadata(&status, None)?;
            return Ok(Some(Entry::of(name.clone(), Kind::Directory, metadata)));
        }
        let (directory, file) = self.parent(name, None, Use::Files)?;
        let found = self.look_at(directory.as_fd(), file, name.clone())?;
        Ok(found.map(|(entry, _)| entry))
    }

    fn begin_file(&self, object: &NewObject<'_>) -> Result<Writing, FileError> {
        let rules = self.rules(object.is_plain);
        let outputs = rules.outputs(object.replaces);
        let (directory, name) = self.parent(object.name, Some(rules), Use::Files)?;
        // In a new directory hardly any name is taken, and `publish` finds out.
        let is_worth_a_look = !directory.is_new || object.longest > LONG;
        if is_worth_a_look
            && !object.replaces
            && Identity::of_name(directory.as_fd(), name)?.is_some()
        {
            return Err(outputs.taken(directory.as_fd(), name));
        }
        let status = rules.status_of_file(object.metadata)?;
        let (how, at) = ((outputs, &rules.metadata), (&directory, name));
        let output = TreeOutput::begin(how, at, &status, rules.leaves_holes)?;
        if rules.is_guarded {
            refuse_exposed(&*output.file, rules.metadata.wanted_mode(&status))?;
        }
        Ok(Writing {
            output,
            directory,
            spellings: self.spellings.clone(),
            rules: rules.clone(),
            metadata: object.metadata.clone(),
            status,
            name: object.name.clone(),
            replaces: object.replaces,
            length: 0,
        })
    }

    fn make_or_find(&self, directory: &NewObject<'_>) -> Result<bool, FileError> {
        let (rules, path) = (self.rules(directory.is_plain), directory.name.path());
        let source = rules.status_of_directory(directory.metadata)?;
        let made = match path.file_name() {
            None => self.make_root(&source, rules)?,
            Some(_) => {
                let (above, name) = self.parent(directory.name, Some(rules), Use::Tree)?;
                let make = || rules.make_directory(&above, name, &source);
                self.spellings().make(&above, path, make)?
            }
        };
        let made = Arc::new(made);
        if made.is_new {
            self.made.lock().ignore_poison().insert(path.to_owned(), made.identity);
        } else {
            sweep(made.as_fd()).map_err(FileError::system("look for old temporary files"))?;
        }
        match path.file_name() {
            None => drop(self.root.set(made.clone())),
            Some(_) => self.open.lock().ignore_poison().keep(path, &made, 0, Use::Tree),
        }
        Ok(made.is_new)
    }

    fn make_symlink(&self, link: &NewObject<'_>, target: &Path) -> Result<(), FileError> {
        let rules = self.rules(link.is_plain);
        let (into, file) = self.parent(link.name, Some(rules), Use::Tree)?;
        let directory = into.as_fd();
        refuse_temporary(file)?;
        let text = text(target.as_os_str())?;
        let system = FileError::system("make the link");
        let make = || match symlinkat(&*text, directory, file) {
            Err(Errno::EXIST) if link.replaces => {
                refuse_no_link(directory, file)?;
                symlink_over(directory, &text, file).map_err(&system)
            }
            Err(Errno::EXIST) => Err(Fault::Exists(link.name.clone()).into()),
            made => made.map_err(&system),
        };
        self.spellings().make(&into, link.name.path(), make)?;
        let status = rules.status_of_file(link.metadata)?;
        if !rules.metadata.apply_to_link(directory, file, &text, &status)? {
            rules.metadata.unkept.link_times.note();
        }
        Ok(())
    }

    fn make_link(&self, link: &NewObject<'_>, object: &Name) -> Result<(), FileError> {
        let rules = self.rules(link.is_plain);
        let (from, existing) = self.parent(object, None, Use::Tree)?;
        let (directory, new) = self.parent(link.name, Some(rules), Use::Tree)?;
        let (from, into) = (from.as_fd(), directory.as_fd());
        let missing = || Fault::Missing(object.clone());
        let output = Identity::of_name(from, existing)?.ok_or_else(missing)?;
        let outputs = rules.outputs(link.replaces);
        let new_link = Link { from, existing, into, output };
        let make = || match new_link.make(new)? {
            Attempt::Made => Ok(None),
            Attempt::Apart(reason) => Ok(Some(reason)),
            Attempt::Gone => Err(Refusal::OutputReplaced.into()),
            Attempt::Taken if Identity::of_name(into, new)? == Some(output) => Ok(None),
            Attempt::Taken if link.replaces => {
                refuse_special(into, new)?;
                outputs.refuse_protected(into, new)?;
                new_link.make_over(new)
            }
            Attempt::Taken => Err(outputs.taken(into, new)),
        };
        let apart = self.spellings().make(&directory, link.name.path(), make)?;
        apart.map_or(Ok(()), |reason| Err(Fault::Refused(reason).into()))
    }

    fn finish(&self, directory: &NewObject<'_>, is_new: bool) -> Result<bool, FileError> {
        let NewObject { name, metadata, .. } = *directory;
        let rules = &**self.rules(directory.is_plain);
        let opened = match name.path().as_os_str().is_empty() {
            true => self.root(None)?.clone(),
            false => self.directory(name.path(), None, Use::Tree)?,
        };
        self.made.lock().ignore_poison().remove(name.path());
        let output = opened.as_fd();
        let there = fstat(output).map_err(FileError::system("read its status"))?;
        let source = rules.status_of_directory(metadata)?;
        if is_new {
            let xattrs = || Ok(rules.xattrs(metadata));
            finish_new_directory(&rules.metadata, xattrs, &source, (output, &there))?;
            return Ok(true);
        }
        // It has the attributes of itself.
        let is_finished = rules.metadata.apply_to_unfinished(output, &source, output)?;
        if is_finished && rules.metadata.xattrs {
            rules.metadata.set_xattrs(&rules.xattrs(metadata), output)?;
        }
        Ok(is_finished)
    }

    fn remove_entry(&self, name: &Name) -> Result<(), FileError> {
        let (directory, file) = self.parent(name, None, Use::Files)?;
        let directory = directory.as_fd();
        let flags = match kind_of_name(directory, file) {
            Some(FileType::Directory) => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        self.rules(false).outputs(true).refuse_protected(directory, file)?;
        unlinkat(directory, file, flags).map_err(FileError::system("remove it"))?;
        self.open.lock().ignore_poison().remove(name.path());
        self.made.lock().ignore_poison().remove(name.path());
        Ok(())
    }
}

fn text(text: &OsStr) -> Result<CString, FileError> {
    let refused = |_| Fault::Refused("a link has no zero bytes".to_owned());
    Ok(CString::new(text.as_bytes()).map_err(refused)?)
}

/// A file that is being written.
struct Writing {
    output: TreeOutput,
    directory: Arc<Made>,
    spellings: Arc<Mutex<Spellings>>,
    rules: Arc<Rules>,
    metadata: Metadata,
    status: Stat,
    name: Name,
    replaces: bool,
    length: u64,
}

impl Draft for Writing {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        self.length = self.length.max(at + bytes.len() as u64);
        let written = self.output.write_at(bytes, at);
        written.map_err(|error| fault(error, &self.name))
    }

    fn publish(self: Box<Self>, rest: &[u8]) -> Result<Option<String>, Fault> {
        if !rest.is_empty() {
            return Err(Fault::Refused("a file takes no parts".to_owned()));
        }
        self.end().map(|()| None).map_err(|error| fault(error, &self.name))
    }
}

impl Writing {
    fn end(&self) -> Result<(), FileError> {
        let TreeOutput { file, created, granted, leaves_holes } = &self.output;
        if *leaves_holes {
            file.set_length(self.length)?;
        }
        let xattrs = || Ok(self.rules.xattrs(&self.metadata));
        let metadata = &self.rules.metadata;
        metadata.apply_with(xattrs, &self.status, file.as_fd().as_fd(), *created, *granted)?;
        if self.replaces && self.rules.syncs {
            sync_file(file.as_fd().as_fd())?;
        }
        let publish = || file.publish(self.rules.outputs(self.replaces));
        // One at a time, unless the file system itself refuses a second one.
        match self.replaces {
            true => {
                let mut spellings = self.spellings.lock().ignore_poison();
                spellings.make(&self.directory, self.name.path(), publish)
            }
            false => publish(),
        }
    }
}

/// Syncs a file, where the file system syncs files.
fn sync_file(file: BorrowedFd<'_>) -> Result<(), FileError> {
    match retry_on_intr(|| fsync(file)) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(FileError::system("sync it")(errno)),
    }
}

/// The length in bytes of an object that is worth a look in any directory.
const LONG: u64 = 1 << 20;
