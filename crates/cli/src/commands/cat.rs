//! `evener cat`

use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use evener::program::commands_terminals;
use evener::{
    Failure, FileError, Operation, RandomAccess, Refusal, Report, SealedNames, Selection,
    is_wrapped_key,
};
use evener_cli::streams;
use zeroize::Zeroizing;

use crate::ends::{Ends, Place};
use crate::hints::Given;
use crate::keys::{Intent, Keyholder, is_of_age, opening, recognise};
use crate::objects::Address;
use crate::options::{
    EngineOptions, Format, Generations, OpeningKeys, StoreOptions, Suffix, Telling, values,
};
use crate::plan::{self, Plan};
use crate::route::Route;
use crate::run::{ending, run};
use crate::sealed::{self, find};
use crate::signals::Signals;
use crate::stores::Stores;
use crate::summary;
use crate::trouble::{Ending, Trouble, complain, refused, shown};

/// Print the content of encrypted files
///
/// SRC is an encrypted file, a device, a FIFO, or `-` for standard input; Evener prints several in
/// the order given. If the first name is an encrypted TREE, the others are files in it, under the
/// names that they had before encryption: `evener cat -k my.key backup letters/one.txt`.
///
/// Evener prints only authenticated bytes, and stops at the first file that fails.
///
/// --identity and --passphrase find wrapped keys as in `evener decrypt`. The key of a tree opens
/// all files in it.
#[derive(Args)]
#[command(override_usage = "evener cat [OPTIONS] <SRC>...\n       \
                            evener cat [OPTIONS] <TREE> <PATH>...")]
pub(crate) struct Cat {
    #[command(flatten)]
    keys: OpeningKeys,
    #[command(flatten)]
    suffix: Suffix,
    #[command(flatten)]
    extent: Extent,
    /// Show plaintext on a terminal even if it is binary
    #[arg(long, help_heading = "Outputs")]
    force: bool,
    #[command(flatten)]
    generations: Generations,
    #[command(flatten)]
    stores: StoreOptions,
    #[command(flatten)]
    pub(crate) engines: EngineOptions,
    /// Print only the content and failures
    #[arg(short, long, help_heading = "Messages")]
    quiet: bool,
    /// Encrypted files, or a tree and files in it, by their names before encryption
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    paths: Vec<OsString>,
}

/// Options that choose a part of a file.
#[derive(Args, Clone, Copy, Debug)]
struct Extent {
    /// Start at this byte of the content, counted from 0
    ///
    /// Evener reads only the chunks that hold the bytes, and the last one, which shows that the
    /// file is whole. The option is for one file, not in base64 or armour. N may have a suffix:
    /// 64K, 1M or 1G
    #[arg(long, value_name = "N", value_parser = values::bytes, allow_negative_numbers = true)]
    offset: Option<u64>,
    /// Print at most this many bytes [default: all to the end]
    ///
    /// See --offset
    #[arg(long, value_name = "N", value_parser = values::bytes, allow_negative_numbers = true)]
    count: Option<u64>,
}

impl Cat {
    pub(crate) fn perform(mut self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = Telling { quiet: true, ..Telling::default() };
        let stores = Stores::new(&self.stores);
        let address = Stores::address(&self.paths[0])?;
        if find(&stores, &self.paths[0], &mut self.generations.trust)? {
            streams::keep_output();
            signals.tell_before_work(Vec::new(), b"evener: interrupted\n".to_vec());
            return self.print_sealed(&stores, signals, &telling);
        }
        self.generations.refuse()?;
        if let Some(address) = address {
            streams::keep_output();
            signals.tell_before_work(Vec::new(), b"evener: interrupted\n".to_vec());
            return self.print_objects(&stores, &address, signals, &telling);
        }
        if let Some(option) = self.stores.any() {
            return Err(Trouble::Usage(format!("{option} is for object stores, and SRC is none")));
        }
        if self.extent.is_given() {
            streams::keep_output();
            signals.tell_before_work(Vec::new(), b"evener: interrupted\n".to_vec());
            let extent = self.extent;
            return extent.print(&self.plan(signals, &telling)?, &telling);
        }
        run(Operation::Decrypt, &telling, signals, || self.plan(signals, &telling))
    }

    /// Prints files of a sealed tree.
    fn print_sealed(
        mut self,
        stores: &Stores,
        signals: &Signals,
        telling: &Telling,
    ) -> Result<Ending, Trouble> {
        let tree = PathBuf::from(&self.paths[0]);
        if self.paths.len() == 1 {
            let tree = shown(&tree);
            return Err(Trouble::Usage(format!(
                "{tree} is a sealed tree; name files in it too: `evener cat {tree} PATH...`"
            )));
        }
        self.suffix.check_sealed()?;
        self.keys.complete()?;
        let members = Selection::default().only(&self.paths[1..]);
        let members = members.map_err(|error| Trouble::Usage(error.to_string()))?;
        if self.extent.is_given() && members.paths().len() > 1 {
            return Err(Trouble::usage(FOR_ONE));
        }
        let known = (&*tree, self.generations.trust.allow_rollback);
        let (mut options, ring, mut warnings) = sealed::open(&self.keys, stores, known, signals)?;
        self.generations.apply(&mut options)?;
        let evener = self.engines.evener(ring, telling, signals)?;
        warnings.extend(plan::warnings(Operation::Decrypt, &evener, false));
        for warning in warnings.iter().filter(|_| !self.quiet) {
            complain(&format_args!("warning: {warning}"));
        }
        let place = stores.place(&tree, &evener)?;
        let (files, read) = evener.open_in_tree(&place, &options, members.paths())?;
        for line in summary::of_read(&read).iter().filter(|_| !self.quiet) {
            complain(line);
        }
        let only_text = streams::output().is_terminal() && !self.force;
        for (file, path) in files.iter().zip(members.paths()) {
            let fail = |error| Failure { path: tree.join(path), error };
            let copied = self.extent.copy(file, only_text, |error| fail(error).into());
            let Err(Trouble::Failure(failure)) = copied else {
                copied?;
                continue;
            };
            return Ok(ended_by(failure, telling));
        }
        Ok(Ending::Done)
    }

    /// Prints objects: one, or those with these plain names below a prefix.
    fn print_objects(
        mut self,
        stores: &Stores,
        address: &Address,
        signals: &Signals,
        telling: &Telling,
    ) -> Result<Ending, Trouble> {
        self.keys.complete()?;
        recognise(stores, &mut self.keys, &self.paths[0])?;
        self.suffix.of_age = self.keys.format == Some(Format::Age);
        let names = self.suffix.names();
        let addresses = match &self.paths[1..] {
            [] => vec![address.clone()],
            members => {
                let members = Selection::default().only(members);
                let members = members.map_err(|error| Trouble::Usage(error.to_string()))?;
                let sealed = members.paths().iter().map(|path| {
                    let file = names.seal(path.file_name().unwrap_or_default());
                    let sealed = path.with_file_name(file);
                    let key = sealed.to_str().ok_or_else(|| Trouble::usage(NO_UTF_8));
                    key.map(|key| address.join(key))
                });
                sealed.collect::<Result<_, _>>()?
            }
        };
        if self.extent.is_given() && addresses.len() > 1 {
            return Err(Trouble::usage(FOR_ONE));
        }
        let OpeningKeys { origins, identities, passphrase, .. } = &self.keys;
        let (asks, exposure) = (self.keys.name_a_key(), &origins.exposure);
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let source = Place::Objects(address.clone());
        let ring = opening(&self.keys, &source, None, Intent::Decrypt, (stores, &keyholder))?;
        let evener = self.engines.evener(ring, telling, signals)?;
        let only_text = streams::output().is_terminal() && !self.force;
        for address in addresses {
            let path = PathBuf::from(address.to_string());
            let fail = |error| Failure { path: path.clone(), error };
            let opened = stores.open_object(&address)?;
            let copied = evener
                .open_blob(opened)
                .map_err(|error| Trouble::from(fail(error)))
                .and_then(|file| self.extent.copy(&file, only_text, |error| fail(error).into()));
            let Err(Trouble::Failure(failure)) = copied else {
                copied?;
                continue;
            };
            return Ok(ended_by(failure, telling));
        }
        Ok(Ending::Done)
    }

    fn plan(mut self, signals: &Signals, telling: &Telling) -> Result<Plan, Trouble> {
        let operation = Operation::Decrypt;
        self.keys.complete()?;
        let tree = Some(PathBuf::from(&self.paths[0])).filter(|path| path.is_dir());
        let sources = self.sources(tree.as_deref())?;
        let find = |source| Ends::find(operation, source, Some("-".into()), false, telling);
        let ends = sources.into_iter().map(find).collect::<Result<Vec<_>, _>>()?;
        ends.iter().try_for_each(|ends| ends.check_stdin(&self.keys.that_read_stdin()))?;
        let mut route = Route::of(ends);
        let armour = self.keys.openssl.armour(self.keys.format);
        if armour.is_some() {
            route.take_as_streams("--base64")?;
        }
        let heads = route.take_heads(tree.is_none() && self.keys.look_for_one())?;
        let OpeningKeys { origins, identities, passphrase, .. } = &self.keys;
        let asks = self.keys.name_a_key();
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let stores = Stores::new(&self.stores);
        let with = (&stores, &keyholder);
        let ring = match tree {
            Some(tree) => opening(&self.keys, &Place::Path(tree), None, Intent::Decrypt, with)?,
            None => route.opening(&self.keys, &heads, Intent::Decrypt, with)?,
        };
        let evener = self.engines.evener(ring, telling, signals)?;
        let mut warnings = plan::warnings(operation, &evener, false);
        warnings.extend(keyholder.warnings());
        for warning in warnings.iter().filter(|_| !self.quiet) {
            complain(&format_args!("warning: {warning}"));
        }
        if streams::output().is_terminal() && !self.force {
            route.show_only_text();
        }
        Plan::new(operation, evener, route, Vec::new(), |options| {
            options.stream.base64 = armour;
            Ok(())
        })
    }

    /// The encrypted files to print: those named, or those in the tree that is named first.
    fn sources(&mut self, tree: Option<&Path>) -> Result<Vec<OsString>, Trouble> {
        let Some(tree) = tree else {
            return match self.paths.iter().map(Path::new).find(|path| path.is_dir()) {
                Some(path) => Err(Trouble::Usage(format!(
                    "{} is a tree; name it first, and then the files in it",
                    shown(path)
                ))),
                None => Ok(std::mem::take(&mut self.paths)),
            };
        };
        if self.paths.len() == 1 {
            let tree = shown(tree);
            return Err(Trouble::Usage(format!(
                "{tree} is a tree; name files in it too: `evener cat {tree} PATH...`"
            )));
        }
        self.suffix.of_age = is_of_age(&self.keys, tree);
        let names = self.suffix.names();
        let members = Selection::default().only(&self.paths[1..]);
        let members = members.map_err(|error| Trouble::Usage(error.to_string()))?;
        members.paths().iter().map(|path| member(tree, path, &names)).collect()
    }
}

/// The encrypted file in a tree whose plain name is `path`.
fn member(tree: &Path, path: &Path, names: &SealedNames) -> Result<OsString, Trouble> {
    let sealed = names.seal(path.file_name().unwrap_or_default());
    let sealed = tree.join(path).with_file_name(sealed);
    let plain = tree.join(path);
    let is_file = fs::symlink_metadata(&sealed).is_ok_and(|found| found.is_file());
    if is_file {
        return match twin(&plain, names) {
            None => Ok(sealed.into()),
            Some(twin) => {
                let [plain, twin] = [path, &twin].map(|it| shown(it).to_string());
                let reason = Refusal::TwoFormats { plain, twin }.to_string();
                Err(Failure { path: sealed, error: refused(reason) }.into())
            }
        };
    }
    let reason = match fs::symlink_metadata(&plain) {
        Ok(found) if found.is_dir() => "is a directory; name the files in it".to_owned(),
        Ok(found) if found.is_symlink() => "is a symbolic link; name the file itself".to_owned(),
        _ => {
            let suffix = shown(names.suffix().as_ref()).to_string();
            let suffix = names.open(path.file_name().unwrap_or_default()).is_ok().then_some(suffix);
            Refusal::NotFound { suffix }.to_string()
        }
    };
    Err(Failure { path: plain, error: refused(reason) }.into())
}

/// The file of the other usual format that is decrypted to this path.
fn twin(plain: &Path, names: &SealedNames) -> Option<PathBuf> {
    let usual = [SealedNames::default(), SealedNames::of_age()];
    let other = usual.iter().find(|it| usual.contains(names) && *it != names)?;
    let twin = plain.with_file_name(other.seal(plain.file_name()?));
    (twin.is_file() && !is_wrapped_key(&twin)).then_some(twin)
}

impl Extent {
    fn is_given(self) -> bool {
        self.offset.is_some() || self.count.is_some()
    }

    /// Prints this part of the only file of a plan.
    fn print(self, plan: &Plan, telling: &Telling) -> Result<Ending, Trouble> {
        let [ends] = &*plan.route.ends else {
            return Err(Trouble::usage(FOR_ONE));
        };
        let path = match &ends.source {
            Place::Path(path) if !ends.source_is_stream => path,
            _ => return Err(Trouble::usage(FROM_BEGINNING)),
        };
        let fail = |error| Failure { path: path.clone(), error };
        let copied = plan
            .evener
            .open_at(path)
            .map_err(Trouble::from)
            .and_then(|file| self.copy(&file, ends.only_text, |error| fail(error).into()));
        let Err(Trouble::Failure(failure)) = copied else { return copied.map(|()| Ending::Done) };
        let mut report = Report::default();
        report.failures.push(failure);
        summary::tell(plan.operation, &report, plan.given, telling);
        Ok(ending(&report))
    }

    /// Writes this part of a file to standard output.
    fn copy(
        self,
        file: &RandomAccess,
        only_text: bool,
        fail: impl Fn(FileError) -> Trouble,
    ) -> Result<(), Trouble> {
        let mut output = streams::output_file().map_err(Trouble::Output)?;
        let mut buffer = Zeroizing::new(vec![0; AT_ONCE]);
        let (mut at, mut left) = (self.offset.unwrap_or(0), self.count.unwrap_or(u64::MAX));
        loop {
            let wanted = left.min(AT_ONCE as u64) as usize;
            let count = file.read_at(&mut buffer[..wanted], at).map_err(&fail)?;
            let bytes = &buffer[..count];
            if only_text && bytes.iter().any(commands_terminals) {
                return Err(fail(FileError::NoText));
            }
            output.write_all(bytes).map_err(Trouble::Output)?;
            if count == 0 {
                return Ok(());
            }
            (at, left) = (at + count as u64, left - count as u64);
        }
    }
}

const NO_UTF_8: &str = "the names of objects are UTF-8, and a PATH is not";

const FOR_ONE: &str = "--offset and --count are for one file, and several are given";

const FROM_BEGINNING: &str = "--offset and --count read parts of a file, and a pipe, a device, base64 \
     and ASCII armour can only be read from their beginning; leave the options out, or name another \
     file";

/// The number of bytes that are written at once.
const AT_ONCE: usize = 1 << 18;

/// Tells of a file that can't be printed, with which the run ends.
fn ended_by(failure: Failure, telling: &Telling) -> Ending {
    let mut report = Report::default();
    report.failures.push(failure);
    summary::tell(Operation::Decrypt, &report, Given::default(), telling);
    ending(&report)
}
