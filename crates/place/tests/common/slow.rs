//! A place whose every call takes long, and which takes ordered parts and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use evener_place::{Abilities, Blob, Draft, Entry, Fault, Memory, Name, NewObject, Origin, Store};

/// The calls of a place, and what they showed.
#[derive(Default)]
pub struct Calls {
    latency: Duration,
    pub made: AtomicU64,
    in_flight: AtomicUsize,
    pub most_in_flight: AtomicUsize,
    /// Drafts that have begun an upload and not ended.
    uploads: AtomicUsize,
    pub most_uploads: AtomicUsize,
    /// One in so many calls fails; 0 for none.
    pub fails: AtomicU64,
}

impl Calls {
    /// One call.
    pub fn call(&self) -> Result<(), Fault> {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
        thread::sleep(self.latency);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let number = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fails.load(Ordering::SeqCst) {
            0 => Ok(()),
            every if number.is_multiple_of(every) => {
                Err(Fault::Failed("the line is down".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Objects that are far away.
pub struct Slow {
    pub near: Memory,
    pub calls: Arc<Calls>,
    pub part: usize,
    pub requests: usize,
}

impl Slow {
    pub fn new(near: Memory, latency: Duration, part: usize) -> Slow {
        let calls = Calls { latency, ..Calls::default() };
        Slow { near, calls: Arc::new(calls), part, requests: 64 }
    }
}

impl Origin for Slow {
    fn abilities(&self) -> Abilities {
        Abilities::slow(self.requests)
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        match self.calls.call() {
            Ok(()) => self.near.walk(),
            Err(fault) => Box::new(std::iter::once(Err(fault))),
        }
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        self.calls.call()?;
        self.near.list(directory)
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.calls.call()?;
        let (blob, _) = self.near.open(name, &mut [])?;
        let read = first.len().min(blob.length() as usize);
        blob.read_at(&mut first[..read], 0)?;
        Ok((Box::new(Far { blob, calls: Arc::clone(&self.calls) }), read))
    }
}

struct Far {
    blob: Box<dyn Blob>,
    calls: Arc<Calls>,
}

impl Blob for Far {
    fn length(&self) -> u64 {
        self.blob.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.calls.call()?;
        self.blob.read_at(buffer, at)
    }

    fn check(&self) -> Result<(), Fault> {
        self.blob.check()
    }
}

impl Store for Slow {
    fn abilities(&self) -> Abilities {
        Abilities::slow(self.requests).in_parts(self.part)
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        self.calls.call()?;
        self.near.look(name)
    }

    /// Costs no call: a short object is put with one, and the first part begins an upload.
    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        let near = self.near.begin(object)?;
        let calls = Arc::clone(&self.calls);
        Ok(Box::new(Upload {
            near: Some(near),
            calls,
            part: self.part,
            parts: 0,
            is_upload: false,
        }))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        Some(self)
    }

    fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.calls.call()?;
        self.near.remove(name)
    }
}

struct Upload {
    near: Option<Box<dyn Draft>>,
    calls: Arc<Calls>,
    part: usize,
    parts: u64,
    /// True if it came in several parts.
    is_upload: bool,
}

impl Upload {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.calls.call()?;
        let at = self.parts * self.part as u64;
        self.parts += 1;
        self.near.as_mut().unwrap().write_at(bytes, at)
    }
}

impl Draft for Upload {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        assert_eq!(bytes.len(), self.part, "a part of another length");
        assert_eq!(at, self.parts * self.part as u64, "a part that is not the next");
        if !std::mem::replace(&mut self.is_upload, true) {
            let uploads = self.calls.uploads.fetch_add(1, Ordering::SeqCst) + 1;
            self.calls.most_uploads.fetch_max(uploads, Ordering::SeqCst);
            self.calls.call()?;
        }
        self.put(bytes)
    }

    fn publish(mut self: Box<Self>, rest: &[u8]) -> Result<Option<String>, Fault> {
        assert!(rest.len() <= self.part && (self.parts == 0 || !rest.is_empty()));
        self.put(rest)?;
        if self.is_upload {
            self.calls.call()?;
        }
        self.near.take().unwrap().publish(&[])
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.calls.uploads.fetch_sub(usize::from(self.is_upload), Ordering::SeqCst);
    }
}
