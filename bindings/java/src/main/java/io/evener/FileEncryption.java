package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.function.Predicate;

/**
 * Encrypts, decrypts and verifies files, trees and pipes with all workers at once.
 *
 * <p>A tree goes to a tree: the same relative names with the suffix. A file goes to a file, or
 * into a directory. An output has no name until it is complete, and nothing that is not
 * authentic gets a name. If files fail, all others are done, and an {@link EvenerException} says
 * so; its {@link EvenerException#report report} lists them.
 *
 * <p>A FIFO, a device or {@code /dev/fd/N}, on either side, is read or written from beginning to end.
 * Out of a FIFO comes only plaintext whose chunks were authenticated, before the rest is read.
 *
 * {@snippet :
 * FileEncryption encryption = new FileEncryption(key);
 * encryption.encrypt(photos, sealed);
 * encryption.verify(sealed); // throws if a file was changed
 * encryption.decrypt(sealed, restored);
 * }
 */
public final class FileEncryption {
    private static final MemoryLayout OPTIONS =
            MemoryLayout.structLayout(
                    JAVA_LONG, // size
                    ADDRESS, // engines
                    JAVA_LONG,
                    JAVA_LONG, // workers
                    JAVA_LONG, // memory
                    ADDRESS, // suffix
                    ADDRESS, // context
                    JAVA_LONG,
                    JAVA_INT, // flags
                    JAVA_INT, // progress interval
                    ADDRESS, // progress
                    ADDRESS, // user data
                    JAVA_LONG, // permits
                    JAVA_LONG, // permit lease
                    JAVA_INT, // gate
                    JAVA_INT); // CPU limit
    private static final MemoryLayout PROGRESS =
            MemoryLayout.structLayout(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);

    final FileKey key;
    private List<String> engines = List.of();
    private int workers;
    private int permits;
    private int maxCpu;
    private long memory;
    private String suffix;
    private byte[] context = {};
    private int flags;
    private Predicate<Progress> listener;

    /** Takes a key, and the defaults for everything else. */
    public FileEncryption(FileKey key) {
        this.key = Objects.requireNonNull(key);
    }

    /** Chooses the engines that work, all of them at once, instead of the default one. */
    public FileEncryption engines(String... names) {
        engines = List.of(names);
        return this;
    }

    /** Sets the number of workers over all engines; by default as many as each recommends. */
    public FileEncryption workers(int workers) {
        this.workers = workers;
        return this;
    }

    /**
     * Sets how many processes may use each engine at once, the same in all of them; by default as
     * many as the engine reports.
     */
    public FileEncryption permits(int permits) {
        this.permits = permits;
        return this;
    }

    /** Limits the CPU time, as a percentage of all cores, from 1 to 100. */
    public FileEncryption maxCpu(int percent) {
        maxCpu = percent;
        return this;
    }

    /** Sets how much memory the workers' buffers may take together, in bytes. */
    public FileEncryption memory(long bytes) {
        memory = bytes;
        return this;
    }

    /**
     * Sets what encrypting appends to names and decrypting strips; otherwise {@code .enc}, or {@code
     * .age} with {@link FileKey#ofAge}.
     */
    public FileEncryption suffix(String suffix) {
        this.suffix = suffix;
        return this;
    }

    /** Binds files to a context beside the key, the same in both directions. */
    public FileEncryption context(byte[] context) {
        this.context = context.clone();
        return this;
    }

    /** Sets options. */
    public FileEncryption with(FileOption... options) {
        for (FileOption option : options) {
            flags |= option.flag();
        }
        return this;
    }

    /**
     * Sets a listener for the progress. It is called on the caller's thread: before the operation
     * begins, ten times a second, and at its end. If it returns false or throws, the operation
     * stops: complete outputs stay, and unfinished outputs are removed. What it throws has the
     * operation's {@link EvenerException}, with its report, among the suppressed exceptions.
     */
    public FileEncryption onProgress(Predicate<Progress> listener) {
        this.listener = listener;
        return this;
    }

    /**
     * Encrypts a file, a tree or a pipe.
     *
     * @throws EvenerException if not everything was done. {@link Status#INCOMPLETE}: files failed, or
     *     may be wrong; {@link Status#CANCELLED}: the listener stopped it. Any other status: it
     *     could not begin, or met a bug. It has a report unless the options or engines can't be
     *     used
     */
    public Report encrypt(Path source, Path target) {
        return process(Native.ENCRYPT_PATH, source, target);
    }

    /**
     * Decrypts a file, a tree or a pipe.
     *
     * @throws EvenerException as {@link #encrypt} does
     */
    public Report decrypt(Path source, Path target) {
        return process(Native.DECRYPT_PATH, source, target);
    }

    /**
     * Authenticates everything in a file, a tree or a pipe and writes nothing.
     *
     * @throws EvenerException as {@link #encrypt} does, if any file is not authentic
     */
    public Report verify(Path source) {
        return process(Native.VERIFY_PATH, source, null);
    }

    private Report process(MethodHandle function, Path source, Path target) {
        try (Arena call = Arena.ofConfined()) {
            Callback<Progress> telling = telling();
            MemorySegment options = options(call, telling);
            MemorySegment from = call.allocateFrom(source.toString());
            MemorySegment place = call.allocate(ADDRESS);
            int status =
                    target == null
                            ? (int) Native.invoke(function, key.object, from, options, place)
                            : (int)
                                    Native.invoke(
                                            function,
                                            key.object,
                                            from,
                                            call.allocateFrom(target.toString()),
                                            options,
                                            place);
            return ended(call, status, place, telling);
        }
    }

    /** The report of an operation, or what it throws. */
    static Report ended(
            Arena call, int status, MemorySegment place, Callback<?>... callbacks) {
        EvenerException failure = status == Status.OK.number() ? null : Native.failure(status);
        if (place.get(ADDRESS, 0).equals(MemorySegment.NULL)) {
            throw failure;
        }
        MemorySegment report =
                place.get(ADDRESS, 0)
                        .reinterpret(call, it -> Native.invoke(Native.REPORT_FREE, it));
        Report facts = Report.read(report);
        if (failure != null) {
            failure = new EvenerException(failure.status(), failure.getMessage(), facts);
        }
        for (Callback<?> callback : callbacks) {
            callback.rethrow(failure);
        }
        if (failure != null) {
            throw failure;
        }
        return facts;
    }

    /** The listener for one operation. */
    Callback<Progress> telling() {
        return new Callback<>(
                PROGRESS,
                progress ->
                        new Progress(
                                progress.get(JAVA_LONG, 8),
                                progress.get(JAVA_LONG, 16),
                                progress.get(JAVA_LONG, 24),
                                progress.get(JAVA_LONG, 32)),
                listener);
    }

    /** The options as C takes them. */
    MemorySegment options(Arena call, Callback<Progress> telling) {
        MemorySegment options = Native.struct(call, OPTIONS);
        MemorySegment names = call.allocate(ADDRESS, engines.size());
        for (int index = 0; index < engines.size(); index++) {
            names.setAtIndex(ADDRESS, index, call.allocateFrom(engines.get(index)));
        }
        options.set(ADDRESS, 8, names);
        options.set(JAVA_LONG, 16, engines.size());
        options.set(JAVA_LONG, 24, workers);
        options.set(JAVA_LONG, 32, memory);
        options.set(ADDRESS, 40, Native.text(call, suffix));
        MemorySegment bound = call.allocate(Math.max(context.length, 1));
        options.set(ADDRESS, 48, bound.copyFrom(MemorySegment.ofArray(context)));
        options.set(JAVA_LONG, 56, context.length);
        options.set(JAVA_INT, 64, flags);
        options.set(ADDRESS, 72, telling.stub(call));
        options.set(JAVA_LONG, 88, permits);
        options.set(JAVA_INT, 108, maxCpu);
        return options;
    }
}
