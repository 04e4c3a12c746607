//! `evener list`

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use evener::sealed_trees::Depth;
use evener::{Failure, KeyRing, Listing, Operation, TreeOptions, list, list_place};

use crate::document::print_json;
use crate::ends::Place;
use crate::hints;
use crate::keys::{Intent, Keyholder, is_of_age, opening, recognise};
use crate::objects::Address;
use crate::options::{Choosing, Format, Generations, OpeningKeys, Part, StoreOptions};
use crate::run::EMPTY;
use crate::sealed::list::{entries, generations};
use crate::sealed::{self, Tree, find};
use crate::signals::Signals;
use crate::stores::Stores;
use crate::summary;
use crate::trouble::{Ending, Trouble, complain, refused, shown};

/// Show the formats and sizes of encrypted files
///
/// A `?` marks a format that only the right key can confirm. `wrapped key` is the key of a tree or
/// a file, and `evener-pipe` a pipe that was encrypted with --recipient or --passphrase.
///
/// For a sealed tree, Evener shows the names, sizes and times of the files in it. It needs
/// something that opens the tree: `evener list -i id.txt /backup/photos 2026/`. Sizes are in bytes,
/// and times in UTC.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    keys: OpeningKeys,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    generations: Generations,
    /// Also show modes, owners (user:group) and the names of the encrypted files
    #[arg(long, short, help_heading = "Sealed trees")]
    long: bool,
    /// Show only the entries of the directories that you name, not those below
    #[arg(long, help_heading = "Sealed trees")]
    shallow: bool,
    /// List the generations, newest first
    #[arg(long = "generations", help_heading = "Sealed trees", conflicts_with_all = ["long", "shallow", "paths", "only", "include", "exclude"])]
    all_generations: bool,
    #[command(flatten)]
    stores: StoreOptions,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the list and failures
    #[arg(short, long)]
    quiet: bool,
    /// File or tree to show
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// Files and directories in a sealed tree [default: all]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl List {
    pub(crate) fn perform(mut self, signals: &Signals) -> Result<Ending, Trouble> {
        let stores = Stores::new(&self.stores);
        let address = Stores::address(self.source.as_os_str())?;
        if find(&stores, self.source.as_os_str(), &mut self.generations.trust)? {
            return self.list_sealed(&stores, signals);
        }
        self.refuse_without_sealed()?;
        if let (None, Some(option)) = (&address, self.stores.any()) {
            return Err(Trouble::Usage(format!("{option} is for object stores, and SRC is none")));
        }
        self.keys.complete()?;
        let mut listing = match address {
            Some(address) => {
                recognise(&stores, &mut self.keys, self.source.as_os_str())?;
                self.list_objects(&stores, &address, signals)?
            }
            None => self.list(&stores, signals)?,
        };
        if is_nothing(&listing) {
            let error = refused(format!("nothing was found{EMPTY}"));
            listing.failures.push(Failure { path: self.source.clone(), error });
        }
        if self.json {
            print_json(&listing)?;
        } else {
            print(&listing, &mut io::stdout().lock()).map_err(Trouble::Output)?;
        }
        let lines = summary::notices(&listing.notices, false, "--json");
        for line in lines.iter().filter(|_| !self.quiet) {
            complain(line);
        }
        for failure in &listing.failures {
            complain(&hints::line(failure, hints::Given::default()));
        }
        if listing.left_out > 0 {
            complain(&format_args!("{} left out", listing.left_out));
        }
        // A list that is empty because of a mistake in a glob is not a success.
        let has_mistake = listing.notices.len() as u64 > listing.left_out;
        let has_none = listing.files.is_empty() && has_mistake;
        Ok(match listing.failures.is_empty() && !has_none {
            true => Ending::Done,
            false => Ending::SomeFailed,
        })
    }

    fn list_sealed(mut self, stores: &Stores, signals: &Signals) -> Result<Ending, Trouble> {
        self.keys.complete()?;
        self.choosing.check_sealed(Operation::Verify)?;
        let trust = &self.generations.trust;
        let mut tree =
            Tree::with_keys(&self.source, &self.keys, stores, trust, self.quiet, signals)?;
        self.generations.apply(&mut tree.sealed)?;
        if self.all_generations {
            return generations(&tree, self.json);
        }
        self.part.add(sealed::without_root(self.paths));
        let tree = tree.select(self.choosing, self.part)?;
        let depth = if self.shallow { Depth::One } else { Depth::All };
        entries(&tree, depth, self.long, self.json)
    }

    /// Refuses options and paths that are for sealed trees alone.
    fn refuse_without_sealed(&self) -> Result<(), Trouble> {
        self.generations.refuse()?;
        let given = [
            (self.long, "--long"),
            (self.shallow, "--shallow"),
            (self.all_generations, "--generations"),
            (!self.paths.is_empty(), "a path after SRC"),
        ];
        match given.iter().find(|(given, _)| *given) {
            Some((_, name)) => Err(Trouble::Usage(format!(
                "{name} is for sealed trees, and SRC is none; leave it out (--only chooses a part)"
            ))),
            None => Ok(()),
        }
    }

    fn list(&self, stores: &Stores, signals: &Signals) -> Result<Listing, Trouble> {
        // A missing source is refused later, with the reason.
        let is_other = |found: fs::Metadata| !found.is_file() && !found.is_dir();
        if self.source == Path::new("-") || fs::metadata(&self.source).is_ok_and(is_other) {
            let reason =
                "is a pipe or a device, and list shows files and trees; write it to a file";
            let error = refused(reason);
            return Err(Failure { path: self.source.clone(), error }.into());
        }
        let may_be_tree = fs::metadata(&self.source).map_or(true, |found| found.is_dir());
        self.choosing.check(may_be_tree, may_be_tree)?;
        self.choosing.refuse_to_follow("list shows the files of the tree itself, and no links")?;
        self.part.check(may_be_tree)?;
        let ring = self.ring(&Place::Path(self.source.clone()), stores, signals)?;
        let mut choosing = self.choosing.clone();
        choosing.suffix.of_age = is_of_age(&self.keys, &self.source);
        Ok(list(&self.source, ring.as_ref(), &self.options(choosing)?)?)
    }

    fn list_objects(
        &self,
        stores: &Stores,
        address: &Address,
        signals: &Signals,
    ) -> Result<Listing, Trouble> {
        self.choosing.refuse_to_follow("an object store has no links")?;
        let ring = self.ring(&Place::Objects(address.clone()), stores, signals)?;
        let mut choosing = self.choosing.clone();
        choosing.suffix.of_age = self.keys.format == Some(Format::Age);
        let objects = stores.open(address)?;
        Ok(list_place(&objects, &self.source, ring.as_ref(), &self.options(choosing)?))
    }

    fn options(&self, choosing: Choosing) -> Result<TreeOptions, Trouble> {
        let mut options = TreeOptions::default();
        choosing.apply(&mut options)?;
        self.part.clone().apply(&mut options)?;
        Ok(options)
    }

    fn ring(
        &self,
        source: &Place,
        stores: &Stores,
        signals: &Signals,
    ) -> Result<Option<KeyRing>, Trouble> {
        let OpeningKeys { origins, identities, passphrase, .. } = &self.keys;
        let asks = self.keys.name_a_key();
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let ring = if self.keys.is_empty() {
            if self.keys.context.is_some() {
                return Err(Trouble::usage("--context is of use only with a key"));
            }
            None
        } else {
            Some(opening(&self.keys, source, None, Intent::Decrypt, (stores, &keyholder))?)
        };
        for warning in keyholder.warnings().iter().filter(|_| !self.quiet) {
            complain(&format_args!("warning: {warning}"));
        }
        Ok(ring)
    }
}

/// Returns whether a tree holds nothing.
fn is_nothing(listing: &Listing) -> bool {
    let Listing { files, notices, failures, directories, .. } = listing;
    files.is_empty() && notices.is_empty() && failures.is_empty() && *directories == 1
}

fn print(listing: &Listing, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:>15} {:>15} {:16} name", "bytes", "plain bytes", "format")?;
    for file in &listing.files {
        let plain = file.plain_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let path = shown(&file.path);
        writeln!(out, "{:>15} {plain:>15} {:16} {path}", file.bytes, file.format)?;
    }
    out.flush()
}
