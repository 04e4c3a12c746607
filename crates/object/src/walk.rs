//! Lists all objects below the prefix, several directories at once.
//!
//! Each directory is listed with all that is below it, a page after another. One that goes on after
//! [`LOOK_AFTER`] pages is *split*, while the store has little to do: it is listed again without what
//! is below its subdirectories, and each of these is listed as a directory of its own. Nothing rests
//! on the order in which a store lists names.

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

use evener_place::Entry;
use evener_seal::{Fault, Name};
use futures_util::future::{Either, join, select};
use opendal::Operator;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::address::{Provider, is_clean};
use crate::listing::{UNCLEAN, entry};
use crate::objects::Objects;
use crate::pager::Listing;

/// All objects below the prefix, in any order. Dropping it ends the listings.
pub(crate) struct Walk<'a> {
    objects: &'a Objects,
    state: State,
}

enum State {
    New,
    Listing(Incoming),
    Over,
}

struct Incoming {
    pages: Receiver<Page>,
    /// The entries of the latest page that are left.
    page: vec::IntoIter<Found>,
    shared: Arc<Shared>,
}

/// An error of a page ends the walk.
type Page = Result<Vec<Found>, Fault>;

/// An error of an entry does not.
type Found = Result<Entry, Fault>;

impl<'a> Walk<'a> {
    pub(crate) fn new(objects: &'a Objects) -> Walk<'a> {
        Walk { objects, state: State::New }
    }

    fn begin(&self) -> Incoming {
        let at_once = self.objects.requests().min(MOST_AT_ONCE);
        let (sender, pages) = channel(PAGES_AHEAD);
        let shared = Arc::new(Shared {
            operator: self.objects.operator().clone(),
            provider: self.objects.address().provider,
            permits: Semaphore::new(at_once),
            at_once,
            under_way: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
        });
        let lists = Lists { shared: shared.clone(), pages: sender };
        self.objects.wait(async move { lists.begin(String::new()) });
        Incoming { pages, page: Vec::new().into_iter(), shared }
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let incoming = match &mut self.state {
                State::New => {
                    self.state = State::Listing(self.begin());
                    continue;
                }
                State::Listing(incoming) => incoming,
                State::Over => return None,
            };
            if let Some(found) = incoming.page.next() {
                return Some(found);
            }
            match self.objects.wait(incoming.pages.recv()) {
                Some(Ok(page)) => incoming.page = page.into_iter(),
                Some(Err(fault)) => {
                    self.state = State::Over;
                    return Some(Err(fault));
                }
                None => {
                    // A listing may have ended without its error, as when its thread panicked.
                    let left = incoming.shared.under_way.load(Ordering::SeqCst);
                    self.state = State::Over;
                    return (left > 0).then(|| Err(Fault::Failed(CUT_SHORT.to_owned())));
                }
            }
        }
    }
}

/// The listings of a walk, for each of its tasks. The walk is over when the last task has dropped it.
#[derive(Clone)]
struct Lists {
    shared: Arc<Shared>,
    pages: Sender<Page>,
}

struct Shared {
    operator: Operator,
    provider: Provider,
    /// One for each request in flight.
    permits: Semaphore,
    /// The number of permits.
    at_once: usize,
    /// The directories that are not listed to their ends.
    under_way: AtomicUsize,
    /// The pages so far.
    pages: AtomicUsize,
    /// How many directories were looked at to split them.
    looks: AtomicUsize,
}

impl Lists {
    /// Begins to list a directory with all that is below it: the root is empty, and others end with a
    /// slash.
    fn begin(&self, directory: String) {
        self.shared.under_way.fetch_add(1, Ordering::SeqCst);
        let lists = self.clone();
        tokio::spawn(async move {
            let listed = async {
                // It is never closed.
                let _permit = lists.shared.permits.acquire().await;
                lists.list(&directory).await
            };
            match select(pin!(listed), pin!(lists.pages.closed())).await {
                Either::Left((Ok(()), _)) => {
                    lists.shared.under_way.fetch_sub(1, Ordering::SeqCst);
                }
                Either::Left((Err(fault), _)) => drop(lists.pages.send(Err(fault)).await),
                Either::Right(_) => {}
            }
        });
    }

    async fn list(&self, directory: &str) -> Result<(), Fault> {
        let mut all = Listing::begin(&self.shared.operator, directory, true).await?;
        let mut first = self.page(&mut all)?;
        if self.may_look() {
            for _ in 1..LOOK_AFTER {
                all.advance().await?;
                first.extend(self.page(&mut all)?);
            }
            all.advance().await?;
            if !all.is_over && self.may_look() {
                self.shared.looks.fetch_add(1, Ordering::SeqCst);
                let mut direct = Listing::begin(&self.shared.operator, directory, false).await?;
                let page = self.page(&mut direct)?;
                if self.is_worth_it(directory, &first, &page, direct.is_over) {
                    drop((all, first));
                    return self.split(directory, direct, page).await;
                }
            }
            self.send_all(first).await?;
            first = self.page(&mut all)?;
        }
        self.go_on(all, first).await
    }

    /// Sends a page and all that follow it.
    async fn go_on(&self, mut all: Listing, mut page: Vec<opendal::Entry>) -> Result<(), Fault> {
        loop {
            let send = self.send_all(page);
            if all.is_over {
                return send.await;
            }
            // A request that has begun must go on: others may wait for its place.
            let (sent, advanced) = join(send, all.advance()).await;
            sent.and(advanced)?;
            page = self.page(&mut all)?;
        }
    }

    /// Sends the objects of a directory, and begins to list its subdirectories.
    async fn split(
        &self,
        directory: &str,
        mut direct: Listing,
        mut page: Vec<opendal::Entry>,
    ) -> Result<(), Fault> {
        loop {
            let (mut found, mut below) = (Vec::new(), Vec::new());
            for it in page {
                match subdirectory(directory, it.path()) {
                    Some(path) if is_listable(path) => below.push(path.to_owned()),
                    Some(path) => {
                        let name = Name::found(PathBuf::from(path));
                        found.push(Err(Fault::Entry { name, reason: UNCLEAN.to_owned() }));
                    }
                    None => found.extend(entry(&it, self.shared.provider).transpose()),
                }
            }
            // Some stores name one that has an object of its own twice.
            below.sort();
            below.dedup();
            // A directory comes before those in it.
            let send = self.send(found);
            if direct.is_over {
                send.await?;
            } else {
                let (sent, advanced) = join(send, direct.advance()).await;
                sent.and(advanced)?;
            }
            for path in below {
                if self.shared.under_way.load(Ordering::SeqCst) < MOST_UNDER_WAY {
                    self.begin(path);
                } else {
                    let mut all = Listing::begin(&self.shared.operator, &path, true).await?;
                    let first = self.page(&mut all)?;
                    self.go_on(all, first).await?;
                }
            }
            if direct.is_over {
                return Ok(());
            }
            page = self.page(&mut direct)?;
        }
    }

    /// Takes a page that is there, and begins the request for the next one.
    fn page(&self, listing: &mut Listing) -> Result<Vec<opendal::Entry>, Fault> {
        self.shared.pages.fetch_add(1, Ordering::SeqCst);
        listing.page()
    }

    async fn send_all(&self, page: Vec<opendal::Entry>) -> Result<(), Fault> {
        let found = page.iter().filter_map(|it| entry(it, self.shared.provider).transpose());
        self.send(found.collect()).await
    }

    async fn send(&self, found: Vec<Found>) -> Result<(), Fault> {
        if found.is_empty() {
            return Ok(());
        }
        // The other end is dropped when nobody listens.
        self.pages.send(Ok(found)).await.map_err(|_| Fault::Failed(CUT_SHORT.to_owned()))
    }

    /// Returns whether to look at a directory that goes on: while there is little to do, and not too
    /// often, because pages are then asked for twice.
    fn may_look(&self) -> bool {
        let Shared { at_once, under_way, pages, looks, .. } = &*self.shared;
        under_way.load(Ordering::SeqCst) < ENOUGH * at_once
            && looks.load(Ordering::SeqCst) < FREE_LOOKS + pages.load(Ordering::SeqCst) / 8
    }

    /// Returns whether to split a directory, of which the first pages are given with and without what
    /// is below its subdirectories. Many small subdirectories would cost a request each.
    fn is_worth_it(
        &self,
        directory: &str,
        all: &[opendal::Entry],
        direct: &[opendal::Entry],
        is_whole: bool,
    ) -> bool {
        let begins = |it: &opendal::Entry| {
            let (name, _) = it.path().strip_prefix(directory)?.split_once('/')?;
            Some(name.to_owned())
        };
        let begun = all.iter().filter_map(begins).collect::<HashSet<_>>().len();
        let number =
            direct.iter().filter(|it| subdirectory(directory, it.path()).is_some()).count();
        begun <= FEW || is_whole && number <= ENOUGH * self.shared.at_once
    }
}

/// The path of a subdirectory in a listing of a directory, which also names that itself.
fn subdirectory<'p>(directory: &str, path: &'p str) -> Option<&'p str> {
    (path.ends_with('/') && path != "/" && path != directory).then_some(path)
}

/// Returns whether the path of a directory reaches the store as it is: what is in others can't be
/// clean either.
fn is_listable(path: &str) -> bool {
    is_clean(&format!("{path}x"))
}

/// The most requests in flight.
const MOST_AT_ONCE: usize = 16;

/// The pages that wait for the consumer.
const PAGES_AHEAD: usize = 8;

/// The pages of a directory after which it is worth a look.
const LOOK_AFTER: usize = 2;

/// The directories at once, for each request in flight, that are enough.
const ENOUGH: usize = 4;

/// The most directories that tasks wait for or work on. Others are listed one after another.
const MOST_UNDER_WAY: usize = 1000;

/// The looks that a walk has at first. It has more after more pages.
const FREE_LOOKS: usize = 8;

/// Subdirectories are few and large if the first pages have no more of them.
const FEW: usize = 8;

const CUT_SHORT: &str = "a listing of the store was cut short; try again";
