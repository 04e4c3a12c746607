//! Examples of every command, for its help and its manual page.

use evener_cli::help::{Example, Table, example, find};

/// The examples of a command, by its path, such as `evener-lab bench tree`.
pub(crate) fn examples(path: &str) -> &'static [Example] {
    find(EXAMPLES, path)
}

pub(crate) const EXAMPLES: &Table = &[
    (
        "evener-lab",
        &[
            example("Compare with cp, age and others", "evener-lab bench tree --tree small"),
            example(
                "Compare with OpenSSL, as `openssl speed` does",
                "evener-lab speed aes-256-gcm",
            ),
        ],
    ),
    (
        "evener-lab bench",
        &[
            example("Compare with cp, age and others", "evener-lab bench tree --tree small"),
            example(
                "Compare with OpenSSL in memory",
                "evener-lab bench messages --cipher aes-256-gcm --bytes 1024",
            ),
        ],
    ),
    (
        "evener-lab bench tree",
        &[
            example(
                "Compare on many small files in memory",
                "evener-lab bench tree --tree small --at /dev/shm",
            ),
            example(
                "Compare only with age, on one large file",
                "evener-lab bench tree --tree large --contender evener --contender age",
            ),
        ],
    ),
    (
        "evener-lab bench messages",
        &[example(
            "Measure messages of 1 KiB on one thread",
            "evener-lab bench messages --cipher aes-256-gcm --bytes 1024 --threads 1",
        )],
    ),
    (
        "evener-lab bench threads",
        &[example(
            "Measure 1, 2 and 4 threads",
            "evener-lab bench threads --cipher aes-128-ctr --threads 1,2,4",
        )],
    ),
    (
        "evener-lab bench processes",
        &[example(
            "Measure up to 64 processes at one engine",
            "evener-lab bench processes --engine af_alg --processes 1,8,64",
        )],
    ),
    (
        "evener-lab bench policies",
        &[example(
            "Compare two policies on CPU and module",
            "evener-lab bench policies --module af_alg --policy adaptive,pull",
        )],
    ),
    (
        "evener-lab bench background",
        &[example(
            "Measure how much a CPU limit leaves to other programs",
            "evener-lab bench background --max-cpu 25,50",
        )],
    ),
    (
        "evener-lab bench module",
        &[
            example("Check every kind of work", "evener-lab bench module"),
            example(
                "Check 1,000 runs beside a module that opens in 1 s",
                "evener-lab bench module --kind files --ms 100,200,300,400,500 --opening 1000 \
                 --hang none --slower 10 --policy adaptive --device none --rounds 100",
            ),
        ],
    ),
    (
        "evener-lab bench gpu",
        &[example(
            "See that the benchmark itself works, on a device that computes on the cores",
            "evener-lab bench gpu --device gpu:opencl:pocl --seconds 0.01 --rounds 1 --bytes 1048576",
        )],
    ),
    (
        "evener-lab bench tls",
        &[
            example(
                "Compare nginx on one core, the client on another",
                "evener-lab bench tls --server-cores 0 --client-cores 1",
            ),
            example(
                "Compare handshakes",
                "evener-lab bench tls --keep-alive no --bytes 1024 --connections 16",
            ),
            example(
                "Keep the results, and show them again",
                "evener-lab bench tls --json > tls.json",
            ),
            example("Draw them", "evener-lab bench tls --from tls.json --html tls.html"),
        ],
    ),
    (
        "evener-lab speed",
        &[
            example("Measure one cipher on all engines", "evener-lab speed aes-256-gcm"),
            example(
                "Compare two engines on one core",
                "evener-lab speed aes-128-ctr --engine openssl --engine lanes --threads 1",
            ),
            example("Keep the results", "evener-lab speed aes-256-gcm --json > before.json"),
            example(
                "Compare with earlier results",
                "evener-lab speed aes-256-gcm --compare before.json",
            ),
        ],
    ),
    (
        "evener-lab simulate",
        &[
            example("Measure a machine", "evener engines --measure -o machine.json"),
            example(
                "Simulate two policies on that machine with 8 cores",
                "evener-lab simulate machine.json --policy adaptive,pull --cores 8",
            ),
        ],
    ),
    (
        "evener-lab chart",
        &[
            example("Measure a machine", "evener engines --measure -o machine.json"),
            example("Draw its costs", "evener-lab chart machine.json -o machine.svg"),
        ],
    ),
    (
        "evener-lab completions",
        &[
            example("Complete in this bash", "source <(evener-lab completions bash)"),
            example(
                "Complete in every bash",
                "evener-lab completions bash > ~/.local/share/bash-completion/completions/evener-lab",
            ),
        ],
    ),
    (
        "evener-lab man",
        &[
            example("Read the manual page", "evener-lab man | man -l -"),
            example("Read the page of a benchmark", "evener-lab man bench-tree | man -l -"),
        ],
    ),
];
