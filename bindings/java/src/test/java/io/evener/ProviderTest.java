package io.evener;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Security;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Arrays;
import java.util.Random;
import javax.crypto.AEADBadTagException;
import javax.crypto.BadPaddingException;
import javax.crypto.Cipher;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.ShortBufferException;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The provider against the one that comes with Java, call by call. */
class ProviderTest {
    private static final String CTR = "AES/CTR/NoPadding";
    private static final String CBC = "AES/CBC/NoPadding";
    private static final String PADDED = "AES/CBC/PKCS5Padding";
    private static final String GCM = "AES/GCM/NoPadding";

    @BeforeAll
    static void addProvider() {
        Security.addProvider(new EvenerProvider());
    }

    private static AlgorithmParameterSpec parameters(String transformation, long seed) {
        return transformation.equals(GCM)
                ? new GCMParameterSpec(128, Messages.bytes(seed, 12))
                : new IvParameterSpec(Messages.bytes(seed, 16));
    }

    private static Cipher cipher(String provider, String transformation, int mode, int bits)
            throws Exception {
        Cipher cipher = Cipher.getInstance(transformation, provider);
        assertEquals(provider, cipher.getProvider().getName());
        cipher.init(mode, Messages.key(bits), parameters(transformation, 1));
        return cipher;
    }

    private static Cipher evener(String transformation, int mode, int bits) throws Exception {
        return cipher("Evener", transformation, mode, bits);
    }

    private static Cipher java(String transformation, int mode, int bits) throws Exception {
        return cipher("SunJCE", transformation, mode, bits);
    }

    @ParameterizedTest
    @CsvSource({
        CTR + ",128", CTR + ",192", CTR + ",256", CBC + ",128", CBC + ",192", CBC + ",256",
        PADDED + ",128", PADDED + ",192", PADDED + ",256", GCM + ",128", GCM + ",192", GCM + ",256"
    })
    void everyLengthIsWhatJavaMakesOfIt(String transformation, int bits) throws Exception {
        for (int length : new int[] {0, 1, 15, 16, 17, 31, 32, 33, 4096, 100_003, 3_000_000}) {
            int whole = transformation.equals(CBC) ? length - length % 16 : length;
            byte[] plain = Messages.bytes(2, whole);
            byte[] expected = java(transformation, Cipher.ENCRYPT_MODE, bits).doFinal(plain);
            Cipher encrypting = evener(transformation, Cipher.ENCRYPT_MODE, bits);
            assertArrayEquals(expected, encrypting.doFinal(plain));
            Cipher decrypting = evener(transformation, Cipher.DECRYPT_MODE, bits);
            assertArrayEquals(plain, decrypting.doFinal(expected));
        }
    }

    /** The same calls in pieces of any length. */
    @ParameterizedTest
    @ValueSource(strings = {CTR, CBC, PADDED})
    void streamsGiveWhatJavaGives(String transformation) throws Exception {
        Random random = new Random(3);
        for (int round = 0; round < 200; round++) {
            for (int mode : new int[] {Cipher.ENCRYPT_MODE, Cipher.DECRYPT_MODE}) {
                Cipher ours = evener(transformation, mode, 256);
                Cipher theirs = java(transformation, mode, 256);
                int total = random.nextInt(200);
                total -= transformation.equals(CBC) ? total % 16 : 0;
                byte[] input = Messages.bytes(round, total);
                if (mode == Cipher.DECRYPT_MODE && transformation.equals(PADDED)) {
                    input = java(transformation, Cipher.ENCRYPT_MODE, 256).doFinal(input);
                }
                ByteArrayOutputStream expected = new ByteArrayOutputStream();
                ByteArrayOutputStream actual = new ByteArrayOutputStream();
                int at = 0;
                while (at < input.length) {
                    int piece = Math.min(random.nextInt(40), input.length - at);
                    assertEquals(theirs.getOutputSize(piece) > 0, ours.getOutputSize(piece) > 0);
                    add(expected, theirs.update(input, at, piece));
                    add(actual, ours.update(input, at, piece));
                    // Java's holds more back than it must when padding is to come off.
                    if (!transformation.equals(PADDED)) {
                        assertArrayEquals(expected.toByteArray(), actual.toByteArray());
                    }
                    at += piece;
                }
                add(expected, theirs.doFinal());
                add(actual, ours.doFinal());
                assertArrayEquals(expected.toByteArray(), actual.toByteArray());
                // And then it is ready for the same again.
                assertArrayEquals(theirs.doFinal(input), ours.doFinal(input));
            }
        }
    }

    /** Where there is nothing to put out, a cipher may give null. */
    private static void add(ByteArrayOutputStream stream, byte[] output) {
        if (output != null) {
            stream.writeBytes(output);
        }
    }

    @Test
    void counterCarriesThroughAll128Bits() throws Exception {
        byte[] ones = new byte[16];
        Arrays.fill(ones, (byte) 0xFF);
        Cipher ours = Cipher.getInstance(CTR, "Evener");
        Cipher theirs = Cipher.getInstance(CTR, "SunJCE");
        for (Cipher cipher : new Cipher[] {ours, theirs}) {
            cipher.init(Cipher.ENCRYPT_MODE, Messages.key(128), new IvParameterSpec(ones));
        }
        byte[] plain = Messages.bytes(4, 100);
        assertArrayEquals(theirs.update(plain, 0, 5), ours.update(plain, 0, 5));
        assertArrayEquals(theirs.update(plain, 5, 60), ours.update(plain, 5, 60));
        assertArrayEquals(theirs.doFinal(plain, 65, 35), ours.doFinal(plain, 65, 35));
    }

    @ParameterizedTest
    @CsvSource({
        CTR + ",true", CTR + ",false", CBC + ",true", CBC + ",false",
        PADDED + ",true", PADDED + ",false", GCM + ",true", GCM + ",false"
    })
    void buffersAreReadAndWrittenWhereTheyLie(String transformation, boolean isDirect)
            throws Exception {
        byte[] plain = Messages.bytes(5, 2_000_000);
        byte[] expected = java(transformation, Cipher.ENCRYPT_MODE, 128).doFinal(plain);
        ByteBuffer input = buffer(isDirect, plain.length + 3).position(3).put(plain).flip();
        input.position(3);
        ByteBuffer output = buffer(isDirect, expected.length + 5).position(5);
        Cipher encrypting = evener(transformation, Cipher.ENCRYPT_MODE, 128);
        input.limit(1003);
        int written = encrypting.update(input, output);
        assertEquals(5 + written, output.position());
        input.limit(plain.length + 3);
        written += encrypting.doFinal(input.asReadOnlyBuffer(), output);
        assertEquals(expected.length, written);
        assertEquals(expected.length + 5, output.position());
        byte[] actual = new byte[written];
        output.get(5, actual);
        assertArrayEquals(expected, actual);
    }

    private static ByteBuffer buffer(boolean isDirect, int length) {
        return isDirect ? ByteBuffer.allocateDirect(length) : ByteBuffer.allocate(length);
    }

    @ParameterizedTest
    @ValueSource(strings = {CTR, CBC, PADDED, GCM})
    void inputAndOutputMayBeTheSame(String transformation) throws Exception {
        byte[] plain = Messages.bytes(6, 1600);
        byte[] expected = java(transformation, Cipher.ENCRYPT_MODE, 128).doFinal(plain);
        for (int shift : new int[] {0, 7}) {
            byte[] buffer = Arrays.copyOf(plain, 1700);
            Cipher cipher = evener(transformation, Cipher.ENCRYPT_MODE, 128);
            int written = cipher.doFinal(buffer, 0, plain.length, buffer, shift);
            assertArrayEquals(expected, Arrays.copyOfRange(buffer, shift, shift + written));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {CTR, CBC, PADDED, GCM})
    void aShortOutputChangesNothing(String transformation) throws Exception {
        byte[] plain = Messages.bytes(7, 48);
        byte[] sealed = java(transformation, Cipher.ENCRYPT_MODE, 128).doFinal(plain);
        Cipher encrypting = evener(transformation, Cipher.ENCRYPT_MODE, 128);
        byte[] small = new byte[sealed.length - 1];
        assertThrows(
                ShortBufferException.class, () -> encrypting.doFinal(plain, 0, 48, small, 0));
        assertArrayEquals(sealed, encrypting.doFinal(plain));
        Cipher decrypting = evener(transformation, Cipher.DECRYPT_MODE, 128);
        assertThrows(
                ShortBufferException.class,
                () -> decrypting.doFinal(sealed, 0, sealed.length, new byte[47], 0));
        byte[] exact = new byte[48];
        assertEquals(48, decrypting.doFinal(sealed, 0, sealed.length, exact, 0));
        assertArrayEquals(plain, exact);
    }

    @Test
    void authenticatedDataCountsAndForgeriesDoNot() throws Exception {
        byte[] plain = Messages.bytes(8, 1000);
        byte[] header = Messages.bytes(9, 33);
        Cipher theirs = java(GCM, Cipher.ENCRYPT_MODE, 256);
        theirs.updateAAD(header);
        byte[] sealed = theirs.doFinal(plain);
        Cipher ours = evener(GCM, Cipher.ENCRYPT_MODE, 256);
        ours.updateAAD(header, 0, 10);
        ours.updateAAD(ByteBuffer.wrap(header, 10, 23));
        assertEquals(null, nothing(ours.update(plain, 0, 300)));
        assertThrows(IllegalStateException.class, () -> ours.updateAAD(header));
        assertArrayEquals(sealed, ours.doFinal(plain, 300, 700));
        assertThrows(IllegalStateException.class, () -> ours.doFinal(plain));
        assertThrows(
                InvalidAlgorithmParameterException.class,
                () -> ours.init(Cipher.ENCRYPT_MODE, Messages.key(256), parameters(GCM, 1)));
        // Nor after something else was decrypted, with this key or another.
        for (int bits : new int[] {256, 128}) {
            ours.init(Cipher.DECRYPT_MODE, Messages.key(bits), parameters(GCM, 2));
            assertThrows(
                    InvalidAlgorithmParameterException.class,
                    () -> ours.init(Cipher.ENCRYPT_MODE, Messages.key(256), parameters(GCM, 1)));
        }

        Cipher opening = evener(GCM, Cipher.DECRYPT_MODE, 256);
        assertThrows(AEADBadTagException.class, () -> opening.doFinal(sealed));
        opening.updateAAD(header);
        assertArrayEquals(plain, opening.doFinal(sealed));
        sealed[5] ^= 1;
        opening.updateAAD(header);
        assertThrows(AEADBadTagException.class, () -> opening.doFinal(sealed));
        assertThrows(AEADBadTagException.class, () -> opening.doFinal(new byte[15]));
    }

    private static byte[] nothing(byte[] output) {
        return output == null || output.length == 0 ? null : output;
    }

    @Test
    void malformedMessagesAreRefused() throws Exception {
        Cipher whole = evener(CBC, Cipher.ENCRYPT_MODE, 128);
        assertThrows(IllegalBlockSizeException.class, () -> whole.doFinal(new byte[17]));
        Cipher padded = evener(PADDED, Cipher.DECRYPT_MODE, 128);
        assertThrows(IllegalBlockSizeException.class, () -> padded.doFinal(new byte[17]));
        Cipher unpadded = evener(CBC, Cipher.ENCRYPT_MODE, 128);
        byte[] sealed = unpadded.doFinal(new byte[32]);
        Cipher fresh = evener(PADDED, Cipher.DECRYPT_MODE, 128);
        assertThrows(BadPaddingException.class, () -> fresh.doFinal(sealed));
    }

    @Test
    void keysAndParametersAreChecked() throws Exception {
        Cipher cipher = Cipher.getInstance(CTR, "Evener");
        assertThrows(IllegalStateException.class, () -> cipher.doFinal(new byte[1]));
        SecretKeySpec odd = new SecretKeySpec(new byte[20], "AES");
        assertThrows(InvalidKeyException.class, () -> cipher.init(Cipher.ENCRYPT_MODE, odd));
        SecretKeySpec foreign = new SecretKeySpec(new byte[16], "DES");
        assertThrows(InvalidKeyException.class, () -> cipher.init(Cipher.ENCRYPT_MODE, foreign));
        IvParameterSpec shortIv = new IvParameterSpec(new byte[8]);
        assertThrows(
                InvalidAlgorithmParameterException.class,
                () -> cipher.init(Cipher.ENCRYPT_MODE, Messages.key(128), shortIv));
        assertThrows(
                InvalidKeyException.class,
                () -> cipher.init(Cipher.DECRYPT_MODE, Messages.key(128)));
        Cipher gcm = Cipher.getInstance(GCM, "Evener");
        GCMParameterSpec shortTag = new GCMParameterSpec(96, new byte[12]);
        assertThrows(
                InvalidAlgorithmParameterException.class,
                () -> gcm.init(Cipher.ENCRYPT_MODE, Messages.key(128), shortTag));
    }

    @ParameterizedTest
    @ValueSource(strings = {CTR, CBC, PADDED, GCM})
    void aFreshIvGoesToJavaInParameters(String transformation) throws Exception {
        Cipher ours = Cipher.getInstance(transformation, "Evener");
        ours.init(Cipher.ENCRYPT_MODE, Messages.key(192));
        byte[] plain = Messages.bytes(10, 64);
        byte[] sealed = ours.doFinal(plain);
        Cipher theirs = Cipher.getInstance(transformation, "SunJCE");
        theirs.init(Cipher.DECRYPT_MODE, Messages.key(192), ours.getParameters());
        assertArrayEquals(plain, theirs.doFinal(sealed));
        Cipher back = Cipher.getInstance(transformation, "Evener");
        back.init(Cipher.DECRYPT_MODE, Messages.key(192), theirs.getParameters());
        assertArrayEquals(plain, back.doFinal(sealed));
        assertArrayEquals(ours.getIV(), back.getIV());
        assertEquals(16, back.getBlockSize());
    }

    /** A cipher that another thread goes on with, and many that become garbage. */
    @Test
    void ciphersMoveBetweenThreadsAndBecomeGarbage() throws Exception {
        byte[] plain = Messages.bytes(11, 100);
        byte[] expected = java(CTR, Cipher.ENCRYPT_MODE, 128).doFinal(plain);
        Cipher moving = evener(CTR, Cipher.ENCRYPT_MODE, 128);
        byte[] first = moving.update(plain, 0, 50);
        byte[][] second = new byte[1][];
        Thread other =
                new Thread(
                        () -> {
                            try {
                                second[0] = moving.doFinal(plain, 50, 50);
                            } catch (Exception exception) {
                                throw new IllegalStateException(exception);
                            }
                        });
        other.start();
        other.join();
        assertArrayEquals(Arrays.copyOf(expected, 50), first);
        assertArrayEquals(Arrays.copyOfRange(expected, 50, 100), second[0]);
        for (int round = 0; round < 1000; round++) {
            assertArrayEquals(expected, evener(CTR, Cipher.ENCRYPT_MODE, 128).doFinal(plain));
        }
        System.gc();
    }
}
