"""Files of `openssl enc` against the program itself."""

import subprocess

from evener import Evener, Skipped, around, content, find_program

# Key and IV length in bytes.
CIPHERS = {
    "aes-128-cbc": (16, 16),
    "aes-192-cbc": (24, 16),
    "aes-256-cbc": (32, 16),
    "aes-128-ctr": (16, 16),
    "aes-192-ctr": (24, 16),
    "aes-256-ctr": (32, 16),
    "camellia-128-cbc": (16, 16),
    "camellia-192-cbc": (24, 16),
    "camellia-256-cbc": (32, 16),
    "des-ede3-cbc": (24, 8),
    "bf-cbc": (16, 8),
}
DIGESTS = [
    "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-256",
    "sha3-256", "sha3-384", "sha3-512", "blake2b512", "blake2s256",
]  # fmt: skip
CHUNK = 65_536
SIZES = [0, 1, *around(8, 16, 32, CHUNK, 4 * CHUNK), 300_000]
PASSPHRASE = "correct horse batterý staple"


def every_cipher_with_a_passphrase(evener: Evener) -> str:
    program = find_program("openssl")
    passphrase = evener.write("passphrase", PASSPHRASE.encode() + b"\n")
    for cipher in CIPHERS:
        theirs = ["-pbkdf2", "-pass", f"file:{passphrase}"]
        ours = ["--format", "openssl", "--cipher", cipher, "--passphrase-file", passphrase]
        # What openssl does when it is not told.
        check(evener, program, cipher, [*ours, "--iterations", "10000"], theirs, SIZES)
    return f"{len(CIPHERS)} ciphers"


def iterations_that_evener_chooses(evener: Evener) -> str:
    program = find_program("openssl")
    passphrase = evener.write("passphrase", PASSPHRASE.encode() + b"\n")
    options = ["--format", "openssl", "--cipher", "aes-256-ctr", "--passphrase-file", passphrase]
    one, sealed = evener.write("one", b"content"), evener.home / "sealed"
    evener("encrypt", *options, "--quiet", one, sealed)
    command = [program, "enc", "-d", "-aes-256-ctr", "-pbkdf2", "-iter", "600000"]
    command += ["-pass", f"file:{passphrase}", "-in", sealed]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"content"
    assert evener("decrypt", *options, "--iterations", "600000", sealed, "-") == b"content"
    # A file does not tell, and a guess would give wrong plaintext.
    evener("decrypt", *options, sealed, "-", status=2)
    return "600,000"


def every_digest_and_iterations(evener: Evener) -> str:
    program = find_program("openssl")
    passphrase = evener.write("passphrase", PASSPHRASE.encode() + b"\n")
    for digest in DIGESTS:
        for iterations in "1", "1234":
            theirs = ["-md", digest, "-iter", iterations, "-pass", f"file:{passphrase}"]
            ours = ["--format", "openssl", "--cipher", "aes-256-cbc", "--digest", digest]
            ours += ["--iterations", iterations, "--passphrase-file", passphrase]
            check(evener, program, "aes-256-cbc", ours, theirs, [5])
    return f"{len(DIGESTS)} digests"


def every_cipher_with_a_raw_key(evener: Evener) -> str:
    program = find_program("openssl")
    for cipher, (key_length, iv_length) in CIPHERS.items():
        key, iv = content(key_length).hex(), content(iv_length)[::-1].hex()
        # A counter that carries within the file.
        iv = "ff" * (iv_length - 1) + "f0" if cipher.endswith("ctr") else iv
        files = evener.write("key", key.encode() + b"\n"), evener.write("iv", iv.encode() + b"\n")
        ours = ["--format", "openssl", "--cipher", cipher]
        ours += ["--key-hex-file", files[0], "--iv-hex-file", files[1]]
        # Two files under one key stream would give each other away.
        stream = cipher.endswith("ctr")
        check(evener, program, cipher, ours, ["-K", key, "-iv", iv], SIZES, one_by_one=stream)
    return f"{len(CIPHERS)} ciphers"


CHECKS = [
    every_cipher_with_a_passphrase,
    iterations_that_evener_chooses,
    every_digest_and_iterations,
    every_cipher_with_a_raw_key,
]


def check(
    evener: Evener,
    program: str,
    cipher: str,
    ours: list,
    theirs: list,
    sizes: list[int],
    one_by_one: bool = False,
) -> None:
    def enc(direction: str, data: bytes) -> bytes:
        command = [program, "enc", direction, f"-{cipher}", *theirs]
        if cipher == "bf-cbc":
            # Since OpenSSL 3.0 it has to be asked for.
            command += ["-provider", "legacy", "-provider", "default"]
        done = subprocess.run(command, input=data, capture_output=True)
        if done.returncode != 0:
            text = done.stderr.decode()
            if "unsupported" in text or "unable to load provider" in text:
                raise Skipped(f"this openssl has no {cipher}, or no such digest: {command}")
            raise AssertionError(f"{command}: {text}")
        return done.stdout

    evener.there_and_back(
        sizes,
        ours,
        seal=lambda plain: enc("-e", plain),
        unseal=lambda sealed: enc("-d", sealed),
        one_by_one=one_by_one,
    )
