"""Tink's streaming AEAD against the Python package `tink`."""

import io
import json

from evener import Evener, Skipped, around

try:
    import tink
    from tink import json_proto_keyset_format, secret_key_access, streaming_aead

    streaming_aead.register()
except ImportError as error:
    tink, missing = None, error

MIB = 1 << 20
TAG = 16


def our_keyset(evener: Evener) -> str:
    require_tink()
    keyset = evener("keygen", "--format", "tink").decode()
    return check(evener, keyset, sizes(MIB, 32), "")


def our_keyset_with_associated_data(evener: Evener) -> str:
    require_tink()
    keyset = evener("keygen", "--format", "tink").decode()
    done = check(evener, keyset, [0, 1, 5000, MIB], "bound to this")
    evener("verify", "-k", evener.home / "key", evener.home / "ours", status=1)
    return done


def keysets_of_tink(evener: Evener) -> str:
    require_tink()
    templates = streaming_aead.streaming_aead_key_templates
    count = 0
    for template, segment, key_length in [
        (templates.AES128_GCM_HKDF_4KB, 4096, 16),
        (templates.AES256_GCM_HKDF_4KB, 4096, 32),
        (templates.AES128_GCM_HKDF_1MB, MIB, 16),
        (templates.AES256_GCM_HKDF_1MB, MIB, 32),
    ]:
        for context in "", "associated data":
            check(evener, keyset_of_tink(template), sizes(segment, key_length), context)
            count += 1
    return f"{count} keysets, files around every segment boundary each way"


def several_keys(evener: Evener) -> str:
    """What any key of a keyset encrypted is decrypted; the primary encrypts."""
    require_tink()
    templates = streaming_aead.streaming_aead_key_templates
    one, two, three = (
        json.loads(keyset_of_tink(template))
        for template in (
            templates.AES256_GCM_HKDF_4KB,
            templates.AES256_GCM_HKDF_1MB,
            templates.AES128_GCM_HKDF_4KB,
        )
    )
    # Our own key among theirs.
    four = json.loads(evener("keygen", "--format", "tink"))
    everyone = [one, two, three, four]
    keys = [key for keyset in everyone for key in keyset["key"]]
    for primary in everyone:
        together = json.dumps({"primaryKeyId": primary["primaryKeyId"], "key": keys})
        check(evener, together, [0, 1, 4040, 4041, 70_000, MIB + 5], "")
        # What the primary alone encrypted opens with all of them together, in one tree or not.
        seal, _ = peers(json.dumps(primary), "")
        sealed = evener.write("alone.enc", seal(b"alone" * 1000))
        keyfile = evener.write("key", together.encode())
        assert evener("decrypt", "-k", keyfile, sealed, "-") == b"alone" * 1000
        sealed.unlink()
    return f"{len(everyone)} primaries in a keyset of {len(keys)}"


CHECKS = [our_keyset, our_keyset_with_associated_data, keysets_of_tink, several_keys]


def require_tink() -> None:
    if tink is None:
        raise Skipped(f"no Python package tink: {missing}")


def sizes(segment: int, key_length: int) -> list[int]:
    """The first segment also holds the header."""
    first = segment - (1 + key_length + 7) - TAG
    following = segment - TAG
    return [0, 1, *around(first, first + following), first + 2 * following]


def keyset_of_tink(template: object) -> str:
    handle = tink.new_keyset_handle(template)
    return json_proto_keyset_format.serialize(handle, secret_key_access.TOKEN)


def peers(keyset: str, context: str):
    handle = json_proto_keyset_format.parse(keyset, secret_key_access.TOKEN)
    primitive = handle.primitive(streaming_aead.StreamingAead)

    def seal(plain: bytes) -> bytes:
        sealed = KeptOpen()
        with primitive.new_encrypting_stream(sealed, context.encode()) as stream:
            stream.write(plain)
        return sealed.getvalue()

    def unseal(sealed: bytes) -> bytes:
        with primitive.new_decrypting_stream(io.BytesIO(sealed), context.encode()) as stream:
            return stream.read()

    return seal, unseal


class KeptOpen(io.BytesIO):
    """Tink closes what it has written to."""

    def close(self) -> None:
        pass


def check(evener: Evener, keyset: str, lengths: list[int], context: str) -> str:
    keyfile = evener.write("key", keyset.encode())
    options = ["-k", keyfile, *(["--context", context] if context else [])]
    seal, unseal = peers(keyset, context)
    return evener.there_and_back(lengths, options, seal, unseal)
