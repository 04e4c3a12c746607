package io.evener;

/**
 * The progress of an operation on files. No number ever shrinks, and all are exact at the end.
 *
 * @param foundFiles files found so far
 * @param foundBytes their bytes, with {@link FileOption#MEASURE_TOTAL}; else 0
 * @param doneFiles files finished, failed or skipped so far
 * @param doneBytes source bytes read so far
 */
public record Progress(long foundFiles, long foundBytes, long doneFiles, long doneBytes) {}
