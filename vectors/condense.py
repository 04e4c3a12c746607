#!/usr/bin/env python3
"""Condenses published test vectors into the files beside this script.

Usage: condense.py [WHEEL]

WHEEL is the wheel of the Python package `cryptography_vectors`; without it, the version
below is downloaded with pip. README.md describes what is kept and the format written.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSION = "50.0.2"
HERE = Path(__file__).parent
NO_IV = ""


def main():
    with tempfile.TemporaryDirectory() as scratch:
        wheel = Path(sys.argv[1]) if len(sys.argv) > 1 else download(scratch)
        with zipfile.ZipFile(wheel) as package:
            for name, sections in FAMILIES.items():
                write(name, [(source, list(read(package, source))) for source, read in sections])


def download(scratch):
    requirement = f"cryptography_vectors=={VERSION}"
    subprocess.run(["pip", "download", "--no-deps", "-d", scratch, requirement], check=True)
    return next(Path(scratch).glob("*.whl"))


def write(name, sections):
    """Writes one file; a vector that several sources share is kept once."""
    seen = set()
    with open(HERE / f"{name}.txt", "w", encoding="ascii", newline="\n") as file:
        for source, vectors in sections:
            fresh = [vector for vector in vectors if vector not in seen and not seen.add(vector)]
            print(f"= {source}", file=file)
            for vector in fresh:
                print(*(field or "-" for field in vector), file=file)


def records(package, source):
    """Yields every record of a .rsp-like file as (bracketed settings, fields)."""
    settings, governing, fields = {}, {}, {}
    text = package.read(f"cryptography_vectors/ciphers/{source}").decode("ascii")
    for line in [*text.splitlines(), "COUNT = end"]:
        line = line.split("#")[0].strip()
        name, _, value = (part.strip() for part in line.strip("[]").partition("="))
        name = name.upper()
        if line.startswith("["):
            settings[name] = value
        elif name == "COUNT":
            if fields:
                yield governing, fields
            governing, fields = dict(settings), {}
        elif name:
            fields[name] = value


def block(mode, cipher="aes"):
    """ECB, CBC or CTR files in NIST's form. ECB of one block is CBC with an IV of zeros."""

    def read(package, source):
        for _, fields in records(package, source):
            key = fields.get("KEY") or fields.get("KEYS", "") * 3 or "".join(
                fields[f"KEY{number}"] for number in (1, 2, 3)
            )
            if cipher == "bf":
                # Blowfish repeats a key until it is long enough, so these are the same key.
                key *= 32 // len(key) or 1
                if len(key) != 32:
                    continue
            iv = fields.get("IV", NO_IV if mode == "ecb" else "0" * 16)
            names = {"3des": "des-ede3-cbc", "bf": "bf-cbc"}
            name = names.get(cipher, f"{cipher}-{len(key) * 4}-{mode}")
            vector = (key, iv, "", fields["PLAINTEXT"], fields["CIPHERTEXT"])
            yield (name, *(field.lower() for field in vector))

    return read


def camellia_ecb(package, source):
    """NTT's file, `P No.001 : 80 00 …`; every eighth vector."""
    text = package.read(f"cryptography_vectors/ciphers/{source}").decode("ascii")
    key, count, plaintext = None, 0, None
    for kind, value in re.findall(r"^([KPC]) No\.\d+ : ([0-9A-F ]+)", text, re.MULTILINE):
        value = value.replace(" ", "").lower()
        if kind == "K":
            key = value
        elif kind == "P":
            plaintext = value
        else:
            count += 1
            if count % 8 == 1:
                yield f"camellia-{len(key) * 4}-cbc", key, "0" * 32, "", plaintext, value


def gcm(package, source):
    """IVs of 96 bits and tags of 128 bits, the only ones that Evener uses."""
    for settings, fields in records(package, source):
        if (settings["IVLEN"], settings["TAGLEN"]) == ("96", "128"):
            plaintext = fields.get("PT", "!") or ""
            ciphertext = fields["CT"] + fields["TAG"]
            name = f"aes-{settings['KEYLEN']}-gcm"
            yield name, fields["KEY"], fields["IV"], fields["AAD"], plaintext, ciphertext


def xts(package, source):
    """Whole bytes only."""
    for _, fields in records(package, source):
        if int(fields["DATAUNITLEN"]) % 8 == 0:
            name = f"aes-{len(fields['KEY']) * 2}-xts"
            yield name, fields["KEY"], fields["I"], "", fields["PT"], fields["CT"]


def chacha(package, source):
    """BoringSSL's and OpenSSL's forms: text in quotes, or hexadecimal."""

    def octets(value):
        return value[1:-1].encode().hex() if value.startswith('"') else value.lower()

    for _, fields in records(package, source):
        iv = octets(fields.get("NONCE") or fields["IV"])
        if len(iv) == 24:
            plaintext = octets(fields["IN"] if "IN" in fields else fields["PLAINTEXT"])
            plaintext = "!" if "RESULT" in fields else plaintext
            aad = octets(fields["AD"] if "AD" in fields else fields["AAD"])
            ciphertext = fields["CT"] if "CT" in fields else fields["CIPHERTEXT"]
            ciphertext = octets(ciphertext) + octets(fields["TAG"])
            name = "chacha20-poly1305"
            yield name, octets(fields["KEY"]), iv, aad, plaintext, ciphertext


def aes_files(mode):
    kinds = ("GFSbox", "KeySbox", "VarKey", "VarTxt", "MMT")
    prefix = f"AES/{mode.upper()}/{mode.upper()}"
    return [
        (f"{prefix}{kind}{bits}.rsp", block(mode)) for kind in kinds for bits in (128, 192, 256)
    ]


FAMILIES = {
    "aes-ecb": aes_files("ecb"),
    "aes-cbc": aes_files("cbc"),
    "aes-ctr": [(f"AES/CTR/aes-{bits}-ctr.txt", block("ctr")) for bits in (128, 192, 256)],
    "aes-gcm": [
        (f"AES/GCM/gcm{kind}{bits}.rsp", gcm)
        for kind in ("EncryptExtIV", "Decrypt")
        for bits in (128, 192, 256)
    ],
    "aes-xts": [
        (f"AES/XTS/tweak-128hexstr/XTSGenAES{bits}.rsp", xts) for bits in (128, 256)
    ],
    "camellia-cbc": [
        ("Camellia/camellia-cbc.txt", block("cbc", "camellia")),
        *((f"Camellia/camellia-{bits}-ecb.txt", camellia_ecb) for bits in (128, 192, 256)),
    ],
    "des-ede3-cbc": [
        (f"3DES/CBC/TCBC{kind}.rsp", block("cbc", "3des"))
        for kind in ("vartext", "varkey", "invperm", "permop", "subtab", "MMT1", "MMT2", "MMT3")
    ],
    "bf-cbc": [
        ("Blowfish/bf-cbc.txt", block("cbc", "bf")),
        ("Blowfish/bf-ecb.txt", block("cbc", "bf")),
    ],
    "chacha20-poly1305": [
        ("ChaCha20Poly1305/boringssl.txt", chacha),
        ("ChaCha20Poly1305/openssl.txt", chacha),
    ],
}

if __name__ == "__main__":
    main()
