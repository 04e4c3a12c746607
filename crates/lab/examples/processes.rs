//! `evener bench processes` by itself.

use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    command: evener_lab::processes::Command,
}

fn main() {
    if let Err(error) = Line::parse().command.run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
