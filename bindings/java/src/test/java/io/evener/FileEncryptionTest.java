package io.evener;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
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

            EvenerException exists =
                    assertThrows(EvenerException.class, () -> encryption.decrypt(sealed, back));
            assertEquals(Status.INCOMPLETE, exists.status());
            Report again = exists.report().orElseThrow();
            assertFalse(again.isSuccess());
            assertEquals(2, again.failures().size());
            assertTrue(again.failures().getFirst().cause().contains("exists"));
            assertTrue(encryption.with(FileOption.OVERWRITE).decrypt(sealed, back).isSuccess());
        }
    }

    @Test
    void aChangedFileThrows() throws Exception {
        Path sealed = directory.resolve("sealed");
        try (FileKey key = FileKey.generate("cobblestone-256")) {
            FileEncryption encryption = new FileEncryption(key);
            encryption.encrypt(tree, sealed);
            Path changed = sealed.resolve("one.enc");
            byte[] bytes = Files.readAllBytes(changed);
            bytes[bytes.length - 1] ^= 1;
            Files.write(changed, bytes);
            EvenerException thrown =
                    assertThrows(EvenerException.class, () -> encryption.verify(sealed));
            assertEquals(Status.INCOMPLETE, thrown.status());
            assertTrue(thrown.getMessage().contains("one.enc"));
            Report report = thrown.report().orElseThrow();
            assertEquals(1, report.files());
            assertEquals(changed.toString(), report.failures().getFirst().path());
        }
    }

    @Test
    void aListenerStopsIt() {
        try (FileKey key = FileKey.generate("cobblestone-128")) {
            FileEncryption encryption = new FileEncryption(key).onProgress(progress -> false);
            Path stopped = directory.resolve("stopped");
            EvenerException cancelled =
                    assertThrows(EvenerException.class, () -> encryption.encrypt(tree, stopped));
            assertEquals(Status.CANCELLED, cancelled.status());
            Report report = cancelled.report().orElseThrow();
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
            EvenerException end = (EvenerException) thrown.getSuppressed()[0];
            assertTrue(end.report().orElseThrow().isInterrupted());
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

    /** An SSH key under the passphrase "open sesame". */
    static final String SSH_IDENTITY =
            """
            -----BEGIN OPENSSH PRIVATE KEY-----
            b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABBOEc2en+
            fXrRm7wjYrRHOCAAAAAQAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIEv9zKBH7FJsA3kL
            S7BmKLF0Kgp6yOECxzLgPOlwXO82AAAAkDrdmRRtPyWDpylen7f+RS1nC+g7aceu8ca27l
            Gmtl/bmjnrBAfzOxy4dEbuwSqqG3DFv17G/msGcrYqB4XVL1q5v2nqgKG4Myg0mLOxLVvg
            vLyGv69qhokk37CUSaWgzkr2WIUEGzbzudY+PcRjY9dl1GSZ+g/q0u5rlDjkh2/qTYkFmZ
            v5mCifyqZt5bZ/QA==
            -----END OPENSSH PRIVATE KEY-----
            """;

    private static final String KEY_FOR_SSH =
            """
            -----BEGIN AGE ENCRYPTED FILE-----
            YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNzaC1lZDI1NTE5IGo0NTE0USBIQ05H
            MG94TlpKMUxMWWFIRlpzTld5RWZ6ZjhyNHk3UFp1V0RiZDNHWm1vCnhwa0grRThm
            SUZGOVJ3akVleHpJcUN3SjdVcTYvUkh0ZHRNdUpsVUkyZjQKLS0tIDJqMmpha0pJ
            Rnp5eDFtakZQcW5TVjgxQTV4czhKaTlzMDJxRDBWSFRVM1UKv2aueyGL2dcMfLPs
            bs8Dl/NXubC5WinIr63A6i1F46RAL0Aa1IVpk9Tz5UROivCedfTDRO+hADJEGd2q
            Cr9CN/DdgbH1RxrgZuToXIIBifXKPmFsKg==
            -----END AGE ENCRYPTED FILE-----
            """;

    @Test
    void aPassphraseOpensAnSshKey() throws IOException {
        Path wrapped = Files.writeString(directory.resolve("for-ssh.age"), KEY_FOR_SSH);
        Path identity = Files.writeString(directory.resolve("id"), SSH_IDENTITY);
        Files.setPosixFilePermissions(identity, PosixFilePermissions.fromString("rw-------"));
        for (String passphrase : List.of("open sesame", "open sesame\r", " open sesame")) {
            FileKey.load(wrapped, passphrase.getBytes(UTF_8), identity).close();
        }
        byte[] wrong = "open barley".getBytes(UTF_8);
        EvenerException refused =
                assertThrows(
                        EvenerException.class, () -> FileKey.load(wrapped, wrong, identity));
        assertEquals(Status.KEY_FILE, refused.status());
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
            Report report = exception.report().orElseThrow();
            assertFalse(report.isSuccess());
            assertEquals(absent.toString(), report.failures().getFirst().path());
            EvenerException unusable =
                    assertThrows(
                            EvenerException.class,
                            () -> new FileEncryption(key).engines("none").verify(tree));
            assertTrue(unusable.report().isEmpty());
        }
    }
}
