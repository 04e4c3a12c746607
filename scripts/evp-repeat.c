/* Processes messages one after another by OpenSSL, over and over, so that its instructions can be
 * counted: scripts/count-instructions. The key is set once. Without arguments it prints the version.
 *
 * usage: evp-repeat [CIPHER encrypt|decrypt MESSAGES BYTES TIMES] */

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int fine, const char *what) {
    if (!fine) {
        fprintf(stderr, "evp-repeat: %s failed\n", what);
        exit(1);
    }
}

static unsigned char key[EVP_MAX_KEY_LENGTH], iv[EVP_MAX_IV_LENGTH] = {1}, tag[16];

static void process(EVP_CIPHER_CTX *context, int encrypt, const unsigned char *from, int bytes,
                    unsigned char *to) {
    int is_gcm = EVP_CIPHER_CTX_get_mode(context) == EVP_CIPH_GCM_MODE, length;
    need(EVP_CipherInit_ex(context, NULL, NULL, NULL, iv, encrypt), "EVP_CipherInit_ex");
    need(EVP_CipherUpdate(context, to, &length, from, bytes), "EVP_CipherUpdate");
    if (!is_gcm) return;
    if (!encrypt)
        need(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, tag), "setting the tag");
    need(EVP_CipherFinal_ex(context, to + bytes, &length), "EVP_CipherFinal_ex");
    if (encrypt)
        need(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag), "getting the tag");
}

static EVP_CIPHER_CTX *prepare(const EVP_CIPHER *cipher, int encrypt) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    need(EVP_CipherInit_ex(context, cipher, NULL, key, iv, encrypt), "setting the key");
    EVP_CIPHER_CTX_set_padding(context, 0);
    return context;
}

int main(int argc, char **argv) {
    if (argc == 1) {
        puts(OpenSSL_version(OPENSSL_VERSION_STRING));
        return 0;
    }
    need(argc == 6, "reading the arguments");
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, argv[1], NULL);
    int encrypt = strcmp(argv[2], "encrypt") == 0;
    int messages = atoi(argv[3]), bytes = atoi(argv[4]), times = atoi(argv[5]);
    need(cipher != NULL && bytes > 0, "reading the arguments");
    unsigned char *plain = calloc(1, (size_t)bytes), *sealed = calloc(1, (size_t)bytes);
    unsigned char *output = calloc((size_t)messages, (size_t)bytes);
    need(plain != NULL && sealed != NULL && output != NULL, "allocating memory");
    process(prepare(cipher, 1), 1, plain, bytes, sealed);

    EVP_CIPHER_CTX *context = prepare(cipher, encrypt);
    while (times-- > 0)
        for (int message = 0; message < messages; message++)
            process(context, encrypt, encrypt ? plain : sealed, bytes,
                    output + (size_t)message * (size_t)bytes);
    return 0;
}
