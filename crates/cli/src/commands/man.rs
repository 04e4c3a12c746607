//! `evener man`

use std::io::{self, Write};

use clap::{Args, Command};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};

use crate::help::{self, EXIT_STATUS, Example, MEMORY, examples, program};
use crate::trouble::{Ending, Trouble};

/// Print a page of the manual
///
/// Read it with `evener man | man -l -`.
#[derive(Args)]
pub(crate) struct Man {
    /// A command, for its own page, such as encrypt or bench-tree [default: evener itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Man {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        let mut program = program(help::Page::All);
        program.build();
        let text = match &self.command {
            None => page(program, "evener"),
            Some(name) => page(find(&program, name)?, &format!("evener-{name}")),
        };
        io::stdout().lock().write_all(&text.map_err(Trouble::Output)?).map_err(Trouble::Output)?;
        Ok(Ending::Done)
    }
}

/// The page of a command, in the format of man(7).
fn page(mut command: Command, title: &str) -> io::Result<Vec<u8>> {
    let path = command.get_bin_name().unwrap_or(title).to_owned();
    let usage = command.render_usage().to_string();
    let is_program = path == "evener";
    let has_commands = command.has_subcommands();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    let page = Page::new(command.override_usage(usage))
        .title(title)
        .source(concat!("evener ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if has_commands {
        page.render_subcommands_section(&mut text)?;
    }
    example_section(&path).to_writer(&mut text)?;
    if is_program {
        section("MEMORY", MEMORY).to_writer(&mut text)?;
        section("EXIT STATUS", EXIT_STATUS).to_writer(&mut text)?;
    }
    Ok(text)
}

/// The examples of a command, and those of its options for engines.
fn example_section(path: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for Example { does, line } in examples(path).iter().chain(help::engine_examples(path)) {
        roff.control("PP", []);
        roff.text([roman(format!("{does}:"))]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        line.lines().for_each(|line| {
            roff.text([roman(line)]);
        });
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff
}

fn section(heading: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    roff.text([roman(text)]);
    roff
}

/// The command of a page's name, in which `-` stands between a command and one below it.
fn find(program: &Command, name: &str) -> Result<Command, Trouble> {
    let found = name.split('-').try_fold(program, |command, name| command.find_subcommand(name));
    found.cloned().ok_or_else(|| Trouble::Usage(format!("there is no command {name}")))
}
