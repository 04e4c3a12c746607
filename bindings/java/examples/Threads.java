import io.evener.Direction;
import io.evener.EvenerProvider;
import io.evener.Key;
import io.evener.ParallelCipher;
import io.evener.Pool;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.security.Security;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * The experiment of the parallel AES paper in Java: 64 MB in AES-CTR, encrypted by 1 to 64
 * threads, each with its part of the buffer. Three ways, in the same run, in turns:
 *
 * <ul>
 *   <li>{@code SunJCE}: threads with the {@code Cipher} that comes with Java
 *   <li>{@code provider}: the same lines, with the provider Evener
 *   <li>{@code parallel}: Evener's own threads, on memory outside of the heap
 * </ul>
 *
 * <pre>
 * java -cp evener.jar --enable-native-access=ALL-UNNAMED Threads.java [MEGABYTES [THREADS...]]
 * </pre>
 */
public final class Threads {
    private static final int ROUNDS = 7;
    private static final byte[] KEY = new byte[16];
    private static final byte[] IV = new byte[16];

    private Threads() {}

    /** Runs the experiment and prints the medians in milliseconds. */
    public static void main(String[] arguments) throws Exception {
        Security.addProvider(new EvenerProvider());
        int megabytes = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 64;
        int[] threads =
                arguments.length > 1
                        ? Arrays.stream(arguments).skip(1).mapToInt(Integer::parseInt).toArray()
                        : new int[] {1, 2, 4, 8, 16, 32, 64};
        int length = megabytes << 20;
        byte[] plain = new byte[length];
        byte[] java = new byte[length];
        byte[] provider = new byte[length];
        System.out.printf(
                "%d MB, AES-128-CTR, %d cores, medians of %d in ms%n",
                megabytes, Runtime.getRuntime().availableProcessors(), ROUNDS);
        for (String name : new String[] {"SunJCE", "Evener"}) {
            warm(name);
        }
        System.out.printf("%8s %9s %9s %9s%n", "threads", "SunJCE", "provider", "parallel");
        try (Arena arena = Arena.ofConfined();
                Key key = Key.of(KEY)) {
            MemorySegment from = arena.allocate(length, 4096);
            MemorySegment to = arena.allocate(length, 4096).fill((byte) 1);
            for (int count : threads) {
                try (ExecutorService workers = Executors.newFixedThreadPool(count);
                        Pool pool = Pool.of(count);
                        ParallelCipher cipher = ParallelCipher.open(pool, "aes-128-ctr", key)) {
                    double[][] times = new double[3][ROUNDS];
                    for (int round = 0; round < ROUNDS; round++) {
                        times[0][round] =
                                timed(() -> encrypt(workers, count, "SunJCE", plain, java));
                        times[1][round] =
                                timed(() -> encrypt(workers, count, "Evener", plain, provider));
                        times[2][round] =
                                timed(() -> cipher.crypt(Direction.ENCRYPT, IV, from, to));
                    }
                    System.out.printf(
                            "%8d %9.2f %9.2f %9.2f%n",
                            count, median(times[0]), median(times[1]), median(times[2]));
                }
            }
            boolean same = to.mismatch(MemorySegment.ofArray(java)) == -1;
            if (!same || !Arrays.equals(java, provider)) {
                throw new IllegalStateException("the results differ");
            }
        }
    }

    /** Encrypts short messages until the virtual machine has compiled what long ones take. */
    private static void warm(String provider) throws Exception {
        Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding", provider);
        cipher.init(
                Cipher.ENCRYPT_MODE, new SecretKeySpec(KEY, "AES"), new IvParameterSpec(counter(1)));
        byte[] message = new byte[4096];
        for (int count = 0; count < 20_000; count++) {
            cipher.update(message, 0, message.length, message);
        }
    }

    /** Encrypts with one Cipher a thread, each for its part of the buffer. */
    private static Object encrypt(
            ExecutorService workers, int threads, String provider, byte[] input, byte[] output)
            throws Exception {
        int blocks = input.length / 16;
        Future<?>[] parts = new Future<?>[threads];
        for (int thread = 0; thread < threads; thread++) {
            int first = (int) ((long) blocks * thread / threads);
            int end = (int) ((long) blocks * (thread + 1) / threads);
            Callable<Integer> part =
                    () -> {
                        Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding", provider);
                        SecretKeySpec key = new SecretKeySpec(KEY, "AES");
                        cipher.init(Cipher.ENCRYPT_MODE, key, new IvParameterSpec(counter(first)));
                        return cipher.doFinal(
                                input, 16 * first, 16 * (end - first), output, 16 * first);
                    };
            parts[thread] = workers.submit(part);
        }
        for (Future<?> part : parts) {
            part.get();
        }
        return output;
    }

    /** The counter block of a block. */
    private static byte[] counter(int block) {
        byte[] counter = IV.clone();
        for (int index = 15, carry = block; carry > 0; index--, carry >>>= 8) {
            counter[index] = (byte) carry;
        }
        return counter;
    }

    private static double timed(Callable<?> work) throws Exception {
        long started = System.nanoTime();
        work.call();
        return (System.nanoTime() - started) / 1e6;
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }
}
