/* One figure of `openssl speed -evp`, for a libcrypto that comes without its program: the same
 * calls in the same order, for as many seconds. Prints bytes a second.
 *
 * usage: evp-speed CIPHER encrypt|decrypt BYTES SECONDS */

#include <openssl/evp.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t running = 1;

static void stop(int signal) {
    (void)signal;
    running = 0;
}

static void need(int fine, const char *what) {
    if (!fine) {
        fprintf(stderr, "evp-speed: %s failed\n", what);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: evp-speed CIPHER encrypt|decrypt BYTES SECONDS\n");
        return 2;
    }
    int encrypt = strcmp(argv[2], "decrypt") != 0;
    int bytes = atoi(argv[3]);
    unsigned seconds = (unsigned)atoi(argv[4]);
    unsigned char key[EVP_MAX_KEY_LENGTH], iv[EVP_MAX_IV_LENGTH] = {1}, tag[16];
    need(bytes > 0 && seconds > 0, "reading the arguments");
    unsigned char *text = calloc(1, (size_t)bytes + EVP_MAX_BLOCK_LENGTH);
    unsigned char *other = calloc(1, (size_t)bytes + EVP_MAX_BLOCK_LENGTH);
    need(text != NULL && other != NULL, "allocating memory");

    need(OSSL_PROVIDER_load(NULL, "default") != NULL, "loading the default provider");
    OSSL_PROVIDER_load(NULL, "legacy");
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, argv[1], NULL);
    need(cipher != NULL, "fetching the cipher");
    int is_gcm = EVP_CIPHER_get_mode(cipher) == EVP_CIPH_GCM_MODE;
    need(RAND_bytes(key, sizeof key) == 1, "making a key");

    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int length, count = 0;
    if (is_gcm && !encrypt) {
        need(EVP_EncryptInit_ex2(context, cipher, key, iv, NULL), "EVP_EncryptInit_ex2");
        need(EVP_EncryptUpdate(context, text, &length, text, bytes), "EVP_EncryptUpdate");
        need(EVP_EncryptFinal_ex(context, text, &length), "EVP_EncryptFinal_ex");
        need(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag), "getting the tag");
        EVP_CIPHER_CTX_free(context);
        context = EVP_CIPHER_CTX_new();
    }
    need(EVP_CipherInit_ex2(context, cipher, NULL, NULL, encrypt, NULL), "EVP_CipherInit_ex2");
    EVP_CIPHER_CTX_set_padding(context, 0);
    if (!is_gcm) {
        need(EVP_CipherInit_ex(context, NULL, NULL, key, iv, -1), "EVP_CipherInit_ex");
    }

    signal(SIGALRM, stop);
    double start = now();
    alarm(seconds);
    if (is_gcm && encrypt) {
        for (; running; count++) {
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, 12, NULL);
            need(EVP_CipherInit_ex(context, NULL, NULL, key, iv, -1), "EVP_CipherInit_ex");
            need(EVP_EncryptUpdate(context, text, &length, text, bytes), "EVP_EncryptUpdate");
            need(EVP_EncryptFinal_ex(context, text, &length), "EVP_EncryptFinal_ex");
        }
    } else if (is_gcm) {
        for (; running; count++) {
            unsigned char expected[16];
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, 12, NULL);
            need(EVP_CipherInit_ex(context, NULL, NULL, key, iv, -1), "EVP_CipherInit_ex");
            need(EVP_DecryptInit_ex(context, NULL, NULL, NULL, iv), "EVP_DecryptInit_ex");
            memcpy(expected, tag, 16);
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, expected);
            need(EVP_DecryptUpdate(context, other, &length, text, bytes), "EVP_DecryptUpdate");
            need(EVP_DecryptFinal_ex(context, other, &length), "EVP_DecryptFinal_ex");
        }
    } else if (encrypt) {
        for (; running; count++) {
            need(EVP_EncryptUpdate(context, text, &length, text, bytes), "EVP_EncryptUpdate");
        }
    } else {
        for (; running; count++) {
            need(EVP_DecryptUpdate(context, text, &length, text, bytes), "EVP_DecryptUpdate");
        }
    }
    printf("%.2f\n", (double)count * bytes / (now() - start));
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    free(text);
    free(other);
    return 0;
}
