/* A provider for OpenSSL 3 and 4 with one cipher, AES-128-CBC, which it has done by the
 * libcrypto that it is linked with. Every call that processes data adds a byte to the file
 * COUNT_FILE. It has the buffering entry points only, as the smallest providers do. A function ACT,
 * where there is one, is called with the number of each such call. */

#include <fcntl.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdatomic.h>
#include <unistd.h>

static void count(void)
{
    int file = open(COUNT_FILE, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0 || write(file, ".", 1) != 1)
        _exit(70);
    close(file);
#ifdef ACT
    static atomic_int calls;
    ACT(atomic_fetch_add(&calls, 1));
#endif
}

static void *new_context(void *provider)
{
    (void)provider;
    return EVP_CIPHER_CTX_new();
}

static void free_context(void *context)
{
    EVP_CIPHER_CTX_free(context);
}

static int set_params(void *context, const OSSL_PARAM parameters[])
{
    const OSSL_PARAM *padding = OSSL_PARAM_locate_const(parameters, OSSL_CIPHER_PARAM_PADDING);
    unsigned int on;
    if (!padding)
        return 1;
    return OSSL_PARAM_get_uint(padding, &on) && EVP_CIPHER_CTX_set_padding(context, on);
}

static int init(void *context, const unsigned char *key, const unsigned char *iv,
                const OSSL_PARAM parameters[], int encrypt)
{
    EVP_CIPHER_CTX *inner = context;
    const EVP_CIPHER *cipher = EVP_CIPHER_CTX_get0_cipher(inner) ? NULL : EVP_aes_128_cbc();
    return EVP_CipherInit_ex(inner, cipher, NULL, key, iv, encrypt)
        && (!parameters || set_params(context, parameters));
}

static int encrypt_init(void *context, const unsigned char *key, size_t key_length,
                        const unsigned char *iv, size_t iv_length, const OSSL_PARAM parameters[])
{
    return (!key || key_length == 16) && (!iv || iv_length == 16)
        && init(context, key, iv, parameters, 1);
}

static int decrypt_init(void *context, const unsigned char *key, size_t key_length,
                        const unsigned char *iv, size_t iv_length, const OSSL_PARAM parameters[])
{
    return (!key || key_length == 16) && (!iv || iv_length == 16)
        && init(context, key, iv, parameters, 0);
}

static int update(void *context, unsigned char *out, size_t *out_length, size_t room,
                  const unsigned char *in, size_t in_length)
{
    int written = 0;
    count();
    if (room < in_length || !EVP_CipherUpdate(context, out, &written, in, (int)in_length))
        return 0;
    *out_length = written;
    return 1;
}

static int final(void *context, unsigned char *out, size_t *out_length, size_t room)
{
    int written = 0;
    if (room < 16 || !EVP_CipherFinal_ex(context, out, &written))
        return 0;
    *out_length = written;
    return 1;
}

static int set_size(OSSL_PARAM parameters[], const char *name, size_t size)
{
    OSSL_PARAM *parameter = OSSL_PARAM_locate(parameters, name);
    return !parameter || OSSL_PARAM_set_size_t(parameter, size);
}

static int get_params(OSSL_PARAM parameters[])
{
    OSSL_PARAM *mode = OSSL_PARAM_locate(parameters, OSSL_CIPHER_PARAM_MODE);
    return set_size(parameters, OSSL_CIPHER_PARAM_BLOCK_SIZE, 16)
        && set_size(parameters, OSSL_CIPHER_PARAM_KEYLEN, 16)
        && set_size(parameters, OSSL_CIPHER_PARAM_IVLEN, 16)
        && (!mode || OSSL_PARAM_set_uint(mode, EVP_CIPH_CBC_MODE));
}

static int get_context_params(void *context, OSSL_PARAM parameters[])
{
    (void)context;
    return set_size(parameters, OSSL_CIPHER_PARAM_KEYLEN, 16)
        && set_size(parameters, OSSL_CIPHER_PARAM_IVLEN, 16);
}

static const OSSL_PARAM *settable(void *context, void *provider)
{
    static const OSSL_PARAM parameters[] = {
        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_PADDING, NULL), OSSL_PARAM_END
    };
    (void)context;
    (void)provider;
    return parameters;
}

static const OSSL_DISPATCH functions[] = {
    { OSSL_FUNC_CIPHER_NEWCTX, (void (*)(void))new_context },
    { OSSL_FUNC_CIPHER_FREECTX, (void (*)(void))free_context },
    { OSSL_FUNC_CIPHER_ENCRYPT_INIT, (void (*)(void))encrypt_init },
    { OSSL_FUNC_CIPHER_DECRYPT_INIT, (void (*)(void))decrypt_init },
    { OSSL_FUNC_CIPHER_UPDATE, (void (*)(void))update },
    { OSSL_FUNC_CIPHER_FINAL, (void (*)(void))final },
    { OSSL_FUNC_CIPHER_GET_PARAMS, (void (*)(void))get_params },
    { OSSL_FUNC_CIPHER_GET_CTX_PARAMS, (void (*)(void))get_context_params },
    { OSSL_FUNC_CIPHER_SET_CTX_PARAMS, (void (*)(void))set_params },
    { OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, (void (*)(void))settable },
    { 0, NULL }
};

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_store)
{
    static const OSSL_ALGORITHM ciphers[] = {
        { "AES-128-CBC", "provider=counting", functions, "counted" },
        { NULL, NULL, NULL, NULL }
    };
    (void)provider;
    *no_store = 0;
    return operation == OSSL_OP_CIPHER ? ciphers : NULL;
}

static const OSSL_DISPATCH provider[] = {
    { OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query },
    { 0, NULL }
};

int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *core,
                       const OSSL_DISPATCH **out, void **context)
{
    (void)core;
    *out = provider;
    *context = (void *)handle;
    return 1;
}
