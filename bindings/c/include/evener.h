/*
 * Evener: bulk encryption with every crypto engine of a machine at once.
 *
 * Made from the sources by cbindgen; bindings/c/README.md says how. Rules, for all functions:
 *
 * Status. A function that can fail returns an evener_status: EVENER_STATUS_OK, which is 0, or
 * what went wrong; evener_last_error() then has the words to it. No function ends the process or
 * lets an exception out.
 *
 * Ownership. What evener_X_new, _open, _generate, _from_bytes or _load puts into the last
 * argument is the caller's, who gives it back exactly once, with evener_X_free; where such a
 * function fails it puts NULL there. Everything else that is handed in is only lent for the
 * call: the library keeps no pointer to it. Texts and structs that come out point into the
 * object that they were asked of and end with it; nobody frees them. Objects do not depend on
 * each other: a session outlives its engine and its key.
 *
 * Memory. A pointer that is not NULL points to as many bytes (elements) as its length says, and
 * nobody else changes them during the call. NULL is fine where the length is 0. Outputs may be
 * uninitialised, and overlap nothing else. Texts end with a zero byte and are UTF-8; paths are
 * any bytes.
 *
 * Threads. Every function may be called on any thread. Engines, keys, lists and reports may be
 * used by several at once; a session by one at a time. Nobody may use what is being given back.
 *
 * Keys are wiped when they are given back, and appear in no message.
 *
 * Versions. Structs begin with their size, which the caller sets to sizeof before each call, as
 * in `evener_job job = {sizeof job};`, so that both sides may grow: zero in all other fields is
 * the default. Compare evener_abi_version() with EVENER_ABI_VERSION where the library may be
 * another than the header's.
 */


#ifndef EVENER_H
#define EVENER_H

#include <stddef.h>
#include <stdint.h>

/**
 * The version of this header's interface. A library is compatible with every program that was
 * compiled with the same number.
 */
#define EVENER_ABI_VERSION 0

/**
 * A direction: plaintext to ciphertext.
 */
#define EVENER_ENCRYPT 0

/**
 * A direction: ciphertext to plaintext.
 */
#define EVENER_DECRYPT 1

/**
 * A kind of engine: it computes on the calling core.
 */
#define EVENER_CPU 1

/**
 * A kind of engine: another device computes while the caller sleeps.
 */
#define EVENER_MODULE 2

/**
 * A flag: skip files whose output is complete.
 */
#define EVENER_RESUME 1

/**
 * A flag: replace outputs that exist; otherwise they are errors.
 */
#define EVENER_OVERWRITE 2

/**
 * A flag: remove each source once its output has been read back, compared and synced.
 */
#define EVENER_REMOVE_SOURCE 4

/**
 * A flag: have every output on the device before the operation ends.
 */
#define EVENER_DURABLE 8

/**
 * A flag: take what symbolic links point to, instead of recreating the links.
 */
#define EVENER_FOLLOW_SYMLINKS 16

/**
 * A flag: keep owner and group, which needs privilege.
 */
#define EVENER_KEEP_OWNER 32

/**
 * A flag: keep extended attributes.
 */
#define EVENER_KEEP_XATTRS 64

/**
 * A flag: when decrypting, leave holes where the plaintext has whole pages of zeros.
 */
#define EVENER_SPARSE 128

/**
 * A flag: count what would be done and write nothing.
 */
#define EVENER_DRY_RUN 256

/**
 * A flag: add up all sizes while walking, so that progress can tell the remaining time.
 */
#define EVENER_MEASURE_TOTAL 512

/**
 * A padding: the message is whole blocks, or the cipher needs none.
 */
#define EVENER_NO_PADDING 0

/**
 * A padding: 1 to one block of bytes that hold their number (RFC 5652), for ECB and CBC.
 */
#define EVENER_PKCS7 1

/**
 * What became of a call. Later versions may add numbers and never change one.
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
     * The key's length is not the cipher's, or a key is missing or superfluous.
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
     * Of a job: it was not done, because the engine failed before. Its input is as it was.
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
     * An operation on files was done but for some; its report lists them.
     */
    EVENER_STATUS_INCOMPLETE = 13,
    /**
     * The progress callback stopped the operation. What was complete stays.
     */
    EVENER_STATUS_CANCELLED = 14,
    /**
     * Another thread is using the session.
     */
    EVENER_STATUS_BUSY = 15,
    /**
     * A defect of Evener's. Nothing can be said of the outputs.
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
 * An engine. Any number of threads may use it at once.
 */
typedef struct evener_engine evener_engine;

/**
 * The engines that were found, and those that were looked for in vain.
 */
typedef struct evener_engine_list evener_engine_list;

/**
 * What a key file holds: a key, or Tink's keys, and the format that they are for. It is wiped
 * when it is given back.
 */
typedef struct evener_file_key evener_file_key;

/**
 * A key of a cipher, as it is. It is wiped when it is given back.
 */
typedef struct evener_key evener_key;

/**
 * A cipher with its key and a pool, for single buffers. Any number of threads may use it at
 * once.
 */
typedef struct evener_parallel evener_parallel;

/**
 * Threads that sleep until there is a buffer to do, for any number of ciphers. Any number of
 * threads may use it at once.
 */
typedef struct evener_pool evener_pool;

/**
 * What an operation on files did: numbers, the files that could not be done, and everything as
 * JSON.
 */
typedef struct evener_report evener_report;

/**
 * An engine opened for one cipher, direction and key. One thread at a time uses it; another
 * that tries meanwhile gets `EVENER_STATUS_BUSY`.
 */
typedef struct evener_session evener_session;

/**
 * What there is to know of a cipher.
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
     * How many bytes longer than the message the ciphertext of an AEAD cipher is; else 0.
     */
    size_t tag_length;
    /**
     * The longest message under one IV, in bytes, without its tag; `UINT64_MAX` for no limit.
     */
    uint64_t longest_message;
} evener_cipher_info;

/**
 * What there is to know of an engine. The texts belong to the list.
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
     * Why the engine is absent, and what to do about it; NULL when it is there.
     */
    const char *absent;
    /**
     * `EVENER_CPU` or `EVENER_MODULE`; 0 when the engine is absent.
     */
    uint32_t kind;
} evener_engine_info;

/**
 * How an engine likes to be used for a cipher and direction.
 */
typedef struct evener_offer {
    /**
     * `sizeof(evener_offer)`, set by the caller.
     */
    size_t size;
    /**
     * How many threads can use it at once with profit; for CPU engines the number of cores.
     */
    size_t depth;
    /**
     * How many jobs it likes in one call; 1 for engines that gain nothing from more.
     */
    size_t batch;
    /**
     * How many processes' sessions it serves at once; 0 for no such limit.
     */
    size_t holders;
} evener_offer;

/**
 * What the guard of an engine has seen of its work.
 */
typedef struct evener_account {
    /**
     * `sizeof(evener_account)`, set by the caller.
     */
    size_t size;
    /**
     * Jobs that the engine did and that were handed on.
     */
    uint64_t jobs;
    /**
     * How many of them were computed again by the reference engine, with the same result.
     */
    uint64_t verified;
    /**
     * Jobs that the reference engine did instead, after the engine had failed.
     */
    uint64_t retreated;
    /**
     * Why the engine is out of service, as one line that belongs to the engine; NULL while it
     * is not.
     */
    const char *fault;
} evener_account;

/**
 * How far an operation has come. Every number only grows, and is exact at the end.
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
     * Their bytes, with `EVENER_MEASURE_TOTAL`; else 0.
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
 * Is told how far an operation has come, on the thread that called it: before it begins, now and
 * then, and at its end. What it returns says whether to go on: 0 to do so; with anything else no
 * new file is begun, files at work are dropped without a trace, complete outputs stay, and the
 * callback is not called again. It may not throw or jump out.
 */
typedef int (*evener_progress_callback)(const struct evener_progress *progress, void *user_data);

/**
 * How an operation on files is to be done. Zero in every field but the first is the default.
 */
typedef struct evener_options {
    /**
     * `sizeof(evener_options)`, set by the caller.
     */
    size_t size;
    /**
     * The names of the engines that work, all of them at once; NULL for the default one.
     */
    const char *const *engines;
    /**
     * How many names there are.
     */
    size_t engine_count;
    /**
     * How many workers there are over all engines; 0 for as many as each engine likes.
     */
    size_t jobs;
    /**
     * How much memory the workers' buffers may take together, in bytes; 0 for 64 MiB.
     */
    size_t memory;
    /**
     * What encrypting appends to a file's name and decrypting strips; NULL for `.enc`.
     */
    const char *suffix;
    /**
     * What files are bound to beside the key, the same in both directions; NULL for nothing.
     */
    const uint8_t *context;
    /**
     * In bytes.
     */
    size_t context_length;
    /**
     * A sum of `EVENER_RESUME` and the others.
     */
    uint32_t flags;
    /**
     * How often `progress` is called, in milliseconds; 0 for 100.
     */
    uint32_t progress_interval;
    /**
     * Told of the progress; NULL for nobody.
     */
    evener_progress_callback progress;
    /**
     * Handed to `progress`.
     */
    void *user_data;
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
     * Files that could not be done.
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
     * 1 if everything was done and nothing that was done is in doubt, else 0.
     */
    uint32_t success;
    /**
     * Files that were done and may be wrong, since an engine computed wrong results.
     */
    uint64_t doubtful_files;
    /**
     * Jobs of modules that were computed again by the reference engine, with the same result.
     */
    uint64_t verified_jobs;
    /**
     * Jobs of modules whose results nobody has compared.
     */
    uint64_t unverified_jobs;
} evener_summary;

/**
 * A file that could not be done. The texts belong to the report.
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
     * Why, as one line.
     */
    const char *cause;
} evener_failure;

/**
 * One message. Input and output never overlap (`evener_parallel_crypt_in_place` does), and the input is never changed. For a message
 * of n bytes:
 *
 * - ECB and CBC take and give n bytes, whole blocks; with `EVENER_PKCS7` encrypting gives 1 to
 *   one block more, and decrypting takes whole blocks and tells in `written` what is left.
 * - CTR and XTS (from 16 bytes on) take and give n bytes.
 * - GCM and ChaCha20-Poly1305 encrypt n bytes to n + 16, the tag last, and decrypt n + 16 to n.
 */
typedef struct evener_job {
    /**
     * `sizeof(evener_job)`, set by the caller: the same in every job of an array.
     */
    size_t size;
    /**
     * What to encrypt or decrypt.
     */
    const uint8_t *input;
    /**
     * In bytes.
     */
    size_t input_length;
    /**
     * Where the result goes.
     */
    uint8_t *output;
    /**
     * How many bytes there is room for. No more are written than the message needs.
     */
    size_t output_capacity;
    /**
     * The IV, nonce or first counter block.
     */
    const uint8_t *iv;
    /**
     * In bytes; what the cipher takes, see `evener_cipher_info`.
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
     * `EVENER_NO_PADDING` or, for ECB and CBC, `EVENER_PKCS7`.
     */
    uint32_t padding;
    /**
     * Set by the call: an `evener_status`.
     */
    int status;
    /**
     * Set by the call: how many bytes of the output are the result.
     */
    size_t written;
} evener_job;

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
 * What the last call on this thread that did not return `EVENER_STATUS_OK` has to say: one line
 * that names the file, engine or argument, and what to do next. The text is the library's, and
 * good until the next such call on this thread. Empty when there was none.
 */
const char *evener_last_error(void);

/**
 * A few words for a status, such as `authentication failed`. Static.
 */
const char *evener_status_words(int32_t status);

/**
 * How many ciphers there are.
 */
size_t evener_cipher_count(void);

/**
 * Tells about the cipher of this number, less than `evener_cipher_count()`.
 */
evener_status evener_cipher_at(size_t index, struct evener_cipher_info *info);

/**
 * Tells about the cipher of this OpenSSL name, in any case.
 */
evener_status evener_cipher_named(const char *name, struct evener_cipher_info *info);

/**
 * Looks for every engine. Give the list back with `evener_engine_list_free`.
 */
evener_status evener_engine_list_new(struct evener_engine_list **list);

/**
 * How many engines the list has, those that are absent included; 0 for NULL.
 */
size_t evener_engine_list_length(const struct evener_engine_list *list);

/**
 * Tells about the engine of this number in the list. The texts are good until the list is
 * given back.
 */
evener_status evener_engine_list_at(const struct evener_engine_list *list,
                                    size_t index,
                                    struct evener_engine_info *info);

/**
 * Gives a list back. NULL does nothing.
 */
void evener_engine_list_free(struct evener_engine_list *list);

/**
 * Finds an engine by its name, with parameters where it takes some, such as `openssl` or
 * `af_alg:DRIVER`; NULL for the default one. Give it back with `evener_engine_free`.
 */
evener_status evener_engine_open(const char *name, struct evener_engine **engine);

/**
 * Tells how the engine likes to be used for a cipher; `EVENER_STATUS_NOT_OFFERED` when it
 * can't do it.
 */
evener_status evener_engine_offer(const struct evener_engine *engine,
                                  const char *cipher,
                                  uint32_t direction,
                                  struct evener_offer *offer);

/**
 * Tells what has been seen of a module's work. A module has some of its jobs computed again, at
 * random; when it is found to fail, all of its jobs are done by `openssl` from then on, and this
 * says so. All is zero for engines that compute on the calling core, which have no guard.
 */
evener_status evener_engine_account(const struct evener_engine *engine,
                                    struct evener_account *account);

/**
 * Gives an engine back. Its sessions stay open. NULL does nothing.
 */
void evener_engine_free(struct evener_engine *engine);

/**
 * Makes a fresh key for files from the system's randomness: `cobblestone-256`,
 * `cobblestone-128` or `tink`; NULL for the first. Give it back with `evener_file_key_free`.
 */
evener_status evener_file_key_generate(const char *format, struct evener_file_key **key);

/**
 * Copies a raw key for files: 32 bytes for Cobblestone-256, 16 for Cobblestone-128. Wiping the
 * original is the caller's business. Give the key back with `evener_file_key_free`.
 */
evener_status evener_file_key_from_bytes(const uint8_t *bytes,
                                         size_t length,
                                         struct evener_file_key **key);

/**
 * Reads a key file: Evener's own or a Tink keyset, plain (its owner's alone) or encrypted with
 * age. What opens the latter is a passphrase, or a file of identities, which may itself be
 * encrypted with the passphrase; both may be NULL. Give the key back with
 * `evener_file_key_free`.
 */
evener_status evener_file_key_load(const char *path,
                                   const uint8_t *passphrase,
                                   size_t passphrase_length,
                                   const char *identities,
                                   struct evener_file_key **key);

/**
 * Writes a key to a new file of mode 0600, which appears complete or not at all. A file of
 * that name stays as it is and is an error.
 */
evener_status evener_file_key_save(const struct evener_file_key *key, const char *path);

/**
 * Wipes a key and gives it back. NULL does nothing.
 */
void evener_file_key_free(struct evener_file_key *key);

/**
 * Tells how many bytes `evener_seal` makes of `length` bytes.
 */
evener_status evener_sealed_length(const struct evener_file_key *key,
                                   size_t length,
                                   size_t *sealed_length);

/**
 * Encrypts a buffer to what a file would hold, in chunks that all threads of the pool share:
 * the authenticated formats on all cores. The context may be NULL. `written`, which may be
 * NULL, is 0 when it was not done.
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
 * Decrypts what `evener_seal` made, or what a file holds. The plaintext is never longer than
 * that. When something is not authentic or missing, there is no plaintext.
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
 * Encrypts a file or a tree.
 *
 * A tree goes to a tree: the same relative names with the suffix. A file goes to the file
 * `target`, or into it under such a name if it is a directory. An output has no name until it
 * is complete. `options` may be NULL.
 *
 * Files that can't be done are listed in the report, all others are done, and the status is
 * `EVENER_STATUS_INCOMPLETE`. Where there is a report, `report` gets it whatever the status, to
 * be given back with `evener_report_free`; else NULL. It may be NULL when nobody wants it.
 */
evener_status evener_encrypt_path(const struct evener_file_key *key,
                                  const char *source,
                                  const char *target,
                                  const struct evener_options *options,
                                  struct evener_report **report);

/**
 * Decrypts a file or a tree, see `evener_encrypt_path`. Nothing that is not authentic appears
 * under a final name.
 */
evener_status evener_decrypt_path(const struct evener_file_key *key,
                                  const char *source,
                                  const char *target,
                                  const struct evener_options *options,
                                  struct evener_report **report);

/**
 * Authenticates everything in a file or a tree and writes nothing, see `evener_encrypt_path`.
 */
evener_status evener_verify_path(const struct evener_file_key *key,
                                 const char *source,
                                 const struct evener_options *options,
                                 struct evener_report **report);

/**
 * Tells a report's numbers.
 */
evener_status evener_report_summary(const struct evener_report *report,
                                    struct evener_summary *summary);

/**
 * Tells which file could not be done, and why, by its number, less than the summary's
 * `failures`. The texts are good until the report is given back.
 */
evener_status evener_report_failure(const struct evener_report *report,
                                    size_t index,
                                    struct evener_failure *failure);

/**
 * Tells which file was done and may be wrong, and why, by its number, less than the summary's
 * `doubtful_files`. The texts are good until the report is given back.
 */
evener_status evener_report_doubt(const struct evener_report *report,
                                  size_t index,
                                  struct evener_failure *doubt);

/**
 * The whole report, as the program's `--json` prints it: what each engine and worker did too.
 * The text is good until the report is given back. NULL for NULL.
 */
const char *evener_report_json(const struct evener_report *report);

/**
 * Gives a report back. NULL does nothing.
 */
void evener_report_free(struct evener_report *report);

/**
 * Copies a key's bytes, 1 to 64 of them; wiping the original is the caller's business. Give
 * the key back with `evener_key_free`.
 */
evener_status evener_key_from_bytes(const uint8_t *bytes,
                                    size_t length,
                                    struct evener_key **key);

/**
 * Makes a fresh key for a cipher from the system's randomness. It never leaves the library: it
 * is for data that live no longer than the process. Give it back with `evener_key_free`.
 */
evener_status evener_key_generate(const char *cipher, struct evener_key **key);

/**
 * Wipes a key and gives it back. Sessions have copies of their own, which they wipe. NULL does
 * nothing.
 */
void evener_key_free(struct evener_key *key);

/**
 * Makes a pool of this many threads, the caller's among them; 0 for one a core. They start when
 * they are needed, and sleep between calls. Give it back with `evener_pool_free`.
 */
evener_status evener_pool_new(size_t threads, struct evener_pool **pool);

/**
 * Gives a pool back. Its threads end when nothing that was opened with it is left. NULL does
 * nothing.
 */
void evener_pool_free(struct evener_pool *pool);

/**
 * Opens a cipher of the modes ECB, CBC or CTR for single buffers that all threads of a pool do
 * together: all of ECB and CTR, and CBC when it decrypts. (CBC encrypts on the calling thread,
 * as every mode does where the buffer is so small that waking others takes longer.)
 *
 * NULL for the pool is one of its own, with a thread a core; NULL for the engine's name is the
 * fastest. Give it back with `evener_parallel_free`.
 */
evener_status evener_parallel_open(const struct evener_pool *pool,
                                   const char *engine,
                                   const char *cipher,
                                   const struct evener_key *key,
                                   uint32_t padding,
                                   struct evener_parallel **parallel);

/**
 * Encrypts or decrypts a buffer into another. `written`, which may be NULL, is 0 when it was
 * not done.
 */
evener_status evener_parallel_crypt(const struct evener_parallel *parallel,
                                    uint32_t direction,
                                    const uint8_t *iv,
                                    size_t iv_length,
                                    const uint8_t *input,
                                    size_t input_length,
                                    uint8_t *output,
                                    size_t output_capacity,
                                    size_t *written);

/**
 * Replaces a buffer by what it encrypts or decrypts to. Without padding. Where the engine
 * fails, the buffer is lost.
 */
evener_status evener_parallel_crypt_in_place(const struct evener_parallel *parallel,
                                             uint32_t direction,
                                             const uint8_t *iv,
                                             size_t iv_length,
                                             uint8_t *data,
                                             size_t length);

/**
 * Wipes the key and gives a cipher for single buffers back. NULL does nothing.
 */
void evener_parallel_free(struct evener_parallel *parallel);

/**
 * Opens an engine for a cipher, direction and key, with everything that many messages need
 * prepared once. NULL for the engine is the default one; NULL for the key where each job
 * brings its own or the engine holds one. Give the session back with `evener_session_free`.
 */
evener_status evener_session_open(const struct evener_engine *engine,
                                  const char *cipher,
                                  uint32_t direction,
                                  const struct evener_key *key,
                                  struct evener_session **session);

/**
 * Does `count` jobs, whose outputs overlap nothing. Engines gain from many at once: see
 * `evener_offer`.
 *
 * Each job's `status` and `written` tell what became of it. Returns `EVENER_STATUS_OK` when all
 * were done; the status of the first that was rejected, though all others were done; or, when the
 * engine failed, that, and the jobs that it did not come to are pending. Where an argument is
 * not valid, nothing was done.
 */
evener_status evener_session_process(const struct evener_session *session,
                                     struct evener_job *jobs,
                                     size_t count);

/**
 * Does one message: `evener_session_process` with its job spread out as arguments, for callers
 * to whom structs are a burden. `written`, which may be NULL, is 0 when it was not done.
 */
evener_status evener_session_crypt(const struct evener_session *session,
                                   uint32_t padding,
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
 * Does one message with the default engine and no session: right for a few messages, and dear
 * for many. The job may bring the key itself; then `key` is NULL.
 */
evener_status evener_crypt(const char *cipher,
                           uint32_t direction,
                           const struct evener_key *key,
                           struct evener_job *job);

/**
 * Has the last message verified, if a module did it and nobody has compared it yet. Fails when
 * the module computed wrong results: what the session did before may be wrong, and what it does
 * from then on is done by `openssl`. A session that is given back does the same and can't tell.
 */
evener_status evener_session_finish(const struct evener_session *session);

/**
 * Wipes a session's keys and gives it back. No thread may be using it. NULL does nothing.
 */
void evener_session_free(struct evener_session *session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVENER_H */
