package io.evener;

import java.util.Random;
import javax.crypto.spec.SecretKeySpec;

/** Bytes for tests, the same in every run. */
final class Messages {
    private Messages() {}

    static byte[] bytes(long seed, int length) {
        byte[] bytes = new byte[length];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    static SecretKeySpec key(int bits) {
        return new SecretKeySpec(bytes(bits, bits / 8), "AES");
    }
}
