//! Asks a store whether it keeps the promise that create-only requests rest on.
//!
//! Some servers take `If-None-Match` and ignore it: two writers would replace each other's objects.

use std::sync::Mutex;

use evener_core::IgnorePoison;
use evener_seal::Fault;
use opendal::options::WriteOptions;
use opendal::{Buffer, ErrorKind};

use crate::fault::text;
use crate::objects::Objects;
use crate::transport::INSISTS;

/// The answers of a store to probes, each asked at most once.
#[derive(Default)]
pub(crate) struct Probe {
    whole: Mutex<Option<Result<(), Fault>>>,
    parts: Mutex<Option<Result<(), Fault>>>,
}

impl Probe {
    /// Returns when a second object under one name is refused.
    pub(crate) fn whole(&self, objects: &Objects) -> Result<(), Fault> {
        let mut asked = self.whole.lock().ignore_poison();
        asked.get_or_insert_with(|| ask(objects, false)).clone()
    }

    /// The same for an object of several parts.
    pub(crate) fn parts(&self, objects: &Objects) -> Result<(), Fault> {
        let mut asked = self.parts.lock().ignore_poison();
        asked.get_or_insert_with(|| ask(objects, true)).clone()
    }
}

fn ask(objects: &Objects, in_parts: bool) -> Result<(), Fault> {
    // Runs take such names for those of unfinished files.
    let name = format!(".evener-{}.part", &token()?[..16]);
    let failed = |error: opendal::Error| Fault::Failed(text(&error));
    objects.wait(async {
        let operator = objects.operator();
        let options = WriteOptions { if_not_exists: true, ..WriteOptions::default() };
        match operator.write_options(&name, Buffer::new(), options.clone()).await {
            // Nobody else has this name: the answer to an earlier attempt was lost.
            Err(error) if !is_refusal(error.kind()) => return Err(failed(error)),
            _ => {}
        }
        let second = match in_parts {
            false => operator.write_options(&name, Buffer::new(), options).await.map(|_| ()),
            true => in_two_parts(objects, &name, options).await,
        };
        // Where nothing may be removed, an empty object stays.
        let _ = operator.delete(&name).await;
        match second {
            Ok(()) => Err(Fault::Refused(IGNORED.to_owned())),
            Err(error) if is_refusal(error.kind()) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    })
}

/// Stores want at least 5 MiB in a part that is not the last.
async fn in_two_parts(objects: &Objects, name: &str, options: WriteOptions) -> opendal::Result<()> {
    let mut writer = objects.operator().writer_options(name, options).await?;
    let written = async {
        writer.write(Buffer::from(vec![0; 5 << 20])).await?;
        writer.write(Buffer::from(vec![0])).await?;
        writer.close().await
    };
    match written.await {
        Ok(_) => Ok(()),
        Err(error) => {
            let _ = INSISTS.scope((), writer.abort()).await;
            Err(error)
        }
    }
}

/// A condition that did not hold.
pub(crate) fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConditionNotMatch | ErrorKind::AlreadyExists | ErrorKind::Conflict)
}

/// Sixteen random bytes, in hexadecimal.
pub(crate) fn token() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Fault::Failed(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

const IGNORED: &str = "the store ignores conditions: it replaced an object that was to be created \
     only if there was none, so writers would replace each other's objects; --overwrite accepts this \
     for plain files, but not for wrapped keys and sealed trees";
