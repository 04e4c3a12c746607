/* What the stack holds after contexts are freed, and with GCM when a message is done: no key, and nothing
 * that is made of it: round keys, powers of GHASH's subkey, what hides a tag, what is added to a last block, a
 * counter block that is a hash, and the right tag of a message that was refused. The program runs with
 * LD_BIND_NOW, since to find a function the loader saves registers on the stack. */

#include "host.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 60000, OWN = 256, BLOCK = 16, MOST_ROUND_KEYS = 15, LONGEST = 32, TEXT = 4096 + 16 };
enum { POWERS = 68, FORMS = 3, OTHERS = 10, DEEPER = 2048, HALF = BLOCK / 2 };

/* What is looked for is kept masked, so that it isn't found here. */
enum { MASK = 0xA7 };
static unsigned char sought[(MOST_ROUND_KEYS + OTHERS + POWERS * FORMS) * BLOCK];
static int blocks;

static unsigned char key[LONGEST], text[TEXT + BLOCK], box[256], long_iv[BLOCK];

static unsigned char times(unsigned a, unsigned b)
{
    unsigned product = 0;
    for (; b != 0; b >>= 1, a = a << 1 ^ (a & 0x80 ? 0x11B : 0))
        product ^= b & 1 ? a : 0;
    return (unsigned char)product;
}

/* AES's table for bytes: the inverse, turned and added up. */
static void make_box(void)
{
    for (int byte = 0; byte < 256; byte++) {
        unsigned inverse = 0;
        while (byte != 0 && times((unsigned)byte, inverse) != 1)
            inverse++;
        unsigned twice = inverse << 8 | inverse;
        box[byte] = (unsigned char)(0x63 ^ twice ^ twice >> 4 ^ twice >> 5 ^ twice >> 6 ^ twice >> 7);
    }
}

/* Makes the round keys of the key (FIPS 197, section 5.2) and masks them. */
static void __attribute__((noinline)) expand(int length)
{
    int words = length / 4, count = 4 * (words + 7);
    unsigned char constant = 1;
    memcpy(sought, key, (size_t)length);
    for (int word = words; word < count; word++) {
        unsigned char *to = sought + 4 * word, *before = to - 4;
        for (int byte = 0; byte < 4; byte++) {
            unsigned char next = before[byte];
            if (word % words == 0)
                next = box[before[(byte + 1) % 4]] ^ (byte == 0 ? constant : 0);
            else if (words > 6 && word % words == 4)
                next = box[next];
            to[byte] = to[byte - length] ^ next;
        }
        if (word % words == 0)
            constant = times(constant, 2);
    }
    blocks = count / 4;
    for (int byte = 0; byte < count * 4; byte++)
        sought[byte] ^= MASK;
}

/* Adds a block to what is sought, from its last byte on if it is kept so. */
static void seek(uint64_t high, uint64_t low, int is_reversed)
{
    unsigned char *to = sought + blocks++ * BLOCK;
    for (int byte = 0; byte < BLOCK; byte++) {
        uint64_t half = byte < 8 ? high : low;
        to[is_reversed ? BLOCK - 1 - byte : byte] = (unsigned char)(half >> (56 - byte % 8 * 8)) ^ MASK;
    }
}

/* The product of two elements of GCM's field (NIST SP 800-38D, section 6.3), into the second. */
static void multiply(const uint64_t factor[2], uint64_t to[2])
{
    uint64_t high = 0, low = 0, by[2] = { to[0], to[1] };
    for (int bit = 0; bit < 128; bit++) {
        if ((factor[bit / 64] >> (63 - bit % 64) & 1) != 0) {
            high ^= by[0];
            low ^= by[1];
        }
        uint64_t carry = by[1] & 1;
        by[1] = by[1] >> 1 | by[0] << 63;
        by[0] = by[0] >> 1 ^ (carry != 0 ? (uint64_t)0xE1 << 56 : 0);
    }
    to[0] = high;
    to[1] = low;
}

/* The cipher of a block by OpenSSL's own, as two numbers. */
static void encrypt_block(int bits, const unsigned char block[BLOCK], uint64_t to[2])
{
    unsigned char result[BLOCK];
    int written;
    EVP_CIPHER *ecb = fetch_mode("ECB", bits, THEIRS);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    EXPECT(EVP_EncryptInit_ex(context, ecb, NULL, key, NULL) == 1);
    EXPECT(EVP_EncryptUpdate(context, result, &written, block, BLOCK) == 1 && written == BLOCK);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(ecb);
    to[0] = to[1] = 0;
    for (int byte = 0; byte < BLOCK; byte++)
        to[byte / 8] = to[byte / 8] << 8 | result[byte];
}

/* Adds what GCM makes of the key: the first powers of the subkey, as they are, as numbers of the machine,
 * and as those shifted by one; what hides the tag of a message with an IV of zeros, and what is added to the
 * last block of its text of so many bytes. */
static void __attribute__((noinline)) expand_gcm(int bits, int length)
{
    static const unsigned char zeros[BLOCK], first[BLOCK] = { [BLOCK - 1] = 1 };
    uint64_t subkey[2], power[2], pad[2];
    encrypt_block(bits, first, pad);
    seek(pad[0], pad[1], 0);
    unsigned char last[BLOCK] = { 0 };
    unsigned number = 2 + (unsigned)(length - 1) / BLOCK;
    last[BLOCK - 1] = (unsigned char)number;
    last[BLOCK - 2] = (unsigned char)(number >> 8);
    encrypt_block(bits, last, pad);
    seek(pad[0], pad[1], 0);
    encrypt_block(bits, zeros, subkey);
    memcpy(power, subkey, sizeof power);
    for (int number = 0; number < POWERS; number++) {
        seek(power[0], power[1], 0);
        seek(power[0], power[1], 1);
        /* A number's bits count from the other end. */
        uint64_t carry = power[0] >> 63;
        uint64_t high = power[0] << 1 | power[1] >> 63, low = power[1] << 1 | carry;
        seek(high ^ (carry != 0 ? (uint64_t)0xC2 << 56 : 0), low, 1);
        multiply(subkey, power);
    }
}

/* Adds the first counter block of a message whose IV is `long_iv`, and the next one: numbers that give the
 * subkey away (NIST SP 800-38D, section 7.1). */
static void __attribute__((noinline)) seek_counters(int bits)
{
    static const unsigned char zeros[BLOCK];
    uint64_t subkey[2], first[2] = { 0, 0 };
    encrypt_block(bits, zeros, subkey);
    for (int byte = 0; byte < BLOCK; byte++)
        first[byte / 8] = first[byte / 8] << 8 | long_iv[byte];
    multiply(subkey, first);
    first[1] ^= BLOCK * 8;
    multiply(subkey, first);
    for (int more = 0; more < 2; more++) {
        uint64_t low = (first[1] & ~(uint64_t)UINT32_MAX) | (uint32_t)(first[1] + (unsigned)more);
        seek(first[0], low, 0);
        seek(first[0], low, 1);
    }
}

/* Adds the right tag of the text as a ciphertext with `use_once`'s IV and data. */
static void __attribute__((noinline)) seek_tag(int bits, int length)
{
    static const unsigned char iv[12], data[20];
    static unsigned char other[TEXT];
    unsigned char tag[BLOCK];
    uint64_t halves[2] = { 0, 0 };
    int written;
    EVP_CIPHER *gcm = fetch_mode("GCM", bits, THEIRS);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    for (int is_encryption = 0; is_encryption < 2; is_encryption++) {
        EXPECT(EVP_CipherInit_ex(context, gcm, NULL, key, iv, is_encryption) == 1);
        EXPECT(EVP_CipherUpdate(context, NULL, &written, data, sizeof data) == 1);
        EXPECT(EVP_CipherUpdate(context, other, &written, is_encryption ? other : text, length) == 1);
    }
    EXPECT(EVP_CipherFinal_ex(context, other, &written) == 1);
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, BLOCK, tag) == 1);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(gcm);
    for (int byte = 0; byte < BLOCK; byte++)
        halves[byte / 8] = halves[byte / 8] << 8 | tag[byte];
    seek(halves[0], halves[1], 0);
    OPENSSL_cleanse(tag, sizeof tag);
}

static void __attribute__((noinline)) clear(void)
{
    unsigned char room[DEPTH + OWN];
    OPENSSL_cleanse(room, sizeof room);
}

/* How many halves of the blocks are on the stack below this function. */
static int __attribute__((noinline, no_sanitize("address"))) found(void)
{
    volatile unsigned char here = 0;
    int count = 0;
    for (const volatile unsigned char *place = &here - DEPTH; place < &here - OWN; place++)
        for (int half = 0; half < 2 * blocks; half++) {
            int byte = 0;
            while (byte < HALF && place[byte] == (sought[half * HALF + byte] ^ MASK))
                byte++;
            count += byte == HALF;
        }
    return count;
}

/* That a key is found which is there. */
static void __attribute__((noinline)) leave(int length)
{
    unsigned char room[4 * OWN];
    volatile unsigned char *to = room;
    for (int byte = 0; byte < length; byte++)
        to[byte] = key[byte];
}

static void __attribute__((noinline)) use(EVP_CIPHER *cipher, int is_encryption, int length)
{
    static const unsigned char iv[BLOCK];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new(), *copy = EVP_CIPHER_CTX_new();
    int written;
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, key, iv, is_encryption) == 1);
    EVP_CIPHER_CTX_set_padding(context, 0);
    EXPECT(EVP_CipherUpdate(context, text, &written, text, length) == 1);
    EXPECT(EVP_CIPHER_CTX_copy(copy, context) == 1);
    EXPECT(EVP_CipherUpdate(copy, text, &written, text, length) == 1);
    EXPECT(EVP_CipherInit_ex(copy, NULL, NULL, key, iv, is_encryption) == 1);
    EXPECT(EVP_CipherUpdate(copy, text, &written, text, length) == 1);
    EVP_CIPHER_CTX_free(copy);
    EVP_CIPHER_CTX_free(context);
}

/* A piece, some of the stack deeper than the calls before and after it, as a program may do. */
static void __attribute__((noinline)) update_deeper(EVP_CIPHER_CTX *context, int length)
{
    volatile unsigned char room[DEEPER];
    int written;
    room[0] = room[DEEPER - 1] = 0;
    EXPECT(EVP_CipherUpdate(context, text, &written, text, length) == 1);
    EXPECT(room[0] == 0);
}

/* One message, whose context is kept, or freed where it was used. */
static EVP_CIPHER_CTX *__attribute__((noinline)) use_once(EVP_CIPHER *cipher, int is_encryption,
                                                         int length, int is_kept)
{
    static const unsigned char iv[BLOCK], data[20];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int written;
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, key, iv, is_encryption) == 1);
    EVP_CIPHER_CTX_set_padding(context, 0);
    if (EVP_CIPHER_get_mode(cipher) == EVP_CIPH_GCM_MODE) {
        static unsigned char wrong[BLOCK];
        EXPECT(EVP_CipherUpdate(context, NULL, &written, data, sizeof data) == 1);
        if (!is_encryption)
            EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, BLOCK, wrong) == 1);
    }
    EXPECT(EVP_CipherUpdate(context, text, &written, text, length) == 1);
    EVP_CipherFinal_ex(context, text, &written);
    if (is_kept)
        return context;
    EVP_CIPHER_CTX_free(context);
    return NULL;
}

/* One message without additional data, whose text comes from deeper than its end. */
static void __attribute__((noinline)) use_deeper(EVP_CIPHER *cipher, int is_encryption, int length)
{
    static const unsigned char iv[BLOCK];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int written;
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, key, iv, is_encryption) == 1);
    update_deeper(context, length);
    EVP_CipherFinal_ex(context, text, &written);
    EVP_CIPHER_CTX_free(context);
}

/* A message with an IV of a block, up to its additional data, its text, or its end. */
static EVP_CIPHER_CTX *__attribute__((noinline)) use_long_iv(EVP_CIPHER *cipher, int is_encryption,
                                                            int length, int steps)
{
    static const unsigned char data[20];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int written;
    EXPECT(EVP_CipherInit_ex(context, cipher, NULL, NULL, NULL, is_encryption) == 1);
    EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, BLOCK, NULL) == 1);
    EXPECT(EVP_CipherInit_ex(context, NULL, NULL, key, long_iv, is_encryption) == 1);
    EXPECT(EVP_CipherUpdate(context, NULL, &written, data, sizeof data) == 1);
    if (steps > 1)
        EXPECT(EVP_CipherUpdate(context, text, &written, text, length) == 1);
    if (steps > 2)
        EVP_CipherFinal_ex(context, text, &written);
    return context;
}

static void nothing_is_found(const char *mode, int bits, int is_encryption, int length, const char *when)
{
    int count = found();
    if (count > 0)
        fprintf(stderr, "AES-%d-%s, encryption %d, %d bytes, %s: %d halves of blocks\n", bits, mode, is_encryption,
                length, when, count);
    EXPECT(count == 0);
}

/* Of texts, up to the longest that kernels take for short, and longer. */
static const int LENGTHS[] = { BLOCK, BLOCK + 5, 4 * BLOCK, 9 * BLOCK, 32 * BLOCK, 33 * BLOCK, TEXT - 1, TEXT };
enum { ALL_LENGTHS = sizeof LENGTHS / sizeof *LENGTHS };

void test_wiped(void)
{
    static const char *const modes[] = { "GCM", "CBC", "CTR", "ECB" };
    make_box();
    for (int mode = 0; mode < 4; mode++)
        for (int bits = 128; bits <= 256; bits += 64) {
            EVP_CIPHER *cipher = offered(modes[mode], bits);
            if (cipher == NULL)
                continue;
            for (int is_encryption = 0; is_encryption < 2; is_encryption++)
                for (int at = 0; at < ALL_LENGTHS; at++) {
                    int length = LENGTHS[at];
                    if (mode > 0 && length % BLOCK > 0)
                        continue;
                    random_bytes(key, sizeof key);
                    expand(bits / 8);
                    if (mode == 0)
                        expand_gcm(bits, length);
                    leave(bits / 8);
                    EXPECT(found() > 0);
                    clear();
                    use(cipher, is_encryption, length);
                    nothing_is_found(modes[mode], bits, is_encryption, length, "copied and freed");
                    clear();
                    use_once(cipher, is_encryption, length, 0);
                    nothing_is_found(modes[mode], bits, is_encryption, length, "freed");
                    if (mode > 0)
                        continue;
                    clear();
                    use_deeper(cipher, is_encryption, length);
                    nothing_is_found(modes[mode], bits, is_encryption, length, "done from less deep");
                    seek_tag(bits, length);
                    clear();
                    EVP_CIPHER_CTX *kept = use_once(cipher, is_encryption, length, 1);
                    /* Where it was made, and not refused, the tag is no secret. */
                    blocks -= is_encryption;
                    nothing_is_found(modes[mode], bits, is_encryption, length, "done");
                    EVP_CIPHER_CTX_free(kept);
                    random_bytes(long_iv, sizeof long_iv);
                    seek_counters(bits);
                    for (int steps = 1; steps <= 3; steps++) {
                        clear();
                        kept = use_long_iv(cipher, is_encryption, length, steps);
                        nothing_is_found(modes[mode], bits, is_encryption, length, "with a long IV");
                        EVP_CIPHER_CTX_free(kept);
                    }
                }
            EVP_CIPHER_free(cipher);
        }
    printf("wiped\n");
}
