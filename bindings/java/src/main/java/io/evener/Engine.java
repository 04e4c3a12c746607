package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/** Something that performs ciphers. Any number of threads may use it at once. */
public final class Engine implements AutoCloseable {
    private static final MemoryLayout INFO =
            MemoryLayout.structLayout(
                    JAVA_LONG,
                    ADDRESS,
                    ADDRESS,
                    ADDRESS,
                    JAVA_INT,
                    MemoryLayout.paddingLayout(4));
    private static final MemoryLayout OFFER =
            MemoryLayout.structLayout(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);

    private static final MemoryLayout ACCOUNT =
            MemoryLayout.structLayout(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS);

    private final Arena arena = Arena.ofShared();
    final MemorySegment object;

    /** Whether it is known to compute on the calling core, and so to be done soon. */
    final boolean computesHere;

    private Engine(String name) {
        computesHere = name == null || name.equals("openssl") || name.equals("lanes");
        object =
                Native.make(
                        arena,
                        Native.ENGINE_FREE,
                        place -> {
                            try (Arena call = Arena.ofConfined()) {
                                Native.check(Native.ENGINE_OPEN, Native.text(call, name), place);
                            }
                        });
    }

    /** The default engine. */
    public static Engine openDefault() {
        return new Engine(null);
    }

    /** Finds an engine by its name and parameters, as in {@code af_alg:DRIVER}. */
    public static Engine open(String name) {
        return new Engine(Objects.requireNonNull(name));
    }

    /** Looks for every engine; those that are absent are listed with the reason. */
    public static List<Info> list() {
        List<Info> found = new ArrayList<>();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment list =
                    Native.make(
                            arena,
                            Native.ENGINE_LIST_FREE,
                            place -> Native.check(Native.ENGINE_LIST_NEW, place));
            long count = (long) Native.invoke(Native.ENGINE_LIST_LENGTH, list);
            for (long index = 0; index < count; index++) {
                MemorySegment info = Native.struct(arena, INFO);
                Native.check(Native.ENGINE_LIST_AT, list, index, info);
                found.add(
                        new Info(
                                Native.text(info.get(ADDRESS, 8)),
                                Optional.ofNullable(Native.text(info.get(ADDRESS, 16))),
                                Optional.ofNullable(Native.text(info.get(ADDRESS, 24))),
                                info.get(JAVA_INT, 32) == 2));
            }
        }
        return List.copyOf(found);
    }

    /** The recommended use for a cipher; empty if the engine lacks it. */
    public Optional<Offer> offer(String cipher, Direction direction) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment offer = Native.struct(call, OFFER);
            Native.check(
                    Native.ENGINE_OFFER,
                    object,
                    call.allocateFrom(cipher),
                    direction.number(),
                    offer);
            return Optional.of(new Offer(offer.get(JAVA_LONG, 8), offer.get(JAVA_LONG, 16)));
        } catch (EvenerException exception) {
            if (exception.status() == Status.NOT_OFFERED) {
                return Optional.empty();
            }
            throw exception;
        }
    }

    /**
     * The counts of a module's guard. The guard recomputes some messages, chosen at random. After
     * a failure, {@code openssl} processes all further messages, and the counts show it. All
     * counts are zero for CPU engines.
     */
    public Account account() {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment account = Native.struct(call, ACCOUNT);
            Native.check(Native.ENGINE_ACCOUNT, object, account);
            return new Account(
                    account.get(JAVA_LONG, 8),
                    account.get(JAVA_LONG, 16),
                    account.get(JAVA_LONG, 24),
                    Optional.ofNullable(Native.text(account.get(ADDRESS, 32))));
        }
    }

    @Override
    public void close() {
        arena.close();
    }

    /**
     * The description of an engine.
     *
     * @param name the name for {@link #open}
     * @param detail version, driver or device; empty if the engine is absent
     * @param absent why it is not there and what to do about it, otherwise
     * @param isModule whether another device computes, and not the calling core
     */
    public record Info(
            String name, Optional<String> detail, Optional<String> absent, boolean isModule) {}

    /**
     * The counts of an engine's guard.
     *
     * @param jobs messages that it did and the guard passed on
     * @param verified how many of them were recomputed with the same result
     * @param retreated messages that {@code openssl} did instead, after it had failed
     * @param fault why it is out of service, if it is
     */
    public record Account(long jobs, long verified, long retreated, Optional<String> fault) {}

    /**
     * The recommended use of an engine.
     *
     * @param depth number of threads up to which throughput grows
     * @param batch recommended number of jobs in one call
     */
    public record Offer(long depth, long batch) {}
}
