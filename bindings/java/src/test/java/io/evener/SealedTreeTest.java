package io.evener;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Sealed trees there and back. */
class SealedTreeTest {
    private static final String IDENTITY =
            "AGE-SECRET-KEY-1AVAUC2SN5XMEYHPEUW5REVFPLFSNGUTU3Z8ELL050JTS9UC03J7SK8M0KD\n";
    private static final String RECIPIENT =
            "age15za80n2vxu7gd2j2lfaydcdeltgm5rmfvz8zxcw94grvedplufrsw50j95";

    @TempDir Path directory;
    private Path source;
    private Path place;

    @BeforeEach
    void plant() throws Exception {
        source = directory.resolve("source");
        place = directory.resolve("tree");
        Files.createDirectories(source.resolve("deeper"));
        Files.writeString(source.resolve("one"), "the first");
        Files.writeString(source.resolve("deeper/zwei-\u00e4\u00f6"), "the second");
    }

    private SealedTree tree(FileKey key) {
        return new SealedTree(new FileEncryption(key), place).state(directory.resolve("state"));
    }

    @Test
    void generationsComeBack() throws Exception {
        try (FileKey key = FileKey.generate("cobblestone-256")) {
            assertFalse(SealedTree.isSealed(source));
            Report first = tree(key).seal(source);
            assertTrue(first.isNewGeneration());
            assertEquals(1, first.generation());
            assertFalse(tree(key).with(TreeOption.CHECKSUM).seal(source).isNewGeneration());
            assertTrue(SealedTree.isSealed(place));
            Files.writeString(source.resolve("three"), "the third");
            assertEquals(2, tree(key).seal(source).generation());
            assertEquals(2, tree(key).verify().generation());
            assertTrue(tree(key).with(TreeOption.QUICK).verify().isSuccess());

            Path back = directory.resolve("back");
            tree(key).decrypt(back);
            assertEquals("the third", Files.readString(back.resolve("three")));
            Path part = directory.resolve("part");
            Report read = tree(key).generation(1).paths("deeper").decrypt(part);
            assertEquals(1, read.generation());
            assertEquals("the second", Files.readString(part.resolve("deeper/zwei-\u00e4\u00f6")));
            assertFalse(Files.exists(part.resolve("one")));
            assertEquals(2, tree(key).at(Instant.now()).verify().generation());
        }
    }

    @Test
    void listsArePassed() throws Exception {
        List<TreeItem> items = new ArrayList<>();
        try (FileKey key = FileKey.generate("cobblestone-256")) {
            tree(key).seal(source);
            Files.writeString(source.resolve("three"), "the third");
            tree(key).seal(source);
            assertEquals(2, tree(key).list(items::add).generation());
            assertEquals(5, items.size());
            TreeItem last = items.getLast();
            assertEquals("deeper/zwei-\u00e4\u00f6", last.name());
            assertEquals("file", last.kind());
            assertEquals(10, last.bytes());
            assertEquals(1, last.generation());
            items.clear();
            tree(key).with(TreeOption.SHALLOW).list(item -> items.add(item) && items.size() < 2);
            assertEquals(2, items.size());
            items.clear();
            tree(key).generations(items::add);
            assertEquals(List.of(2L, 1L), items.stream().map(TreeItem::generation).toList());
            items.clear();
            tree(key).generation(1).diff(0, items::add);
            assertEquals("three", items.getLast().name());
            assertEquals("added", items.getLast().kind());
            items.clear();
            tree(key).diff(source, items::add);
            assertEquals(List.of(), items);

            RuntimeException thrown = new RuntimeException("enough");
            assertSame(
                    thrown,
                    assertThrows(
                            RuntimeException.class,
                            () ->
                                    tree(key)
                                            .list(
                                                    item -> {
                                                        throw thrown;
                                                    })));
        }
    }

    @Test
    void whatIsNotBelievedIsRefused() throws Exception {
        try (FileKey key = FileKey.generate("cobblestone-256");
                FileKey other = FileKey.generate("cobblestone-256")) {
            tree(key).seal(source);
            Files.writeString(source.resolve("three"), "the third");
            tree(key).seal(source);
            EvenerException wrong =
                    assertThrows(EvenerException.class, () -> tree(other).verify());
            assertEquals(Status.INVALID_KEY, wrong.status());
            assertTrue(wrong.report().isPresent());

            Files.move(
                    place.resolve("tree/0000000000000000002"), directory.resolve("hidden"));
            EvenerException rollback =
                    assertThrows(EvenerException.class, () -> tree(key).verify());
            assertEquals(Status.FILE, rollback.status());
            assertEquals(1, tree(key).with(TreeOption.ALLOW_ROLLBACK).verify().generation());

            EvenerException contradictory =
                    assertThrows(EvenerException.class, () -> tree(key).pin("1").verify());
            assertEquals(Status.INVALID_ARGUMENT, contradictory.status());
        }
    }

    @Test
    void aChangedIndexIsNotAuthentic() throws Exception {
        try (FileKey key = FileKey.generate("cobblestone-256")) {
            tree(key).seal(source);
            List<Path> files;
            try (Stream<Path> all = Files.walk(place.resolve("data"))) {
                files = all.filter(Files::isRegularFile).toList();
            }
            for (Path file : files) {
                Files.write(file, new byte[] {0}, StandardOpenOption.APPEND);
            }
            EvenerException changed =
                    assertThrows(
                            EvenerException.class, () -> tree(key).diff(source, item -> true));
            assertEquals(Status.AUTHENTICATION_FAILED, changed.status());
        }
    }

    @Test
    void oldGenerationsAndKeysGo() throws Exception {
        try (FileKey key = FileKey.generate("cobblestone-256");
                FileKey newKey = FileKey.generate("cobblestone-256")) {
            tree(key).seal(source);
            Files.writeString(source.resolve("three"), "the third");
            tree(key).seal(source);
            Report cleaned = tree(key).keep(1).clean();
            assertEquals(3, cleaned.generation());
            assertTrue(cleaned.json().contains("\"removed\":[1]"));
            assertEquals(4, tree(key).rekey(newKey).generation());
            assertTrue(tree(newKey).verify().isSuccess());
            assertThrows(EvenerException.class, () -> tree(key).verify());
        }
    }

    @Test
    void recipientsReadAndSignersAreKnown() throws Exception {
        Path identity = Files.writeString(directory.resolve("identity"), IDENTITY);
        Files.setPosixFilePermissions(identity, PosixFilePermissions.fromString("rw-------"));
        try (FileKey writer = FileKey.ofAge(List.of(RECIPIENT), null, null);
                FileKey reader = FileKey.ofAge(List.of(), null, identity)) {
            tree(writer).padding(4096).seal(source);
            List<TreeItem> signers = new ArrayList<>();
            tree(reader).signers(signers::add);
            String own = tree(reader).ownSigner();
            assertEquals(List.of(own), signers.stream().map(TreeItem::name).toList());

            SealedTree elsewhere = tree(reader).state(directory.resolve("other-state"));
            String other = elsewhere.ownSigner();
            assertNotEquals(own, other);
            assertThrows(
                    EvenerException.class, () -> elsewhere.signedBy(List.of(other)).verify());
            assertTrue(elsewhere.signedBy(List.of(own)).verify().isSuccess());
            Report changed = tree(reader).changeSigners(List.of(other), List.of(), List.of());
            assertEquals(2, changed.generation());

            signers.clear();
            tree(reader).signers(signers::add);
            assertEquals(2, signers.size());
            String json = signers.getLast().json();
            String fingerprint = json.replaceAll(".*\"(SHA256:[^\"]*)\".*", "$1");
            tree(reader).changeSigners(List.of(), List.of(fingerprint), List.of());
            tree(reader).changeSigners(List.of(other), List.of(), List.of());
            tree(reader).changeSigners(List.of(), List.of(), List.of(fingerprint + "@2"));
            signers.clear();
            tree(reader).signers(signers::add);
            assertEquals(
                    List.of("signer", "revoked"), signers.stream().map(TreeItem::kind).toList());
            assertEquals(2, signers.getLast().generation());
            assertEquals(fingerprint, signers.getLast().name());

            Report rewrapped = tree(reader).rewrap(writer);
            assertTrue(rewrapped.json().contains("\"removed\":1"));
            tree(reader).decrypt(directory.resolve("opened"));
            assertEquals("the first", Files.readString(directory.resolve("opened/one")));
        }
    }

    @Test
    void otherRecipientsAreAnError() throws Exception {
        String other = "age1c9qlf8g4cn97ejyuher4nuc5v6kyy2q5al324cxdkmr7px7q799s4uutv0";
        try (FileKey one = FileKey.ofAge(List.of(RECIPIENT), null, null);
                FileKey two = FileKey.ofAge(List.of(RECIPIENT, other), null, null)) {
            tree(one).seal(source);
            Files.writeString(source.resolve("three"), "the third");
            EvenerException refused =
                    assertThrows(EvenerException.class, () -> tree(two).seal(source));
            assertEquals(Status.FILE, refused.status());
            Report made = tree(two).with(TreeOption.RECIPIENTS_CHANGED).seal(source);
            assertEquals(2, made.generation());
        }
    }

    @Test
    void aMistypedPassphraseSealsNothing() throws Exception {
        try (FileKey right = FileKey.ofAge(List.of(), "open sesame".getBytes(UTF_8), null);
                FileKey wrong = FileKey.ofAge(List.of(), "open barley".getBytes(UTF_8), null)) {
            tree(right).seal(source);
            Files.writeString(source.resolve("three"), "the third");
            EvenerException refused =
                    assertThrows(EvenerException.class, () -> tree(wrong).seal(source));
            assertEquals(Status.INVALID_KEY, refused.status());
            assertEquals(2, tree(right).seal(source).generation());
        }
    }
}
