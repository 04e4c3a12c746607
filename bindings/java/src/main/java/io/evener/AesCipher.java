package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.InvalidParameterSpecException;
import java.util.Arrays;
import javax.crypto.AEADBadTagException;
import javax.crypto.BadPaddingException;
import javax.crypto.Cipher;
import javax.crypto.CipherSpi;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.NoSuchPaddingException;
import javax.crypto.ShortBufferException;
import javax.crypto.spec.IvParameterSpec;

/**
 * The common part of AES's modes as services of a provider: keys, IVs, and the conversion of
 * arrays and buffers to segments.
 */
abstract class AesCipher extends CipherSpi {
    static final int BLOCK = 16;
    private static final Cleaner CLEANER = Cleaner.create();

    private final String mode;
    private final int ivLength;
    private Session session;
    /** Closes the session when this object has become garbage, since nobody else would. */
    private Cleaner.Cleanable closing;
    private byte[] key = {};
    private byte[] iv = {};
    private Direction direction;

    AesCipher(String mode, int ivLength) {
        this.mode = mode;
        this.ivLength = ivLength;
    }

    /** Begins a message with the session and IV that were set. */
    abstract void begin();

    /** How long the output of this much more input is at most. */
    abstract long longestOutput(long length, boolean last);

    /**
     * Continues or ends a message. Input and output do not overlap. An output that is too short is
     * rejected before any state changes.
     *
     * @return how many bytes were put out
     */
    abstract long transform(MemorySegment input, MemorySegment output, boolean last)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException;

    /** The IV that a caller's parameters hold. */
    byte[] ivOf(AlgorithmParameterSpec parameters) throws InvalidAlgorithmParameterException {
        if (parameters instanceof IvParameterSpec spec) {
            return spec.getIV();
        }
        throw new InvalidAlgorithmParameterException("an IvParameterSpec is needed");
    }

    /** The parameters that hold an IV. */
    AlgorithmParameterSpec parametersOf(byte[] iv) {
        return new IvParameterSpec(iv);
    }

    /** The name of the parameters' algorithm. */
    String parametersName() {
        return "AES";
    }

    /** Called before a key and IV are taken. */
    void refuseReuse(Direction direction, byte[] key, byte[] iv)
            throws InvalidAlgorithmParameterException {}

    final Direction direction() {
        return direction;
    }

    final byte[] iv() {
        return iv;
    }

    /** Has the session do a piece of a message, and says what went wrong in JCE's words. */
    final long crypt(
            Padding padding,
            byte[] iv,
            MemorySegment aad,
            MemorySegment input,
            MemorySegment output)
            throws BadPaddingException {
        try {
            return session.crypt(padding, iv, aad, input, output);
        } catch (EvenerException exception) {
            switch (exception.status()) {
                case AUTHENTICATION_FAILED:
                    throw new AEADBadTagException("Tag mismatch");
                case BAD_PADDING:
                    throw new BadPaddingException(exception.getMessage());
                default:
                    throw new ProviderException(exception);
            }
        }
    }

    /** Says that an output has not the room that it needs. */
    static void needRoom(MemorySegment output, long needed) throws ShortBufferException {
        if (output.byteSize() < needed) {
            throw new ShortBufferException("the output needs " + needed + " bytes");
        }
    }

    private void initialise(int operation, Key key, byte[] iv)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        Direction direction =
                switch (operation) {
                    case Cipher.ENCRYPT_MODE -> Direction.ENCRYPT;
                    case Cipher.DECRYPT_MODE -> Direction.DECRYPT;
                    default -> throw new UnsupportedOperationException("it wraps no keys");
                };
        if (iv.length != ivLength) {
            throw new InvalidAlgorithmParameterException(
                    "the IV has " + iv.length + " bytes, not " + ivLength);
        }
        byte[] encoded = bytesOf(key);
        boolean sameKey = MessageDigest.isEqual(encoded, this.key);
        refuseReuse(direction, encoded, iv);
        if (session == null || !sameKey || direction != this.direction) {
            open(encoded, direction);
        }
        Arrays.fill(this.key, (byte) 0);
        this.key = encoded;
        this.direction = direction;
        this.iv = iv.clone();
        begin();
    }

    private void open(byte[] encoded, Direction direction) {
        if (closing != null) {
            closing.clean();
        }
        try (io.evener.Key copy = io.evener.Key.of(encoded)) {
            String cipher = "aes-" + 8 * encoded.length + "-" + mode;
            session = Session.open(cipher, direction, copy);
        }
        closing = CLEANER.register(this, session::close);
    }

    private static byte[] bytesOf(Key key) throws InvalidKeyException {
        if (key == null || !"AES".equalsIgnoreCase(key.getAlgorithm())) {
            throw new InvalidKeyException("an AES key is needed");
        }
        byte[] encoded = key.getEncoded();
        if (encoded == null) {
            throw new InvalidKeyException("a key is needed that shows its bytes");
        }
        if (encoded.length != 16 && encoded.length != 24 && encoded.length != 32) {
            throw new InvalidKeyException("AES takes no key of " + encoded.length + " bytes");
        }
        return encoded;
    }

    /** Works on segments that may overlap. */
    private long perform(MemorySegment input, MemorySegment output, boolean last)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        if (session == null) {
            throw new IllegalStateException("the cipher is not initialised");
        }
        if (input.byteSize() == 0 || input.asOverlappingSlice(output).isEmpty()) {
            return transform(input, output, last);
        }
        byte[] copy = input.toArray(JAVA_BYTE);
        try {
            return transform(MemorySegment.ofArray(copy), output, last);
        } finally {
            Arrays.fill(copy, (byte) 0);
        }
    }

    private byte[] performToArray(byte[] input, int offset, int length, boolean last)
            throws IllegalBlockSizeException, BadPaddingException {
        byte[] output = new byte[Math.toIntExact(longestOutput(length, last))];
        try {
            MemorySegment from = segment(input, offset, length);
            int written = (int) perform(from, MemorySegment.ofArray(output), last);
            if (written == output.length) {
                return output;
            }
            byte[] exact = Arrays.copyOf(output, written);
            Arrays.fill(output, (byte) 0);
            return exact;
        } catch (ShortBufferException impossible) {
            throw new ProviderException(impossible);
        }
    }

    private int performOnBuffers(ByteBuffer input, ByteBuffer output, boolean last)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        MemorySegment to = MemorySegment.ofBuffer(output);
        int written = (int) perform(MemorySegment.ofBuffer(input), to, last);
        input.position(input.limit());
        output.position(output.position() + written);
        return written;
    }

    private static MemorySegment segment(byte[] array, int offset, int length) {
        return array == null || length == 0
                ? MemorySegment.NULL
                : MemorySegment.ofArray(array).asSlice(offset, length);
    }

    /** Such calls end no message, so that these exceptions have no reason. */
    private static RuntimeException atNoEnd(GeneralSecurityException impossible) {
        return new ProviderException(impossible);
    }

    @Override
    protected final byte[] engineUpdate(byte[] input, int offset, int length) {
        try {
            byte[] output = performToArray(input, offset, length, false);
            return output.length == 0 ? null : output;
        } catch (IllegalBlockSizeException | BadPaddingException impossible) {
            throw atNoEnd(impossible);
        }
    }

    @Override
    protected final int engineUpdate(
            byte[] input, int offset, int length, byte[] output, int outputOffset)
            throws ShortBufferException {
        try {
            MemorySegment to = MemorySegment.ofArray(output).asSlice(outputOffset);
            return (int) perform(segment(input, offset, length), to, false);
        } catch (IllegalBlockSizeException | BadPaddingException impossible) {
            throw atNoEnd(impossible);
        }
    }

    @Override
    protected final int engineUpdate(ByteBuffer input, ByteBuffer output)
            throws ShortBufferException {
        try {
            return performOnBuffers(input, output, false);
        } catch (IllegalBlockSizeException | BadPaddingException impossible) {
            throw atNoEnd(impossible);
        }
    }

    @Override
    protected final byte[] engineDoFinal(byte[] input, int offset, int length)
            throws IllegalBlockSizeException, BadPaddingException {
        return performToArray(input, offset, length, true);
    }

    @Override
    protected final int engineDoFinal(
            byte[] input, int offset, int length, byte[] output, int outputOffset)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        MemorySegment to = MemorySegment.ofArray(output).asSlice(outputOffset);
        return (int) perform(segment(input, offset, length), to, true);
    }

    @Override
    protected final int engineDoFinal(ByteBuffer input, ByteBuffer output)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        return performOnBuffers(input, output, true);
    }

    @Override
    protected final void engineInit(int operation, Key key, SecureRandom random)
            throws InvalidKeyException {
        if (operation == Cipher.DECRYPT_MODE) {
            throw new InvalidKeyException("decrypting needs the IV: give parameters");
        }
        byte[] iv = new byte[ivLength];
        (random == null ? new SecureRandom() : random).nextBytes(iv);
        try {
            initialise(operation, key, iv);
        } catch (InvalidAlgorithmParameterException impossible) {
            throw new InvalidKeyException(impossible);
        }
    }

    @Override
    protected final void engineInit(
            int operation, Key key, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (parameters != null) {
            initialise(operation, key, ivOf(parameters));
        } else if (operation == Cipher.DECRYPT_MODE) {
            throw new InvalidAlgorithmParameterException("decrypting needs the IV");
        } else {
            engineInit(operation, key, random);
        }
    }

    @Override
    protected final void engineInit(
            int operation, Key key, AlgorithmParameters parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        AlgorithmParameterSpec spec = null;
        if (parameters != null) {
            try {
                spec = parameters.getParameterSpec(parametersOf(new byte[ivLength]).getClass());
            } catch (InvalidParameterSpecException wrong) {
                throw new InvalidAlgorithmParameterException(wrong);
            }
        }
        engineInit(operation, key, spec, random);
    }

    @Override
    protected final byte[] engineGetIV() {
        return session == null ? null : iv.clone();
    }

    @Override
    protected final AlgorithmParameters engineGetParameters() {
        if (session == null) {
            return null;
        }
        try {
            AlgorithmParameters parameters = AlgorithmParameters.getInstance(parametersName());
            parameters.init(parametersOf(iv));
            return parameters;
        } catch (GeneralSecurityException absent) {
            throw new ProviderException(absent);
        }
    }

    @Override
    protected final int engineGetBlockSize() {
        return BLOCK;
    }

    @Override
    protected final int engineGetOutputSize(int length) {
        return Math.toIntExact(longestOutput(length, true));
    }

    @Override
    protected final int engineGetKeySize(Key key) throws InvalidKeyException {
        byte[] encoded = bytesOf(key);
        Arrays.fill(encoded, (byte) 0);
        return 8 * encoded.length;
    }

    @Override
    protected final void engineSetMode(String mode) throws NoSuchAlgorithmException {
        throw new NoSuchAlgorithmException("ask for the whole transformation");
    }

    @Override
    protected final void engineSetPadding(String padding) throws NoSuchPaddingException {
        throw new NoSuchPaddingException("ask for the whole transformation");
    }
}
