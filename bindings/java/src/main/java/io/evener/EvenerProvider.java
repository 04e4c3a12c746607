package io.evener;

import java.security.NoSuchAlgorithmException;
import java.security.Provider;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import javax.crypto.CipherSpi;

/**
 * Evener for programs that use {@link javax.crypto.Cipher}: the provider {@code Evener}, with AES
 * in the modes CTR, CBC and GCM.
 *
 * {@snippet :
 * Security.addProvider(new EvenerProvider());
 * Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding", "Evener");
 * }
 *
 * <p>The library is loaded with the first cipher. GCM takes nonces of 12 bytes and tags of 128
 * bits, and buffers a message until its end, so that only authenticated plaintext appears; its
 * messages have at most 2 GiB. Direct buffers are not copied.
 */
public final class EvenerProvider extends Provider {
    private static final long serialVersionUID = 1;

    /** Makes the provider, which is yet to be added to {@link java.security.Security}. */
    public EvenerProvider() {
        super("Evener", "0.1", "AES on every crypto engine of a machine");
        add("AES/CTR/NoPadding", CtrCipher::new);
        add("AES/CBC/NoPadding", () -> new CbcCipher(Padding.NONE));
        add("AES/CBC/PKCS5Padding", () -> new CbcCipher(Padding.PKCS7));
        add("AES/GCM/NoPadding", GcmCipher::new);
    }

    private void add(String transformation, Supplier<CipherSpi> maker) {
        putService(new CipherService(this, transformation, maker));
    }

    private static final class CipherService extends Service {
        private final Supplier<CipherSpi> maker;

        CipherService(Provider provider, String transformation, Supplier<CipherSpi> maker) {
            super(
                    provider,
                    "Cipher",
                    transformation,
                    AesCipher.class.getName(),
                    List.of(),
                    Map.of("SupportedKeyFormats", "RAW"));
            this.maker = maker;
        }

        @Override
        public Object newInstance(Object parameter) throws NoSuchAlgorithmException {
            try {
                // So that an absent library is known here and not when the cipher is in use.
                CipherInfo.named("aes-128-ctr");
                return maker.get();
            } catch (LinkageError error) {
                throw new NoSuchAlgorithmException("Evener's library can't be used", error);
            }
        }
    }
}
