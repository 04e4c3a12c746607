/* Sealed trees. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static const char identity[] =
    "AGE-SECRET-KEY-1AVAUC2SN5XMEYHPEUW5REVFPLFSNGUTU3Z8ELL050JTS9UC03J7SK8M0KD\n";
static const char recipient[] = "age15za80n2vxu7gd2j2lfaydcdeltgm5rmfvz8zxcw94grvedplufrsw50j95";
static const char other_recipient[] =
    "age1c9qlf8g4cn97ejyuher4nuc5v6kyy2q5al324cxdkmr7px7q799s4uutv0";

/* The items of a list: how many, the first two names, and the last kind and number. */
struct items {
    int count, most;
    char names[2][512], kind[32];
    uint64_t bytes, generation;
};

static int take(const evener_tree_item *item, void *user_data)
{
    struct items *items = user_data;
    CHECK(item->size >= sizeof *item && item->json[0] == '{');
    if (items->count < 2)
        snprintf(items->names[items->count], sizeof items->names[0], "%s", item->name);
    snprintf(items->kind, sizeof items->kind, "%s", item->kind);
    items->bytes = item->bytes;
    items->generation = item->generation;
    return ++items->count == items->most;
}

/* Checks the generation in a report, and frees it. */
static void check_generation(evener_report *report, uint64_t generation, uint64_t is_new)
{
    evener_summary summary = {sizeof summary};
    OK(evener_report_summary(report, &summary));
    CHECK(summary.generation == generation && summary.generation_is_new == is_new);
    CHECK(summary.success == 1);
    evener_report_free(report);
}

static void plant(const char *directory)
{
    CHECK(mkdir(in(directory, "source"), 0700) == 0);
    CHECK(mkdir(in(directory, "source/deeper"), 0700) == 0);
    write_file(in(directory, "source/one"), "the first");
    write_file(in(directory, "source/deeper/two"), "the second");
}

static int stop(const evener_progress *progress, void *user_data)
{
    (void)user_data;
    CHECK(progress->size >= sizeof *progress);
    return 1;
}

static void a_stopped_run_makes_no_generation(const evener_file_key *key, const char *directory,
                                              evener_tree_options *options)
{
    evener_options files = {sizeof files};
    evener_report *report;
    files.progress = stop;
    files.workers = 1;
    options->files = &files;
    EXPECT(EVENER_STATUS_CANCELLED, evener_tree_seal(key, in(directory, "source"),
                                                     in(directory, "tree-1"), options, &report));
    CHECK(strstr(evener_report_json(report), "\"interrupted\":true"));
    evener_report_free(report);
    options->files = NULL;
}

static void a_tree_is_sealed_and_updated(const evener_file_key *key, const char *directory,
                                         evener_tree_options *options)
{
    const char *source = in(directory, "source"), *tree = in(directory, "tree-1");
    evener_report *report;
    uint32_t is_sealed;
    OK(evener_tree_is_sealed(source, &is_sealed));
    CHECK(is_sealed == 0);
    OK(evener_tree_seal(key, source, tree, options, &report));
    CHECK(strstr(evener_report_json(report), "\"generation\":1"));
    check_generation(report, 1, 1);
    OK(evener_tree_seal(key, source, tree, options, &report));
    check_generation(report, 1, 0);
    OK(evener_tree_is_sealed(tree, &is_sealed));
    CHECK(is_sealed == 1);
    write_file(in(directory, "source/three"), "the third");
    options->flags = EVENER_TREE_FLAG_CHECKSUM;
    OK(evener_tree_seal(key, source, tree, options, &report));
    check_generation(report, 2, 1);
    options->flags = EVENER_TREE_FLAG_QUICK;
    OK(evener_tree_verify(key, tree, options, &report));
    check_generation(report, 2, 0);
    options->flags = 0;
    OK(evener_tree_verify(key, tree, options, NULL));
}

static void generations_are_read(const evener_file_key *key, const char *directory,
                                 evener_tree_options *options)
{
    const char *tree = in(directory, "tree-1");
    evener_report *report;
    OK(evener_tree_decrypt(key, tree, in(directory, "restored"), options, &report));
    check_generation(report, 2, 0);
    check_file(in(directory, "restored/three"), "the third");
    const char *paths[] = {"deeper"};
    options->paths = paths;
    options->path_count = 1;
    options->generation = 1;
    OK(evener_tree_decrypt(key, in(directory, "tree-1"), in(directory, "first"), options, &report));
    check_generation(report, 1, 0);
    check_file(in(directory, "first/deeper/two"), "the second");
    CHECK(access(in(directory, "first/three"), F_OK) != 0);
    options->generation = 3;
    EXPECT(EVENER_STATUS_FILE,
           evener_tree_decrypt(key, in(directory, "tree-1"), in(directory, "none"), options, NULL));
    CHECK(strstr(evener_last_error(), "the newest is 2"));
    options->time = 1;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_tree_verify(key, in(directory, "tree-1"), options, &report));
    CHECK(report == NULL);
    options->generation = 0;
    EXPECT(EVENER_STATUS_FILE, evener_tree_verify(key, in(directory, "tree-1"), options, NULL));
    options->time = options->path_count = 0;
}

static void lists_are_passed(const evener_file_key *key, const char *directory,
                             evener_tree_options *options)
{
    const char *tree = in(directory, "tree-1");
    evener_report *report;
    struct items all = {0}, near = {0}, first = {0, 1}, generations = {0}, changes = {0};
    OK(evener_tree_list(key, tree, options, take, &all, &report));
    check_generation(report, 2, 0);
    const char *paths[] = {"deeper"};
    options->paths = paths;
    options->path_count = 1;
    OK(evener_tree_list(key, tree, options, take, &near, NULL));
    CHECK(near.count == 2 && strcmp(near.names[1], "deeper/two") == 0);
    CHECK(strcmp(near.kind, "file") == 0 && near.bytes == 10 && near.generation == 1);
    options->path_count = 0;
    options->flags = EVENER_TREE_FLAG_SHALLOW;
    OK(evener_tree_list(key, tree, options, take, &first, NULL));
    CHECK(first.count == 1 && all.count == 5);
    options->flags = 0;
    OK(evener_tree_generations(key, tree, options, take, &generations, NULL));
    CHECK(generations.count == 2 && generations.generation == 1);
    CHECK(strlen(generations.names[0]) == 64 && strcmp(generations.kind, "whole") == 0);
    options->generation = 1;
    OK(evener_tree_diff(key, tree, NULL, 2, options, take, &changes, NULL));
    /* The directory's time and the file. */
    CHECK(changes.count == 2 && strcmp(changes.names[1], "three") == 0);
    CHECK(strcmp(changes.kind, "added") == 0 && changes.bytes == 9);
    struct items same = {0};
    options->generation = 0;
    OK(evener_tree_diff(key, tree, in(directory, "source"), 0, options, take, &same, NULL));
    CHECK(same.count == 0);
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_tree_list(key, tree, options, NULL, NULL, NULL));
}

static void a_rollback_is_refused(const evener_file_key *key, const char *directory,
                                  evener_tree_options *options)
{
    const char *root = in(directory, "tree-1/tree/0000000000000000002");
    const char *hidden = in(directory, "hidden"), *tree = in(directory, "tree-1");
    CHECK(rename(root, hidden) == 0);
    evener_report *report;
    EXPECT(EVENER_STATUS_FILE, evener_tree_verify(key, tree, options, &report));
    CHECK(strstr(evener_last_error(), "generation") && report != NULL);
    evener_report_free(report);
    options->flags = EVENER_TREE_FLAG_ALLOW_ROLLBACK;
    OK(evener_tree_verify(key, tree, options, &report));
    check_generation(report, 1, 0);
    options->flags = 0;
    CHECK(rename(hidden, root) == 0);
    OK(evener_tree_verify(key, tree, options, NULL));
}

static void what_does_not_fit_is_refused(const evener_file_key *key, const char *directory,
                                         evener_tree_options *options)
{
    const char *tree = in(directory, "tree-1");
    evener_file_key *wrong, *short_key;
    OK(evener_file_key_generate(NULL, &wrong));
    EXPECT(EVENER_STATUS_INVALID_KEY, evener_tree_verify(wrong, tree, options, NULL));
    CHECK(strstr(evener_last_error(), "not that of the tree"));
    OK(evener_file_key_generate("cobblestone-128", &short_key));
    EXPECT(EVENER_STATUS_INVALID_KEY, evener_tree_verify(short_key, tree, options, NULL));
    EXPECT(EVENER_STATUS_FILE,
           evener_tree_verify(key, in(directory, "source"), options, NULL));
    evener_options files = {sizeof files};
    files.flags = EVENER_FLAG_FOLLOW_SYMLINKS;
    options->files = &files;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_tree_verify(key, tree, options, NULL));
    options->files = NULL;
    options->flags = 1u << 31;
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_tree_verify(key, tree, options, NULL));
    options->flags = 0;
    options->pin = "2";
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT, evener_tree_verify(key, tree, options, NULL));
    options->pin = NULL;
    evener_file_key_free(wrong);
    evener_file_key_free(short_key);
}

static void old_generations_are_cleaned(const evener_file_key *key, const char *directory,
                                        evener_tree_options *options)
{
    const char *tree = in(directory, "tree-1");
    evener_report *report;
    evener_file_key *new_key;
    options->keep = 1;
    OK(evener_tree_clean(key, tree, options, &report));
    CHECK(strstr(evener_report_json(report), "\"removed\":[1]"));
    CHECK(strstr(evener_report_json(report), "\"failures\":[]"));
    check_generation(report, 3, 1);
    OK(evener_file_key_generate(NULL, &new_key));
    OK(evener_tree_rekey(key, tree, new_key, options, &report));
    check_generation(report, 4, 1);
    OK(evener_tree_verify(new_key, tree, options, NULL));
    EXPECT(EVENER_STATUS_INVALID_KEY, evener_tree_verify(key, tree, options, NULL));
    evener_file_key_free(new_key);
}

/* A tree for recipients is signed; another place is another machine. */
static void a_tree_for_recipients_is_signed(const char *directory, evener_tree_options *options)
{
    const char *source = in(directory, "source"), *tree = in(directory, "tree-2");
    evener_file_key *writer, *reader;
    evener_report *report;
    write_file(in(directory, "tree-identity"), identity);
    CHECK(chmod(in(directory, "tree-identity"), 0600) == 0);
    OK(evener_file_key_of_age(recipient, NULL, 0, NULL, &writer));
    OK(evener_file_key_of_age(NULL, NULL, 0, in(directory, "tree-identity"), &reader));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_tree_seal(reader, source, tree, options, NULL));
    source = in(directory, "source");
    tree = in(directory, "tree-2");
    options->padding = 4096;
    OK(evener_tree_seal(writer, source, tree, options, &report));
    check_generation(report, 1, 1);
    struct items signers = {0}, own = {0}, other = {0}, both = {0};
    OK(evener_tree_signers(reader, tree, options, take, &signers, NULL));
    OK(evener_tree_own_signer(tree, options, take, &own));
    CHECK(signers.count == 1 && strcmp(signers.names[0], own.names[0]) == 0);
    CHECK(strcmp(own.kind, "signer") == 0 && strncmp(own.names[0], "ssh-ed25519 ", 12) == 0);

    evener_tree_options elsewhere = {sizeof elsewhere};
    char state[4096];
    snprintf(state, sizeof state, "%s/other-state", directory);
    elsewhere.state = state;
    OK(evener_tree_own_signer(tree, &elsewhere, take, &other));
    CHECK(strcmp(other.names[0], own.names[0]) != 0);
    elsewhere.signers = other.names[0];
    EXPECT(EVENER_STATUS_FILE, evener_tree_verify(reader, tree, &elsewhere, NULL));
    elsewhere.signers = own.names[0];
    OK(evener_tree_verify(reader, tree, &elsewhere, NULL));
    OK(evener_tree_change_signers(reader, tree, other.names[0], NULL, NULL, options, &report));
    check_generation(report, 2, 1);
    OK(evener_tree_signers(reader, tree, options, take, &both, NULL));
    CHECK(both.count == 2);
    EXPECT(EVENER_STATUS_FILE, evener_tree_change_signers(reader, tree, NULL, "SHA256:nobody", NULL,
                                                          options, NULL));
    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_tree_change_signers(reader, tree, NULL, NULL, "SHA256:x", options, NULL));

    EXPECT(EVENER_STATUS_INVALID_ARGUMENT,
           evener_tree_rewrap(reader, tree, reader, options, NULL));
    OK(evener_tree_rewrap(reader, tree, writer, options, &report));
    CHECK(strstr(evener_report_json(report), "\"removed\":1"));
    evener_report_free(report);
    OK(evener_tree_decrypt(reader, tree, in(directory, "opened"), options, NULL));
    check_file(in(directory, "opened/one"), "the first");
    evener_file_key_free(writer);
    evener_file_key_free(reader);
}

static void other_recipients_are_an_error(const char *directory, evener_tree_options *options)
{
    char recipients[256];
    evener_file_key *both, *reader;
    snprintf(recipients, sizeof recipients, "%s\n%s", other_recipient, recipient);
    OK(evener_file_key_of_age(recipients, NULL, 0, in(directory, "tree-identity"), &both));
    OK(evener_file_key_of_age(NULL, NULL, 0, in(directory, "tree-identity"), &reader));
    write_file(in(directory, "source/four"), "the fourth");
    const char *source = in(directory, "source"), *tree = in(directory, "tree-2");
    evener_report *report;
    EXPECT(EVENER_STATUS_FILE, evener_tree_seal(both, source, tree, options, NULL));
    CHECK(strstr(evener_last_error(), "recipients are not those of the last run"));
    options->flags = EVENER_TREE_FLAG_RECIPIENTS_CHANGED;
    OK(evener_tree_seal(both, source, tree, options, &report));
    check_generation(report, 3, 1);
    options->flags = 0;
    evener_file_key_free(both);
    OK(evener_file_key_of_age(recipient, NULL, 0, NULL, &both));
    EXPECT(EVENER_STATUS_FILE, evener_tree_seal(both, source, tree, options, NULL));
    OK(evener_tree_rewrap(reader, tree, both, options, NULL));
    OK(evener_tree_seal(both, source, tree, options, NULL));
    evener_file_key_free(both);
    evener_file_key_free(reader);
}

/* Calls for plain files and trees look in the default state, as the program does. */
static void a_plain_tree_in_its_place_is_refused(const evener_file_key *key, const char *directory)
{
    char source[4096], tree[4096], out[4096], file[4096];
    uint32_t is_sealed;
    snprintf(source, sizeof source, "%s/source", directory);
    snprintf(tree, sizeof tree, "%s/tree-4", directory);
    snprintf(file, sizeof file, "%s/tree-4/deeper/two.enc", directory);
    snprintf(out, sizeof out, "%s/no-output", directory);
    CHECK(setenv("XDG_STATE_HOME", in(directory, "home"), 1) == 0);
    OK(evener_tree_seal(key, source, tree, NULL, NULL));
    OK(evener_encrypt_path(key, source, in(directory, "plain"), NULL, NULL));
    CHECK(rename(tree, in(directory, "tree-4-away")) == 0);
    CHECK(rename(in(directory, "plain"), tree) == 0);
    EXPECT(EVENER_STATUS_FILE, evener_tree_is_sealed(tree, &is_sealed));
    EXPECT(EVENER_STATUS_FILE, evener_verify_path(key, tree, NULL, NULL));
    CHECK(strstr(evener_last_error(), "it is gone"));
    EXPECT(EVENER_STATUS_FILE, evener_decrypt_path(key, tree, out, NULL, NULL));
    EXPECT(EVENER_STATUS_FILE, evener_decrypt_path(key, file, out, NULL, NULL));
    CHECK(strstr(evener_last_error(), "it is gone") && access(out, F_OK) != 0);
    EXPECT(EVENER_STATUS_FILE, evener_encrypt_path(key, source, tree, NULL, NULL));
    /* Nothing is known of other places. */
    OK(evener_encrypt_path(key, in(directory, "source/one"), out, NULL, NULL));
    CHECK(unsetenv("XDG_STATE_HOME") == 0);
}

static void a_changed_tree_is_not_authentic(const evener_file_key *key, const char *directory,
                                            evener_tree_options *options)
{
    char command[8192];
    const char *source = in(directory, "source"), *tree = in(directory, "tree-5");
    OK(evener_tree_seal(key, source, tree, options, NULL));
    snprintf(command, sizeof command, "for file in '%s'/data/*/*; do echo >>\"$file\"; done", tree);
    CHECK(system(command) == 0);
    struct items items = {0};
    EXPECT(EVENER_STATUS_AUTHENTICATION_FAILED,
           evener_tree_diff(key, tree, source, 0, options, take, &items, NULL));
    CHECK(strstr(evener_last_error(), "damaged"));
    snprintf(command, sizeof command, "echo >>'%s/tree/0000000000000000001'", tree);
    CHECK(system(command) == 0);
    EXPECT(EVENER_STATUS_AUTHENTICATION_FAILED, evener_tree_verify(key, tree, options, NULL));
    CHECK(strstr(evener_last_error(), "is no valid root"));
}

/* With a key of OpenSSH's, where that is installed. */
static void a_key_of_openssh_signs(const evener_file_key *key, const char *directory,
                                   evener_tree_options *options)
{
    char command[8192], signer[4096];
    snprintf(signer, sizeof signer, "%s/signer", directory);
    snprintf(command, sizeof command, "ssh-keygen -q -t ed25519 -N '' -f '%s' </dev/null", signer);
    options->signer = signer;
    const char *source = in(directory, "source"), *tree = in(directory, "tree-3");
    EXPECT(EVENER_STATUS_KEY_FILE, evener_tree_seal(key, source, tree, options, NULL));
    if (system(command) != 0) {
        puts("skipped: there is no ssh-keygen");
        return;
    }
    struct items signers = {0};
    OK(evener_tree_seal(key, source, tree, options, NULL));
    OK(evener_tree_signers(key, tree, options, take, &signers, NULL));
    CHECK(signers.count == 1);
}

void test_trees(const char *directory)
{
    char state[4096];
    snprintf(state, sizeof state, "%s/state", directory);
    evener_tree_options options = {sizeof options};
    options.state = state;
    evener_file_key *key;
    OK(evener_file_key_generate(NULL, &key));
    plant(directory);
    a_stopped_run_makes_no_generation(key, directory, &options);
    a_tree_is_sealed_and_updated(key, directory, &options);
    generations_are_read(key, directory, &options);
    lists_are_passed(key, directory, &options);
    a_rollback_is_refused(key, directory, &options);
    what_does_not_fit_is_refused(key, directory, &options);
    old_generations_are_cleaned(key, directory, &options);
    a_tree_for_recipients_is_signed(directory, &options);
    other_recipients_are_an_error(directory, &options);
    a_plain_tree_in_its_place_is_refused(key, directory);
    a_changed_tree_is_not_authentic(key, directory, &options);
    a_key_of_openssh_signs(key, directory, &options);
    evener_file_key_free(key);
}
