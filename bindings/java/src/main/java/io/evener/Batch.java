package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Objects;

/**
 * Messages that are processed in one call, because engines with many lanes are faster with many at
 * once. A batch can be filled again and again, on the thread that made it.
 *
 * <p>Inputs and outputs are native segments. The batch holds them until {@link #clear}, so that
 * none is freed by the garbage collector, and {@link #process} refuses those whose arena was
 * closed meanwhile; no other thread may close one during that call. No output overlaps anything
 * else.
 */
public final class Batch implements AutoCloseable {
    private static final MemoryLayout JOB =
            MemoryLayout.structLayout(
                    JAVA_LONG, // size
                    ADDRESS, // input
                    JAVA_LONG,
                    ADDRESS, // output
                    JAVA_LONG,
                    ADDRESS, // iv
                    JAVA_LONG,
                    ADDRESS, // aad
                    JAVA_LONG,
                    ADDRESS, // key
                    JAVA_INT, // padding
                    JAVA_INT, // status
                    JAVA_LONG); // written
    private static final long STRIDE = JOB.byteSize();
    private static final long LONGEST_IV = 16;
    /** Segments of a message. */
    private static final int HELD = 3;

    private final Arena arena = Arena.ofConfined();
    private final MemorySegment jobs;
    private final MemorySegment ivs;
    /** Of every message its additional data, input and output, so that they stay where they are. */
    private final MemorySegment[] held;
    private final int capacity;
    private int count;

    /** Makes room for so many messages. */
    public Batch(int capacity) {
        this.capacity = capacity;
        held = new MemorySegment[HELD * capacity];
        jobs = arena.allocate(JOB, capacity);
        ivs = arena.allocate(LONGEST_IV * capacity);
    }

    /** Adds a message without padding or additional data. */
    public Batch add(byte[] iv, MemorySegment input, MemorySegment output) {
        return add(Padding.NONE, iv, MemorySegment.NULL, input, output);
    }

    /** Adds a message. */
    public Batch add(
            Padding padding,
            byte[] iv,
            MemorySegment aad,
            MemorySegment input,
            MemorySegment output) {
        if (!input.isNative() || !output.isNative() || !aad.isNative() || output.isReadOnly()) {
            throw new IllegalArgumentException("a batch takes native segments only");
        }
        if (count == capacity) {
            throw new IllegalStateException("the batch is full: it has " + count + " messages");
        }
        if (iv.length > LONGEST_IV) {
            throw new IllegalArgumentException("no cipher's IV has " + iv.length + " bytes");
        }
        refuseClosed(aad);
        refuseClosed(input);
        refuseClosed(output);
        held[HELD * count] = aad;
        held[HELD * count + 1] = input;
        held[HELD * count + 2] = output;
        MemorySegment.copy(iv, 0, ivs, JAVA_BYTE, count * LONGEST_IV, iv.length);
        long job = count * STRIDE;
        // Addresses as numbers: segments would be checked once more for each field.
        jobs.set(JAVA_LONG, job, STRIDE);
        jobs.set(JAVA_LONG, job + 8, input.address());
        jobs.set(JAVA_LONG, job + 16, input.byteSize());
        jobs.set(JAVA_LONG, job + 24, output.address());
        jobs.set(JAVA_LONG, job + 32, output.byteSize());
        jobs.set(JAVA_LONG, job + 40, ivs.address() + count * LONGEST_IV);
        jobs.set(JAVA_LONG, job + 48, iv.length);
        jobs.set(JAVA_LONG, job + 56, aad.address());
        jobs.set(JAVA_LONG, job + 64, aad.byteSize());
        jobs.set(JAVA_LONG, job + 72, 0);
        jobs.set(JAVA_INT, job + 80, padding.number());
        jobs.set(JAVA_INT, job + 84, Status.PENDING.number());
        jobs.set(JAVA_LONG, job + 88, 0);
        count++;
        return this;
    }

    /** How many messages there are. */
    public int size() {
        return count;
    }

    /** Takes all messages out, so that others can be added. */
    public void clear() {
        Arrays.fill(held, 0, HELD * count, null);
        count = 0;
    }

    /**
     * Processes all messages with a session. {@link #status} and {@link #written} have the result
     * of each.
     *
     * @throws EvenerException if a message was rejected, such as a forged one, with the status of
     *     the first of them; the others are still processed. Also if the engine failed
     * @throws IllegalStateException if the arena of an input or output was closed
     */
    public void process(Session session) {
        for (int index = 0; index < HELD * count; index++) {
            refuseClosed(held[index]);
        }
        int status;
        synchronized (session) {
            try {
                status =
                        (int)
                                Native.SESSION_PROCESS.invokeExact(
                                        session.object, jobs, (long) count);
            } catch (Throwable thrown) {
                throw Native.unexpected(thrown);
            }
        }
        Native.checkStatus(status);
    }

    /** What became of a message. */
    public Status status(int index) {
        return Status.of(jobs.get(JAVA_INT, checked(index) * STRIDE + 84));
    }

    /** How many bytes of a message's output are the result. */
    public long written(int index) {
        return jobs.get(JAVA_LONG, checked(index) * STRIDE + 88);
    }

    private static void refuseClosed(MemorySegment segment) {
        if (!segment.scope().isAlive()) {
            throw new IllegalStateException("the arena of an input or output is closed");
        }
        if (!segment.isAccessibleBy(Thread.currentThread())) {
            throw new WrongThreadException("an input or output belongs to another thread");
        }
    }

    private int checked(int index) {
        return Objects.checkIndex(index, count);
    }

    @Override
    public void close() {
        arena.close();
    }
}
