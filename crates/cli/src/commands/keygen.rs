//! `evener keygen`

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use evener::keys::{self, KeyFormat, KeyMaterial};
use zeroize::Zeroizing;

use crate::keys::{Keyholder, wrapping};
use crate::options::{Exposure, PassphraseOptions, Recipients};
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble, complain, shown};
use crate::whole_file;

/// Make a key
///
/// A key file is one line, `evener-key:v1:FORMAT:KEY`, or a Tink keyset in JSON. With --recipient
/// or --passphrase, Evener encrypts it with age; `age -d` decrypts it.
#[derive(Args)]
pub(crate) struct Keygen {
    /// Write the key to this new file, which only you can read [default: standard output]
    ///
    /// Evener never replaces an existing file
    #[arg(short, long, value_name = "KEYFILE")]
    output: Option<PathBuf>,
    /// File format that the key is for
    #[arg(
        long,
        default_value = KeyFormat::default().name(),
        value_parser = PossibleValuesParser::new(KeyFormat::ALL.iter().map(|format| format.name()))
            .try_map(|name| name.parse::<KeyFormat>())
    )]
    format: KeyFormat,
    #[command(flatten)]
    recipients: Recipients,
    #[command(flatten)]
    passphrase: PassphraseOptions,
    #[command(flatten)]
    exposure: Exposure,
    /// Print only failures
    #[arg(short, long)]
    quiet: bool,
}

impl Keygen {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        whole_file::refuse_dash("keygen", self.output.as_deref())?;
        let keyholder = Keyholder::new(signals, None, &self.passphrase, &self.exposure, false)?;
        let wrapping = wrapping(&self.recipients, &keyholder)?;
        if wrapping.is_some() && self.output.is_none() && io::stdout().is_terminal() {
            return Err(Trouble::usage("a wrapped key is not for a terminal; give --output"));
        }
        let material = KeyMaterial::generate(self.format)?;
        let is_plain = wrapping.is_none();
        let contents = match wrapping {
            None => Zeroizing::new(material.to_text().as_bytes().to_vec()),
            Some(wrapping) => Zeroizing::new(wrapping.wrap(&material, &keyholder)?),
        };
        for warning in keyholder.warnings().iter().filter(|_| !self.quiet) {
            complain(&format_args!("warning: {warning}"));
        }
        match &self.output {
            Some(path) => {
                let made = keys::create(path, &contents)?;
                if let Some(notice) = made.naming.notice().filter(|_| !self.quiet) {
                    complain(&format_args!("{}: {notice}", shown(path)));
                }
                if let (Some(mode), true) = (made.exposed, is_plain) {
                    complain(&format_args!(
                        "warning: others may read the key in {}: its file system gives it mode \
                         {mode:04o}; make it elsewhere, mount that for yourself alone (umask=077), \
                         or wrap the key with --passphrase or --recipient; as it is, it is taken \
                         only with --insecure-key-file",
                        shown(path)
                    ));
                }
            }
            None => {
                let mut out = io::stdout().lock();
                out.write_all(&contents).and_then(|()| out.flush()).map_err(Trouble::Output)?;
            }
        }
        Ok(Ending::Done)
    }
}
