package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

/** A key of a cipher, outside of the heap. Closing it wipes it; sessions have their own copy. */
public final class Key implements AutoCloseable {
    private final Arena arena = Arena.ofShared();
    final MemorySegment object;

    private Key(Consumer<MemorySegment> maker) {
        object = Native.make(arena, Native.KEY_FREE, maker);
    }

    /** Copies a key's bytes; wiping the array is the caller's business. */
    public static Key of(byte[] bytes) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment copy = call.allocate(Math.max(bytes.length, 1));
            MemorySegment.copy(bytes, 0, copy, JAVA_BYTE, 0, bytes.length);
            try {
                return new Key(
                        place ->
                                Native.check(
                                        Native.KEY_FROM_BYTES, copy, (long) bytes.length, place));
            } finally {
                copy.fill((byte) 0);
            }
        }
    }

    /** Makes a fresh key for a cipher, which never leaves the library. */
    public static Key generate(String cipher) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment name = call.allocateFrom(cipher);
            return new Key(place -> Native.check(Native.KEY_GENERATE, name, place));
        }
    }

    @Override
    public void close() {
        arena.close();
    }
}
