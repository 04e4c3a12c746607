/* What the stack holds after contexts are freed: no key, and none of the round keys made of it. The
 * program runs with LD_BIND_NOW, since to find a function the loader saves registers on the stack. */

#include "host.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 60000, OWN = 256, BLOCK = 16, MOST_ROUND_KEYS = 15, LONGEST = 32, TEXT = 4096 + 16 };

/* What is looked for is kept masked, so that it isn't found here. */
enum { MASK = 0xA7 };
static unsigned char sought[MOST_ROUND_KEYS * BLOCK];
static int round_keys;

static unsigned char key[LONGEST], text[TEXT + BLOCK], box[256];

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
    round_keys = count / 4;
    for (int byte = 0; byte < count * 4; byte++)
        sought[byte] ^= MASK;
}

static void __attribute__((noinline)) clear(void)
{
    unsigned char room[DEPTH + OWN];
    OPENSSL_cleanse(room, sizeof room);
}

/* How many round keys are on the stack below this function. */
static int __attribute__((noinline, no_sanitize("address"))) found(void)
{
    volatile unsigned char here = 0;
    int count = 0;
    for (const volatile unsigned char *place = &here - DEPTH; place < &here - OWN; place++)
        for (int round = 0; round < round_keys; round++) {
            int byte = 0;
            while (byte < BLOCK && place[byte] == (sought[round * BLOCK + byte] ^ MASK))
                byte++;
            count += byte == BLOCK;
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

/* Of texts, up to the longest that kernels take for short, and longer. */
static const int LENGTHS[] = { BLOCK, 4 * BLOCK, 9 * BLOCK, 32 * BLOCK, 33 * BLOCK, TEXT };
enum { ALL_LENGTHS = sizeof LENGTHS / sizeof *LENGTHS };

void test_wiped(void)
{
    static const char *const modes[] = { "GCM", "CBC", "CTR", "ECB" };
    make_box();
    for (int mode = 0; mode < 4; mode++)
        for (int bits = 128; bits <= 256; bits += 64) {
            EVP_CIPHER *cipher = fetch_mode(modes[mode], bits, OURS);
            for (int is_encryption = 0; is_encryption < 2; is_encryption++)
                for (int at = 0; at < ALL_LENGTHS; at++) {
                    int length = LENGTHS[at];
                    random_bytes(key, sizeof key);
                    expand(bits / 8);
                    leave(bits / 8);
                    EXPECT(found() > 0);
                    clear();
                    use(cipher, is_encryption, length);
                    int count = found();
                    if (count > 0)
                        fprintf(stderr, "AES-%d-%s, encryption %d, %d bytes: %d round keys\n", bits,
                                modes[mode], is_encryption, length, count);
                    EXPECT(count == 0);
                }
            EVP_CIPHER_free(cipher);
        }
    printf("wiped\n");
}
