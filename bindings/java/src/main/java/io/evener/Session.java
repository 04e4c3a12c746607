package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * An engine opened for one cipher, direction and key. Calls of several threads wait for each
 * other; for speed open one session per thread.
 *
 * <p>Native segments and direct buffers are read and written where they lie. So are arrays and
 * heap buffers of up to 1 MiB, while the garbage collector waits; only longer ones, or those for
 * another device, go through a copy.
 */
public final class Session implements AutoCloseable {
    private static final MemorySegment NOTHING = MemorySegment.NULL;

    /** In bytes. The garbage collector may have to wait for so much: less than a millisecond. */
    static final long LONGEST_IN_HEAP = 1 << 20;

    private final Arena arena = Arena.ofShared();
    private final boolean computesHere;
    final MemorySegment object;
    private final MemorySegment ivPlace = arena.allocate(16);
    private final MemorySegment written = arena.allocate(JAVA_LONG);

    private Session(Engine engine, String cipher, Direction direction, Key key) {
        computesHere = engine == null || engine.computesHere;
        try (Arena call = Arena.ofConfined()) {
            MemorySegment name = call.allocateFrom(cipher);
            MemorySegment engineObject = engine == null ? NOTHING : engine.object;
            MemorySegment keyObject = key == null ? NOTHING : key.object;
            object =
                    Native.make(
                            arena,
                            Native.SESSION_FREE,
                            place ->
                                    Native.check(
                                            Native.SESSION_OPEN,
                                            engineObject,
                                            name,
                                            direction.number(),
                                            keyObject,
                                            place));
        } catch (RuntimeException exception) {
            arena.close();
            throw exception;
        }
    }

    /** Opens the default engine. */
    public static Session open(String cipher, Direction direction, Key key) {
        return new Session(null, cipher, direction, key);
    }

    /** Opens an engine. The key is null for one that holds a key of its own. */
    public static Session open(Engine engine, String cipher, Direction direction, Key key) {
        return new Session(Objects.requireNonNull(engine), cipher, direction, key);
    }

    /**
     * Encrypts or decrypts one message without padding or additional data.
     *
     * @return how many bytes of the output are the result
     */
    public long crypt(byte[] iv, MemorySegment input, MemorySegment output) {
        return crypt(Padding.NONE, iv, NOTHING, input, output);
    }

    /**
     * Encrypts or decrypts one message, from a buffer's position to its limit, and moves both
     * positions on.
     *
     * @return how many bytes of the output are the result
     */
    public int crypt(Padding padding, byte[] iv, byte[] aad, ByteBuffer input, ByteBuffer output) {
        MemorySegment data = aad == null ? NOTHING : MemorySegment.ofArray(aad);
        MemorySegment from = MemorySegment.ofBuffer(input);
        int length = (int) crypt(padding, iv, data, from, MemorySegment.ofBuffer(output));
        input.position(input.limit());
        output.position(output.position() + length);
        return length;
    }

    /**
     * Encrypts or decrypts one message. Input and output do not overlap.
     *
     * @param aad additional authenticated data, for AEAD ciphers; else empty
     * @return how many bytes of the output are the result
     * @throws EvenerException if the message can't be processed; there is no plaintext then
     */
    public synchronized long crypt(
            Padding padding,
            byte[] iv,
            MemorySegment aad,
            MemorySegment input,
            MemorySegment output) {
        if (output.isReadOnly()) {
            throw new IllegalArgumentException("the output is read-only");
        }
        if (iv.length > ivPlace.byteSize()) {
            throw new IllegalArgumentException("no cipher's IV has " + iv.length + " bytes");
        }
        MemorySegment.copy(iv, 0, ivPlace, JAVA_BYTE, 0, iv.length);
        if (isReachable(aad) && isReachable(input) && isReachable(output)) {
            return cryptNative(padding, iv.length, aad, input, output);
        }
        long longest = Math.max(input.byteSize(), output.byteSize());
        boolean mayWait = Math.max(longest, aad.byteSize()) <= LONGEST_IN_HEAP;
        if (computesHere && mayWait && !isReadOnlyInHeap(aad) && !isReadOnlyInHeap(input)) {
            return cryptArrays(padding, iv.length, aad, input, output);
        }
        return cryptCopies(padding, iv.length, aad, input, output);
    }

    private long cryptNative(
            Padding padding,
            long ivLength,
            MemorySegment aad,
            MemorySegment input,
            MemorySegment output) {
        int status;
        try {
            status =
                    (int)
                            Native.SESSION_CRYPT.invokeExact(
                                    object,
                                    padding.number(),
                                    ivPlace,
                                    ivLength,
                                    aad,
                                    aad.byteSize(),
                                    input,
                                    input.byteSize(),
                                    output,
                                    output.byteSize(),
                                    written);
        } catch (Throwable thrown) {
            throw Native.unexpected(thrown);
        }
        Native.checkStatus(status);
        return written.get(JAVA_LONG, 0);
    }

    private long cryptArrays(
            Padding padding,
            long ivLength,
            MemorySegment aad,
            MemorySegment input,
            MemorySegment output) {
        int status;
        try {
            status =
                    (int)
                            Native.SESSION_CRYPT_ARRAYS.invokeExact(
                                    object,
                                    padding.number(),
                                    ivPlace,
                                    ivLength,
                                    aad,
                                    aad.byteSize(),
                                    input,
                                    input.byteSize(),
                                    output,
                                    output.byteSize(),
                                    written);
        } catch (Throwable thrown) {
            throw Native.unexpected(thrown);
        }
        Native.checkStatus(status);
        return written.get(JAVA_LONG, 0);
    }

    /** Copies what lies in the heap, and wipes the copies. */
    private long cryptCopies(
            Padding padding,
            long ivLength,
            MemorySegment aad,
            MemorySegment input,
            MemorySegment output) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment from = isReachable(input) ? input : copied(call, input);
            MemorySegment to = isReachable(output) ? output : call.allocate(output.byteSize());
            MemorySegment data = isReachable(aad) ? aad : copied(call, aad);
            try {
                long length = cryptNative(padding, ivLength, data, from, to);
                if (to != output) {
                    MemorySegment.copy(to, 0, output, 0, length);
                }
                return length;
            } finally {
                if (from != input) {
                    from.fill((byte) 0);
                }
                if (to != output) {
                    to.fill((byte) 0);
                }
            }
        }
    }

    /**
     * Verifies the last message, if a module processed it and it was not verified yet. {@code
     * close} verifies it too, but can't report the result; {@link Engine#account} does.
     *
     * @throws EvenerException if the module computed wrong results: what the session did before
     *     may be wrong, and {@code openssl} does what it does from then on
     */
    public synchronized void finish() {
        Native.check(Native.SESSION_FINISH, object);
    }

    private static MemorySegment copied(Arena arena, MemorySegment segment) {
        return arena.allocate(segment.byteSize()).copyFrom(segment);
    }

    private static boolean isReachable(MemorySegment segment) {
        return segment.isNative();
    }

    private static boolean isReadOnlyInHeap(MemorySegment segment) {
        return segment.isReadOnly() && !segment.isNative();
    }

    @Override
    public void close() {
        arena.close();
    }
}
