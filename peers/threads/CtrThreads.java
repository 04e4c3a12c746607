import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * AES in CTR mode on many threads with Runnables and JCE: a peer of {@code evener-lab bench threads}.
 *
 * <p>Usage and protocol are those of {@code ctr_openmp.c}. The way {@code parts} has a pool's
 * threads take parts of 1 MiB one by one; {@code blocks} starts a thread for each share of the
 * message, which initialises its cipher for every 16-byte block with that block's counter, as the
 * Xeon Phi paper did it.
 */
public final class CtrThreads {
    private static final int BLOCK = 16;
    private static final int PART = 1 << 20;

    private final byte[] plaintext;
    private final byte[] ciphertext;
    private ExecutorService pool;
    private int poolThreads;

    private CtrThreads(int length) {
        plaintext = new byte[length];
        ciphertext = new byte[length];
        ByteBuffer words = ByteBuffer.wrap(plaintext).order(ByteOrder.LITTLE_ENDIAN);
        for (long index = 0; words.remaining() >= 8; index++) {
            words.putLong(word(index));
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 1) {
            System.err.println("usage: java CtrThreads BYTES");
            System.exit(2);
        }
        CtrThreads peer = new CtrThreads(Integer.parseInt(arguments[0]));
        peer.warmUp();
        Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding");
        System.out.println(System.getProperty("java.vm.name") + " "
            + System.getProperty("java.vm.version") + ", " + cipher.getProvider().getName());
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(peer.answer(line.trim().split(" ")));
        }
        if (peer.pool != null) {
            peer.pool.shutdown();
        }
    }

    private String answer(String[] words) throws Exception {
        boolean encrypts = words[1].equals("encrypt");
        if (words[0].equals("digest")) {
            return String.format("%016x", digest(encrypts ? ciphertext : plaintext));
        }
        int keyBytes = words[0].equals("aes-256-ctr") ? 32 : 16;
        byte[] from = encrypts ? plaintext : ciphertext;
        byte[] to = encrypts ? ciphertext : plaintext;
        int mode = encrypts ? Cipher.ENCRYPT_MODE : Cipher.DECRYPT_MODE;
        int threads = Integer.parseInt(words[3]);
        if (words[2].equals("blocks")) {
            return Long.toString(runBlocks(keyBytes, mode, from, to, threads));
        }
        return Long.toString(runParts(keyBytes, mode, from, to, threads));
    }

    /** Parts that the threads of a pool take one by one. The pool is there before the clock starts. */
    private long runParts(int keyBytes, int mode, byte[] from, byte[] to, int threads)
        throws Exception {
        if (poolThreads != threads) {
            if (pool != null) {
                pool.shutdown();
            }
            pool = Executors.newFixedThreadPool(threads);
            poolThreads = threads;
            wait(submit(threads, () -> { }));
        }
        AtomicInteger next = new AtomicInteger();
        int parts = (from.length + PART - 1) / PART;
        long start = System.nanoTime();
        wait(submit(threads, () -> {
            Cipher cipher = newCipher();
            for (int part = next.getAndIncrement(); part < parts; part = next.getAndIncrement()) {
                int at = part * PART;
                crypt(cipher, keyBytes, mode, from, to, at, Math.min(PART, from.length - at));
            }
        }));
        return System.nanoTime() - start;
    }

    /** A thread for each share, and every block for itself. */
    private static long runBlocks(int keyBytes, int mode, byte[] from, byte[] to, int threads)
        throws InterruptedException {
        int blocks = (from.length + BLOCK - 1) / BLOCK;
        List<Thread> started = new ArrayList<>();
        long start = System.nanoTime();
        for (int thread = 0; thread < threads; thread++) {
            int first = (int) ((long) blocks * thread / threads);
            int end = (int) ((long) blocks * (thread + 1) / threads);
            Thread runner = new Thread(() -> {
                Cipher cipher = newCipher();
                for (int block = first; block < end; block++) {
                    int at = block * BLOCK;
                    int length = Math.min(BLOCK, from.length - at);
                    crypt(cipher, keyBytes, mode, from, to, at, length);
                }
            });
            runner.start();
            started.add(runner);
        }
        for (Thread runner : started) {
            runner.join();
        }
        return System.nanoTime() - start;
    }

    private List<Future<?>> submit(int times, Runnable work) {
        List<Future<?>> submitted = new ArrayList<>();
        for (int time = 0; time < times; time++) {
            submitted.add(pool.submit(work));
        }
        return submitted;
    }

    private static void wait(List<Future<?>> submitted) throws Exception {
        for (Future<?> work : submitted) {
            work.get();
        }
    }

    private static Cipher newCipher() {
        try {
            return Cipher.getInstance("AES/CTR/NoPadding");
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void crypt(
        Cipher cipher, int keyBytes, int mode, byte[] from, byte[] to, int at, int length) {
        try {
            byte[] key = new byte[keyBytes];
            for (int index = 0; index < keyBytes; index++) {
                key[index] = (byte) index;
            }
            IvParameterSpec counter = new IvParameterSpec(counterBlock(at / BLOCK));
            cipher.init(mode, new SecretKeySpec(key, "AES"), counter);
            cipher.doFinal(from, at, length, to, at);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The counter block so many blocks behind the first, which is 0, 1, .., 15. */
    private static byte[] counterBlock(long blocks) {
        byte[] counter = new byte[BLOCK];
        long left = blocks;
        int carry = 0;
        for (int at = BLOCK - 1; at >= 0; at--) {
            int sum = at + (int) (left & 0xFF) + carry;
            counter[at] = (byte) sum;
            carry = sum >> 8;
            left >>>= 8;
        }
        return counter;
    }

    /** Gets the virtual machine to compile what is going to be measured. */
    private void warmUp() {
        int length = Math.min(4 << 10, plaintext.length);
        byte[] to = new byte[length];
        Cipher cipher = newCipher();
        for (int turn = 0; turn < 40_000; turn++) {
            crypt(cipher, turn % 2 == 0 ? 16 : 32, Cipher.ENCRYPT_MODE, plaintext, to, 0, length);
            crypt(cipher, turn % 2 == 0 ? 16 : 32, Cipher.DECRYPT_MODE, plaintext, to, 0, BLOCK);
        }
    }

    /** SplitMix64, by position. */
    private static long word(long index) {
        long mixed = (index + 1) * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return mixed ^ (mixed >>> 31);
    }

    private static long digest(byte[] data) {
        long state = 0xCBF29CE484222325L;
        ByteBuffer words = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        while (words.remaining() >= 8) {
            state = (state ^ words.getLong()) * 0x100000001B3L;
        }
        return state;
    }
}
