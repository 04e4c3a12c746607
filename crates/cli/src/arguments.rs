//! What can be typed.

use clap::{Parser, Subcommand};

use crate::commands::{
    Bench, Completions, Decrypt, Encrypt, Engines, Gate, Keygen, List, Man, Simulate, Speed, Verify,
};

/// Encrypts files, trees and pipes with every crypto engine of the machine at once.
#[derive(Parser)]
#[command(name = "evener", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Each command's own help is with its options.
#[derive(Subcommand)]
pub(crate) enum Command {
    Keygen(Keygen),
    Encrypt(Box<Encrypt>),
    Decrypt(Box<Decrypt>),
    Verify(Box<Verify>),
    List(Box<List>),
    Engines(Engines),
    Speed(Box<Speed>),
    Gate(Gate),
    Bench(Bench),
    Simulate(Simulate),
    Completions(Completions),
    Man(Man),
}

impl Command {
    /// Whether the command handles keys of the user's.
    pub(crate) fn holds_keys(&self) -> bool {
        use Command::{Decrypt, Encrypt, Keygen, List, Verify};
        matches!(self, Keygen(_) | Encrypt(_) | Decrypt(_) | Verify(_) | List(_))
    }
}

const AFTER_HELP: &str = "\
Memory: the workers' buffers take 64 MiB by default (--memory), and the whole program stays \
below 256 MiB whatever the size of the files. Opening or making a key that is wrapped with a \
passphrase takes 256 MiB on its own for about a second, before the files are begun.

Exit status: 0 all done; 1 some files could not be done (each is named on standard error, the \
others are done), or none of a tree's files was to be decrypted or verified; 2 wrong usage or key; 130 interrupted.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_two_options_have_one_name() {
        super::Arguments::command().debug_assert();
    }
}
