package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.List;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Engines, keys, sessions, batches and parallel buffers, against Java's own results. */
class SessionTest {
    private static final byte[] KEY = Messages.key(256).getEncoded();
    private static final byte[] IV = Messages.bytes(1, 16);

    private static byte[] byJava(byte[] plain) throws Exception {
        Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding", "SunJCE");
        cipher.init(Cipher.ENCRYPT_MODE, Messages.key(256), new IvParameterSpec(IV));
        return cipher.doFinal(plain);
    }

    private static byte[] array(MemorySegment segment) {
        return segment.toArray(JAVA_BYTE);
    }

    @Test
    void enginesAndCiphersAreListed() {
        CipherInfo gcm = CipherInfo.named("AES-256-GCM");
        assertEquals(new CipherInfo("aes-256-gcm", 32, 12, 1, 16), gcm);
        assertTrue(CipherInfo.all().contains(gcm));
        EvenerException unknown =
                assertThrows(EvenerException.class, () -> CipherInfo.named("rot-13"));
        assertEquals(Status.UNKNOWN_CIPHER, unknown.status());
        assertTrue(unknown.getMessage().contains("rot-13"));

        List<Engine.Info> engines = Engine.list();
        assertTrue(engines.stream().anyMatch(it -> it.name().equals("openssl")));
        assertTrue(engines.stream().allMatch(it -> it.absent().isEmpty() == it.detail().isPresent()));
        try (Engine engine = Engine.open("openssl")) {
            assertTrue(engine.offer("aes-128-cbc", Direction.ENCRYPT).orElseThrow().depth() > 0);
        }
        EvenerException absent =
                assertThrows(EvenerException.class, () -> Engine.open("enigma:M4"));
        assertEquals(Status.ENGINE_UNAVAILABLE, absent.status());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 5, 100_000, 2_000_000})
    void everyKindOfMemoryGivesTheSame(int length) throws Exception {
        byte[] plain = Messages.bytes(2, length);
        byte[] expected = byJava(plain);
        try (Arena arena = Arena.ofConfined();
                Engine engine = Engine.openDefault();
                Key key = Key.of(KEY);
                Session session = Session.open(engine, "aes-256-ctr", Direction.ENCRYPT, key)) {
            byte[] heap = new byte[length];
            session.crypt(IV, MemorySegment.ofArray(plain), MemorySegment.ofArray(heap));
            assertArrayEquals(expected, heap);

            MemorySegment from = arena.allocate(length).copyFrom(MemorySegment.ofArray(plain));
            MemorySegment to = arena.allocate(length);
            assertEquals(length, session.crypt(IV, from, to));
            assertArrayEquals(expected, array(to));

            heap = new byte[length];
            session.crypt(IV, from.asReadOnly(), MemorySegment.ofArray(heap));
            assertArrayEquals(expected, heap);

            ByteBuffer direct = ByteBuffer.allocateDirect(length);
            ByteBuffer source = ByteBuffer.wrap(plain).asReadOnlyBuffer();
            assertEquals(length, session.crypt(Padding.NONE, IV, null, source, direct));
            assertEquals(length, direct.position());
            assertArrayEquals(expected, array(MemorySegment.ofBuffer(direct.flip())));
        }
    }

    @Test
    void rejectionsAreExceptionsWithAStatus() {
        try (Key key = Key.generate("aes-128-gcm");
                Session session = Session.open("aes-128-gcm", Direction.DECRYPT, key)) {
            MemorySegment forged = MemorySegment.ofArray(new byte[20]);
            MemorySegment output = MemorySegment.ofArray(new byte[4]);
            EvenerException forgery =
                    assertThrows(
                            EvenerException.class,
                            () -> session.crypt(new byte[12], forged, output));
            assertEquals(Status.AUTHENTICATION_FAILED, forgery.status());
            EvenerException malformed =
                    assertThrows(
                            EvenerException.class,
                            () -> session.crypt(new byte[13], forged, output));
            assertEquals(Status.MALFORMED_JOB, malformed.status());
            assertThrows(
                    IllegalArgumentException.class,
                    () -> session.crypt(new byte[12], forged, output.asReadOnly()));
        }
        try (Key key = Key.of(KEY)) {
            EvenerException length =
                    assertThrows(
                            EvenerException.class,
                            () -> Session.open("aes-128-gcm", Direction.DECRYPT, key));
            assertEquals(Status.INVALID_KEY, length.status());
        }
        assertThrows(EvenerException.class, () -> Key.of(new byte[0]));
    }

    @Test
    void whatIsClosedIsOfNoMoreUse() {
        Key key = Key.of(KEY);
        Session session = Session.open("aes-256-ctr", Direction.ENCRYPT, key);
        key.close();
        MemorySegment memory = MemorySegment.ofArray(new byte[16]);
        MemorySegment other = MemorySegment.ofArray(new byte[16]);
        session.crypt(IV, memory, other);
        session.close();
        assertThrows(IllegalStateException.class, () -> session.crypt(IV, memory, other));
        assertThrows(
                IllegalStateException.class,
                () -> Session.open("aes-256-ctr", Direction.ENCRYPT, key));
    }

    @Test
    void aBatchHoldsItsSegmentsAndRefusesClosedOnes() {
        try (Key key = Key.generate("aes-128-cbc");
                Session session = Session.open("aes-128-cbc", Direction.ENCRYPT, key);
                Batch batch = new Batch(64)) {
            for (int index = 0; index < 64; index++) {
                // Nobody else refers to these.
                MemorySegment input = Arena.ofAuto().allocate(1 << 20).fill((byte) index);
                batch.add(new byte[16], input, Arena.ofAuto().allocate(1 << 20));
                if (index % 16 == 0) {
                    System.gc();
                }
            }
            batch.process(session);
            batch.clear();

            Arena closed = Arena.ofConfined();
            MemorySegment segment = closed.allocate(32);
            batch.add(new byte[16], segment.asSlice(0, 16), segment.asSlice(16, 16));
            closed.close();
            assertThrows(IllegalStateException.class, () -> batch.process(session));
            assertEquals(Status.PENDING, batch.status(0));
            assertThrows(
                    IllegalStateException.class,
                    () -> batch.add(new byte[16], segment, segment));
        }
    }

    @Test
    void aBatchDoesAllButTheForged() {
        try (Arena arena = Arena.ofConfined();
                Key key = Key.generate("aes-256-gcm");
                Session sealing = Session.open("aes-256-gcm", Direction.ENCRYPT, key);
                Session opening = Session.open("aes-256-gcm", Direction.DECRYPT, key);
                Batch batch = new Batch(3)) {
            MemorySegment plain = arena.allocate(100).fill((byte) 7);
            MemorySegment[] sealed = new MemorySegment[3];
            MemorySegment[] opened = new MemorySegment[3];
            for (int index = 0; index < 3; index++) {
                sealed[index] = arena.allocate(116);
                opened[index] = arena.allocate(100);
                batch.add(Messages.bytes(index, 12), plain, sealed[index]);
            }
            assertThrows(
                    IllegalStateException.class,
                    () -> batch.add(new byte[12], plain, opened[0]));
            assertEquals(Status.PENDING, batch.status(2));
            batch.process(sealing);
            assertEquals(116, batch.written(2));

            batch.clear();
            sealed[1].set(JAVA_BYTE, 3, (byte) 0);
            sealed[1].set(JAVA_BYTE, 4, (byte) 0);
            sealed[1].set(JAVA_BYTE, 5, (byte) 0);
            for (int index = 0; index < 3; index++) {
                batch.add(Messages.bytes(index, 12), sealed[index], opened[index]);
            }
            EvenerException forged =
                    assertThrows(EvenerException.class, () -> batch.process(opening));
            assertEquals(Status.AUTHENTICATION_FAILED, forged.status());
            assertEquals(Status.AUTHENTICATION_FAILED, batch.status(1));
            assertArrayEquals(new byte[100], array(opened[1]));
            for (int index : new int[] {0, 2}) {
                assertEquals(Status.OK, batch.status(index));
                assertEquals(-1, plain.mismatch(opened[index]));
            }
            assertThrows(IndexOutOfBoundsException.class, () -> batch.status(3));
            batch.clear();
            MemorySegment heap = MemorySegment.ofArray(new byte[4]);
            assertThrows(
                    IllegalArgumentException.class, () -> batch.add(new byte[12], heap, heap));
        }
    }

    @Test
    void manyThreadsDoOneBuffer() throws Exception {
        byte[] plain = Messages.bytes(3, 3_000_001);
        byte[] expected = byJava(plain);
        try (Arena arena = Arena.ofConfined();
                Key key = Key.of(KEY);
                Pool pool = Pool.of(3);
                ParallelCipher fastest = ParallelCipher.open(pool, "aes-256-ctr", key);
                ParallelCipher openssl =
                        ParallelCipher.open(pool, "openssl", "aes-256-ctr", key, Padding.NONE)) {
            for (ParallelCipher cipher : List.of(fastest, openssl)) {
                MemorySegment from =
                        arena.allocate(plain.length).copyFrom(MemorySegment.ofArray(plain));
                MemorySegment to = arena.allocate(plain.length);
                assertEquals(plain.length, cipher.crypt(Direction.ENCRYPT, IV, from, to));
                assertArrayEquals(expected, array(to));
                cipher.cryptInPlace(Direction.DECRYPT, IV, to);
                assertArrayEquals(plain, array(to));
                MemorySegment heap = MemorySegment.ofArray(plain);
                assertThrows(
                        IllegalArgumentException.class,
                        () -> cipher.crypt(Direction.ENCRYPT, IV, heap, to));
            }
        }
        assertThrows(IllegalArgumentException.class, () -> Pool.of(0));
    }
}
