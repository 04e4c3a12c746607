package io.evener;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.security.InvalidAlgorithmParameterException;
import java.security.MessageDigest;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Arrays;
import javax.crypto.AEADBadTagException;
import javax.crypto.BadPaddingException;
import javax.crypto.ShortBufferException;
import javax.crypto.spec.GCMParameterSpec;

/**
 * AES-GCM (NIST SP 800-38D). A message is buffered until its end, so that only authenticated
 * plaintext appears. A key and nonce encrypt one message.
 */
final class GcmCipher extends AesCipher {
    private static final int NONCE = 12;
    private static final int TAG = 16;

    private final Held aad = new Held();
    private final Held message = new Held();
    private boolean hasBegun;
    /** With what it was last initialised to encrypt, whatever it has decrypted since then. */
    private byte[] encryptedKey = {};
    private byte[] encryptedNonce = {};
    /** Whether the nonce has encrypted a message. */
    private boolean isSpent;

    GcmCipher() {
        super("gcm", NONCE);
    }

    @Override
    byte[] ivOf(AlgorithmParameterSpec parameters) throws InvalidAlgorithmParameterException {
        if (parameters instanceof GCMParameterSpec spec) {
            if (spec.getTLen() != 8 * TAG) {
                throw new InvalidAlgorithmParameterException("the tag has 128 bits");
            }
            return spec.getIV();
        }
        throw new InvalidAlgorithmParameterException("a GCMParameterSpec is needed");
    }

    @Override
    AlgorithmParameterSpec parametersOf(byte[] iv) {
        return new GCMParameterSpec(8 * TAG, iv);
    }

    @Override
    String parametersName() {
        return "GCM";
    }

    @Override
    void refuseReuse(Direction direction, byte[] key, byte[] iv)
            throws InvalidAlgorithmParameterException {
        if (direction != Direction.ENCRYPT) {
            return;
        }
        if (MessageDigest.isEqual(key, encryptedKey) && Arrays.equals(iv, encryptedNonce)) {
            throw new InvalidAlgorithmParameterException(
                    "the key and nonce were used to encrypt already");
        }
        Arrays.fill(encryptedKey, (byte) 0);
        encryptedKey = key.clone();
        encryptedNonce = iv.clone();
    }

    @Override
    void begin() {
        forget();
        isSpent = false;
    }

    @Override
    long longestOutput(long length, boolean last) {
        long total = message.length + length;
        if (!last) {
            return 0;
        }
        return direction() == Direction.ENCRYPT ? total + TAG : Math.max(0, total - TAG);
    }

    @Override
    long transform(MemorySegment input, MemorySegment output, boolean last)
            throws ShortBufferException, BadPaddingException {
        refuseSpent();
        hasBegun = true;
        if (!last) {
            message.add(input);
            return 0;
        }
        needRoom(output, longestOutput(input.byteSize(), true));
        if (direction() == Direction.DECRYPT && message.length + input.byteSize() < TAG) {
            forget();
            throw new AEADBadTagException("the message is shorter than its tag");
        }
        try {
            MemorySegment whole = input;
            if (message.length > 0) {
                message.add(input);
                whole = message.segment();
            }
            return crypt(Padding.NONE, iv(), aad.segment(), whole, output);
        } finally {
            isSpent = direction() == Direction.ENCRYPT;
            forget();
        }
    }

    @Override
    protected void engineUpdateAAD(byte[] source, int offset, int length) {
        addAad(MemorySegment.ofArray(source).asSlice(offset, length));
    }

    @Override
    protected void engineUpdateAAD(ByteBuffer source) {
        addAad(MemorySegment.ofBuffer(source));
        source.position(source.limit());
    }

    private void addAad(MemorySegment source) {
        refuseSpent();
        if (hasBegun) {
            throw new IllegalStateException("additional data comes before the message");
        }
        aad.add(source);
    }

    private void refuseSpent() {
        if (isSpent) {
            throw new IllegalStateException("initialise with another nonce first");
        }
    }

    private void forget() {
        aad.clear();
        message.clear();
        hasBegun = false;
    }

    /** Bytes that wait, and are wiped when they need not any more. */
    private static final class Held {
        private byte[] bytes = {};
        private int length;

        void add(MemorySegment more) {
            int needed = Math.addExact(length, Math.toIntExact(more.byteSize()));
            if (needed > bytes.length) {
                byte[] longer = Arrays.copyOf(bytes, (int) Math.max(needed, doubled()));
                Arrays.fill(bytes, (byte) 0);
                bytes = longer;
            }
            MemorySegment.copy(more, 0, MemorySegment.ofArray(bytes), length, more.byteSize());
            length = needed;
        }

        MemorySegment segment() {
            return MemorySegment.ofArray(bytes).asSlice(0, length);
        }

        void clear() {
            Arrays.fill(bytes, 0, length, (byte) 0);
            length = 0;
        }

        private long doubled() {
            return Math.min(2L * bytes.length, Integer.MAX_VALUE - 8);
        }
    }
}
