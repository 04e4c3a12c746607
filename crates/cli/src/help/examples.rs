//! Examples of every command, for its help and its page of the manual.

use evener_cli::help::{Example, Table, example, find};

/// The examples of a command, by its path, such as `evener gate reset`.
pub(crate) fn examples(path: &str) -> &'static [Example] {
    find(ALL, path)
}

/// The examples of all commands. Short help shows the first three of each.
pub(super) const ALL: &Table = &[
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
            example("Bring it up to date later", "evener encrypt -k my.key --update photos backup"),
            example(
                "Encrypt for age recipients, without a secret on this machine",
                "evener encrypt -R recipients.txt photos sealed",
            ),
            example(
                "Continue after an interruption",
                "evener encrypt -k my.key --resume photos backup",
            ),
            example(
                "Make a sealed tree, which hides the names, or bring it up to date",
                "evener encrypt --sealed -R recipients.txt photos vault",
            ),
            example("Encrypt one file", "evener encrypt -k my.key notes.txt notes.txt.enc"),
            example(
                "Encrypt a pipe",
                "tar c photos | evener encrypt -k my.key - - > photos.tar.enc",
            ),
            example("Encrypt with a passphrase", "evener encrypt --passphrase photos locked"),
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
            example("Decrypt a directory", "evener decrypt -k my.key backup restored"),
            example("Decrypt a part of it", "evener decrypt -k my.key --only 2026 backup part"),
            example(
                "Decrypt files that were encrypted for your age recipient",
                "evener decrypt -i identity.txt sealed opened",
            ),
            example(
                "Decrypt a part of an earlier generation of a sealed tree",
                "evener decrypt -i identity.txt --generation 1 vault earlier 2026",
            ),
            example("Decrypt one file", "evener decrypt -k my.key notes.txt.enc copy.txt"),
            example("Decrypt a pipe", "evener decrypt -k my.key - - < photos.tar.enc | tar t"),
            example(
                "Use the CPU and a kernel driver at once",
                "evener decrypt -k my.key --engine cpu --engine af_alg backup restored",
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
            example(
                "Check quickly that a sealed tree is complete",
                "evener verify --quick -i identity.txt vault",
            ),
            example("Check a pipe", "evener verify -k my.key - < photos.tar.enc"),
            example(
                "Check on the reference engine alone",
                "evener verify -k my.key --engine openssl backup",
            ),
        ],
    ),
    (
        "evener cat",
        &[
            example("Print a file", "evener cat -k my.key notes.txt.enc"),
            example(
                "Print a file of a tree, and save it",
                "evener cat -k my.key backup 2026/beach.jpg > beach.jpg",
            ),
            example(
                "Print 100 bytes of a file, from byte 1000 on",
                "evener cat -k my.key --offset 1000 --count 100 notes.txt.enc",
            ),
        ],
    ),
    (
        "evener list",
        &[
            example("Show formats and sizes", "evener list backup"),
            example("Show what a sealed tree holds", "evener list -i identity.txt vault 2026"),
            example("Show which files a key opens, as JSON", "evener list -k my.key --json backup"),
        ],
    ),
    (
        "evener diff",
        &[
            example("Compare two generations", "evener diff -i identity.txt vault 1 2"),
            example(
                "Compare the newest generation with the source",
                "evener diff -k my.key vault photos",
            ),
        ],
    ),
    (
        "evener clean",
        &[
            example("Keep ten generations", "evener clean --keep 10 -i identity.txt vault"),
            example(
                "Show what cleaning would remove",
                "evener clean --keep-within 30d --dry-run -i identity.txt vault",
            ),
        ],
    ),
    (
        "evener rewrap",
        &[
            example(
                "Let other recipients open a tree",
                "evener rewrap -R recipients.txt -i identity.txt backup",
            ),
            example(
                "Let them open a pipe that is copied",
                "evener rewrap -R recipients.txt -i identity.txt - < one.enc > other.enc",
            ),
        ],
    ),
    (
        "evener rekey",
        &[
            example(
                "Seal a tree under a new key",
                "evener rekey -k old.key --new-key new.key backup",
            ),
            example(
                "Seal it under a fresh key for recipients, or go on with that",
                "evener rekey -i identity.txt -R recipients.txt backup",
            ),
        ],
    ),
    (
        "evener signers",
        &[
            example("Show who may sign a tree", "evener signers -i identity.txt vault"),
            example("Print this machine's line", "evener signers --own vault"),
            example(
                "Stop accepting a signer",
                "evener signers -i identity.txt --remove SHA256:jwT... vault",
            ),
        ],
    ),
    (
        "evener job",
        &[
            example(
                "Cut a source into shards",
                "evener job plan -k job.key --job s3://jobs/7 s3://photos s3://vault",
            ),
            example(
                "Seal shards as worker 3 of 100, on each of 100 machines",
                "evener job run -k job.key --worker 3/100 s3://jobs/7",
            ),
            example("Show how far it is", "evener job status -k job.key s3://jobs/7"),
            example("Make the generation", "evener job finish -k job.key s3://jobs/7"),
            example("Remove the job's files", "evener job clean -k job.key s3://jobs/7"),
        ],
    ),
    (
        "evener job plan",
        &[
            example(
                "Plan a job under a key",
                "evener job plan -k job.key --job s3://jobs/7 s3://photos s3://vault",
            ),
            example(
                "Plan a job for age recipients, with shards of at most 1,000 entries",
                "evener job plan -k job.key -R recipients.txt --objects 1000 --job jobs/8 \\\n        \
                 photos vault",
            ),
        ],
    ),
    (
        "evener job run",
        &[
            example("Seal one shard", "evener job run -k job.key --shard 17 s3://jobs/7"),
            example(
                "Seal shards as worker 3 of 100, until none is left",
                "evener job run -k job.key --worker 3/100 s3://jobs/7",
            ),
        ],
    ),
    (
        "evener job status",
        &[
            example("Show how far a job is", "evener job status -k job.key s3://jobs/7"),
            example(
                "List the shards that are not done, as JSON",
                "evener job status --json -k job.key s3://jobs/7",
            ),
        ],
    ),
    (
        "evener job finish",
        &[
            example("Make the generation", "evener job finish -k job.key s3://jobs/7"),
            example(
                "Make it and decrypt all of it",
                "evener job finish --verify -k job.key s3://jobs/7",
            ),
        ],
    ),
    (
        "evener job clean",
        &[
            example("Remove the files of a job", "evener job clean -k job.key s3://jobs/7"),
            example(
                "Give up a job that is not finished",
                "evener job clean --abandon -k job.key s3://jobs/7",
            ),
        ],
    ),
    (
        "evener job simulate",
        &[
            example(
                "Show what a planned job would take with 100 workers",
                "evener job simulate -k job.key --workers 100 s3://jobs/7",
            ),
            example(
                "Find the workers that seal 10^9 objects of 10 MB in a week",
                "evener job simulate --rows 1000000000 --sizes 10000000 --within 7d",
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
                "Compare two engines on messages of 1 KiB",
                "evener speed aes-128-ctr --engine openssl --engine lanes --bytes 1024",
            ),
            example("Print the figures as JSON", "evener speed aes-256-gcm --json"),
        ],
    ),
    (
        "evener gate",
        &[
            example("Show all gates and their queues", "evener gate"),
            example("Show the gates of a group, as JSON", "evener gate --gate-group 100 --json"),
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
                "Write a configuration of OpenSSL that loads Evener, as root",
                "evener tls config --counters -o /etc/ssl/evener.cnf",
            ),
            example("Print the commands that make nginx use it", "evener tls enable nginx"),
            example("Show what Evener does for the programs that use it", "evener tls status"),
        ],
    ),
    (
        "evener tls config",
        &[
            example("Print a configuration", "evener tls config"),
            example(
                "Write one with which programs count their records",
                "evener tls config --counters -o evener.cnf",
            ),
        ],
    ),
    (
        "evener tls enable",
        &[
            example(
                "Print how to make nginx use Evener, and how to undo it",
                "evener tls enable nginx",
            ),
            example(
                "Make nginx use Evener, and start only with it",
                "evener tls enable --write --require nginx",
            ),
        ],
    ),
    (
        "evener tls disable",
        &[example("Make nginx stop using Evener", "evener tls disable --write nginx")],
    ),
    (
        "evener tls check",
        &[
            example(
                "Check whether Evener does the TLS of curl",
                "evener tls check curl https://localhost",
            ),
            example("Check a running nginx", "evener tls check --service nginx"),
        ],
    ),
    (
        "evener tls status",
        &[
            example("Show the records of each program", "evener tls status"),
            example(
                "Show the records of nginx's processes",
                "evener tls status --all --program nginx",
            ),
            example(
                "Export them to Prometheus's node exporter",
                "evener tls status --prometheus > /var/lib/prometheus/node-exporter/evener.prom",
            ),
        ],
    ),
    (
        "evener completions",
        &[
            example("Complete in this bash", "source <(evener completions bash)"),
            example(
                "Complete in every bash",
                "evener completions bash | install -D -m 644 /dev/stdin \\\n        \
                 ~/.local/share/bash-completion/completions/evener",
            ),
        ],
    ),
    (
        "evener man",
        &[
            example("Read the manual page", "evener man | man -l -"),
            example("Read the page of a command", "evener man encrypt | man -l -"),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use evener_cli::help::checks;

    use super::*;
    use crate::arguments::program;

    #[test]
    fn every_command_has_examples_that_can_be_typed() {
        checks::examples(&program(), &[ALL]);
    }
}
