package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;

/** A key for files, outside of the heap. Closing it wipes it. */
public final class FileKey implements AutoCloseable {
    private final Arena arena = Arena.ofShared();
    final MemorySegment object;

    private FileKey(Consumer<MemorySegment> maker) {
        object = Native.make(arena, Native.FILE_KEY_FREE, maker);
    }

    /** Makes a fresh key: {@code cobblestone-256}, {@code cobblestone-128} or {@code tink}. */
    public static FileKey generate(String format) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment name = call.allocateFrom(format);
            return new FileKey(place -> Native.check(Native.FILE_KEY_GENERATE, name, place));
        }
    }

    /** Copies a raw key of 32 bytes for Cobblestone-256 or 16 for Cobblestone-128. */
    public static FileKey of(byte[] bytes) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment copy = secret(call, bytes);
            try {
                long length = bytes.length;
                return new FileKey(
                        place -> Native.check(Native.FILE_KEY_FROM_BYTES, copy, length, place));
            } finally {
                copy.fill((byte) 0);
            }
        }
    }

    /** Reads a key file that is not encrypted. */
    public static FileKey load(Path path) {
        return load(path, null, null);
    }

    /**
     * Reads a key file. Where it is encrypted with age, a passphrase opens it, or a file of
     * identities or an SSH key, which may itself have the passphrase; either may be null. A
     * passphrase is also tried without a byte-order mark, blanks and a carriage return around it.
     */
    public static FileKey load(Path path, byte[] passphrase, Path identities) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment file = call.allocateFrom(path.toString());
            return opened(call, Native.FILE_KEY_LOAD, file, passphrase, identities);
        }
    }

    /**
     * Takes the place of a key for age's own files, which have none and which the programs {@code
     * age} and {@code rage} read and write too. Closing it wipes the identities and the passphrase. It
     * can't be saved, and takes no {@link FileEncryption#context}; its files end in {@code .age}.
     *
     * {@snippet :
     * try (FileKey key = FileKey.ofAge(List.of("age1..."), null, null)) {
     *     new FileEncryption(key).encrypt(photos, sealed);
     * }
     * try (FileKey key = FileKey.ofAge(List.of(), null, Path.of("identity.txt"))) {
     *     new FileEncryption(key).decrypt(sealed, restored);
     * }
     * }
     *
     * @param recipients for whom it encrypts: {@code age1...}, or SSH keys
     * @param passphrase decrypts, and opens an encrypted identity. Without recipients it encrypts
     *     too, but no trees, since age takes a second for each file. Null for none
     * @param identities decrypts: a file of identities or an SSH key; null for none
     * @throws EvenerException if a recipient or the identities can't be read
     */
    public static FileKey ofAge(List<String> recipients, byte[] passphrase, Path identities) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment lines = call.allocateFrom(String.join("\n", recipients));
            return opened(call, Native.FILE_KEY_OF_AGE, lines, passphrase, identities);
        }
    }

    /** Calls a function that takes a text, a passphrase and a file of identities. */
    private static FileKey opened(
            Arena call,
            MethodHandle function,
            MemorySegment text,
            byte[] passphrase,
            Path identities) {
        MemorySegment opener =
                Native.text(call, identities == null ? null : identities.toString());
        MemorySegment phrase =
                passphrase == null ? MemorySegment.NULL : secret(call, passphrase);
        long length = passphrase == null ? 0 : passphrase.length;
        try {
            return new FileKey(
                    place -> Native.check(function, text, phrase, length, opener, place));
        } finally {
            if (passphrase != null) {
                phrase.fill((byte) 0);
            }
        }
    }

    /**
     * Writes the key to a new file that is its owner's alone, where the file system takes modes: FAT, exFAT
     * and NTFS may not.
     */
    public void save(Path path) {
        try (Arena call = Arena.ofConfined()) {
            Native.check(Native.FILE_KEY_SAVE, object, call.allocateFrom(path.toString()));
        }
    }

    /** How many bytes {@link #seal} makes of so many; with age, the most. */
    public long sealedLength(long length) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment place = call.allocate(JAVA_LONG);
            Native.check(Native.SEALED_LENGTH, object, length, place);
            return place.get(JAVA_LONG, 0);
        }
    }

    /**
     * Encrypts a buffer to the content of an encrypted file. All threads of the pool work on its
     * chunks.
     * Both buffers are native segments.
     *
     * @return how many bytes were written: {@link #sealedLength}, with age perhaps fewer
     */
    public long seal(Pool pool, byte[] context, MemorySegment plain, MemorySegment sealed) {
        return process(Native.SEAL, pool, context, plain, sealed);
    }

    /**
     * Decrypts the output of {@link #seal} or the content of an encrypted file; the plaintext is
     * never longer.
     *
     * @return how many bytes were written
     * @throws EvenerException if something is not authentic or missing; there is no plaintext
     */
    public long unseal(Pool pool, byte[] context, MemorySegment sealed, MemorySegment plain) {
        return process(Native.UNSEAL, pool, context, sealed, plain);
    }

    private long process(
            MethodHandle function,
            Pool pool,
            byte[] context,
            MemorySegment input,
            MemorySegment output) {
        if (!input.isNative() || !output.isNative() || output.isReadOnly()) {
            throw new IllegalArgumentException("buffers are native segments, the output writable");
        }
        try (Arena call = Arena.ofConfined()) {
            MemorySegment written = call.allocate(JAVA_LONG);
            Native.check(
                    function,
                    object,
                    pool.object,
                    secret(call, context),
                    (long) context.length,
                    input,
                    input.byteSize(),
                    output,
                    output.byteSize(),
                    written);
            return written.get(JAVA_LONG, 0);
        }
    }

    private static MemorySegment secret(Arena arena, byte[] bytes) {
        MemorySegment copy = arena.allocate(Math.max(bytes.length, 1));
        MemorySegment.copy(bytes, 0, copy, JAVA_BYTE, 0, bytes.length);
        return copy;
    }

    @Override
    public void close() {
        arena.close();
    }
}
