package io.evener;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A pool of the library's threads, which sleep between buffers, for any number of {@link
 * ParallelCipher}s.
 */
public final class Pool implements AutoCloseable {
    private final Arena arena = Arena.ofShared();
    final MemorySegment object;

    private Pool(long threads) {
        object =
                Native.make(
                        arena,
                        Native.POOL_FREE,
                        place -> Native.check(Native.POOL_NEW, threads, place));
    }

    /** One thread for each core, the caller's among them. */
    public static Pool onAllCores() {
        return new Pool(0);
    }

    /** So many threads, the caller's among them. */
    public static Pool of(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("a pool has at least one thread");
        }
        return new Pool(threads);
    }

    /** The threads end when no cipher that was opened with the pool is left. */
    @Override
    public void close() {
        arena.close();
    }
}
