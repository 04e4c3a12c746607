package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** age's own files, which the programs {@code age} and {@code evener} read and write too. */
class AgeTest {
    private static final String RECIPIENT =
            "age15za80n2vxu7gd2j2lfaydcdeltgm5rmfvz8zxcw94grvedplufrsw50j95";
    private static final String IDENTITY =
            "AGE-SECRET-KEY-1AVAUC2SN5XMEYHPEUW5REVFPLFSNGUTU3Z8ELL050JTS9UC03J7SK8M0KD\n";

    /** The public key of {@link FileEncryptionTest#SSH_IDENTITY}. */
    private static final String SSH_RECIPIENT =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEv9zKBH7FJsA3kLS7BmKLF0Kgp6yOECxzLgPOlwXO82";

    /** Around age's chunks of 64 KiB. */
    private static final int[] SIZES = {0, 1, 65_535, 65_536, 65_537, 131_072, 300_000};

    @TempDir Path directory;
    private Path tree;
    private Path identity;

    @BeforeEach
    void plant() throws IOException {
        tree = Files.createDirectories(directory.resolve("tree"));
        for (int size : SIZES) {
            Files.write(tree.resolve("" + size), Messages.bytes(size, size));
        }
        identity = Files.writeString(directory.resolve("identity"), IDENTITY);
        Files.setPosixFilePermissions(identity, PosixFilePermissions.fromString("rw-------"));
    }

    private static FileKey sealing() {
        return FileKey.ofAge(List.of(SSH_RECIPIENT, RECIPIENT), null, null);
    }

    private FileKey opening() {
        return FileKey.ofAge(List.of(), null, identity);
    }

    @Test
    void othersReadWhatItWrites() throws Exception {
        Path sealed = directory.resolve("sealed");
        Path armored = directory.resolve("armored.age");
        try (FileKey key = sealing()) {
            FileEncryption encryption = new FileEncryption(key);
            Report report = encryption.encrypt(tree, sealed);
            assertEquals(SIZES.length, report.files());
            encryption.with(FileOption.ARMOR).encrypt(tree.resolve("300000"), armored);
        }
        assertTrue(Files.readString(armored).startsWith("-----BEGIN AGE ENCRYPTED FILE-----\n"));
        byte[] last = Messages.bytes(300_000, 300_000);
        assertArrayEquals(last, run(evener(), "decrypt", "-i", "" + identity, "" + armored, "-"));
        Path back = directory.resolve("back");
        run(evener(), "decrypt", "-q", "-i", "" + identity, "" + sealed, "" + back);
        for (int size : SIZES) {
            assertArrayEquals(
                    Messages.bytes(size, size), Files.readAllBytes(back.resolve("" + size)));
        }
        String age = age();
        assertArrayEquals(last, run(age, "-d", "-i", "" + identity, "" + armored));
        for (int size : SIZES) {
            Path file = sealed.resolve(size + ".age");
            assertArrayEquals(
                    Messages.bytes(size, size), run(age, "-d", "-i", "" + identity, "" + file));
        }
    }

    @Test
    void itReadsWhatOthersWrite() throws Exception {
        Path sealed = directory.resolve("sealed");
        run(
                evener(), "encrypt", "-q", "--format", "age", "-r", RECIPIENT, "" + tree,
                "" + sealed);
        try (FileKey key = opening()) {
            comesBack(key, sealed, directory.resolve("ours"));
            String age = age();
            for (String form : List.of("--", "-a")) {
                for (int size : SIZES) {
                    Path plain = tree.resolve("" + size);
                    Path file = directory.resolve("theirs" + form + size + ".age");
                    Path opened = directory.resolve("theirs" + form + size);
                    byte[] content =
                            form.equals("-a")
                                    ? run(age, "-a", "-r", RECIPIENT, "" + plain)
                                    : run(age, "-r", RECIPIENT, "" + plain);
                    Files.write(file, content);
                    FileEncryption encryption = new FileEncryption(key);
                    encryption.verify(file);
                    encryption.decrypt(file, directory);
                    assertEquals(-1, Files.mismatch(plain, opened));
                }
            }
        }
    }

    private void comesBack(FileKey key, Path sealed, Path back) throws IOException {
        FileEncryption encryption = new FileEncryption(key);
        assertTrue(encryption.verify(sealed).isSuccess());
        assertEquals(SIZES.length, encryption.decrypt(sealed, back).files());
        for (int size : SIZES) {
            Path name = Path.of("" + size);
            assertEquals(-1, Files.mismatch(tree.resolve(name), back.resolve(name)));
        }
    }

    @Test
    void everyRecipientsIdentityOpensIt() throws Exception {
        Path sealed = directory.resolve("sealed");
        Path ssh = Files.writeString(directory.resolve("ssh"), FileEncryptionTest.SSH_IDENTITY);
        Files.setPosixFilePermissions(ssh, PosixFilePermissions.fromString("rw-------"));
        try (FileKey key = sealing()) {
            new FileEncryption(key).encrypt(tree, sealed);
        }
        try (FileKey key = opening()) {
            comesBack(key, sealed, directory.resolve("one"));
        }
        try (FileKey key = FileKey.ofAge(List.of(), "open sesame".getBytes(UTF_8), ssh)) {
            comesBack(key, sealed, directory.resolve("other"));
        }
    }

    @Test
    void pipesAreReadAndWrittenToTheirEnds() throws Exception {
        byte[] content = Messages.bytes(9, 200_000);
        Path in = fifo("in");
        Path out = fifo("out");
        Path sealed = directory.resolve("sealed.age");
        for (FileOption[] form : new FileOption[][] {{}, {FileOption.ARMOR}}) {
            FutureTask<Path> writer = beside(() -> Files.write(in, content));
            try (FileKey key = sealing()) {
                FileEncryption encryption = new FileEncryption(key).with(form);
                encryption.with(FileOption.OVERWRITE).encrypt(in, sealed);
            }
            writer.get();
            String[] decrypt = {evener(), "decrypt", "-i", "" + identity, "" + sealed, "-"};
            assertArrayEquals(content, run(decrypt));
            FutureTask<byte[]> reader = beside(() -> Files.readAllBytes(out));
            try (FileKey key = opening()) {
                assertEquals(1, new FileEncryption(key).decrypt(sealed, out).files());
            }
            assertArrayEquals(content, reader.get());
        }
    }

    @Test
    void aPipeThatIsCutThrowsAfterItsBeginning() throws Exception {
        byte[] content = Messages.bytes(9, 200_000);
        Path plain = Files.write(directory.resolve("plain"), content);
        Path sealed = directory.resolve("sealed.age");
        try (FileKey key = sealing()) {
            new FileEncryption(key).encrypt(plain, sealed);
        }
        byte[] bytes = Files.readAllBytes(sealed);
        Path in = fifo("in");
        Path target = directory.resolve("target");
        byte[] beginning = Arrays.copyOf(bytes, bytes.length - 1);
        FutureTask<Path> writer = beside(() -> Files.write(in, beginning));
        try (FileKey key = opening()) {
            EvenerException cut =
                    assertThrows(
                            EvenerException.class,
                            () -> new FileEncryption(key).decrypt(in, target));
            assertEquals(Status.INCOMPLETE, cut.status());
            assertEquals(1, cut.report().orElseThrow().failures().size());
        }
        writer.get();
        assertFalse(Files.exists(target));
    }

    @Test
    void aPassphraseIsForFilesAndNotForTrees() throws Exception {
        Path phrase = Files.writeString(directory.resolve("phrase"), "open sesame\n");
        Files.setPosixFilePermissions(phrase, PosixFilePermissions.fromString("rw-------"));
        Path plain = tree.resolve("65537");
        Path ours = directory.resolve("ours.age");
        Path theirs = directory.resolve("theirs.age");
        byte[] content = Messages.bytes(65_537, 65_537);
        run(
                evener(), "encrypt", "-q", "--format", "age", "--passphrase-file", "" + phrase,
                "" + plain, "" + theirs);
        try (FileKey key = FileKey.ofAge(List.of(), "open sesame".getBytes(UTF_8), null)) {
            FileEncryption encryption = new FileEncryption(key);
            encryption.encrypt(plain, ours);
            encryption.decrypt(theirs, directory.resolve("opened"));
            EvenerException refused =
                    assertThrows(
                            EvenerException.class,
                            () -> encryption.encrypt(tree, directory.resolve("sealed")));
            assertTrue(refused.getMessage().contains("passphrase"), refused.getMessage());
        }
        assertFalse(Files.exists(directory.resolve("sealed")));
        assertArrayEquals(content, Files.readAllBytes(directory.resolve("opened")));
        String[] decrypt = {
            evener(), "decrypt", "--passphrase-file", "" + phrase, "" + ours, "-"
        };
        assertArrayEquals(content, run(decrypt));
    }

    @Test
    void changedAndForeignFilesThrow() throws Exception {
        Path sealed = directory.resolve("sealed");
        try (FileKey key = sealing()) {
            new FileEncryption(key).encrypt(tree, sealed);
        }
        Path changed = sealed.resolve("65537.age");
        byte[] bytes = Files.readAllBytes(changed);
        bytes[bytes.length - 1] ^= 1;
        Files.write(changed, bytes);
        Path back = directory.resolve("back");
        try (FileKey key = opening()) {
            EvenerException thrown =
                    assertThrows(
                            EvenerException.class,
                            () -> new FileEncryption(key).decrypt(sealed, back));
            assertEquals(Status.INCOMPLETE, thrown.status());
            Report report = thrown.report().orElseThrow();
            assertEquals(SIZES.length - 1, report.files());
            assertEquals(changed.toString(), report.failures().getFirst().path());
        }
        assertFalse(Files.exists(back.resolve("65537")));
        // One who only encrypts opens nothing.
        try (FileKey key = sealing()) {
            assertThrows(EvenerException.class, () -> new FileEncryption(key).verify(sealed));
        }
    }

    @Test
    void aBufferIsTheContentOfAFile() throws Exception {
        try (Arena arena = Arena.ofConfined();
                Pool pool = Pool.of(2);
                FileKey sealing = sealing();
                FileKey opening = opening()) {
            MemorySegment plain = arena.allocate(100_000).fill((byte) 3);
            MemorySegment sealed = arena.allocate(sealing.sealedLength(100_000));
            long length = sealing.seal(pool, new byte[0], plain, sealed);
            Path file = directory.resolve("buffer.age");
            MemorySegment whole = sealed.asSlice(0, length);
            Files.write(file, whole.toArray(JAVA_BYTE));
            byte[] content = run(evener(), "decrypt", "-i", "" + identity, "" + file, "-");
            assertEquals(-1, plain.mismatch(MemorySegment.ofArray(content)));
            MemorySegment opened = arena.allocate(length);
            assertEquals(100_000, opening.unseal(pool, new byte[0], whole, opened));
            assertEquals(-1, plain.mismatch(opened.asSlice(0, 100_000)));
        }
    }

    @Test
    void whatIsNoKeyIsRefused() {
        EvenerException nobody =
                assertThrows(
                        EvenerException.class,
                        () -> FileKey.ofAge(List.of("age1nobody"), null, null));
        assertEquals(Status.KEY_FILE, nobody.status());
        Path absent = directory.resolve("absent");
        assertThrows(EvenerException.class, () -> FileKey.ofAge(List.of(), null, absent));
        try (FileKey key = sealing()) {
            Path saved = directory.resolve("saved.key");
            EvenerException none =
                    assertThrows(EvenerException.class, () -> key.save(saved));
            assertEquals(Status.INVALID_ARGUMENT, none.status());
            FileEncryption bound = new FileEncryption(key).context(new byte[] {1});
            assertThrows(
                    EvenerException.class, () -> bound.encrypt(tree, directory.resolve("a")));
            FileEncryption armoring = new FileEncryption(key).with(FileOption.ARMOR);
            assertThrows(
                    EvenerException.class, () -> armoring.encrypt(tree, directory.resolve("b")));
        }
    }

    private Path fifo(String name) throws Exception {
        Path path = directory.resolve(name);
        run("mkfifo", path.toString());
        return path;
    }

    private static <T> FutureTask<T> beside(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread.ofPlatform().daemon().start(task);
        return task;
    }

    private static String evener() {
        String program = System.getProperty("evener.program");
        assumeTrue(program != null && Files.isExecutable(Path.of(program)), "no program evener");
        return program;
    }

    private static String age() {
        for (String place : System.getenv("PATH").split(":")) {
            Path program = Path.of(place, "age");
            if (Files.isExecutable(program)) {
                return program.toString();
            }
        }
        assumeTrue(false, "no program age");
        return null;
    }

    /** Runs a program that must succeed, and returns its standard output. */
    private static byte[] run(String... command) throws Exception {
        Process process =
                new ProcessBuilder(command)
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        process.getOutputStream().close();
        try (InputStream output = process.getInputStream()) {
            byte[] bytes = output.readAllBytes();
            assertEquals(0, process.waitFor(), String.join(" ", command));
            return bytes;
        }
    }
}
