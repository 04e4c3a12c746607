/* Threads with small stacks, as stunnel gives its own: all calls of a message, in 20 KiB. The program runs
 * with LD_BIND_NOW, since to find a function the loader saves registers on the stack. */

#include "host.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* The system keeps what it has of a thread at its stack's end. */
enum { STACK = 20 << 10, SYSTEMS = 4 << 10, PAGE = 4 << 10, TEXT = 16 << 10, BLOCK = 16 };

static unsigned char key[32], iv[BLOCK], text[TEXT], result[TEXT + BLOCK];

/* Every call for a message and its copy, in both directions. */
static void *use(void *of)
{
    const EVP_CIPHER *cipher = of;
    for (int is_encryption = 0; is_encryption < 2; is_encryption++) {
        EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new(), *copy = EVP_CIPHER_CTX_new();
        int written, is_gcm = EVP_CIPHER_get_mode(cipher) == EVP_CIPH_GCM_MODE;
        EXPECT(EVP_CipherInit_ex2(context, cipher, key, iv, is_encryption, NULL) == 1);
        EVP_CIPHER_CTX_set_padding(context, 0);
        if (is_gcm)
            EXPECT(EVP_CipherUpdate(context, NULL, &written, text, 13) == 1);
        EXPECT(EVP_CipherUpdate(context, result, &written, text, BLOCK) == 1);
        EXPECT(EVP_CipherUpdate(context, result, &written, text, TEXT) == 1);
        EXPECT(EVP_CIPHER_CTX_copy(copy, context) == 1);
        EXPECT(EVP_CipherUpdate(copy, result, &written, text, TEXT) == 1);
        if (is_gcm && !is_encryption)
            EXPECT(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, BLOCK, text) == 1);
        /* The tag of the message that is decrypted is wrong. */
        EXPECT(EVP_CipherFinal_ex(context, result, &written) == (is_encryption || !is_gcm));
        EVP_CIPHER_CTX_free(copy);
        EVP_CIPHER_CTX_free(context);
    }
    return NULL;
}

void test_stacks(void)
{
    static const char *const modes[] = { "GCM", "CBC", "CTR", "ECB" };
    if (sysconf(_SC_THREAD_STACK_MIN) > STACK + SYSTEMS) {
        printf("stacks: this system gives no thread so little\n");
        return;
    }
    unsigned char *place = mmap(NULL, PAGE + STACK + SYSTEMS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(place != MAP_FAILED);
    EXPECT(mprotect(place + PAGE, STACK + SYSTEMS, PROT_READ | PROT_WRITE) == 0);
    pthread_attr_t attributes;
    EXPECT(pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setstack(&attributes, place + PAGE, STACK + SYSTEMS) == 0);
    for (int mode = 0; mode < 4; mode++)
        for (int bits = 128; bits <= 256; bits += 64) {
            EVP_CIPHER *cipher = offered(modes[mode], bits);
            if (cipher == NULL)
                continue;
            pthread_t thread;
            EXPECT(pthread_create(&thread, &attributes, use, cipher) == 0);
            EXPECT(pthread_join(thread, NULL) == 0);
            EVP_CIPHER_free(cipher);
        }
    pthread_attr_destroy(&attributes);
    munmap(place, PAGE + STACK + SYSTEMS);
    printf("stacks\n");
}
