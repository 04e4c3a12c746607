//! Examples of every command, for its help and its page of the manual.

/// A line for a shell, and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) does: &'static str,
    pub(crate) line: &'static str,
}

/// The examples of a command, by its path, such as `evener bench tree`.
pub(crate) fn examples(path: &str) -> &'static [Example] {
    find(EXAMPLES, path)
}

/// The examples of a command's options for engines, policies and the gate.
pub(crate) fn engine_examples(path: &str) -> &'static [Example] {
    find(ENGINE_EXAMPLES, path)
}

fn find(table: &[(&str, &'static [Example])], path: &str) -> &'static [Example] {
    let found = table.iter().find(|(command, _)| *command == path);
    found.map_or(&[], |(_, examples)| examples)
}

const fn example(does: &'static str, line: &'static str) -> Example {
    Example { does, line }
}

const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "evener",
        &[
            example("Make a key", "evener keygen -o my.key"),
            example("Encrypt a directory", "evener encrypt -k my.key photos backup"),
            example("Check the encrypted files", "evener verify -k my.key backup"),
            example("Decrypt them", "evener decrypt -k my.key backup restored"),
        ],
    ),
    (
        "evener keygen",
        &[
            example("Make a key file", "evener keygen -o my.key"),
            example(
                "Make a key that only the owner of an age identity can use",
                "evener keygen -R recipients.txt -o wrapped.key",
            ),
            example(
                "Make a key that a passphrase protects",
                "evener keygen --passphrase -o locked.key",
            ),
            example(
                "Make a keyset for programs that use Tink",
                "evener keygen --format tink -o keyset.json",
            ),
        ],
    ),
    (
        "evener encrypt",
        &[
            example("Encrypt a directory", "evener encrypt -k my.key photos backup"),
            example(
                "Continue after an interruption",
                "evener encrypt -k my.key --resume photos backup",
            ),
            example("Encrypt one file", "evener encrypt -k my.key notes.txt notes.txt.enc"),
            example(
                "Encrypt a pipe",
                "tar c photos | evener encrypt -k my.key - - > photos.tar.enc",
            ),
            example(
                "Encrypt for age recipients, without a secret on this machine",
                "evener encrypt -R recipients.txt photos sealed",
            ),
            example("Encrypt with a passphrase", "evener encrypt --passphrase photos locked"),
        ],
    ),
    (
        "evener decrypt",
        &[
            example("Decrypt a directory", "evener decrypt -k my.key backup restored"),
            example("Decrypt one file", "evener decrypt -k my.key notes.txt.enc copy.txt"),
            example("Decrypt a pipe", "evener decrypt -k my.key - - < photos.tar.enc | tar t"),
            example(
                "Decrypt what was encrypted for your age recipient",
                "evener decrypt -i identity.txt sealed opened",
            ),
            example(
                "Decrypt a file of `openssl enc -aes-256-ctr -pbkdf2`",
                "evener decrypt --format openssl --cipher aes-256-ctr --iterations 10000 \\\n        \
                 --passphrase old.enc old.txt",
            ),
        ],
    ),
    (
        "evener verify",
        &[
            example("Check a directory", "evener verify -k my.key backup"),
            example("Check a pipe", "evener verify -k my.key - < photos.tar.enc"),
        ],
    ),
    (
        "evener list",
        &[
            example("Show formats and sizes", "evener list backup"),
            example(
                "Show which files a key opens, for programs",
                "evener list -k my.key --json backup",
            ),
        ],
    ),
    (
        "evener engines",
        &[
            example("Show which engine has which cipher", "evener engines"),
            example("Show depths, batches and test results too", "evener engines -v"),
            example(
                "Measure an engine for the adaptive policy, and keep the result",
                "evener engines --measure --keep --engine openssl --cipher aes-256-gcm",
            ),
        ],
    ),
    (
        "evener speed",
        &[
            example("Measure one cipher on all engines", "evener speed aes-256-gcm"),
            example(
                "Compare two engines on one core",
                "evener speed aes-128-ctr --engine openssl --engine lanes --threads 1",
            ),
            example("Keep the results", "evener speed aes-256-gcm --json > before.json"),
            example(
                "Compare with earlier results",
                "evener speed aes-256-gcm --compare before.json",
            ),
        ],
    ),
    (
        "evener gate",
        &[
            example("Show all gates and their queues", "evener gate"),
            example("Show the gates of a group, for programs", "evener gate --group 100 --json"),
        ],
    ),
    (
        "evener gate reset",
        &[
            example("Remove all of your gates", "evener gate reset"),
            example("Remove the gate of one engine", "evener gate reset af_alg"),
        ],
    ),
    (
        "evener tls",
        &[
            example(
                "Write a configuration of OpenSSL that loads Evener",
                "evener tls config -o evener.cnf",
            ),
            example("Show what Evener does for the programs that use it", "evener tls status"),
        ],
    ),
    (
        "evener tls config",
        &[
            example("Print a configuration", "evener tls config"),
            example(
                "Write one whose programs count their records",
                "evener tls config --counters -o evener.cnf",
            ),
        ],
    ),
    (
        "evener tls check",
        &[example(
            "See whether Evener does the TLS of curl",
            "evener tls check curl https://localhost",
        )],
    ),
    (
        "evener tls status",
        &[
            example("Show the records of each process", "evener tls status"),
            example("The same as JSON", "evener tls status --json"),
        ],
    ),
    (
        "evener bench",
        &[
            example("Compare with cp, age and others", "evener bench tree --tree small"),
            example(
                "Compare with OpenSSL in memory",
                "evener bench messages --cipher aes-256-gcm --bytes 1024",
            ),
        ],
    ),
    (
        "evener bench tree",
        &[
            example(
                "Compare on many small files in memory",
                "evener bench tree --tree small --at /dev/shm",
            ),
            example(
                "Compare only with age, on one large file",
                "evener bench tree --tree large --contender evener --contender age",
            ),
        ],
    ),
    (
        "evener bench messages",
        &[example(
            "Measure messages of 1 KiB on one thread",
            "evener bench messages --cipher aes-256-gcm --bytes 1024 --threads 1",
        )],
    ),
    (
        "evener bench threads",
        &[example(
            "Measure 1, 2 and 4 threads",
            "evener bench threads --cipher aes-128-ctr --threads 1,2,4",
        )],
    ),
    (
        "evener bench processes",
        &[example(
            "Measure up to 64 processes at one engine",
            "evener bench processes --engine af_alg --processes 1,8,64",
        )],
    ),
    (
        "evener bench policies",
        &[example(
            "Compare two policies on CPU and module",
            "evener bench policies --module af_alg --policy adaptive,pull",
        )],
    ),
    (
        "evener bench background",
        &[example(
            "Measure how much a CPU limit leaves to other programs",
            "evener bench background --max-cpu 25,50",
        )],
    ),
    (
        "evener simulate",
        &[
            example("Measure a machine", "evener engines --measure -o machine.json"),
            example(
                "Simulate two policies on that machine with 8 cores",
                "evener simulate machine.json --policy adaptive,pull --cores 8",
            ),
        ],
    ),
    (
        "evener completions",
        &[
            example("Complete in this bash", "source <(evener completions bash)"),
            example(
                "Complete in every bash",
                "evener completions bash > ~/.local/share/bash-completion/completions/evener",
            ),
        ],
    ),
    (
        "evener man",
        &[
            example("Read the manual page", "evener man | man -l -"),
            example("Read the page of a command", "evener man encrypt | man -l -"),
            example("Read the page of a benchmark", "evener man bench-tree | man -l -"),
        ],
    ),
];

const ENGINE_EXAMPLES: &[(&str, &[Example])] = &[
    (
        "evener encrypt",
        &[
            example(
                "Use the CPU and a kernel driver at once",
                "evener encrypt -k my.key --engine cpu --engine af_alg photos backup",
            ),
            example(
                "Recompute every job of a module on OpenSSL",
                "evener encrypt -k my.key --engine cryptodev --verify-engine 1 photos backup",
            ),
            example(
                "Let two processes at a time use the engine",
                "evener encrypt -k my.key --engine cryptodev --permits 2 photos backup",
            ),
        ],
    ),
    (
        "evener decrypt",
        &[
            example(
                "Use the CPU and a kernel driver at once",
                "evener decrypt -k my.key --engine cpu --engine af_alg backup restored",
            ),
            example(
                "Recompute every job of a module on OpenSSL",
                "evener decrypt -k my.key --engine cryptodev --verify-engine 1 backup restored",
            ),
        ],
    ),
    (
        "evener verify",
        &[example(
            "Verify on the reference engine alone",
            "evener verify -k my.key --engine openssl backup",
        )],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::tests::commands;
    use super::super::{Page, program};
    use super::*;

    /// The calls of the program in a line for a shell, as words.
    fn calls(line: &str) -> Vec<Vec<&str>> {
        line.split(['|', '(', ')'])
            .map(|call| {
                let words = call.split_whitespace().filter(|word| *word != "\\");
                words.take_while(|word| !word.starts_with(['<', '>'])).collect::<Vec<_>>()
            })
            .filter(|words| words.first() == Some(&"evener"))
            .collect()
    }

    #[test]
    fn every_command_has_examples_that_can_be_typed() {
        let tables = [EXAMPLES, ENGINE_EXAMPLES].concat();
        for (path, examples) in &tables {
            assert!(!examples.is_empty(), "{path}");
            for Example { line, .. } in *examples {
                let calls = calls(line);
                assert!(!calls.is_empty(), "{path}: {line}");
                for call in calls {
                    let parsed = program(Page::All).try_get_matches_from(&call);
                    assert!(parsed.is_ok(), "{path}: {line}: {}", parsed.unwrap_err());
                }
            }
            let own = examples.iter().any(|example| example.line.contains(path));
            assert!(own, "no example of {path} shows it");
        }
        for (path, _) in commands(&program(Page::All), "evener") {
            assert!(!super::examples(&path).is_empty(), "{path} has no examples");
        }
    }

    #[test]
    fn pages_of_engines_have_examples() {
        for (path, command) in commands(&program(Page::All), "evener") {
            let has_page = command.get_arguments().any(|arg| arg.get_id() == "help-engines");
            assert_eq!(has_page, !engine_examples(&path).is_empty(), "{path}");
        }
    }

    #[test]
    fn nothing_has_examples_that_is_no_command() {
        let known: Vec<_> =
            commands(&program(Page::All), "evener").into_iter().map(|(path, _)| path).collect();
        for (path, _) in EXAMPLES.iter().chain(ENGINE_EXAMPLES) {
            assert!(known.iter().any(|command| command == path), "{path}");
        }
    }
}
