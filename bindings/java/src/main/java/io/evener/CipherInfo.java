package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The properties of a cipher; lengths are in bytes.
 *
 * @param name the OpenSSL name, such as {@code aes-128-cbc}
 * @param keyLength XTS counts both of its keys
 * @param ivLength 0 for ECB, 12 for GCM and ChaCha20-Poly1305, one block otherwise
 * @param blockLength messages without padding are multiples of this
 * @param tagLength how much longer than the message the ciphertext of an AEAD cipher is
 */
public record CipherInfo(
        String name, int keyLength, int ivLength, int blockLength, int tagLength) {
    private static final MemoryLayout LAYOUT =
            MemoryLayout.structLayout(
                    JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);

    /** Every cipher, in the order in which Evener lists them. */
    public static List<CipherInfo> all() {
        long count = (long) Native.invoke(Native.CIPHER_COUNT);
        List<CipherInfo> all = new ArrayList<>();
        try (Arena arena = Arena.ofConfined()) {
            for (long index = 0; index < count; index++) {
                MemorySegment info = Native.struct(arena, LAYOUT);
                Native.check(Native.CIPHER_AT, index, info);
                all.add(read(info));
            }
        }
        return List.copyOf(all);
    }

    /** The cipher of this OpenSSL name, in any case. */
    public static CipherInfo named(String name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment info = Native.struct(arena, LAYOUT);
            Native.check(Native.CIPHER_NAMED, arena.allocateFrom(name), info);
            return read(info);
        }
    }

    private static CipherInfo read(MemorySegment info) {
        return new CipherInfo(
                Native.text(info.get(ADDRESS, 8)),
                (int) info.get(JAVA_LONG, 16),
                (int) info.get(JAVA_LONG, 24),
                (int) info.get(JAVA_LONG, 32),
                (int) info.get(JAVA_LONG, 40));
    }
}
