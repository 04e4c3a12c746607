package io.evener;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Keys of files, and trees there and back. */
class FileEncryptionTest {
    @TempDir Path directory;
    private Path tree;

    @BeforeEach
    void plant() throws Exception {
        tree = directory.resolve("tree");
        Files.createDirectories(tree.resolve("deeper"));
        Files.writeString(tree.resolve("one"), "the first");
        Files.writeString(tree.resolve("deeper/zwei-\u00e4\u00f6"), "the second");
    }

    @Test
    void aTreeComesBack() throws Exception {
        List<Progress> told = new ArrayList<>();
        Path sealed = directory.resolve("sealed");
        Path back = directory.resolve("back");
        try (FileKey key = FileKey.of(Messages.bytes(1, 32))) {
            FileEncryption encryption =
                    new FileEncryption(key)
                            .engines("openssl")
                            .workers(2)
                            .permits(1)
                            .maxCpu(100)
                            .memory(16 << 20)
                            .suffix(".sealed")
                            .context(new byte[] {1, 2, 3})
                            .with(FileOption.MEASURE_TOTAL)
                            .onProgress(told::add);
            Report report = encryption.encrypt(tree, sealed);
            assertTrue(report.isSuccess());
            assertEquals(2, report.files());
            assertEquals(19, report.bytes());
            assertTrue(report.json().contains("\"openssl\""));
            assertEquals(new Progress(0, 0, 0, 0), told.getFirst());
            assertEquals(new Progress(2, 19, 2, 19), told.getLast());
            assertTrue(Files.exists(sealed.resolve("deeper/zwei-\u00e4\u00f6.sealed")));

            assertTrue(encryption.verify(sealed).isSuccess());
            assertTrue(encryption.decrypt(sealed, back).isSuccess());
            assertEquals("the second", Files.readString(back.resolve("deeper/zwei-\u00e4\u00f6")));

            Report again = encryption.decrypt(sealed, back);
            assertFalse(again.isSuccess());
            assertEquals(2, again.failures().size());
            assertTrue(again.failures().getFirst().cause().contains("exists"));
            assertTrue(encryption.with(FileOption.OVERWRITE).decrypt(sealed, back).isSuccess());
        }
    }

    @Test
    void aListenerStopsIt() {
        try (FileKey key = FileKey.generate("cobblestone-128")) {
            FileEncryption encryption = new FileEncryption(key).onProgress(progress -> false);
            Report report = encryption.encrypt(tree, directory.resolve("stopped"));
            assertTrue(report.isInterrupted());
            assertEquals(0, report.files());

            RuntimeException thrown = new RuntimeException("enough");
            encryption.onProgress(
                    progress -> {
                        throw thrown;
                    });
            Path target = directory.resolve("thrown");
            assertSame(
                    thrown,
                    assertThrows(
                            RuntimeException.class, () -> encryption.encrypt(tree, target)));
        }
    }

    @Test
    void keysAreKeptInFiles() {
        Path file = directory.resolve("tink.key");
        try (FileKey key = FileKey.generate("tink")) {
            key.save(file);
            EvenerException exists = assertThrows(EvenerException.class, () -> key.save(file));
            assertEquals(Status.KEY_FILE, exists.status());
            assertTrue(
                    new FileEncryption(key).encrypt(tree, directory.resolve("a")).isSuccess());
        }
        try (FileKey key = FileKey.load(file)) {
            assertTrue(new FileEncryption(key).verify(directory.resolve("a")).isSuccess());
        }
        assertThrows(EvenerException.class, () -> FileKey.of(new byte[5]));
        assertThrows(EvenerException.class, () -> FileKey.load(directory.resolve("absent")));
    }

    @Test
    void aBufferComesBack() {
        byte[] context = {1, 2};
        try (Arena arena = Arena.ofConfined();
                Pool pool = Pool.of(2);
                FileKey key = FileKey.generate("cobblestone-256")) {
            MemorySegment plain = arena.allocate(100_000).fill((byte) 3);
            MemorySegment sealed = arena.allocate(key.sealedLength(100_000));
            MemorySegment opened = arena.allocate(sealed.byteSize());
            assertEquals(sealed.byteSize(), key.seal(pool, context, plain, sealed));
            assertEquals(100_000, key.unseal(pool, context, sealed, opened));
            assertEquals(-1, plain.mismatch(opened.asSlice(0, 100_000)));
            MemorySegment cut = sealed.asSlice(0, 90_000);
            EvenerException truncated =
                    assertThrows(
                            EvenerException.class,
                            () -> key.unseal(pool, context, cut, opened));
            assertEquals(Status.AUTHENTICATION_FAILED, truncated.status());
        }
    }

    @Test
    void whatCanNotBeginSaysWhy() {
        try (FileKey key = FileKey.generate("cobblestone-256")) {
            Path absent = directory.resolve("absent");
            EvenerException exception =
                    assertThrows(
                            EvenerException.class, () -> new FileEncryption(key).verify(absent));
            assertEquals(Status.FILE, exception.status());
            assertTrue(exception.getMessage().contains("absent"));
        }
    }
}
