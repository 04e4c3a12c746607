//! Takes a listing a page at a time.

use evener_seal::{Fault, Name};
use futures_util::{FutureExt, TryStreamExt};
use opendal::options::ListOptions;
use opendal::{Lister, Operator};

use crate::fault::fault;

/// One listing. A page is an answer of the store.
pub(crate) struct Listing {
    lister: Lister,
    /// The first entry of the next page.
    next: Option<opendal::Entry>,
    pub(crate) is_over: bool,
}

impl Listing {
    /// Lists a directory, with or without what is below its subdirectories, and waits for the first
    /// page.
    pub(crate) async fn begin(
        operator: &Operator,
        directory: &str,
        recursive: bool,
    ) -> Result<Listing, Fault> {
        let options = ListOptions { recursive, ..ListOptions::default() };
        let path = if directory.is_empty() { "/" } else { directory };
        let lister = operator.lister_options(path, options).await.map_err(failed)?;
        let mut listing = Listing { lister, next: None, is_over: false };
        listing.advance().await?;
        Ok(listing)
    }

    /// Waits for the next page.
    pub(crate) async fn advance(&mut self) -> Result<(), Fault> {
        if !self.is_over {
            self.next = self.lister.try_next().await.map_err(failed)?;
            self.is_over = self.next.is_none();
        }
        Ok(())
    }

    /// Takes the page that is there, and begins the request for the next one, which
    /// [`Listing::advance`] goes on with.
    pub(crate) fn page(&mut self) -> Result<Vec<opendal::Entry>, Fault> {
        let mut page = Vec::from_iter(self.next.take());
        while !self.is_over {
            match self.lister.try_next().now_or_never() {
                Some(Ok(Some(found))) => page.push(found),
                Some(Ok(None)) => self.is_over = true,
                Some(Err(error)) => return Err(failed(error)),
                None => break,
            }
        }
        Ok(page)
    }
}

fn failed(error: opendal::Error) -> Fault {
    fault(&error, &Name::root())
}
