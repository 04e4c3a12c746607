//! Pages of the manual, in the format of man(7).

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::help::Example;

/// The page of a command, with its examples and further sections (a heading and a text each).
///
/// # Errors
/// When it can't be made.
pub fn page(
    command: Command,
    title: &str,
    examples: &[Example],
    sections: &[(&str, &str)],
) -> io::Result<Vec<u8>> {
    // Options that short help leaves out would have no text. `help` has no page of its own.
    let command = command.mut_args(|arg| arg.hide_short_help(false));
    let mut command = command.mut_subcommands(|below| match below.get_name() {
        "help" => below.hide(true),
        _ => below,
    });
    let usage = command.render_usage().to_string();
    let has_commands = command.has_subcommands();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    let page = Man::new(command.override_usage(usage))
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
    example_section(examples).to_writer(&mut text)?;
    for (heading, section) in sections {
        let mut roff = Roff::new();
        roff.control("SH", [*heading]);
        roff.text([roman(*section)]);
        roff.to_writer(&mut text)?;
    }
    Ok(text)
}

/// Finds the command for a page's name, in which `-` separates a command from its subcommand.
pub fn find(program: &Command, name: &str) -> Option<Command> {
    let found = name.split('-').try_fold(program, |command, name| command.find_subcommand(name));
    found.cloned()
}

fn example_section(examples: &[Example]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for Example { does, line } in examples {
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
