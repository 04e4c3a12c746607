/*
 * Evener: bulk encryption with every crypto engine of a machine at once.
 *
 * Made from the sources by cbindgen; bindings/c/README.md says how. Rules, for all functions:
 *
 * Status. A function that can fail returns an evener_status: EVENER_STATUS_OK, which is 0, or
 * the kind of failure; evener_last_error() then returns the message. No function ends the process
 * or lets an exception out.
 *
 * Ownership. Functions named evener_X_new, _open, _generate, _from_bytes or _load put a new object
 * into the last argument; the caller frees it exactly once, with evener_X_free. On failure they
 * put NULL there. All other arguments are only used during the call: the library keeps no pointer
 * to them. Texts and structs that a function returns point into the object that it was called with
 * and end with that object; do not free them. Objects do not depend on each other: a session
 * outlives its engine and its key.
 *
 * Memory. A pointer that is not NULL points to as many bytes (elements) as its length says, and
 * no other thread changes them during the call. NULL is allowed if the length is 0. Outputs may be
 * uninitialised, and must not overlap anything else. Texts end with a zero byte and are UTF-8;
 * paths are any bytes.
 *
 * Threads. Every function may be called on any thread. Several threads may use an engine, key, list
 * or report at once, and one at a time a session. No thread may use an object that is being freed.
 *
 * Keys are wiped when they are freed, and appear in no message.
 *
 * Versions. Structs begin with their size, which the caller sets to sizeof before each call, as
 * in `evener_job job = {sizeof job};`, so that later versions can add fields: zero in all other
 * fields is the default. Compare evener_abi_version() with EVENER_ABI_VERSION if the loaded library
 * may be of another version than the header.
 */


#ifndef EVENER_H
#define EVENER_H

#include <stddef.h>
#include <stdint.h>

/**
 * The version of this header's interface. A library is compatible with every program that was
 * compiled with the same number.
 */
#define EVENER_ABI_VERSION 1

/**
 * The result of a call. Later versions may add numbers and never change one.
 */
enum evener_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Everything was done.
     */
    EVENER_STATUS_OK = 0,
    /**
     * An argument is NULL, out of its range, or does not fit another.
     */
    EVENER_STATUS_INVALID_ARGUMENT = 1,
    /**
     * There is no cipher of this name.
     */
    EVENER_STATUS_UNKNOWN_CIPHER = 2,
    /**
     * The key has the wrong length, is missing or superfluous, or is not that of the sealed tree.
     */
    EVENER_STATUS_INVALID_KEY = 3,
    /**
     * There is no engine of this name, or it can't be used on this machine.
     */
    EVENER_STATUS_ENGINE_UNAVAILABLE = 4,
    /**
     * The engine does not offer the cipher.
     */
    EVENER_STATUS_NOT_OFFERED = 5,
    /**
     * The engine failed; the jobs that are pending were not done.
     */
    EVENER_STATUS_ENGINE_FAILED = 6,
    /**
     * The tag does not match: the key is wrong or the data was changed.
     */
    EVENER_STATUS_AUTHENTICATION_FAILED = 7,
    /**
     * The padding is malformed: the key is wrong or the data was changed.
     */
    EVENER_STATUS_BAD_PADDING = 8,
    /**
     * The lengths of a job do not fit its cipher or each other.
     */
    EVENER_STATUS_MALFORMED_JOB = 9,
    /**
     * Of a job: it was not done, because the engine failed before. Its input is unchanged.
     */
    EVENER_STATUS_PENDING = 10,
    /**
     * A key file can't be read, made or opened.
     */
    EVENER_STATUS_KEY_FILE = 11,
    /**
     * An operation on files could not begin.
     */
    EVENER_STATUS_FILE = 12,
    /**
     * Some files of an operation failed, or may be wrong; its report lists them. The others were done.
     */
    EVENER_STATUS_INCOMPLETE = 13,
    /**
     * The progress callback stopped the operation. Complete outputs stay.
     */
    EVENER_STATUS_CANCELLED = 14,
    /**
     * Another thread is using the session.
     */
    EVENER_STATUS_BUSY = 15,
    /**
     * A bug of Evener. The outputs are undefined.
     */
    EVENER_STATUS_INTERNAL = 16,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evener_status evener_status;
#else
typedef int32_t evener_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Whether messages are encrypted or decrypted.
 */
enum evener_direction
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Plaintext to ciphertext.
     */
    EVENER_DIRECTION_ENCRYPT = 0,
    /**
     * Ciphertext to plaintext.
     */
    EVENER_DIRECTION_DECRYPT = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evener_direction evener_direction;
#else
typedef uint32_t evener_direction;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How a message is padded to whole blocks.
 */
enum evener_padding
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Not at all: the message is whole blocks, or the cipher needs none.
     */
    EVENER_PADDING_NONE = 0,
    /**
     * By 1 byte to one block of bytes that hold their number (RFC 5652), for ECB and CBC.
     */
    EVENER_PADDING_PKCS7 = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evener_padding evener_padding;
#else
typedef uint32_t evener_padding;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Options of an operation that are on or off, to be added up. An operation does not begin with
 * options that contradict each other.
 */
enum evener_flag
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Skip files whose output is complete. Not with `EVENER_FLAG_UPDATE`.
     */
    EVENER_FLAG_RESUME = 1,
    /**
     * Replace existing outputs; otherwise they are errors.
     */
    EVENER_FLAG_OVERWRITE = 2,
    /**
     * Remove each source after its output was read back, compared and synced. Neither with
     * `EVENER_FLAG_UPDATE` nor with `EVENER_FLAG_FOLLOW_SYMLINKS`, nor to decrypt files of
     * `openssl enc`, which nothing authenticates.
     */
    EVENER_FLAG_REMOVE_SOURCE = 4,
    /**
     * Sync every output to the storage device before the operation ends.
     */
    EVENER_FLAG_DURABLE = 8,
    /**
     * Follow symbolic links instead of recreating them. Not with `EVENER_FLAG_REMOVE_SOURCE`.
     */
    EVENER_FLAG_FOLLOW_SYMLINKS = 16,
    /**
     * Keep owner and group, which needs privilege.
     */
    EVENER_FLAG_KEEP_OWNER = 32,
    /**
     * Keep extended attributes.
     */
    EVENER_FLAG_KEEP_XATTRS = 64,
    /**
     * When decrypting, write pages of zeros as holes.
     */
    EVENER_FLAG_SPARSE = 128,
    /**
     * Write nothing, only count what would be done.
     */
    EVENER_FLAG_DRY_RUN = 256,
    /**
     * Add up all sizes while walking, so that the progress includes the total.
     */
    EVENER_FLAG_MEASURE_TOTAL = 512,
    /**
     * Leave the cores to other programs: CPU workers use only idle CPU time.
     */
    EVENER_FLAG_BACKGROUND = 1024,
    /**
     * Bring existing outputs up to date: replace those whose source has changed, leave all others.
     * Neither with `EVENER_FLAG_RESUME` nor with `EVENER_FLAG_REMOVE_SOURCE`.
     */
    EVENER_FLAG_UPDATE = 2048,
    /**
     * Leave out files that change while they are read.
     */
    EVENER_FLAG_SKIP_CHANGING = 4096,
    /**
     * With `EVENER_FLAG_UPDATE`: go by size and time, and not by the time of change.
     */
    EVENER_FLAG_IGNORE_CTIME = 8192,
    /**
     * When decrypting, write plaintext also where the file system takes no modes and others could
     * read it (FAT, exFAT, NTFS), which is refused otherwise; and take the modes that such a file
     * system shows for sources.
     */
    EVENER_FLAG_INSECURE_MODES = 16384,
    /**
     * Take nothing below directories on other file systems than that of the source.
     */
    EVENER_FLAG_ONE_FILE_SYSTEM = 32768,
    /**
     * With `evener_file_key_of_age`, encrypt a file or a pipe to ASCII armor. Reading needs no flag.
     */
    EVENER_FLAG_ARMOR = 65536,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evener_flag evener_flag;
#else
typedef uint32_t evener_flag;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How processes queue for an engine that only some of them may use at once.
 */
enum evener_gate
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * In the order of arrival.
     */
    EVENER_GATE_FIFO = 0,
    /**
     * In one list per permit, by process id.
     */
    EVENER_GATE_LISTS = 1,
    /**
     * Not at all.
     */
    EVENER_GATE_NONE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evener_gate evener_gate;
#else
typedef uint32_t evener_gate;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Where an engine's work is done.
 */
enum evener_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The engine is absent.
     */
    EVENER_KIND_ABSENT = 0,
    /**
     * It computes on the calling core.
     */
    EVENER_KIND_CPU = 1,
    /**
     * Another device computes while the caller sleeps.
     */
    EVENER_KIND_MODULE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evener_kind evener_kind;
#else
typedef uint32_t evener_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Options of sealed trees that are on or off, to be added up.
 */
enum evener_tree_flag
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * To seal: compare every file by its content, not by size and times.
     */
    EVENER_TREE_FLAG_CHECKSUM = 1,
    /**
     * Accept a tree for recipients that nobody has signed. Recipients are not secret, so anybody
     * could have made it.
     */
    EVENER_TREE_FLAG_UNSIGNED = 2,
    /**
     * Accept an older generation or another tree than this machine has seen, this once.
     */
    EVENER_TREE_FLAG_ALLOW_ROLLBACK = 4,
    /**
     * To verify: read no content. This finds missing, cut and exchanged files, not decayed ones.
     */
    EVENER_TREE_FLAG_QUICK = 8,
    /**
     * To list: only the entries of the directories in `paths`, not those below.
     */
    EVENER_TREE_FLAG_SHALLOW = 16,
    /**
     * To wrap keys for others: remove old wrappings also where nothing given opens the new ones.
     */
    EVENER_TREE_FLAG_TRUST_UNOPENED = 32,
    /**
     * To seal: accept other recipients or another passphrase than this machine last sealed for, as
     * after `evener_tree_rewrap` on another machine. Otherwise that is an error, since others could not
     * read unchanged files.
     */
    EVENER_TREE_FLAG_RECIPIENTS_CHANGED = 64,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum evener_tree_flag evener_tree_flag;
#else
typedef uint32_t evener_tree_flag;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * An engine. Any number of threads may use it at once.
 */
typedef struct evener_engine evener_engine;

/**
 * The list of engines, found and absent.
 */
typedef struct evener_engine_list evener_engine_list;

/**
 * The content of a key file: a key, or Tink's keys, and their format. `evener_file_key_free` wipes
 * it.
 */
typedef struct evener_file_key evener_file_key;

/**
 * AES-GCM or ChaCha20-Poly1305 with a key, for texts in a GPU's memory. Several threads may use it at once.
 */
typedef struct evener_gpu evener_gpu;

/**
 * A raw key of a cipher. `evener_key_free` wipes it.
 */
typedef struct evener_key evener_key;

/**
 * A cipher with its key and a pool, for single buffers. Any number of threads may use it at
 * once.
 */
typedef struct evener_parallel evener_parallel;

/**
 * A pool of threads, which sleep between buffers, for any number of ciphers. Any number of threads
 * may use it at once.
 */
typedef struct evener_pool evener_pool;

/**
 * The report of an operation on files: numbers, the failed files, and everything as JSON.
 */
typedef struct evener_report evener_report;

/**
 * An engine opened for one cipher, direction and key. One thread at a time uses it; a second one
 * gets `EVENER_STATUS_BUSY`.
 */
typedef struct evener_session evener_session;

/**
 * The properties of a cipher.
 */
typedef struct evener_cipher_info {
    /**
     * `sizeof(evener_cipher_info)`, set by the caller.
     */
    size_t size;
    /**
     * The OpenSSL name, such as `aes-128-cbc`. Static.
     */
    const char *name;
    /**
     * In bytes. XTS counts both of its keys.
     */
    size_t key_length;
    /**
     * In bytes: 0 for ECB, 12 for GCM and ChaCha20-Poly1305, one block otherwise.
     */
    size_t iv_length;
    /**
     * Messages without padding are multiples of this many bytes.
     */
    size_t block_length;
    /**
     * Length of the tag of an AEAD cipher, in bytes; else 0.
     */
    size_t tag_length;
    /**
     * The longest message under one IV, in bytes, without its tag; `UINT64_MAX` for no limit.
     */
    uint64_t longest_message;
} evener_cipher_info;

/**
 * The description of an engine. The texts belong to the list.
 */
typedef struct evener_engine_info {
    /**
     * `sizeof(evener_engine_info)`, set by the caller.
     */
    size_t size;
    /**
     * The name that `evener_engine_open` takes.
     */
    const char *name;
    /**
     * Version, driver or device; NULL when the engine is absent.
     */
    const char *detail;
    /**
     * Why the engine is absent, and what to do; NULL if it is present.
     */
    const char *absent;
    /**
     * An `evener_kind`.
     */
    uint32_t kind;
} evener_engine_info;

/**
 * The recommended use of an engine for a cipher and direction.
 */
typedef struct evener_offer {
    /**
     * `sizeof(evener_offer)`, set by the caller.
     */
    size_t size;
    /**
     * Number of threads up to which throughput grows; the number of cores for CPU engines.
     */
    size_t depth;
    /**
     * Recommended number of jobs in one call; 1 for engines that gain nothing from more.
     */
    size_t batch;
    /**
     * Number of processes that can have sessions at once; 0 for no limit.
     */
    size_t holders;
} evener_offer;

/**
 * The counts of an engine's guard.
 */
typedef struct evener_account {
    /**
     * `sizeof(evener_account)`, set by the caller.
     */
    size_t size;
    /**
     * Jobs that the engine did and the guard passed on.
     */
    uint64_t jobs;
    /**
     * How many of them the reference engine recomputed with the same result.
     */
    uint64_t verified;
    /**
     * Jobs that the reference engine did after the engine had failed.
     */
    uint64_t retreated;
    /**
     * Why the engine is out of service, as one line that belongs to the engine; NULL while it is
     * in service.
     */
    const char *fault;
} evener_account;

/**
 * The progress of an operation. No number ever shrinks, and all are exact at the end.
 */
typedef struct evener_progress {
    /**
     * `sizeof(evener_progress)` of the library's version, for the reader to compare.
     */
    size_t size;
    /**
     * Files found so far.
     */
    uint64_t found_files;
    /**
     * Their bytes, with `EVENER_FLAG_MEASURE_TOTAL`; else 0.
     */
    uint64_t found_bytes;
    /**
     * Files finished, failed or skipped so far.
     */
    uint64_t done_files;
    /**
     * Source bytes read so far.
     */
    uint64_t done_bytes;
} evener_progress;

/**
 * Called with the progress of an operation, on the thread that called the operation: before it
 * begins, at intervals, and at its end. Return 0 to continue. After any other value no new file is
 * begun, unfinished outputs are removed, complete outputs stay, and the callback is not called
 * again. It must not throw or jump out.
 */
typedef int (*evener_progress_callback)(const struct evener_progress *progress, void *user_data);

/**
 * Options of an operation on files. Zero in every field but the first is the default.
 */
typedef struct evener_options {
    /**
     * `sizeof(evener_options)`, set by the caller.
     */
    size_t size;
    /**
     * Names of the engines, which all work at once; NULL for the default engine.
     */
    const char *const *engines;
    /**
     * Number of names.
     */
    size_t engine_count;
    /**
     * Number of workers over all engines; 0 for as many as the engines recommend.
     */
    size_t workers;
    /**
     * Memory limit for the buffers of all workers, in bytes; 0 for 64 MiB.
     */
    size_t memory;
    /**
     * Suffix that encrypting appends to a file's name and decrypting removes; NULL for `.enc`,
     * or `.age` with `evener_file_key_of_age`.
     */
    const char *suffix;
    /**
     * Context that files are bound to, the same in both directions; NULL for none.
     */
    const uint8_t *context;
    /**
     * In bytes.
     */
    size_t context_length;
    /**
     * A sum of `evener_flag`s.
     */
    uint32_t flags;
    /**
     * Interval of the calls of `progress`, in milliseconds; 0 for 100.
     */
    uint32_t progress_interval;
    /**
     * Called with the progress; NULL for no callback.
     */
    evener_progress_callback progress;
    /**
     * Passed to `progress`.
     */
    void *user_data;
    /**
     * Number of processes that may use each engine at once (permits), the same in all of them; 0
     * for what the engine reports.
     */
    size_t permits;
    /**
     * How long a process may be stopped before its permit passes to another one, in milliseconds,
     * the same in all processes; 0 for any time.
     */
    uint64_t permit_lease;
    /**
     * An `evener_gate`: how processes queue for permits.
     */
    uint32_t gate;
    /**
     * CPU limit as a percentage of all cores, 1 to 100; 0 for none.
     */
    uint32_t max_cpu;
} evener_options;

/**
 * A report's numbers.
 */
typedef struct evener_summary {
    /**
     * `sizeof(evener_summary)`, set by the caller.
     */
    size_t size;
    /**
     * Files done, without those skipped.
     */
    uint64_t files;
    /**
     * Bytes read from them.
     */
    uint64_t bytes;
    /**
     * Bytes written for them.
     */
    uint64_t bytes_written;
    /**
     * Files that were complete already.
     */
    uint64_t files_skipped;
    /**
     * Further names of files done, made as hard links.
     */
    uint64_t hard_links;
    /**
     * Symbolic links recreated.
     */
    uint64_t symlinks;
    /**
     * Directories entered.
     */
    uint64_t directories;
    /**
     * Files that failed.
     */
    uint64_t failures;
    /**
     * Engines that were taken out of service.
     */
    uint64_t retired_engines;
    /**
     * Wall time of the whole operation.
     */
    double seconds;
    /**
     * 1 if the operation was stopped before its end, else 0.
     */
    uint32_t interrupted;
    /**
     * 1 if everything was done and no file is in doubt, else 0.
     */
    uint32_t success;
    /**
     * Files that were done but may be wrong, because an engine computed wrong results.
     */
    uint64_t doubtful_files;
    /**
     * Jobs of modules that the reference engine recomputed with the same result.
     */
    uint64_t verified_jobs;
    /**
     * Jobs of modules that were not recomputed.
     */
    uint64_t unverified_jobs;
    /**
     * Entries that were left out, such as special files and wrapped keys; the JSON names each.
     */
    uint64_t left_out;
    /**
     * Of a sealed tree: the number of the generation that was made or read; 0 if there is none.
     */
    uint64_t generation;
    /**
     * 1 if the operation has made that generation, else 0.
     */
    uint64_t generation_is_new;
} evener_summary;

/**
 * A file that failed. The texts belong to the report.
 */
typedef struct evener_failure {
    /**
     * `sizeof(evener_failure)`, set by the caller.
     */
    size_t size;
    /**
     * The path, as the caller would write it.
     */
    const char *path;
    /**
     * The cause, as one line.
     */
    const char *cause;
} evener_failure;

/**
 * One message. Input and output never overlap, and the input is never changed. (To work in place,
 * use `evener_parallel_crypt_in_place`.) For a message of n bytes:
 *
 * - ECB and CBC: n bytes to n bytes, in whole blocks. With `EVENER_PADDING_PKCS7` encryption adds
 *   1 byte to one block; decryption takes whole blocks and sets `written` to the length without
 *   padding.
 * - CTR and XTS (from 16 bytes on): n bytes to n bytes.
 * - GCM and ChaCha20-Poly1305 encrypt n bytes to n + 16, the tag last, and decrypt n + 16 to n.
 */
typedef struct evener_job {
    /**
     * `sizeof(evener_job)`, set by the caller: the same in every job of an array.
     */
    size_t size;
    /**
     * The message to encrypt or decrypt.
     */
    const uint8_t *input;
    /**
     * In bytes.
     */
    size_t input_length;
    /**
     * The buffer for the result.
     */
    uint8_t *output;
    /**
     * Its length in bytes. No more are written than the message needs.
     */
    size_t output_capacity;
    /**
     * The IV, nonce or first counter block.
     */
    const uint8_t *iv;
    /**
     * In bytes; must be the cipher's, see `evener_cipher_info`.
     */
    size_t iv_length;
    /**
     * Additional authenticated data, for AEAD ciphers; else NULL.
     */
    const uint8_t *aad;
    /**
     * In bytes.
     */
    size_t aad_length;
    /**
     * This message's own key; NULL for the session's.
     */
    const struct evener_key *key;
    /**
     * An `evener_padding`.
     */
    uint32_t padding;
    /**
     * Set by the call: an `evener_status`.
     */
    int status;
    /**
     * Set by the call: the length of the result.
     */
    size_t written;
} evener_job;

/**
 * Records: many short messages of one length in one buffer, such as the fields of a table. Record
 * i begins at i * `input_stride` of the input, its result at i * `output_stride` of the output,
 * and its IV is the i-th of `ivs`. The lengths are those of `evener_job`; removing padding needs
 * space for the padding too.
 */
typedef struct evener_records {
    /**
     * `sizeof(evener_records)`, set by the caller.
     */
    size_t size;
    /**
     * Number of records.
     */
    size_t count;
    /**
     * Length of a message, which is a record's plaintext, in bytes.
     */
    size_t length;
    /**
     * The records to encrypt or decrypt.
     */
    const uint8_t *input;
    /**
     * In bytes, of all records.
     */
    size_t input_length;
    /**
     * Distance from one record to the next; 0 for records without gaps.
     */
    size_t input_stride;
    /**
     * The buffer for the results.
     */
    uint8_t *output;
    /**
     * Its length in bytes. Nothing is written between two results.
     */
    size_t output_capacity;
    /**
     * Distance from one result to the next; 0 for results without gaps.
     */
    size_t output_stride;
    /**
     * The IVs without gaps.
     */
    const uint8_t *ivs;
    /**
     * In bytes: `count` times the cipher's IV length.
     */
    size_t ivs_length;
    /**
     * An `evener_padding`.
     */
    uint32_t padding;
    /**
     * Set by the call: an `evener_status`, that of the first rejected record if there is one.
     */
    int status;
    /**
     * Set by the call: number of records done or rejected, from the first on. If the engine
     * failed, less than `count`.
     */
    size_t done;
    /**
     * Set by the call: number of rejected records, which have no plaintext.
     */
    size_t rejected;
    /**
     * Set by the call: the number of the first rejected record, if there is one.
     */
    size_t first_rejected;
} evener_records;

/**
 * Options of operations on sealed trees. Zero in every field but the first is the default. An
 * operation ignores the fields that are for others.
 */
typedef struct evener_tree_options {
    /**
     * `sizeof(evener_tree_options)`, set by the caller.
     */
    size_t size;
    /**
     * Engines, workers, memory, progress and flags; NULL for the defaults. Suffix and context are
     * none of a sealed tree's, and neither are `EVENER_FLAG_REMOVE_SOURCE`,
     * `EVENER_FLAG_FOLLOW_SYMLINKS`, `EVENER_FLAG_IGNORE_CTIME` and `EVENER_FLAG_ARMOR`. Sealing
     * takes no `EVENER_FLAG_OVERWRITE`, `EVENER_FLAG_RESUME` and `EVENER_FLAG_SPARSE`, reading no
     * `EVENER_FLAG_UPDATE`, `EVENER_FLAG_DRY_RUN`, `EVENER_FLAG_SKIP_CHANGING` and
     * `EVENER_FLAG_ONE_FILE_SYSTEM`. Only operations that read or write files report progress.
     */
    const struct evener_options *files;
    /**
     * A sum of `evener_tree_flag`s.
     */
    uint64_t flags;
    /**
     * Directory for what this machine knows of its trees: roots, signing keys and the files last
     * sealed. It is made if it is missing. NULL for the program's: `$XDG_STATE_HOME/evener/trees`,
     * or `~/.local/state/evener/trees`.
     */
    const char *state;
    /**
     * To write: the key of OpenSSH that signs, by `ssh-keygen`: a private key, or a public one
     * whose private key is in ssh-agent. NULL for a key that is made for this machine and kept in
     * `state`, where the tree is one for recipients or already signed.
     */
    const char *signer;
    /**
     * Public keys of OpenSSH, one a line, of which one must have signed the tree; NULL for those
     * that this machine saw at first use. Not with `EVENER_TREE_FLAG_UNSIGNED`.
     */
    const char *signers;
    /**
     * Accept only a tree whose generation N has this digest, or a later one: `N:DIGEST` with 64
     * hexadecimal digits, for machines that have not seen the tree. NULL for none.
     */
    const char *pin;
    /**
     * To read: the number of the generation; 0 for the newest one.
     */
    uint64_t generation;
    /**
     * To read: the last generation made by this time, in seconds since 1970; 0 for the newest one.
     * Not with `generation`.
     */
    int64_t time;
    /**
     * To make a tree: pad each file to at least so many bytes, and larger ones by up to 12 %; 0 for
     * no padding. A tree that is there keeps its own.
     */
    uint64_t padding;
    /**
     * To read: paths below the root of the tree that are taken; NULL for all.
     */
    const char *const *paths;
    /**
     * Number of paths.
     */
    size_t path_count;
    /**
     * To clean: the number of generations to keep, the newest ones; 0 for all, or for the newest
     * alone with `keep_within`.
     */
    uint64_t keep;
    /**
     * To clean: also keep the generations made in this many seconds before now; 0 for none.
     */
    uint64_t keep_within;
    /**
     * To clean: runs that are no more, one a line, by the names that the report's `writers` has;
     * NULL for none.
     */
    const char *abandon;
} evener_tree_options;

/**
 * An entry, generation, difference or signer of a sealed tree. The texts are valid during the call
 * that passes it.
 */
typedef struct evener_tree_item {
    /**
     * `sizeof(evener_tree_item)` of the library's version, for the reader to compare.
     */
    size_t size;
    /**
     * The path below the root of the tree, empty for the root itself; a generation's digest; a
     * signer's line; or the fingerprint of one who is revoked.
     */
    const char *name;
    /**
     * Of an entry: `file`, `directory`, `symlink`, or `link` for a further name of a file. Of a
     * generation: `whole` or `removed`. Of a difference: `added`, `removed`, `kind`, `content` or
     * `metadata`. Of a signer: `signer` or `revoked`.
     */
    const char *kind;
    /**
     * Bytes of content; of a difference, those after it; else 0.
     */
    uint64_t bytes;
    /**
     * The time of the last modification, or that of a generation, in seconds since 1970; else 0.
     */
    int64_t time;
    /**
     * The number of a generation; of a file, that for which its content was sealed; of one who is
     * revoked, the last good one; else 0.
     */
    uint64_t generation;
    /**
     * All of this and more, as the program's `--json` prints it.
     */
    const char *json;
} evener_tree_item;

/**
 * Called with each item, on the thread that called the operation. Return 0 to continue; any other
 * value ends the list. It must not throw or jump out.
 */
typedef int (*evener_tree_callback)(const struct evener_tree_item *item, void *user_data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The interface's version of the library that is loaded: compare with `EVENER_ABI_VERSION`.
 */
uint32_t evener_abi_version(void);

/**
 * The library's version, such as `0.1.0`. Static.
 */
const char *evener_version(void);

/**
 * The message of the last call on this thread that did not return `EVENER_STATUS_OK`: one line
 * that names the file, engine or argument, and what to do next. The text belongs to the library
 * and is valid until the next such call on this thread. Empty if there was none.
 */
const char *evener_last_error(void);

/**
 * A short text for a status, such as `authentication failed`. Static.
 */
const char *evener_status_words(int32_t status);

/**
 * Number of ciphers.
 */
size_t evener_cipher_count(void);

/**
 * Reads the properties of the cipher with this number, which must be less than
 * `evener_cipher_count()`.
 */
evener_status evener_cipher_at(size_t index, struct evener_cipher_info *info);

/**
 * Reads the properties of the cipher with this OpenSSL name, in any case.
 */
evener_status evener_cipher_named(const char *name, struct evener_cipher_info *info);

/**
 * Probes for every engine. Free the list with `evener_engine_list_free`.
 */
evener_status evener_engine_list_new(struct evener_engine_list **list);

/**
 * Number of engines in the list, including absent ones; 0 for NULL.
 */
size_t evener_engine_list_length(const struct evener_engine_list *list);

/**
 * Reads the description of the engine with this number. The texts are valid until the list is
 * freed.
 */
evener_status evener_engine_list_at(const struct evener_engine_list *list,
                                    size_t index,
                                    struct evener_engine_info *info);

/**
 * Frees a list. NULL does nothing.
 */
void evener_engine_list_free(struct evener_engine_list *list);

/**
 * Finds an engine by its name, with parameters if it has any, such as `openssl` or
 * `af_alg:DRIVER`; NULL for the default engine. Free it with `evener_engine_free`.
 */
evener_status evener_engine_open(const char *name, struct evener_engine **engine);

/**
 * Reads the recommended use of an engine for a cipher; returns `EVENER_STATUS_NOT_OFFERED` if the
 * engine lacks it.
 */
evener_status evener_engine_offer(const struct evener_engine *engine,
                                  const char *cipher,
                                  evener_direction direction,
                                  struct evener_offer *offer);

/**
 * Reads the counts of a module's guard. The guard recomputes some jobs, chosen at random. After a
 * failure, `openssl` does all further jobs, and the counts show it. All counts are zero for CPU
 * engines, which have no guard.
 */
evener_status evener_engine_account(const struct evener_engine *engine,
                                    struct evener_account *account);

/**
 * Frees an engine. Its sessions stay open. NULL does nothing.
 */
void evener_engine_free(struct evener_engine *engine);

/**
 * Makes a fresh key for files from the system's randomness: `cobblestone-256`, `cobblestone-128`
 * or `tink`; NULL for the first. Free it with `evener_file_key_free`.
 */
evener_status evener_file_key_generate(const char *format,
                                       struct evener_file_key **key);

/**
 * Copies a raw key for files: 32 bytes for Cobblestone-256, 16 for Cobblestone-128. The caller
 * wipes the original. Free the key with `evener_file_key_free`.
 */
evener_status evener_file_key_from_bytes(const uint8_t *bytes,
                                         size_t length,
                                         struct evener_file_key **key);

/**
 * Reads a key file: Evener's own or a Tink keyset, plain (accessible only to its owner) or
 * encrypted with age. An encrypted one opens with a passphrase, or with a file of identities or
 * an SSH key, which may itself have the passphrase; both may be NULL. A passphrase is also tried
 * without a byte-order mark, blanks and a carriage return around it. Free the key with
 * `evener_file_key_free`.
 */
evener_status evener_file_key_load(const char *path,
                                   const uint8_t *passphrase,
                                   size_t passphrase_length,
                                   const char *identities,
                                   struct evener_file_key **key);

/**
 * Takes the place of a key for age's own format, whose files have none: recipients, one a line
 * (`age1...`, or SSH keys), for whom it encrypts; and a file of identities or an SSH key, and a
 * passphrase, that decrypt. All may be NULL. Without recipients the passphrase encrypts, but no
 * trees, since age takes a second for each file. It can't be saved, and takes no context. Free it
 * with `evener_file_key_free`.
 */
evener_status evener_file_key_of_age(const char *recipients,
                                     const uint8_t *passphrase,
                                     size_t passphrase_length,
                                     const char *identities,
                                     struct evener_file_key **key);

/**
 * Writes a key to a new file of mode 0600 (where the file system takes modes: FAT, exFAT and NTFS may
 * not), which appears complete or not at all. An existing file
 * is not changed and is an error.
 */
evener_status evener_file_key_save(const struct evener_file_key *key,
                                   const char *path);

/**
 * Wipes and frees a key. NULL does nothing.
 */
void evener_file_key_free(struct evener_file_key *key);

/**
 * Computes the length of the output of `evener_seal` for `length` bytes.
 */
evener_status evener_sealed_length(const struct evener_file_key *key,
                                   size_t length,
                                   size_t *sealed_length);

/**
 * Encrypts a buffer to the content of an encrypted file. As many threads as the pool has work on its
 * chunks. For the authenticated formats only. The context may be NULL. `written` may be NULL; it
 * is 0 after an error.
 */
evener_status evener_seal(const struct evener_file_key *key,
                          const struct evener_pool *pool,
                          const uint8_t *context,
                          size_t context_length,
                          const uint8_t *plaintext,
                          size_t plaintext_length,
                          uint8_t *sealed,
                          size_t sealed_capacity,
                          size_t *written);

/**
 * Decrypts the output of `evener_seal` or the content of an encrypted file. The plaintext is never
 * longer than the input. If any part is not authentic or missing, there is no plaintext.
 */
evener_status evener_unseal(const struct evener_file_key *key,
                            const struct evener_pool *pool,
                            const uint8_t *context,
                            size_t context_length,
                            const uint8_t *sealed,
                            size_t sealed_length,
                            uint8_t *plaintext,
                            size_t plaintext_capacity,
                            size_t *written);

/**
 * Encrypts a file, a tree or a pipe.
 *
 * A tree goes to a tree: the same relative names with the suffix. A file goes to the file
 * `target`, or into the directory `target` under its name with the suffix. An output has no name
 * until it is complete. `options` may be NULL. A FIFO, a device or `/dev/fd/N`, on either side, is
 * read or written from beginning to end; plaintext comes out of it once its chunks are authenticated.
 *
 * If the default state knows a sealed tree at the encrypted side or above it, and the tree is
 * gone, the status is `EVENER_STATUS_FILE`. `evener verify --allow-rollback` forgets such a tree.
 *
 * If files fail, they are listed in the report, all others are done, and the status is
 * `EVENER_STATUS_INCOMPLETE`. `report` gets the report whatever the status: that of an operation
 * that could not begin, was cancelled or met a bug says what was done until then, and why it
 * ended. It gets NULL only if the arguments, options or engines can't be used, so that nothing was
 * tried. Free it with `evener_report_free`. `report` itself may be NULL.
 */
evener_status evener_encrypt_path(const struct evener_file_key *key,
                                  const char *source,
                                  const char *target,
                                  const struct evener_options *options,
                                  struct evener_report **report);

/**
 * Decrypts a file or a tree, see `evener_encrypt_path`. Only authenticated data gets a final name.
 */
evener_status evener_decrypt_path(const struct evener_file_key *key,
                                  const char *source,
                                  const char *target,
                                  const struct evener_options *options,
                                  struct evener_report **report);

/**
 * Authenticates a file or a tree and writes nothing, see `evener_encrypt_path`.
 */
evener_status evener_verify_path(const struct evener_file_key *key,
                                 const char *source,
                                 const struct evener_options *options,
                                 struct evener_report **report);

/**
 * Reads a report's numbers.
 */
evener_status evener_report_summary(const struct evener_report *report,
                                    struct evener_summary *summary);

/**
 * Reads a failed file and the cause. The number must be less than the summary's `failures`. The
 * texts are valid until the report is freed.
 */
evener_status evener_report_failure(const struct evener_report *report,
                                    size_t index,
                                    struct evener_failure *failure);

/**
 * Reads a file in doubt and the cause. The number must be less than the summary's
 * `doubtful_files`. The texts are valid until the report is freed.
 */
evener_status evener_report_doubt(const struct evener_report *report,
                                  size_t index,
                                  struct evener_failure *doubt);

/**
 * The whole report as JSON, as the program's `--json` prints it, with the work of each engine and
 * worker. The text is valid until the report is freed. NULL for NULL.
 */
const char *evener_report_json(const struct evener_report *report);

/**
 * Frees a report. NULL does nothing.
 */
void evener_report_free(struct evener_report *report);

/**
 * Takes AES-GCM (`aes-128-gcm`, `aes-192-gcm`, `aes-256-gcm`) or `chacha20-poly1305`, and its key, for
 * texts that lie in a GPU's memory. The engine's name selects the GPU: `gpu:cuda:0`; NULL for the
 * first. A known text is sealed first and compared with OpenSSL's result. Free it with
 * `evener_gpu_free`.
 */
evener_status evener_gpu_new(const char *engine,
                             const char *cipher,
                             const struct evener_key *key,
                             struct evener_gpu **gpu);

/**
 * Encrypts `length` bytes at an address of the GPU's memory in place, and writes the tag, for which
 * `tag_length` must be 16.
 * The text may have up to 64 GiB (ChaCha20-Poly1305: 256 GiB) and is one message.
 *
 * `address` is a CUdeviceptr, such as a tensor's data pointer, of the device's primary context. What
 * was queued on `stream`, a CUstream (0 for the default stream), is done first; the call returns
 * when the text is encrypted. Nothing else may use the text meanwhile. Every text of a key needs
 * another nonce, of 12 bytes. After `EVENER_STATUS_ENGINE_FAILED` nothing is known of the text.
 */
evener_status evener_gpu_seal(const struct evener_gpu *gpu,
                              uint64_t address,
                              size_t length,
                              uint64_t stream,
                              const uint8_t *nonce,
                              size_t nonce_length,
                              const uint8_t *aad,
                              size_t aad_length,
                              uint8_t *tag,
                              size_t tag_length);

/**
 * Checks the tag of 16 bytes, and decrypts a text in place as `evener_gpu_seal` encrypts it. With
 * a wrong tag it returns `EVENER_STATUS_AUTHENTICATION_FAILED`, and the text is as it was: memory
 * never holds plaintext that was not authenticated.
 */
evener_status evener_gpu_unseal(const struct evener_gpu *gpu,
                                uint64_t address,
                                size_t length,
                                uint64_t stream,
                                const uint8_t *nonce,
                                size_t nonce_length,
                                const uint8_t *aad,
                                size_t aad_length,
                                const uint8_t *tag,
                                size_t tag_length);

/**
 * Wipes the key and frees it. NULL does nothing.
 */
void evener_gpu_free(struct evener_gpu *gpu);

/**
 * Copies a key's bytes, 1 to 64 of them; the caller wipes the original. Free the key with
 * `evener_key_free`.
 */
evener_status evener_key_from_bytes(const uint8_t *bytes,
                                    size_t length,
                                    struct evener_key **key);

/**
 * Makes a fresh key for a cipher from the system's randomness. It never leaves the library, so it
 * is for data that is not needed after the process ends. Free it with `evener_key_free`.
 */
evener_status evener_key_generate(const char *cipher,
                                  struct evener_key **key);

/**
 * Wipes and frees a key. Sessions have their own copies, which they wipe. NULL does nothing.
 */
void evener_key_free(struct evener_key *key);

/**
 * Makes a pool of this many threads, including the caller's; 0 for one per core. They start at the
 * first use and sleep between calls. Free it with `evener_pool_free`.
 */
evener_status evener_pool_new(size_t threads,
                              struct evener_pool **pool);

/**
 * Frees a pool. Its threads end when everything that was opened with it is freed. NULL does
 * nothing.
 */
void evener_pool_free(struct evener_pool *pool);

/**
 * Opens a cipher of the modes ECB, CBC or CTR for single buffers that all threads of a pool
 * process together: ECB, CTR, and CBC decryption. (CBC encryption runs on the calling thread, and
 * so does any mode on a buffer that takes less time than waking another thread.)
 *
 * NULL for the pool makes a pool with one thread per core; NULL for the engine's name selects the
 * fastest engine. Free it with `evener_parallel_free`.
 */
evener_status evener_parallel_open(const struct evener_pool *pool,
                                   const char *engine,
                                   const char *cipher,
                                   const struct evener_key *key,
                                   evener_padding padding,
                                   struct evener_parallel **parallel);

/**
 * Encrypts or decrypts a buffer into another. `written` may be NULL; it is 0 after an error.
 */
evener_status evener_parallel_crypt(const struct evener_parallel *parallel,
                                    evener_direction direction,
                                    const uint8_t *iv,
                                    size_t iv_length,
                                    const uint8_t *input,
                                    size_t input_length,
                                    uint8_t *output,
                                    size_t output_capacity,
                                    size_t *written);

/**
 * Encrypts or decrypts a buffer in place, without padding. If the engine fails, the buffer is
 * lost.
 */
evener_status evener_parallel_crypt_in_place(const struct evener_parallel *parallel,
                                             evener_direction direction,
                                             const uint8_t *iv,
                                             size_t iv_length,
                                             uint8_t *data,
                                             size_t length);

/**
 * Wipes the key and frees a cipher for single buffers. NULL does nothing.
 */
void evener_parallel_free(struct evener_parallel *parallel);

/**
 * Opens an engine for a cipher, direction and key, for any number of messages. NULL for the engine
 * selects the default engine; give NULL for the key if each job has its own or the engine holds
 * one. Free the session with `evener_session_free`.
 */
evener_status evener_session_open(const struct evener_engine *engine,
                                  const char *cipher,
                                  evener_direction direction,
                                  const struct evener_key *key,
                                  struct evener_session **session);

/**
 * Processes `count` jobs, whose outputs must not overlap anything. Engines are faster with many at
 * once, see `evener_offer`.
 *
 * Sets each job's `status` and `written`. Returns `EVENER_STATUS_OK` if all were done. If jobs
 * were rejected, returns the status of the first; all others are done. If the engine failed,
 * returns that; the jobs that were not done are pending. If an argument is not valid, no job is
 * done.
 */
evener_status evener_session_process(const struct evener_session *session,
                                     struct evener_job *jobs,
                                     size_t count);

/**
 * Processes one message: `evener_session_process` with the job's fields as arguments, for callers
 * for which structs are difficult. `written` may be NULL; it is 0 after an error.
 */
evener_status evener_session_crypt(const struct evener_session *session,
                                   evener_padding padding,
                                   const uint8_t *iv,
                                   size_t iv_length,
                                   const uint8_t *aad,
                                   size_t aad_length,
                                   const uint8_t *input,
                                   size_t input_length,
                                   uint8_t *output,
                                   size_t output_capacity,
                                   size_t *written);

/**
 * Processes one message with the default engine, without a session: good for a few messages, slow
 * for many. If the job has its own key, `key` is NULL.
 */
evener_status evener_crypt(const char *cipher,
                           evener_direction direction,
                           const struct evener_key *key,
                           struct evener_job *job);

/**
 * Processes records, which is several times as fast as a job for each. If records are rejected,
 * all others are done, and the status is that of the first.
 */
evener_status evener_session_process_records(const struct evener_session *session,
                                             struct evener_records *records);

/**
 * Verifies the last message, if a module processed it and it was not verified yet. Fails if the
 * module computed wrong results: earlier results of the session may be wrong, and `openssl`
 * processes all later messages. `evener_session_free` verifies it too, but can't report the
 * result.
 */
evener_status evener_session_finish(const struct evener_session *session);

/**
 * Wipes a session's keys and frees it. No thread may be using it. NULL does nothing.
 */
void evener_session_free(struct evener_session *session);

/**
 * Stores 1 if a directory says that it is a sealed tree, else 0. It fails if the directory can't
 * be read, its marker is damaged or of a later version, or the default state knows a sealed tree
 * there or in a directory above, and the tree is gone.
 */
evener_status evener_tree_is_sealed(const char *tree,
                                    uint32_t *answer);

/**
 * Seals a directory into a new generation of a sealed tree, which is made if there is none. Files
 * that are unchanged or moved since the generation before keep what was sealed. If nothing has
 * changed there is no new generation; the summary's `generation` and `generation_is_new` tell.
 *
 * The key is one of 32 bytes (Cobblestone-256). With `evener_file_key_of_age` each generation has a
 * fresh key, wrapped for the recipients or with the passphrase, which is that of the generations
 * before, and the tree is signed. Identities open earlier generations. Without them, later calls need `state`, or else nobody can go on with
 * the tree. All fields of the options but those to read and to clean count. Otherwise as
 * `evener_encrypt_path`: files that failed keep the content of the generation before.
 */
evener_status evener_tree_seal(const struct evener_file_key *key,
                               const char *source,
                               const char *tree,
                               const struct evener_tree_options *options,
                               struct evener_report **report);

/**
 * Seals the newest generation of a tree again, under another key: `new_key`, or a fresh one that is
 * wrapped for the recipients of `new_key`. Nothing is accepted under the old key after that, but it
 * still opens the generations before, until they are removed. `key` opens the tree.
 */
evener_status evener_tree_rekey(const struct evener_file_key *key,
                                const char *tree,
                                const struct evener_file_key *new_key,
                                const struct evener_tree_options *options,
                                struct evener_report **report);

/**
 * Decrypts a generation of a sealed tree, or the `paths` in it, to a directory. Only authenticated
 * data gets a final name. The summary's `generation` is the one that was read. Otherwise as
 * `evener_decrypt_path`. A tree of another key is `EVENER_STATUS_INVALID_KEY`, a changed one
 * `EVENER_STATUS_AUTHENTICATION_FAILED`, and one that is not believed (rolled back, signed by
 * others) `EVENER_STATUS_FILE`.
 */
evener_status evener_tree_decrypt(const struct evener_file_key *key,
                                  const char *tree,
                                  const char *target,
                                  const struct evener_tree_options *options,
                                  struct evener_report **report);

/**
 * Authenticates a generation of a sealed tree and writes nothing, see `evener_tree_decrypt`. With
 * `EVENER_TREE_FLAG_QUICK` it reads no content.
 */
evener_status evener_tree_verify(const struct evener_file_key *key,
                                 const char *tree,
                                 const struct evener_tree_options *options,
                                 struct evener_report **report);

/**
 * Passes `each` the entries of a generation, or those of the `paths` in it, by directory, then by
 * name. Damaged parts are the report's failures; all others are listed.
 */
evener_status evener_tree_list(const struct evener_file_key *key,
                               const char *tree,
                               const struct evener_tree_options *options,
                               evener_tree_callback each,
                               void *user_data,
                               struct evener_report **report);

/**
 * Passes `each` the generations, the newest first. Those that the key does not open are the
 * report's failures, unless they were removed.
 */
evener_status evener_tree_generations(const struct evener_file_key *key,
                                      const char *tree,
                                      const struct evener_tree_options *options,
                                      evener_tree_callback each,
                                      void *user_data,
                                      struct evener_report **report);

/**
 * Passes `each` what differs between the generation that the options name and a later state: the
 * directory `later` if it is not NULL, such as the source, whose files count as unchanged if size
 * and time are the same; else the generation `later_generation`, 0 for the newest one.
 */
evener_status evener_tree_diff(const struct evener_file_key *key,
                               const char *tree,
                               const char *later,
                               uint64_t later_generation,
                               const struct evener_tree_options *options,
                               evener_tree_callback each,
                               void *user_data,
                               struct evener_report **report);

/**
 * Removes the generations that `keep` and `keep_within` do not keep, and what killed runs have
 * left. It first makes a generation that says so. If a kept generation can't be read whole, nothing
 * is removed. Files younger than a day, or than a run that is at work, stay. The report's JSON has
 * `kept`, `removed`, `files`, `bytes`, `spared` and `writers`.
 */
evener_status evener_tree_clean(const struct evener_file_key *key,
                                const char *tree,
                                const struct evener_tree_options *options,
                                struct evener_report **report);

/**
 * Wraps the keys of all generations for the recipients of `new_key`, without reading content. Old
 * wrappings are removed if an identity of either key has opened the new ones, or with
 * `EVENER_TREE_FLAG_TRUST_UNOPENED`. `key` opens the tree. The report's JSON has `keys`, `removed`
 * and `unchecked`, the old wrappings that stay.
 */
evener_status evener_tree_rewrap(const struct evener_file_key *key,
                                 const char *tree,
                                 const struct evener_file_key *new_key,
                                 const struct evener_tree_options *options,
                                 struct evener_report **report);

/**
 * Passes `each` those who may sign the next generation, and those who are revoked.
 */
evener_status evener_tree_signers(const struct evener_file_key *key,
                                  const char *tree,
                                  const struct evener_tree_options *options,
                                  evener_tree_callback each,
                                  void *user_data,
                                  struct evener_report **report);

/**
 * Passes `each` the signer that this machine is for a tree, which may be absent. Another machine
 * admits it by its line. Its keys are made at first use.
 */
evener_status evener_tree_own_signer(const char *tree,
                                     const struct evener_tree_options *options,
                                     evener_tree_callback each,
                                     void *user_data);

/**
 * Changes who may sign a tree, in a generation of its own. An unsigned tree becomes a signed one.
 * All three texts have one signer a line, and may be NULL: `add` has lines of
 * `evener_tree_own_signer`; `remove` has fingerprints, `SHA256:...`, of those who sign no later
 * generation; `revoke` has `SHA256:...@N` for those of whom nothing after generation N is believed,
 * as when a key was stolen.
 */
evener_status evener_tree_change_signers(const struct evener_file_key *key,
                                         const char *tree,
                                         const char *add,
                                         const char *remove,
                                         const char *revoke,
                                         const struct evener_tree_options *options,
                                         struct evener_report **report);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVENER_H */
