package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * A cipher with its key for single buffers, which all threads of a pool process together: ECB,
 * CTR,
 * and CBC when it decrypts. Any number of threads may use it at once.
 *
 * <p>Buffers are native segments, and nothing is copied.
 */
public final class ParallelCipher implements AutoCloseable {
    /** Each thread's memory for an IV and, behind it, how much was written. */
    private static final ThreadLocal<MemorySegment> PLACE =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(24, 8));
    private static final int WRITTEN = 16;

    private final Arena arena = Arena.ofShared();
    private final MemorySegment object;

    private ParallelCipher(Pool pool, String engine, String cipher, Key key, Padding padding) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment engineName = Native.text(call, engine);
            MemorySegment cipherName = call.allocateFrom(cipher);
            object =
                    Native.make(
                            arena,
                            Native.PARALLEL_FREE,
                            place ->
                                    Native.check(
                                            Native.PARALLEL_OPEN,
                                            pool.object,
                                            engineName,
                                            cipherName,
                                            key.object,
                                            padding.number(),
                                            place));
        } catch (RuntimeException exception) {
            arena.close();
            throw exception;
        }
    }

    /** Opens the engine that is fastest at one buffer, without padding. */
    public static ParallelCipher open(Pool pool, String cipher, Key key) {
        return new ParallelCipher(pool, null, cipher, key, Padding.NONE);
    }

    /** Opens the engine of this name. */
    public static ParallelCipher open(
            Pool pool, String engine, String cipher, Key key, Padding padding) {
        return new ParallelCipher(pool, Objects.requireNonNull(engine), cipher, key, padding);
    }

    /**
     * Encrypts or decrypts a buffer into another.
     *
     * @return how many bytes of the output are the result
     */
    public long crypt(
            Direction direction, byte[] iv, MemorySegment input, MemorySegment output) {
        refuse(input.isNative(), output);
        MemorySegment place = placeOf(iv);
        int status;
        try {
            status =
                    (int)
                            Native.PARALLEL_CRYPT.invokeExact(
                                    object,
                                    direction.number(),
                                    place,
                                    (long) iv.length,
                                    input,
                                    input.byteSize(),
                                    output,
                                    output.byteSize(),
                                    place.asSlice(WRITTEN));
        } catch (Throwable thrown) {
            throw Native.unexpected(thrown);
        }
        Native.checkStatus(status);
        return place.get(JAVA_LONG, WRITTEN);
    }

    /** Replaces a buffer by what it encrypts or decrypts to. */
    public void cryptInPlace(Direction direction, byte[] iv, MemorySegment data) {
        refuse(true, data);
        MemorySegment place = placeOf(iv);
        int status;
        try {
            status =
                    (int)
                            Native.PARALLEL_CRYPT_IN_PLACE.invokeExact(
                                    object,
                                    direction.number(),
                                    place,
                                    (long) iv.length,
                                    data,
                                    data.byteSize());
        } catch (Throwable thrown) {
            throw Native.unexpected(thrown);
        }
        Native.checkStatus(status);
    }

    /** Puts an IV where C can read it. */
    private static MemorySegment placeOf(byte[] iv) {
        if (iv.length > WRITTEN) {
            throw new IllegalArgumentException("no cipher's IV has " + iv.length + " bytes");
        }
        MemorySegment place = PLACE.get();
        MemorySegment.copy(iv, 0, place, JAVA_BYTE, 0, iv.length);
        return place;
    }

    private static void refuse(boolean inputIsNative, MemorySegment output) {
        if (!inputIsNative || !output.isNative() || output.isReadOnly()) {
            throw new IllegalArgumentException("buffers are native segments, the output writable");
        }
    }

    @Override
    public void close() {
        arena.close();
    }
}
