/* Ciphers and engines. */
#include <string.h>

#include "check.h"

static void ciphers_are_found_by_their_names(void)
{
    evener_cipher_info info = {sizeof info};
    OK(evener_cipher_named("AES-256-GCM", &info));
    CHECK(strcmp(info.name, "aes-256-gcm") == 0);
    CHECK(info.key_length == 32 && info.iv_length == 12);
    CHECK(info.block_length == 1 && info.tag_length == 16);
    for (size_t index = 0; index < evener_cipher_count(); index++) {
        evener_cipher_info at = {sizeof at}, named = {sizeof named};
        OK(evener_cipher_at(index, &at));
        OK(evener_cipher_named(at.name, &named));
        CHECK(memcmp(&at, &named, sizeof at) == 0);
    }
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_cipher_at(evener_cipher_count(), &info));
    EXPECT(EVENER_STATUS_UNKNOWN_CIPHER, evener_cipher_named("rot-13", &info));
    CHECK(strstr(evener_last_error(), "rot-13"));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_cipher_named(NULL, &info));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_cipher_named("\xff", &info));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_cipher_named("aes-256-gcm", NULL));
}

/* A program that was compiled with a later header has a longer struct. */
static void structs_of_other_sizes_are_known(void)
{
    struct {
        evener_cipher_info known;
        unsigned long later;
    } longer = {{sizeof longer}, 7};
    OK(evener_cipher_named("aes-128-ctr", &longer.known));
    CHECK(longer.known.size == sizeof longer && longer.known.key_length == 16);
    CHECK(longer.later == 0);
    evener_cipher_info forgotten = {0};
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_cipher_named("aes-128-ctr", &forgotten));
    CHECK(strstr(evener_last_error(), "sizeof(evener_cipher_info)"));
}

static void engines_are_listed_and_opened(void)
{
    evener_engine_list *list;
    OK(evener_engine_list_new(&list));
    int found = 0;
    for (size_t index = 0; index < evener_engine_list_length(list); index++) {
        evener_engine_info info = {sizeof info};
        OK(evener_engine_list_at(list, index, &info));
        CHECK((info.absent == NULL) == (info.detail != NULL));
        CHECK((info.absent == NULL) == (info.kind != 0));
        found += strcmp(info.name, "openssl") == 0 && info.kind == EVENER_KIND_CPU;
    }
    CHECK(found == 1);
    evener_engine_info info = {sizeof info};
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_engine_list_at(list, 1000, &info));
    evener_engine_list_free(list);
    evener_engine_list_free(NULL);
    CHECK(evener_engine_list_length(NULL) == 0);

    evener_engine *engine;
    OK(evener_engine_open(NULL, &engine));
    evener_offer offer = {sizeof offer};
    OK(evener_engine_offer(engine, "aes-128-ctr", EVENER_DIRECTION_ENCRYPT, &offer));
    CHECK(offer.depth >= 1 && offer.batch >= 1 && offer.holders == 0);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_engine_offer(engine, "aes-128-ctr", 7, &offer));
    evener_engine_free(engine);
    evener_engine_free(NULL);

    EXPECT(EVENER_STATUS_ENGINE_UNAVAILABLE, evener_engine_open("enigma:M4", &engine));
    CHECK(engine == NULL && strstr(evener_last_error(), "enigma"));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_engine_open("openssl", NULL));
}

void test_ciphers_and_engines(void)
{
    ciphers_are_found_by_their_names();
    structs_of_other_sizes_are_known();
    engines_are_listed_and_opened();
}
