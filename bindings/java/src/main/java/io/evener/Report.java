package io.evener;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.List;

/**
 * The report of an operation on files.
 *
 * @param files files done, without those skipped
 * @param bytes bytes read from them
 * @param bytesWritten bytes written for them
 * @param filesSkipped files that were complete already
 * @param seconds wall time of the whole operation
 * @param isInterrupted whether it was stopped before its end
 * @param isSuccess whether everything was done and nothing that was done is in doubt
 * @param failures files that could not be done
 * @param doubtful files that were done and may be wrong, since an engine computed wrong results
 * @param verifiedJobs jobs of modules that were recomputed with the same result
 * @param unverifiedJobs jobs of modules whose results nobody has compared
 * @param leftOut entries that were left out, such as special files and wrapped keys; {@code json} names each
 * @param generation of a sealed tree: the number of the generation that was made or read; else 0
 * @param isNewGeneration whether the operation has made that generation
 * @param json all of this, and what each engine and worker did
 */
public record Report(
        long files,
        long bytes,
        long bytesWritten,
        long filesSkipped,
        double seconds,
        boolean isInterrupted,
        boolean isSuccess,
        List<Failure> failures,
        List<Failure> doubtful,
        long verifiedJobs,
        long unverifiedJobs,
        long leftOut,
        long generation,
        boolean isNewGeneration,
        String json) {
    private static final MemoryLayout SUMMARY =
            MemoryLayout.structLayout(
                    MemoryLayout.sequenceLayout(10, JAVA_LONG),
                    JAVA_DOUBLE,
                    JAVA_INT,
                    JAVA_INT,
                    MemoryLayout.sequenceLayout(6, JAVA_LONG));
    private static final MemoryLayout FAILURE =
            MemoryLayout.structLayout(JAVA_LONG, ADDRESS, ADDRESS);

    /**
     * A file that failed.
     *
     * @param path as the caller would write it
     * @param cause as one line
     */
    public record Failure(String path, String cause) {}

    static Report read(MemorySegment report) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment summary = Native.struct(call, SUMMARY);
            Native.check(Native.REPORT_SUMMARY, report, summary);
            List<Failure> failures =
                    list(call, Native.REPORT_FAILURE, report, summary.get(JAVA_LONG, 64));
            List<Failure> doubtful =
                    list(call, Native.REPORT_DOUBT, report, summary.get(JAVA_LONG, 96));
            return new Report(
                    summary.get(JAVA_LONG, 8),
                    summary.get(JAVA_LONG, 16),
                    summary.get(JAVA_LONG, 24),
                    summary.get(JAVA_LONG, 32),
                    summary.get(JAVA_DOUBLE, 80),
                    summary.get(JAVA_INT, 88) != 0,
                    summary.get(JAVA_INT, 92) != 0,
                    failures,
                    doubtful,
                    summary.get(JAVA_LONG, 104),
                    summary.get(JAVA_LONG, 112),
                    summary.get(JAVA_LONG, 120),
                    summary.get(JAVA_LONG, 128),
                    summary.get(JAVA_LONG, 136) != 0,
                    Native.text((MemorySegment) Native.invoke(Native.REPORT_JSON, report)));
        }
    }

    private static List<Failure> list(
            Arena call, MethodHandle function, MemorySegment report, long count) {
        List<Failure> list = new ArrayList<>();
        for (long index = 0; index < count; index++) {
            MemorySegment failure = Native.struct(call, FAILURE);
            Native.check(function, report, index, failure);
            list.add(
                    new Failure(
                            Native.text(failure.get(ADDRESS, 8)),
                            Native.text(failure.get(ADDRESS, 16))));
        }
        return List.copyOf(list);
    }
}
