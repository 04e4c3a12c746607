package io.evener;

/**
 * How far an operation on files has come. Every number only grows, and is exact at the end.
 *
 * @param foundFiles files found so far
 * @param foundBytes their bytes, with {@link FileOption#MEASURE_TOTAL}; else 0
 * @param doneFiles files finished, failed or skipped so far
 * @param doneBytes source bytes read so far
 */
public record Progress(long foundFiles, long foundBytes, long doneFiles, long doneBytes) {}
